//! A state file's JSON as Go reads it, and its checksum: FNV-1a over the text that Go prints of
//! what it read. Source: kubelet `pkg/kubelet/cm/cpumanager/state/checkpoint.go`,
//! `checkpointmanager/checksum`, and go-spew's `%#v` with sorted keys.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde_json::{Map, Value};

use super::Version;
use isobar_core::model::cpuset::CpuSet;

pub(super) struct Document {
    pub(super) version: Version,
    pub(super) policy: String,
    pub(super) default: String,
    /// Sets as written, by pod uid and container name; of V1 by container id, under an empty uid.
    pub(super) containers: BTreeMap<String, BTreeMap<String, String>>,
    /// Sets of whole pods, by pod uid.
    pub(super) pods: BTreeMap<String, CpuSet>,
    /// The checksum is right, or the version may do without one.
    pub(super) is_intact: bool,
}

const TYPE: &str = "CPUManagerCheckpoint";
const BY_ID: &str = "map[string]string";
const BY_POD: &str = "map[string]map[string]string";

/// # Errors
/// In Go's words, if `text` is no JSON of the right shape.
pub(super) fn parse(text: &str) -> Result<Document, String> {
    let fields = Fields::of(text)?;
    let data = fields.text("data")?;
    if data.is_empty() {
        return read(&fields);
    }
    // Kubernetes 1.37 (k/k#139102) writes the older fields, with a checksum of 0, for 1.36 alone.
    let is_intact = fields.number("dataChecksum")? == fnv(&format!("(string){data}"));
    Ok(Document { version: Version::V4, is_intact, ..read(&Fields::of(&data)?)? })
}

fn read(fields: &Fields) -> Result<Document, String> {
    let checksum = fields.number("checksum")?;
    let (policy, default) = (fields.text("policyName")?, fields.text("defaultCpuSet")?);
    let entries = fields.get("entries").cloned().unwrap_or_else(|| Value::Object(Map::new()));
    let is_empty = entries.as_object().is_none_or(Map::is_empty);
    let is_by_id =
        !is_empty && entries.as_object().is_some_and(|ids| ids.values().all(Value::is_string));
    let texts = |value: &Value| map(value, "entries", BY_ID, |_, value| text(value, "entries"));
    let containers = match is_by_id {
        true => BTreeMap::from([(String::new(), texts(&entries)?)]),
        false => map(&entries, "entries", BY_POD, |_, pod| texts(pod))?,
    };
    let pods = fields.get("podEntries").map(pods).transpose()?;

    // Without entries V1 differs from V2 in its checksum alone. V3's type got a name of its own
    // after Kubernetes 1.36.
    let forms: &[_] = match (&pods, is_by_id, is_empty) {
        (Some(_), ..) => {
            &[(Version::V3, TYPE, BY_POD), (Version::V3, "CPUManagerCheckpointV3", BY_POD)]
        }
        (None, true, _) => &[(Version::V1, TYPE, BY_ID)],
        (None, false, true) => &[(Version::V2, TYPE, BY_POD), (Version::V1, TYPE, BY_ID)],
        (None, false, false) => &[(Version::V2, TYPE, BY_POD)],
    };
    let printed_entries = printed(&entries, if is_by_id { 1 } else { 2 });
    let printed_pods = pods.as_ref().map(printed_pods).unwrap_or_default();
    let form = forms.iter().find(|(_, name, kind)| {
        let text = format!(
            "(*state.{name}){{PolicyName:(string){policy} DefaultCPUSet:(string){default} \
             Entries:({kind}){printed_entries} {printed_pods}Checksum:(checksum.Checksum)0}}"
        );
        checksum == fnv(&text)
    });
    let is_intact = form.is_some() || (checksum == 0 && pods.is_none());
    let version = form.unwrap_or(&forms[0]).0;
    Ok(Document { version, policy, default, containers, pods: pods.unwrap_or_default(), is_intact })
}

