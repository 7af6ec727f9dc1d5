//! The forms of a state file, and how Kubernetes 1.36 finds out which one it has: V2, then V1, each
//! with its own checksum, FNV-1a over the text that Go prints of what it read. Its gate
//! `PodLevelResourceManagers` is off, so CPUs of whole pods (`podEntries`, V3) are ignored like any
//! other key. A file with text in `data` (V4) was written by 1.37, and is judged as 1.37 does.
//! Source: kubelet `pkg/kubelet/cm/cpumanager/state/`, `checkpoint.go` and `state_checkpoint.go`;
//! go-spew's `%#v` with sorted keys.

use std::collections::BTreeMap;

use super::Version;
use super::decode::{Checksum, GoMap, Mismatch, Printed, Raw, Target};
use super::syntax;

/// What stands in a file.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) version: Version,
    pub(super) policy: String,
    pub(super) default: String,
    /// Sets as written, by pod uid and container name; of V1 by container id, under an empty uid.
    pub(super) containers: BTreeMap<String, BTreeMap<String, String>>,
    /// Sets of whole pods, by pod uid.
    pub(super) pods: BTreeMap<String, String>,
    /// The checksum is right, or there is none.
    pub(super) is_intact: bool,
    /// Why the kubelet cannot load it, in its words.
    pub(super) refusal: Option<String>,
}

const CORRUPT: &str = "checkpoint is corrupted";
/// The Go type of V2. Of V1 the checksum is taken under this name, too.
const V2: &str = "CPUManagerCheckpoint";
const V1: &str = "CPUManagerCheckpointV1";
const V4: &str = "CPUManagerCheckpointData";

/// # Errors
/// In the kubelet's words, if nothing can be known of the file's content.
pub(super) fn load(text: &str) -> Result<Document, String> {
    syntax::check(text)?;
    let raw = Raw::of(text);
    if let Some(sealed) = Sealed::of(raw) {
        return sealed.load().map_err(|error| format!("could not load v4 checkpoint: {error}"));
    }
    // While its name was CPUManagerCheckpointV2, the kubelet wrote checksums under it, and took both.
    let names = [V2, "CPUManagerCheckpointV2"];
    let newer = Checkpoint::<GoMap<String>>::read(raw, V2);
    let newer = newer.map(|newer| newer.document(Version::V2, &names));
    match newer {
        Ok(newer) if newer.is_intact => Ok(newer),
        newer => load_older(raw, newer.ok()),
    }
}

/// V1, after V2 was refused: what is wrong with V1 is reported. `newer` is V2, with a wrong checksum.
fn load_older(raw: Raw<'_>, newer: Option<Document>) -> Result<Document, String> {
    let (older, refusal) = match Checkpoint::<String>::read(raw, V1) {
        Ok(older) => {
            let older = older.document(Version::V1, &[V2]);
            let refusal =
                if older.is_intact { unknown_container(&older) } else { Some(CORRUPT.into()) };
            (Some(older), refusal)
        }
        Err(mismatch) => (None, Some(mismatch)),
    };
    match (older, newer) {
        (Some(older), _) if older.is_intact => Ok(Document { refusal, ..older }),
        (_, Some(newer)) => Ok(Document { refusal, ..newer }),
        (Some(older), None) => Ok(Document { refusal, ..older }),
        (None, None) => Err(refusal.unwrap_or_default()),
    }
}

/// V1 has container ids, which the kubelet looks up among the containers that its runtime lists at
/// start. No version since 1.18 has written V1, and no container outlives so many, so none is found.
fn unknown_container(older: &Document) -> Option<String> {
    let id = older.containers.values().flat_map(BTreeMap::keys).next()?;
    Some(format!(
        "failed to migrate checkpoint from v1 to v2: containerID '{id}' not found in initial \
         containers list"
    ))
}

/// V1 or V2, by what an entry is.
struct Checkpoint<E> {
    policy: String,
    default: String,
    entries: GoMap<E>,
    checksum: Checksum,
}

impl<E: Entry> Checkpoint<E> {
    fn read(raw: Raw<'_>, name: &str) -> Result<Self, String> {
        let mut read = Self {
            policy: String::new(),
            default: String::new(),
            entries: GoMap::empty(),
            checksum: Checksum::default(),
        };
        each_field(raw, name, |key, value| match key {
            "policyname" => Some(("policyName", read.policy.store(value))),
            "defaultcpuset" => Some(("defaultCpuSet", read.default.store(value))),
            "entries" => Some(("entries", read.entries.store(value))),
            "checksum" => Some(("checksum", read.checksum.store(value))),
            _ => None,
        })?;
        Ok(read)
    }

    /// Intact if the checksum is right under one of the type's `names`.
    fn document(self, version: Version, names: &[&str]) -> Document {
        let Self { policy, default, entries, checksum: Checksum(checksum) } = &self;
        let (kind, printed) = (GoMap::<E>::go_type(), entries.printed());
        let is_right = |name: &&str| {
            let text = format!(
                "(*state.{name}){{PolicyName:(string){policy} DefaultCPUSet:(string){default} \
                 Entries:({kind}){printed} Checksum:(checksum.Checksum)0}}"
            );
            *checksum == fnv(&text)
        };
        let is_intact = *checksum == 0 || names.iter().any(is_right);
        Document {
            version,
            policy: self.policy,
            default: self.default,
            containers: E::by_pod(self.entries.into_map()),
            pods: BTreeMap::new(),
            is_intact,
            refusal: None,
        }
    }
}

