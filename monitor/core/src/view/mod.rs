//! What readers see of one tick: the decision and its snapshot, in words and as JSON. Live and from
//! a recording alike, because a view is made of these two alone.

pub mod aggressor;
pub mod cpu_loss;
pub mod figure;
pub mod foresight;
pub mod headline;
mod holders;
pub mod lead;
mod left;
pub mod movers;
pub mod pods;
pub mod suspects;
pub mod usage;
pub mod verdict;
pub mod waiting;

use serde::{Deserialize, Serialize};

use self::figure::Figure;
use self::foresight::Tally;
use self::usage::Usage;
use self::verdict::Verdict;
use crate::model::capability::{Capability, missing};
use crate::model::cost::Cost;
use crate::model::decision::Decision;
use crate::model::limit::{LimitState, NodeResources};
use crate::model::node::NodeFacts;
use crate::model::sample::Moment;
use crate::model::snapshot::Snapshot;
use crate::policy::explain::Explanation;
use crate::room;

pub use crate::model::stall::{OOM_KILLS_KEPT, OomRecord};

/// `apiVersion` of everything that isobar prints or serves as JSON.
pub const API_VERSION: &str = "isobar/v1alpha1";

/// Everything that is known at one tick. In JSON the fields of the snapshot stand beside these.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct View {
    pub facts: NodeFacts,
    /// When the agent started.
    pub started: Moment,
    /// One sentence: who waits, why, and because of whom.
    pub headline: String,
    /// The figures in it.
    #[serde(default)]
    pub headline_figures: Vec<Figure>,
    pub verdict: Vec<Verdict>,
    #[serde(default)]
    pub usage: Usage,
    /// The last [`OOM_KILLS_KEPT`] kills, newest first.
    pub recent_oom_kills: Vec<OomRecord>,
    /// `None` of a recording, which does not say what came before its first tick.
    #[serde(default)]
    pub foresight: Option<Tally>,
    pub capabilities: Vec<Capability>,
    /// The limits that the agent writes, or would write.
    #[serde(default)]
    pub limits: Vec<LimitState>,
    /// `None` of a recording, and before the first look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<NodeResources>,
    pub cost: Cost,
    pub decision: Decision,
    pub explanation: Explanation,
    #[serde(skip)]
    pub snapshot: Snapshot,
}

impl View {
    /// One line of JSON, with the fields of `snapshot` at the top level: the view's own, or a part
    /// of it.
    pub fn to_json(&self, snapshot: &Snapshot) -> Vec<u8> {
        let missing = missing(&self.capabilities, &snapshot.gaps);
        Document::new("Snapshot", Whole { view: self, missing, snapshot }).to_json()
    }

    /// See [`missing`].
    pub fn missing(&self) -> Vec<&str> {
        missing(&self.capabilities, &self.snapshot.gaps)
    }

    /// A view from its JSON.
    ///
    /// # Errors
    /// If another version of isobar wrote it, or another program.
    pub fn parse(json: &[u8]) -> Result<Self, serde_json::Error> {
        // Twice over the same text: serde's `flatten` cannot read maps that are keyed by numbers.
        let view: Self = room::from_slice(json)?;
        Ok(Self { snapshot: room::from_slice(json)?, ..view })
    }
}

/// Everything that is known at one tick: the fields of a snapshot beside those of the view.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Whole<'a> {
    #[serde(flatten)]
    view: &'a View,
    /// Names of what this node does not offer or refuses: of `capabilities` those that are absent or
    /// blind, and of `gaps` what cannot be read.
    missing: Vec<&'a str>,
    #[serde(flatten)]
    snapshot: &'a Snapshot,
}

/// What is printed or served as JSON: its version, its kind, and beside them the content's fields.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Document<T> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    content: T,
}

impl<T: Serialize> Document<T> {
    pub fn new(kind: &'static str, content: T) -> Self {
        Self { api_version: API_VERSION, kind, content }
    }

    /// One line of JSON.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self)
            .expect("maps are keyed by numbers and closed enums, and writing to memory cannot fail")
    }
}
