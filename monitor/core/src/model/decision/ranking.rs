//! Who would go first, by which keys, and who may not be chosen.

use serde::{Deserialize, Deserializer, Serialize, de};

use super::action::full_name;
use crate::model::cgroup::CgroupPath;
use crate::model::pod::QosClass;
use crate::model::quantity::Quantity;
use crate::model::units::{Bytes, Nanos};

/// By which keys candidates are ordered.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Order {
    /// Who took what is short, or makes others wait for it. Where that is not measured, as `Qos`.
    #[default]
    Cause,
    /// Class of service, priority, harm to others, excess, youngest.
    Qos,
    /// As the kubelet: exceeds its request, priority, excess.
    Kubelet,
}

/// Candidates, first to go first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Ranking {
    /// For which shortage.
    pub signal: String,
    /// By which keys.
    pub order: Order,
    /// The first of them.
    pub candidates: Vec<Candidate>,
    /// How many there are.
    pub n_candidates: usize,
    /// Who may not be chosen; as many as of candidates.
    pub spared: Vec<Spared>,
    /// How many there are.
    pub n_spared: usize,
    /// Cgroups outside pods that make others wait most: never evicted, only named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outsiders: Vec<Outsider>,
    /// What was lost of the memory that is short, and who took it; `None` for anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Loss>,
}

/// What a scope's memory lost before it ran short, and who took it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Loss {
    /// Growth of all parties that grew, and of what belongs to none.
    pub lost: Bytes,
    /// In how much time.
    pub over: Nanos,
    /// Those who took at least a quarter of what the largest taker did, lately or all along; who took most
    /// all along, as in the key `lasting`, first.
    pub takers: Vec<Taker>,
    /// The part that no party took: the kernel's own memory, or cgroups that cannot be read.
    pub unattributed: Bytes,
}

impl Loss {
    /// Whether no party took as much as what belongs to none.
    pub fn is_of_no_cgroup(&self) -> bool {
        // The first is who took most all along, not who took most of this.
        let most = self.takers.iter().map(|taker| taker.taken).max();
        self.unattributed > most.unwrap_or_default()
    }
}

/// A party that took a part of what was lost: a pod, a workload, or any other cgroup.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Taker {
    /// The pod's name, else the last name in the path.
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The pod's uid, else the path.
    pub uid: String,
    pub path: CgroupPath,
    pub taken: Bytes,
    /// It may be marked: the kernel's OOM killer then takes it first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_be_marked: bool,
}

impl Taker {
    /// How people call it.
    pub fn full_name(&self) -> String {
        match self.uid.starts_with('/') {
            true => self.path.to_string(),
            false => full_name(&self.namespace, &self.name, 0),
        }
    }
}

/// One pod, a group of small ones, or a workload outside pods, that could be chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// The pod's name, what the group is called, or the last name in a workload's path.
    pub name: String,
    /// `metadata.namespace`; empty if not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The pod's uid; of a group, its first member's; of a workload, its path.
    pub uid: String,
    /// Every uid of a group; empty for a single pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
    /// What decided, in the order in which it decided.
    pub keys: Vec<MeritKey>,
}

impl Candidate {
    /// As [`full_name`] has it.
    pub fn full_name(&self) -> String {
        full_name(&self.namespace, &self.name, self.members.len())
    }

    /// The uids that it stands for: of a group those of all its pods.
    pub fn uids(&self) -> impl Iterator<Item = &String> {
        let own = self.members.is_empty().then_some(&self.uid);
        self.members.iter().chain(own)
    }
}

/// A cgroup outside pods because of which others wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Outsider {
    /// Where it is.
    pub path: CgroupPath,
    /// For how long others wait because of it, per second.
    pub harm: Nanos,
}

/// One key of a candidate's merit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct MeritKey {
    pub key: Key,
    pub value: KeyValue,
}

/// A value's JSON does not tell an amount from a text, a uid of digits least of all: the key does.
impl<'de> Deserialize<'de> for MeritKey {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Raw {
            key: Key,
            value: RawValue,
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum RawValue {
            Bool(bool),
            Number(i64),
            Text(String),
            Unknown,
        }
        let Raw { key, value } = Raw::deserialize(from)?;
        let value = match (key, value) {
            (_, RawValue::Bool(yes)) => KeyValue::Bool(yes),
            (_, RawValue::Number(n)) => KeyValue::Number(n),
            (_, RawValue::Unknown) => KeyValue::Unknown,
            (Key::Uid | Key::Preference, RawValue::Text(text)) => KeyValue::Text(text),
            (Key::Qos, RawValue::Text(text)) => match text.as_str() {
                "Guaranteed" => KeyValue::Class(QosClass::Guaranteed),
                "Burstable" => KeyValue::Class(QosClass::Burstable),
                "BestEffort" => KeyValue::Class(QosClass::BestEffort),
                _ => {
                    return Err(de::Error::custom(format_args!("{text:?} is no class of service")));
                }
            },
            (_, RawValue::Text(text)) => {
                KeyValue::Quantity(text.parse().map_err(de::Error::custom)?)
            }
        };
        Ok(Self { key, value })
    }
}