fn pods(value: &Value) -> Result<BTreeMap<String, CpuSet>, String> {
    map(value, "podEntries", "state.PodCPUAssignments", |pod, value| {
        let Value::Object(entry) = value else {
            return Err(mismatch(value, "podEntries", "state.PodEntry"));
        };
        let text = Fields(entry.clone()).text("cpuSet")?;
        let cpus = text.parse();
        cpus.map_err(|error| format!("could not parse cpuset {text:?} of pod {pod:?}: {error}"))
    })
}

/// As Go prints texts in maps, `depth` maps deep.
fn printed(value: &Value, depth: u8) -> String {
    match value {
        Value::Object(map) => {
            go_map(map.iter().map(|(key, value)| (key, printed(value, depth - 1))))
        }
        Value::String(text) => text.clone(),
        _ => if depth == 0 { "" } else { "<nil>" }.into(),
    }
}

fn printed_pods(pods: &BTreeMap<String, CpuSet>) -> String {
    let pods = pods.iter().map(|(pod, cpus)| {
        let cpus = go_map(cpus.0.iter().map(|cpu| (cpu, "{}")));
        (pod, format!("{{CPUSet:(cpuset.CPUSet){{elems:(map[int]struct {{}}){cpus}}}}}"))
    });
    format!("PodEntries:(state.PodCPUAssignments){} ", go_map(pods))
}

fn go_map(pairs: impl Iterator<Item = (impl Display, impl Display)>) -> String {
    let pairs: Vec<_> = pairs.map(|(key, value)| format!("{key}:{value}")).collect();
    format!("map[{}]", pairs.join(" "))
}

/// FNV-1a with 32 bits.
fn fnv(text: &str) -> u64 {
    let mix = |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    u64::from(text.bytes().fold(0x811c_9dc5, mix))
}

/// A JSON object, whose keys Go finds whatever their case.
struct Fields(Map<String, Value>);

impl Fields {
    fn of(text: &str) -> Result<Self, String> {
        match serde_json::from_str(text) {
            Ok(Value::Object(fields)) => Ok(Self(fields)),
            Ok(Value::Null) => Ok(Self(Map::new())),
            Ok(other) => Err(mismatch(&other, "value", TYPE)),
            Err(error) if error.is_eof() => Err("unexpected end of JSON input".into()),
            Err(error) => Err(format!("invalid JSON: {error}")),
        }
    }

    fn get(&self, key: &str) -> Option<&Value> {
        let alike = || self.0.iter().find(|(name, _)| name.eq_ignore_ascii_case(key));
        self.0.get(key).or_else(|| alike().map(|(_, value)| value))
    }

    fn text(&self, key: &str) -> Result<String, String> {
        text(self.get(key).unwrap_or(&Value::Null), key)
    }

    fn number(&self, key: &str) -> Result<u64, String> {
        match self.get(key) {
            None | Some(Value::Null) => Ok(0),
            Some(value) => value.as_u64().ok_or_else(|| mismatch(value, key, "uint64")),
        }
    }
}

fn text(value: &Value, key: &str) -> Result<String, String> {
    match value {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        other => Err(mismatch(other, key, "string")),
    }
}

fn map<V>(
    value: &Value,
    key: &str,
    go_type: &str,
    read: impl Fn(&str, &Value) -> Result<V, String>,
) -> Result<BTreeMap<String, V>, String> {
    match value {
        Value::Null => Ok(BTreeMap::new()),
        Value::Object(object) => {
            object.iter().map(|(key, value)| Ok((key.clone(), read(key, value)?))).collect()
        }
        other => Err(mismatch(other, key, go_type)),
    }
}

fn mismatch(value: &Value, key: &str, wanted: &str) -> String {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    format!(
        "json: cannot unmarshal {found} into Go struct field CPUManagerCheckpoint.{key} of type \
         {wanted}"
    )
}
