//! A state file's JSON as Go reads it, and the checksum over how Go prints what it read.
//! Source: kubelet `pkg/kubelet/cm/cpumanager/state/checkpoint.go`, `checkpointmanager/checksum`,
//! and go-spew's `%#v` with sorted keys.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::Version;
use isobar_core::model::cpuset::CpuSet;

/// What a state file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Document {
    pub(crate) version: Version,
    pub(crate) policy: String,
    pub(crate) default: String,
    pub(crate) entries: Entries,
    /// Only in the third form and later.
    pub(crate) pods: Option<BTreeMap<String, CpuSet>>,
}

/// Who has CPUs for itself; a `null` is told from an empty list by the checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entries {
    Null,
    /// By the container's id.
    ById(BTreeMap<String, String>),
    /// By pod, then by the container's name.
    ByPod(BTreeMap<String, Option<BTreeMap<String, String>>>),
}

/// The checksum in the file against the one of its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) is_right: bool,
}

/// What `text` holds.
///
/// A file without entries is of the second form if its checksum is, else of the first. A checksum
/// of 0 in these two stands for none and is right; the later forms always have one.
///
/// # Errors
/// In Go's words, if it is no JSON of the right shape.
pub(crate) fn parse(text: &str) -> Result<(Document, Sum), String> {
    let fields = Fields::of(text)?;
    let said = fields.number("checksum")?;
    let data = fields.text("data")?;
    if !data.is_empty() {
        let mut document = read(&Fields::of(&data)?)?;
        document.version = Version::V4;
        return Ok((document, Sum { is_right: said == fnv(&format!("(string){data}")) }));
    }
    let mut document = read(&fields)?;
    let is_right = |document: &Document| said == fnv(&printed(document));
    if document.version == Version::V3 {
        // The type had the plain name in Kubernetes 1.36 and has its own since.
        let renamed = printed(&document).replacen(TYPE, "state.CPUManagerCheckpointV3", 1);
        let is_right = is_right(&document) || said == fnv(&renamed);
        return Ok((document, Sum { is_right }));
    }
    if said == 0 || is_right(&document) {
        return Ok((document, Sum { is_right: true }));
    }
    let is_empty = matches!(&document.entries, Entries::ByPod(pods) if pods.is_empty());
    if is_empty || document.entries == Entries::Null {
        let first = Document { version: Version::V1, ..document.clone() };
        if is_right(&first) {
            document = first;
            return Ok((document, Sum { is_right: true }));
        }
    }
    Ok((document, Sum { is_right: false }))
}

fn read(fields: &Fields) -> Result<Document, String> {
    let entries = fields.entries()?;
    let pods = fields.pods()?;
    let version = match (&pods, &entries) {
        (Some(_), _) => Version::V3,
        (None, Entries::ById(_)) => Version::V1,
        (None, _) => Version::V2,
    };
    let (policy, default) = (fields.text("policyName")?, fields.text("defaultCpuSet")?);
    Ok(Document { version, policy, default, entries, pods })
}

/// What Go calls the first two forms.
const TYPE: &str = "state.CPUManagerCheckpoint";

/// The document as Go prints it, its checksum as 0.
fn printed(document: &Document) -> String {
    let Document { version, policy, default, entries, pods } = document;
    let kind = match version {
        Version::V1 => "map[string]string",
        _ => "map[string]map[string]string",
    };
    let entries = match entries {
        Entries::Null => "<nil>".into(),
        Entries::ById(containers) => go_map(containers, String::clone),
        Entries::ByPod(pods) => go_map(pods, |containers| match containers {
            Some(containers) => go_map(containers, String::clone),
            None => "<nil>".into(),
        }),
    };
    let mut text = format!(
        "(*{TYPE}){{PolicyName:(string){policy} \
         DefaultCPUSet:(string){default} Entries:({kind}){entries} "
    );
    if let Some(pods) = pods {
        let pods = go_map(pods, |cpus| {
            let elements: Vec<_> = cpus.0.iter().map(|cpu| format!("{cpu}:{{}}")).collect();
            format!(
                "{{CPUSet:(cpuset.CPUSet){{elems:(map[int]struct {{}})map[{}]}}}}",
                elements.join(" ")
            )
        });
        // Writing to a string cannot fail.
        let _ = write!(text, "PodEntries:(state.PodCPUAssignments){pods} ");
    }
    text.push_str("Checksum:(checksum.Checksum)0}");
    text
}

