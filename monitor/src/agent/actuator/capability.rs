//! What a capability says of the actuator.

use std::collections::BTreeSet;

use super::Handle;
use crate::act::AvailableSteps;
use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::decision::StepKind;

impl Handle {
    /// Whether there is an actuator, and which steps it can take.
    pub(in crate::agent) fn capability(&self) -> Capability {
        let AvailableSteps { known, allowed } = &self.known.available_steps;
        let (state, detail, remedy) = match (self.has_exited, allowed.is_empty()) {
            (true, _) => (
                CapabilityState::Absent,
                "the actuator thread exited".into(),
                Some("restart the agent, and report this to isobar".into()),
            ),
            (false, true) => (
                CapabilityState::Absent,
                "no step can be taken".into(),
                Some("run as root, in the node's own namespaces".into()),
            ),
            (false, false) => {
                let mut detail = format!("able to: {}", names(allowed));
                let told = known - allowed;
                if !told.is_empty() {
                    detail.push_str("; may not, and only tells when it would: ");
                    detail.push_str(&names(&told));
                }
                let remedy = self.known.trouble.as_ref().map(|trouble| {
                    detail.push_str("; ");
                    detail.push_str(trouble);
                    "name a directory that can be written, with --state-dir".into()
                });
                (CapabilityState::Attached, detail, remedy)
            }
        };
        Capability { name: "actuator".into(), state, detail, remedy }
    }
}

fn names(steps: &BTreeSet<StepKind>) -> String {
    let names: Vec<&str> = steps.iter().map(|step| step.name()).collect();
    names.join(", ")
}
