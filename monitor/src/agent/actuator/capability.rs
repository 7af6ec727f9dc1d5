//! What a capability says of the actuator.

use super::Handle;
use isobar_core::model::capability::{Capability, CapabilityState};

impl Handle {
    /// Whether there is an actuator, and which steps it can take.
    pub(in crate::agent) fn capability(&self) -> Capability {
        let steps: Vec<&str> = self.known.available_steps.iter().map(|step| step.name()).collect();
        let (state, detail, remedy) = match (self.has_exited, steps.is_empty(), &self.known.trouble)
        {
            (true, ..) => (
                CapabilityState::Absent,
                "the actuator thread exited".into(),
                Some("restart the agent, and report this to isobar".into()),
            ),
            (false, true, _) => (
                CapabilityState::Absent,
                "no step can be taken".into(),
                Some("run as root, in the node's own namespaces".into()),
            ),
            (false, false, Some(trouble)) => (
                CapabilityState::Attached,
                format!("able to: {}; {trouble}", steps.join(", ")),
                Some("name a directory that can be written, with --state-dir".into()),
            ),
            (false, false, None) => {
                (CapabilityState::Attached, format!("able to: {}", steps.join(", ")), None)
            }
        };
        Capability { name: "actuator".into(), state, detail, remedy }
    }
}