/// What candidates are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Key {
    /// What an extended attribute of the cgroup says: `prefer` goes first, `avoid` last. A key only
    /// where the attribute of at least one candidate is set.
    Preference,
    /// Whether there are statistics of it at all. One without goes first as the kubelet has it,
    /// last of its equals by class of service.
    HasStats,
    /// It uses more than it asked for.
    ExceedsRequest,
    /// `spec.priority`.
    Priority,
    /// Use above its request.
    Excess,
    /// Use, where nothing is known of a request, or there is none to be had.
    Usage,
    /// Class of service.
    Qos,
    /// Whether it is a cause of the loss: it took at least a quarter of what the largest taker did.
    Taker,
    /// In place of `taker`, where those who took memory took no more than they request: whether it
    /// uses more than it requests, and its end frees what they were promised.
    HoldsPromised,
    /// What it took lately, or its share of all that was lost in up to five minutes if that is less
    /// by an eighth; of takers alone. A key only where it is less for one of several.
    Lasting,
    /// What it took of the memory that was lost; of takers alone.
    Taken,
    /// Whether the first figure by which takers are compared (`lasting`, else `taken`; `diskShare`, else `harm`)
    /// is within an eighth of the largest: class and priority decide among these. A key of takers, only where
    /// several of these differ in class or priority.
    AmongLargest,
    /// Whether its end gives back a real part of what is missing.
    FreesEnough,
    /// Time that others waited because of it: milliseconds a second.
    Harm,
    /// Its part of all waiting for disks, its own included, by what disks did for it, and no more than twice
    /// what others waited because of it: milliseconds a second.
    DiskShare,
    Processes,
    /// When it started, in seconds since 1970; the youngest goes first.
    Started,
    /// The uid, so that the order is total.
    Uid,
}

/// A key's value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum KeyValue {
    /// Yes or no.
    Bool(bool),
    Number(i64),
    /// A class of service.
    Class(QosClass),
    Quantity(Quantity),
    Text(String),
    Unknown,
}

/// A pod that may not be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Spared {
    /// The pod's name.
    pub name: String,
    /// `metadata.namespace`; empty if not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub uid: String,
    pub why: SparedReason,
}

impl Spared {
    /// As [`full_name`] has it.
    pub fn full_name(&self) -> String {
        full_name(&self.namespace, &self.name, 0)
    }
}

/// Why a pod may not be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum SparedReason {
    /// The kubelet runs it from a file or URL.
    Static,
    /// The API's picture of a static pod.
    Mirror,
    /// Priority 2000000000 or more.
    Critical,
    Isobar,
    /// Its label or extended attribute says so.
    OptedOut,
    /// Its cgroup, one above it or one inside it is never touched: by configuration, or because the
    /// node could not do without it.
    NeverTouch,
    /// It makes only itself wait: evicting it would relieve no other workload.
    HarmsOnlyItself,
    /// Guaranteed, and within its request.
    WithinRequest,
    /// It lies outside the limit that is short, so its end frees nothing below it.
    OutsideLimit,
    /// isobar has seen its cgroup for less than 30 s, and no source has named the pod yet, which may say that
    /// it is never evicted.
    NotYetNamed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merit_json_round_trip() {
        let bytes = KeyValue::Quantity(Quantity::bytes(700 << 20));
        #[rustfmt::skip]
        let table = [
            // key, value, JSON
            (Key::HasStats,  KeyValue::Bool(true),                     r#"{"key":"hasStats","value":true}"#),
            (Key::Priority,  KeyValue::Number(-5),                     r#"{"key":"priority","value":-5}"#),
            (Key::Qos,       KeyValue::Class(QosClass::BestEffort),    r#"{"key":"qos","value":"BestEffort"}"#),
            (Key::Excess,    bytes.clone(),                            r#"{"key":"excess","value":"700Mi"}"#),
            (Key::Excess,    KeyValue::Unknown,                        r#"{"key":"excess","value":null}"#),
            // Uids that would do for amounts, too.
            (Key::Uid,       KeyValue::Text("0017".into()),            r#"{"key":"uid","value":"0017"}"#),
            (Key::Preference, KeyValue::Text("prefer".into()),         r#"{"key":"preference","value":"prefer"}"#),
            (Key::Uid,       KeyValue::Text("Burstable".into()),       r#"{"key":"uid","value":"Burstable"}"#),
        ];
        for (key, value, want) in table {
            let merit = MeritKey { key, value };
            let json = serde_json::to_string(&merit).unwrap();
            assert_eq!(json, want);
            assert_eq!(serde_json::from_str::<MeritKey>(&json).unwrap(), merit, "{json}");
        }
        for json in [r#"{"key":"qos","value":"Best"}"#, r#"{"key":"excess","value":"a lot"}"#] {
            assert!(serde_json::from_str::<MeritKey>(json).is_err(), "{json}");
        }
    }
}
