//! What the agent can and cannot see on this node, and how to mend it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::sample::{Gap, GapReason};
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

    /// One for which the operator can do nothing, or need not.
    pub fn new(name: impl Into<String>, state: CapabilityState, detail: impl Into<String>) -> Self {
        Self { name: name.into(), state, detail: detail.into(), remedy: None }
    }

    /// The same, with what the operator can do to enable it.
    #[must_use]
    pub fn remedied(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }

    /// What these settings enforce.
    pub fn relief(settings: &Relief) -> Self {
        let state = match settings.enforce.is_empty() {
            true => CapabilityState::Off,
            false => CapabilityState::Attached,
        };
        Self::new(Self::RELIEF, state, settings.mode())
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

named!(CapabilityState {
    Attached => "attached",
    Blind => "blind",
    Absent => "absent",
    Off => "off",
});

/// The names of what this node does not offer or refuses, each once: capabilities that are absent or
/// blind, then objects that cannot be read. Left out are what an option switched off, and gaps that
/// pass: a cgroup that ended, a failed or torn reading, a table that was full.
pub fn missing<'a>(capabilities: &'a [Capability], gaps: &'a [Gap]) -> Vec<&'a str> {
    let is_missing =
        |one: &&Capability| matches!(one.state, CapabilityState::Absent | CapabilityState::Blind);
    let is_standing = |gap: &&Gap| matches!(gap.why, GapReason::Unsupported | GapReason::Denied);
    let absent = capabilities.iter().filter(is_missing).map(|one| one.name.as_str());
    let unread = gaps.iter().filter(is_standing).map(|gap| gap.object.as_str());
    let mut named = BTreeSet::new();
    absent.chain(unread).filter(|name| named.insert(*name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::decision::StepKind::{self, KillContainers, Reclaim, Squeeze};

    #[test]
    fn missing_counts_each_name_once_and_nothing_that_passes() {
        use CapabilityState::{Absent, Attached, Blind, Off};
        use GapReason::{Denied, Failed, Full, Gone, Torn, Unsupported};
        let told: Vec<_> = [("a", Absent), ("b", Blind), ("c", Off), ("d", Attached)]
            .map(|(name, state)| Capability::new(name, state, ""))
            .into();
        type Row = (&'static [(&'static str, GapReason)], &'static [&'static str]);
        #[rustfmt::skip]
        let table: [Row; 4] = [
            // what could not be read, missing
            (&[],                                                                  &["a", "b"]),
            (&[("/x", Unsupported), ("/y", Denied), ("/x", Denied)],               &["a", "b", "/x", "/y"]),
            (&[("/p", Gone), ("/q", Failed), ("/r", Torn), ("kernel side", Full)], &["a", "b"]),
            (&[("a", Unsupported)],                                                &["a", "b"]),
        ];
        for (unread, want) in table {
            let gap = |(object, why): &(&str, GapReason)| Gap {
                object: (*object).into(),
                why: *why,
                detail: String::new(),
            };
            let gaps: Vec<_> = unread.iter().map(gap).collect();
            assert_eq!(missing(&told, &gaps), want, "{unread:?}");
        }
    }

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
