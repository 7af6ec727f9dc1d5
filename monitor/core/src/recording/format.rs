//! The lines of a recording, format version 4: see docs/recording.md.
//!
//! A header begins a chapter and holds everything that the engine knew at that moment; each line
//! after it is one tick, as a change to the tick before.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::pairs::Pairs;
use crate::model::node::NodeFacts;
use crate::model::sample::{Gap, Moment};
use crate::model::settings::Settings;
use crate::model::stall::Aggression;
use crate::policy::engine::Standing;

/// `format` of every header.
pub const FORMAT: &str = "isobar-recording";
/// Raised when other versions cannot read what is written.
pub const VERSION: u32 = 4;
/// The oldest version that is read. Its matrix is a table of changes, and it has no marks.
pub const OLDEST: u32 = 3;
/// The first bytes of every recording after decompression.
pub const OPENING: &str = "{\"kind\":\"header\",\"format\":\"isobar-recording\",";

/// The fields that identify a line.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Opening {
    pub kind: String,
    pub format: String,
    pub version: u32,
}

/// Begins a chapter: everything that a replay needs to start here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Header {
    /// `header`.
    pub kind: String,
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The version of isobar that wrote it.
    pub isobar: String,
    /// When the chapter began: the moment of the tick before, or of the start.
    pub at: Moment,
    /// The chapter continues the one before: same run, no tick in between.
    pub continues: bool,
    pub facts: NodeFacts,
    pub settings: Settings,
    /// The engine's standing, including the sample before.
    pub standing: Standing,
}

/// One tick. A missing field has not changed.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Tick<Decision> {
    /// `tick`.
    pub kind: String,
    /// The sample without its lists.
    #[serde(skip_serializing_if = "One::is_empty")]
    pub sample: One,
    /// `cgroups`, by id.
    #[serde(skip_serializing_if = "Rows::is_empty")]
    pub cgroups: Rows,
    /// `kernel.groups`, by cgroup id.
    #[serde(skip_serializing_if = "Rows::is_empty")]
    pub groups: Rows,
    /// `kernel.matrix` in full, if its pairs are in order; left out if it is and was empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pairs: Option<Pairs>,
    /// In version 3 instead: times by `VICTIM/AGGRESSOR`. Never written.
    #[serde(skip_serializing)]
    pub matrix: Rows,
    /// The whole `kernel.matrix`, if its pairs are not in order.
    #[serde(rename = "matrixList", skip_serializing_if = "Option::is_none")]
    pub matrix_list: Option<Vec<Aggression>>,
    /// `pods`, by uid.
    #[serde(skip_serializing_if = "Rows::is_empty")]
    pub pods: Rows,
    /// All `gaps`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gaps: Option<Vec<Gap>>,
    pub decision: Decision,
}

/// How one object changed.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct One {
    /// The whole object: it is new, or more than numbers changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<Box<RawValue>>,
    /// Additions to numbers, by JSON pointer (RFC 6901), in units of the last decimal.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub add: BTreeMap<String, i64>,
}

impl One {
    pub fn is_empty(&self) -> bool {
        self.set.is_none() && self.add.is_empty()
    }
}

/// How a table of objects changed.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Rows {
    /// Objects that were removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<String>,
    /// Objects that are new, or of which more than numbers changed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, Box<RawValue>>,
    /// Objects of which numbers changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<String>,
    /// By JSON pointer: additions to that number of each of `rows`, in units of the last decimal.
    /// Columns compress best: merge patches take a quarter to a half more.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub add: BTreeMap<String, Vec<i64>>,
}

impl Rows {
    pub fn is_empty(&self) -> bool {
        self.gone.is_empty() && self.set.is_empty() && self.rows.is_empty()
    }
}
