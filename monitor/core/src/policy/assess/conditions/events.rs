//! Events for changes of conditions, with the numbers.

use crate::model::condition::{Condition, Phase, Status};
use crate::model::decision::Event;
use crate::policy::explain::condition_numbers;

/// The events of one tick. `before` is the condition's status and phase at the last tick, `phase`
/// the result of the last measurement, `is_lost` whether it can be judged no longer. Every change of the
/// status has an event, but for [`Held::is_lost`](super::Held::is_lost).
pub(super) fn of(
    before: (Status, Phase),
    phase: Phase,
    is_lost: bool,
    now: &Condition,
) -> Vec<Event> {
    let (status_before, phase_before) = before;
    let of_status = match (status_before, now.status) {
        (Status::True, Status::False) => Some(("PressureCleared", "is cleared")),
        (Status::False | Status::Unknown, Status::True) => Some(("PressureContended", "holds")),
        (Status::Unknown, Status::False) => Some(("PressureKnown", "can be judged")),
        (_, Status::Unknown) if is_lost => Some(("PressureUnknown", "cannot be judged any more")),
        _ => None,
    };
    let of_phase = match (phase_before, phase) {
        (Phase::High, Phase::High) | (Phase::Easing, Phase::Easing) => None,
        (_, Phase::High) | (Phase::Easing, Phase::Contended) => {
            Some(("PressureHigh", "has high pressure"))
        }
        (_, Phase::Easing) => Some(("PressureTrendingLower", "is trending lower")),
        _ => None,
    };
    let event = |(reason, what): (&str, &str)| Event {
        reason: reason.into(),
        message: format!("{} {what}: {}", now.kind, condition_numbers(now)),
        is_warning: matches!(reason, "PressureHigh" | "PressureContended" | "PressureUnknown"),
    };
    of_status.into_iter().chain(of_phase).map(event).collect()
}

/// The event for a condition whose rule was removed.
pub(super) fn dropped(kind: &str, before: Status) -> Option<Event> {
    let message = format!("{kind} is judged no longer: the configuration has no rule for it");
    let event = Event { reason: "PressureUnknown".into(), message, is_warning: false };
    (before != Status::Unknown).then_some(event)
}
