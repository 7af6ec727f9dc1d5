//! The figures in the headline's words, for readers that compute with them.

use serde::{Deserialize, Serialize};

use super::verdict::Resource;
use crate::model::units::Bytes;

/// A sentence or more, and the figures in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    pub text: String,
    pub figures: Vec<Figure>,
}

impl Told {
    pub(super) fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), figures: Vec::new() }
    }

    /// `other` after it.
    pub(super) fn and(mut self, other: Option<Self>) -> Self {
        if let Some(Self { text, figures }) = other {
            self.text = format!("{} {text}", self.text);
            self.figures.extend(figures);
        }
        self
    }
}

/// A figure of a cgroup. Pods are called by the API's names where those are known, all else by its path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Figure {
    /// What the victim lost by waiting for CPUs while others ran, the aggressor most of all.
    Lost { victim: String, aggressor: Option<String>, millis_per_second: u64 },
    /// How long the victim waited.
    Waited { resource: Resource, victim: String, aggressor: Option<String>, millis_per_second: u64 },
    /// Memory that the aggressor took of what was lost.
    Took { aggressor: String, bytes: Bytes },
    /// Memory that the aggressor holds, more than any other pod or service.
    Holds { aggressor: String, bytes: Bytes },
    /// What the aggressor reads and writes, by usage.
    Moves { aggressor: String, bytes_per_second: Bytes },
}
