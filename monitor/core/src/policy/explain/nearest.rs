//! Why no threshold is met: which one is nearest, and which waiting no threshold watches.
//! In: the configuration, a snapshot and what was judged of it. For people; no rule depends on it.

use super::{line, measured};
use crate::model::decision::{Assessment, Trigger};
use crate::model::settings::Settings;
use crate::model::snapshot::Snapshot;
use crate::model::threshold::{PressureSignal, Resource};
use crate::model::units::Percent;
use crate::policy::assess::pressure;

/// Less waiting than that needs no explanation.
const WAITS: Percent = Percent(5_00);

/// Nothing where a threshold is met.
pub(super) fn unmet(
    settings: &Settings,
    snapshot: &Snapshot,
    assessment: &Assessment,
) -> Vec<String> {
    if !assessment.met.is_empty() {
        return Vec::new();
    }
    let nearest = nearest(settings, snapshot, assessment).map(|(trigger, value)| {
        let (name, is, line) = (trigger.name(), measured(&trigger, value), line(&trigger));
        format!("nearest to its threshold is {name}: {is}, the threshold is {line}")
    });
    nearest.into_iter().chain(unwatched(settings, snapshot)).collect()
}

/// The threshold that is met first if all figures change by the same factor.
fn nearest(
    settings: &Settings,
    snapshot: &Snapshot,
    assessment: &Assessment,
) -> Option<(Trigger, u64)> {
    let eviction = settings.eviction.thresholds.iter().filter_map(|threshold| {
        let mut seen = assessment.observations.iter();
        let seen = seen.find(|seen| seen.signal == threshold.signal)?;
        let share = share(threshold.value.of(seen.capacity), seen.available);
        Some((share, Trigger::Eviction(*threshold), seen.available))
    });
    let pressure = settings.eviction.pressure.iter().filter_map(|threshold| {
        let value = pressure::measured_now(threshold, snapshot, &assessment.outlooks)?;
        let share = match threshold.on {
            PressureSignal::Cpu(at) | PressureSignal::Memory(at) | PressureSignal::Disk(at) => {
                share(value, at.0.into())
            }
            PressureSignal::Exhaustion(within) => share(within.0, value),
            PressureSignal::Refaults(at) => share(value, at),
        };
        Some((share, Trigger::Pressure(*threshold), value))
    });
    let all = eviction.chain(pressure).filter(|(share, ..)| *share > 0);
    all.max_by_key(|(share, ..)| *share).map(|(_, trigger, value)| (trigger, value))
}

/// How much `part` is of `of`, in millionths: figures of all units compare by it.
fn share(part: u64, of: u64) -> u128 {
    u128::from(part) * 1_000_000 / u128::from(of.max(1))
}

/// CPU contention that no threshold of the configuration watches.
fn unwatched(settings: &Settings, snapshot: &Snapshot) -> Option<String> {
    let is_watched =
        settings.eviction.pressure.iter().any(|one| one.on.resource() == Resource::Cpu);
    let contention = snapshot.whole.contention?.avg10;
    (contention >= WAITS && !is_watched).then(|| {
        let key = "evictionPressure has no threshold for it";
        format!("CPU contention is {contention} % (avg10), and {key}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::condition::ScopeName;
    use crate::model::decision::Observation;
    use crate::model::snapshot::Union;
    use crate::model::threshold::{Amount, PressureThreshold, Signal, Threshold};
    use crate::model::units::Nanos;

    fn cpu(at: u16) -> PressureThreshold {
        let on = PressureSignal::Cpu(Percent(at));
        PressureThreshold { scope: ScopeName::System, on, grace: Nanos(0) }
    }

    #[test]
    fn unmet_names_the_nearest_threshold_and_what_none_watches() {
        let watched = "evictionPressure has no threshold";
        #[rustfmt::skip]
        let table = [
            // MiB left of 1,000, of the threshold of 100; contention, its threshold; told
            (Some(400), 3_00,  None,        vec!["memory.available: 400Mi"]),
            (Some(400), 99_00, None,        vec!["memory.available: 400Mi", watched]),
            (Some(400), 30_00, Some(60_00), vec!["system.cpu.pressure: 30.00 %"]),
            (Some(150), 30_00, Some(60_00), vec!["memory.available: 150Mi"]),
            (None,      30_00, Some(60_00), vec!["system.cpu.pressure: 30.00 %"]),
            (None,      0,     Some(60_00), vec![]),
            (None,      30_00, None,        vec![watched]),
        ];
        for (left, contention, threshold, want) in table {
            let mut settings = Settings::default();
            let value = Amount::Quantity("100Mi".parse().unwrap());
            let signal = Signal::MemoryAvailable;
            settings.eviction.thresholds =
                vec![Threshold { signal, value, grace: Nanos(0), min_reclaim: None }];
            settings.eviction.pressure = threshold.map(cpu).into_iter().collect();
            let mut snapshot = Snapshot::default();
            let union = Union { avg10: Percent(contention), ..Union::default() };
            snapshot.whole.contention = Some(union);
            let seen = |mib: u64| Observation {
                signal,
                available: mib << 20,
                capacity: 1_000 << 20,
                at: Nanos(0),
            };
            let observations = left.map(seen).into_iter().collect();
            let assessment = Assessment { observations, ..Assessment::default() };
            let told = unmet(&settings, &snapshot, &assessment);
            let fits = told.len() == want.len()
                && told.iter().zip(&want).all(|(told, want)| told.contains(want));
            assert!(fits, "{left:?} {contention} {threshold:?}: {told:?}");
        }
    }
}
