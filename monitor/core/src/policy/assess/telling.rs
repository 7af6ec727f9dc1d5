//! The events of relief: what is attempted, and by which figure.

use std::collections::BTreeMap;

use crate::model::decision::{Event, Met, Trigger};
use crate::model::duration::GoDuration;
use crate::model::threshold::{PressureSignal, PressureThreshold};
use crate::model::units::{Nanos, Percent};

/// So long a threshold that is no longer what is to be relieved is not told of anew.
const TOLD_FOR: Nanos = Nanos(10 * Nanos::SECOND.0);

/// The kubelet tells this in each of its passes, ten seconds apart. We judge every second, and tell
/// it when it begins and when it turns to something else, but not of two that take turns.
pub(super) fn relief_begins(
    first: Option<&Met>,
    now: Nanos,
    relieved: &mut BTreeMap<String, Nanos>,
) -> Option<Event> {
    relieved.retain(|_, at| now.since(*at) <= TOLD_FOR);
    let met = first?;
    relieved.insert(met.threshold.name(), now).is_none().then(|| relief_of(met))
}

/// That relief of this threshold is attempted.
pub(crate) fn relief_of(met: &Met) -> Event {
    let (reason, message) = match met.threshold {
        Trigger::Eviction(threshold) => {
            let resource = threshold.signal.resource();
            ("EvictionThresholdMet", format!("Attempting to reclaim {resource}"))
        }
        Trigger::Pressure(threshold) => {
            ("PressureThresholdMet", format!("Attempting to relieve {}", figure(threshold, met)))
        }
    };
    Event { reason: reason.into(), message, is_warning: true }
}

/// What was measured, beside what it was measured against.
fn figure(threshold: PressureThreshold, met: &Met) -> String {
    let (name, grace) = (threshold.name(), GoDuration::from(threshold.grace));
    let percent = |at: Percent| {
        let measured = Percent(u16::try_from(met.measured).unwrap_or(u16::MAX));
        format!("{measured} %, the threshold is {at} %")
    };
    let numbers = match threshold.on {
        PressureSignal::Cpu(at) | PressureSignal::Memory(at) | PressureSignal::Disk(at) => {
            percent(at)
        }
        PressureSignal::Exhaustion(within) => format!(
            "{}, the threshold is {}",
            GoDuration::from(Nanos(met.measured)),
            GoDuration::from(within)
        ),
        PressureSignal::Refaults(at) => {
            format!("{} pages a second, the threshold is {at}", met.measured)
        }
    };
    format!("{name}: {numbers} for {grace}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::condition::ScopeName;
    use crate::model::decision::made;
    use crate::model::quantity::Quantity;
    use crate::model::threshold::{Amount, Signal, Threshold};

    #[test]
    fn relief_is_told_once_of_two_that_take_turns() {
        let on = PressureSignal::Exhaustion(TOLD_FOR);
        let forecast = PressureThreshold { scope: ScopeName::System, on, grace: Nanos(0) };
        let one = made::met(Trigger::Pressure(forecast));
        let value = Amount::Quantity(Quantity::bytes(100));
        let signal = Signal::MemoryAvailable;
        let eviction = Threshold { signal, value, grace: Nanos(0), min_reclaim: None };
        let other = made::met(Trigger::Eviction(eviction));
        let mut relieved = BTreeMap::new();
        let table = [
            // second, what is to be relieved, whether that is told
            (1, Some(&one), true),
            (2, Some(&other), true),
            (3, Some(&one), false),
            (4, None, false),
            (5, Some(&other), false),
            (13, Some(&one), false),
            (24, Some(&one), true),
        ];
        for (second, first, want) in table {
            let told = relief_begins(first, Nanos(second * Nanos::SECOND.0), &mut relieved);
            assert_eq!(told.is_some(), want, "second {second}");
        }
    }
}