/// An entry of V1 or V2.
trait Entry: Target + Printed {
    fn by_pod(entries: BTreeMap<String, Self>) -> BTreeMap<String, BTreeMap<String, String>>;
}

impl Entry for String {
    fn by_pod(entries: BTreeMap<String, Self>) -> BTreeMap<String, BTreeMap<String, String>> {
        if entries.is_empty() { BTreeMap::new() } else { [(String::new(), entries)].into() }
    }
}

impl Entry for GoMap<String> {
    fn by_pod(entries: BTreeMap<String, Self>) -> BTreeMap<String, BTreeMap<String, String>> {
        entries.into_iter().map(|(pod, containers)| (pod, containers.into_map())).collect()
    }
}

/// Stores each member of the struct `name`. `store` gets the key in small letters, and returns the
/// field's own name with what came of it; `None` for a key that the struct lacks.
fn each_field<'a>(
    raw: Raw<'a>,
    name: &str,
    mut store: impl FnMut(&str, Raw<'a>) -> Option<(&'static str, Result<(), Mismatch>)>,
) -> Result<(), String> {
    if !matches!(raw.kind(), "object" | "null") {
        let found = raw.kind();
        return Err(format!("json: cannot unmarshal {found} into Go value of type state.{name}"));
    }
    for (key, value) in raw.members() {
        if let Some((field, Err(mismatch))) = store(&folded(&key), value) {
            return Err(mismatch.in_field(&format!("{name}.{field}")));
        }
    }
    Ok(())
}

/// Go also takes the long s and the kelvin sign for the letters.
fn folded(key: &str) -> String {
    let letter = |c: char| match c {
        'ſ' => 's',
        '\u{212a}' => 'k',
        c => c.to_ascii_lowercase(),
    };
    key.chars().map(letter).collect()
}

/// V4 (k/k#139102): the document as text in `data`, with a checksum over it. The older fields beside
/// it, with a checksum of 0, are for 1.36 alone.
struct Sealed {
    data: String,
    checksum: Checksum,
}

impl Sealed {
    /// `None` without text in `data`: 1.37 takes such a file for an older one, and 1.36 any.
    fn of(raw: Raw<'_>) -> Option<Self> {
        let mut sealed = Self { data: String::new(), checksum: Checksum::default() };
        for (key, value) in raw.members() {
            // Another type is refused with the whole, or makes an older file of it.
            let _ = match folded(&key).as_str() {
                "data" => sealed.data.store(value),
                "datachecksum" => sealed.checksum.store(value),
                _ => Ok(()),
            };
        }
        (!sealed.data.is_empty()).then_some(sealed)
    }

    fn load(&self) -> Result<Document, String> {
        let wrapped = |error| format!("failed to deserialize cpu manager checkpoint data: {error}");
        syntax::check(&self.data).map_err(wrapped)?;
        let (mut policy, mut default) = (String::new(), String::new());
        let (mut entries, mut pods) = (GoMap::<GoMap<String>>::empty(), GoMap::<PodEntry>::empty());
        each_field(Raw::of(&self.data), V4, |key, value| match key {
            "policyname" => Some(("policyName", policy.store(value))),
            "defaultcpuset" => Some(("defaultCpuSet", default.store(value))),
            "entries" => Some(("entries", entries.store(value))),
            "podentries" => Some(("podEntries", pods.store(value))),
            _ => None,
        })
        .map_err(wrapped)?;
        let is_intact = self.checksum.0 == fnv(&format!("(string){}", self.data));
        let pods = pods.into_map().into_iter().map(|(pod, PodEntry(cpus))| (pod, cpus));
        Ok(Document {
            version: Version::V4,
            policy,
            default,
            containers: Entry::by_pod(entries.into_map()),
            pods: pods.collect(),
            is_intact,
            refusal: (!is_intact).then(|| format!("could not load v4 checkpoint: {CORRUPT}")),
        })
    }
}

/// CPUs of a whole pod.
#[derive(Debug, Default)]
struct PodEntry(String);

impl Target for PodEntry {
    fn go_type() -> String {
        "state.PodEntry".into()
    }

    fn store(&mut self, value: Raw<'_>) -> Result<(), Mismatch> {
        match value.kind() {
            "null" => return Ok(()),
            "object" => {}
            found => return Err(Mismatch::of::<Self>(found)),
        }
        let mut sets = value.members().filter(|(key, _)| folded(key) == "cpuset");
        sets.try_for_each(|(_, cpus)| self.0.store(cpus))
    }
}

/// FNV-1a with 32 bits.
fn fnv(text: &str) -> u64 {
    let mix = |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    u64::from(text.bytes().fold(0x811c_9dc5, mix))
}
