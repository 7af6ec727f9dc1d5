//! The lines of a recording, format version 1: see docs/recording.md.
//!
//! A header opens a chapter and says everything that the judge knew at that moment; each line
//! after it is one tick, as a change to the tick before.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::model::node::NodeFacts;
use crate::model::sample::{Gap, Moment};
use crate::model::settings::Settings;
use crate::model::stall::Aggression;
use crate::policy::engine::Standing;

/// What the first line of every recording names.
pub const FORMAT: &str = "isobar-recording";
/// Raised when an older isobar could no longer read what is written.
pub const VERSION: u32 = 2;
/// How every recording begins, once it is decompressed.
pub const OPENING: &str = "{\"kind\":\"header\",\"format\":\"isobar-recording\",";

/// Which line it is, and whose.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Opening {
    pub kind: String,
    pub format: String,
    pub version: u32,
}

/// Opens a chapter: all that a replay needs to start here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Header {
    /// `header`.
    pub kind: String,
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The isobar that wrote it.
    pub isobar: String,
    /// When the chapter began: the moment of the tick before, or of the start.
    pub at: Moment,
    /// It goes on where the chapter before ended: same run, nothing in between.
    pub continues: bool,
    /// The node.
    pub facts: NodeFacts,
    /// The settings that the chapter is judged by.
    pub settings: Settings,
    /// What the judge remembered, the sample before included.
    pub standing: Standing,
}

/// One tick. What is missing has not changed.
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
    /// `kernel.matrix`: times by `VICTIM/AGGRESSOR`.
    #[serde(skip_serializing_if = "Rows::is_empty")]
    pub matrix: Rows,
    /// `kernel.matrix` as it is, where it is not in order.
    #[serde(rename = "matrixList", skip_serializing_if = "Option::is_none")]
    pub matrix_list: Option<Vec<Aggression>>,
    /// `pods`, by uid.
    #[serde(skip_serializing_if = "Rows::is_empty")]
    pub pods: Rows,
    /// `gaps`, all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gaps: Option<Vec<Gap>>,
    /// What was decided.
    pub decision: Decision,
}

/// How one object changed.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct One {
    /// It is new, or more than numbers changed: this is it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<Box<RawValue>>,
    /// What is added to the number at a JSON pointer (RFC 6901), in its last decimal.
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
    /// Objects that are no more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<String>,
    /// Objects that are new, or of which more than numbers changed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, Box<RawValue>>,
    /// Objects of which numbers changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<String>,
    /// By JSON pointer: what is added to that number of each of `rows`, in its last decimal.
    /// Column by column, because that compresses best: merge patches take a quarter to a half more.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub add: BTreeMap<String, Vec<i64>>,
}

impl Rows {
    pub fn is_empty(&self) -> bool {
        self.gone.is_empty() && self.set.is_empty() && self.rows.is_empty()
    }
}
