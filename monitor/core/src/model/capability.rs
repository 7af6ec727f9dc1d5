//! What the agent can see on this node, piece by piece, and what to do about what it cannot.

use serde::{Deserialize, Serialize};

/// One thing that the agent would like to have: a program, a pressure file, a controller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Capability {
    /// What an operator would look for: `sched_switch`, `/proc/pressure/irq`, `memory controller`.
    pub name: String,
    /// Whether it is there.
    pub state: CapabilityState,
    /// How it is there, or why not. May be empty.
    pub detail: String,
    /// What to do to have it; `None` where nothing needs doing or nothing can be done.
    pub remedy: Option<String>,
}

/// Whether a capability is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CapabilityState {
    /// It works, and was seen to work.
    Attached,
    /// It loaded, but saw nothing of work that it should have seen. What it says is not used.
    Blind,
    /// This node does not offer it, or refused it.
    Absent,
    /// It was switched off, by an option or to stay within the agent's budget.
    Off,
}

impl CapabilityState {
    /// The word that people read and the API carries.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Attached => "attached",
            Self::Blind => "blind",
            Self::Absent => "absent",
            Self::Off => "off",
        }
    }
}
