//! What the agent can and cannot see on this node, and how to mend it.

use serde::{Deserialize, Serialize};

use super::settings::Relief;

/// One thing that the agent needs to see the node: a program, a pressure file, a controller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Capability {
    /// The name to look for: `sched_switch`, `/proc/pressure/irq`, `memory controller`.
    pub name: String,
    pub state: CapabilityState,
    /// How it works, or why it does not. May be empty.
    pub detail: String,
    /// What the operator can do to enable it; `None` if nothing is needed or possible.
    pub remedy: Option<String>,
}

impl Capability {
    /// The name of the one that tells what is enforced.
    pub const RELIEF: &str = "relief";

    /// What these settings enforce.
    #[must_use]
    pub fn relief(settings: &Relief) -> Self {
        let state = match settings.enforce.is_empty() {
            true => CapabilityState::Off,
            false => CapabilityState::Attached,
        };
        Self { name: Self::RELIEF.into(), state, detail: settings.mode(), remedy: None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum CapabilityState {
    /// It works, and a self-test saw it work.
    Attached,
    /// It loaded, but missed known work of the agent. Its readings are not used.
    Blind,
    /// This node does not offer it or refused it.
    Absent,
    /// Switched off by an option, or to stay within the agent's budget.
    Off,
}

impl CapabilityState {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::decision::StepKind::{self, KillContainers, Reclaim, Squeeze};

    #[test]
    fn relief_names_what_is_enforced() {
        #[rustfmt::skip]
        let table: [(&[StepKind], &[StepKind], &str); 4] = [
            // enforced, may be chosen, told
            (&[],                        &StepKind::ALL, "observing"),
            (&[KillContainers, Squeeze], &StepKind::ALL, "enforcing squeeze, killContainers"),
            (&[KillContainers, Squeeze], &[Squeeze],     "enforcing squeeze"),
            (&[Squeeze],                 &[Reclaim],     "enforcing nothing: relief.steps names no step of relief.enforce"),
        ];
        for (enforced, steps, want) in table {
            let settings = Relief {
                enforce: enforced.iter().copied().collect(),
                steps: steps.iter().copied().collect(),
                ..Relief::default()
            };
            assert_eq!(Capability::relief(&settings).detail, want, "{enforced:?} of {steps:?}");
        }
    }
}
