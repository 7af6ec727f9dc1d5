//! What changed about a condition, in words with the numbers.

use crate::model::condition::{Condition, Measure, Phase, Resource, Status};
use crate::model::decision::Event;

/// What became of a condition that was `before`; `phase` is what the last measurement made of it.
/// Whenever the status changes there is an event, and when nothing changes there is none.
pub(super) fn of(before: (Status, Phase), phase: Phase, now: &Condition) -> Vec<Event> {
    let (status_before, phase_before) = before;
    let mut all = Vec::new();
    match (status_before, now.status) {
        (Status::True, Status::False) => all.push(cleared(now)),
        (Status::False, Status::True) | (Status::Unknown, Status::True) => all.push(contended(now)),
        (Status::Unknown, Status::False) => all.push(known(now)),
        (_, Status::Unknown) if status_before != Status::Unknown => all.push(unknown(now)),
        _ => {}
    }
    match (phase_before, phase) {
        (Phase::High, Phase::High) | (Phase::Easing, Phase::Easing) => {}
        (_, Phase::High) | (Phase::Easing, Phase::Contended) => all.push(high(now)),
        (_, Phase::Easing) => all.push(easing(now)),
        _ => {}
    }
    all
}

/// The event for a condition whose rule was removed.
pub(super) fn dropped(kind: &str, before: Status) -> Option<Event> {
    let message = format!("{kind} is judged no longer: the configuration has no rule for it");
    let event = Event { reason: "PressureUnknown".into(), message, is_warning: false };
    (before != Status::Unknown).then_some(event)
}

fn event(reason: &str, is_warning: bool, now: &Condition, what: &str) -> Event {
    let message = format!("{} {what}: {}", now.kind, numbers(now));
    Event { reason: reason.into(), message, is_warning }
}

fn high(now: &Condition) -> Event {
    event("PressureHigh", true, now, "has high pressure")
}

fn contended(now: &Condition) -> Event {
    event("PressureContended", true, now, "holds")
}

fn easing(now: &Condition) -> Event {
    event("PressureTrendingLower", false, now, "is trending lower")
}

fn cleared(now: &Condition) -> Event {
    event("PressureCleared", false, now, "is cleared")
}

fn known(now: &Condition) -> Event {
    event("PressureKnown", false, now, "can be judged")
}

fn unknown(now: &Condition) -> Event {
    event("PressureUnknown", true, now, "cannot be judged any more")
}

/// The numbers of this tick, or why there are none.
fn numbers(now: &Condition) -> String {
    if let Some(why) = &now.why {
        return why.clone();
    }
    let (Some(avg10), Some(avg60)) = (now.avg10, now.avg60) else { return "not measured".into() };
    let figure = figure(now.name.resource, now.measure);
    let threshold = now.threshold;
    format!(
        "{figure} was {avg60} % over a minute and {avg10} % over ten seconds, the threshold is \
         {threshold} %"
    )
}

fn figure(resource: Resource, measure: Measure) -> &'static str {
    match (resource, measure) {
        (_, Measure::Contention) => "contention",
        (_, Measure::Shortage) => "shortage",
        (Resource::Cpu, Measure::RawSome) => "PSI cpu some",
        (Resource::Cpu, Measure::RawFull) => "PSI cpu full",
        (Resource::Memory, Measure::RawSome) => "PSI memory some",
        (Resource::Memory, Measure::RawFull) => "PSI memory full",
        (Resource::Disk, Measure::RawSome) => "PSI io some",
        (Resource::Disk, Measure::RawFull) => "PSI io full",
    }
}