fn go_map<V>(map: &BTreeMap<String, V>, print: impl Fn(&V) -> String) -> String {
    let pairs: Vec<_> = map.iter().map(|(key, value)| format!("{key}:{}", print(value))).collect();
    format!("map[{}]", pairs.join(" "))
}

/// FNV-1a with 32 bits.
fn fnv(text: &str) -> u64 {
    let mix = |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    u64::from(text.bytes().fold(0x811c_9dc5, mix))
}

/// A JSON object, its keys found as Go finds them: the case of letters does not matter.
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

    /// The value of `key`; none if it is not there.
    fn get(&self, key: &str) -> Option<&Value> {
        let alike = || self.0.iter().find(|(name, _)| name.eq_ignore_ascii_case(key));
        self.0.get(key).or_else(|| alike().map(|(_, value)| value))
    }

    fn text(&self, key: &str) -> Result<String, String> {
        match self.get(key) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => Err(mismatch(other, key, "string")),
        }
    }

    fn number(&self, key: &str) -> Result<u64, String> {
        match self.get(key) {
            None | Some(Value::Null) => Ok(0),
            Some(value) => value.as_u64().ok_or_else(|| mismatch(value, key, "uint64")),
        }
    }

    fn entries(&self) -> Result<Entries, String> {
        let object = match self.get("entries") {
            None => return Ok(Entries::ByPod(BTreeMap::new())),
            Some(Value::Null) => return Ok(Entries::Null),
            Some(Value::Object(object)) => object,
            Some(other) => return Err(mismatch(other, "entries", "map[string]map[string]string")),
        };
        if !object.is_empty() && object.values().all(Value::is_string) {
            return texts(object).map(Entries::ById);
        }
        let pod = |(pod, value): (&String, &Value)| {
            let containers = match value {
                Value::Null => None,
                Value::Object(containers) => Some(texts(containers)?),
                other => return Err(mismatch(other, "entries", "map[string]string")),
            };
            Ok((pod.clone(), containers))
        };
        object.iter().map(pod).collect::<Result<_, String>>().map(Entries::ByPod)
    }

    fn pods(&self) -> Result<Option<BTreeMap<String, CpuSet>>, String> {
        let object = match self.get("podEntries") {
            None => return Ok(None),
            Some(Value::Null) => return Ok(Some(BTreeMap::new())),
            Some(Value::Object(object)) => object,
            Some(other) => return Err(mismatch(other, "podEntries", "state.PodCPUAssignments")),
        };
        let pod = |(pod, value): (&String, &Value)| {
            let Value::Object(entry) = value else {
                return Err(mismatch(value, "podEntries", "state.PodEntry"));
            };
            let text = Self(entry.clone()).text("cpuSet")?;
            let cpus = text.parse().map_err(|error| {
                format!("could not parse cpuset {text:?} of pod {pod:?}: {error}")
            })?;
            Ok((pod.clone(), cpus))
        };
        object.iter().map(pod).collect::<Result<_, _>>().map(Some)
    }
}

/// A map of texts; a `null` among them reads as the empty one.
fn texts(object: &Map<String, Value>) -> Result<BTreeMap<String, String>, String> {
    let text = |(key, value): (&String, &Value)| match value {
        Value::Null => Ok((key.clone(), String::new())),
        Value::String(text) => Ok((key.clone(), text.clone())),
        other => Err(mismatch(other, "entries", "string")),
    };
    object.iter().map(text).collect()
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
