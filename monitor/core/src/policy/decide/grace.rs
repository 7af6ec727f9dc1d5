//! How long a victim is given to end by itself.
//! Source: kubelet `pkg/kubelet/eviction/eviction_manager.go`, `synchronize`, and
//! `pkg/kubelet/pod_workers.go`, `calculateEffectiveGracePeriod`.

use crate::model::decision::{Target, Trigger};
use crate::model::sample::Sample;
use crate::model::settings::Eviction;
use crate::model::units::Nanos;

/// A hard threshold's grace, and the shortest that any pod gets.
const LEAST: i64 = 1;

/// The grace: a second where there is no time, else the smaller of what is configured and what the
/// pod asks for, and never less than a second. A group is given what the most patient of its pods
/// asks for: they end together.
pub(super) fn of(
    trigger: &Trigger,
    eviction: &Eviction,
    target: &Target,
    sample: &Sample,
) -> Nanos {
    let is_hard = match trigger {
        Trigger::Eviction(threshold) => threshold.is_hard(),
        Trigger::Pressure(threshold) => threshold.grace.0 == 0,
    };
    let most = i64::from(eviction.max_pod_grace);
    let asked = |uid: &String| {
        let own = sample.pods.as_ref().and_then(|pods| pods.get(uid)?.termination_grace);
        own.map_or(most, |own| own.min(most))
    };
    let longest = target.uids().map(asked).max().unwrap_or(most);
    let seconds = if is_hard { LEAST } else { longest.max(LEAST) };
    let seconds = u64::try_from(seconds).expect("at least a second");
    Nanos(seconds.saturating_mul(Nanos::SECOND.0))
}
