//! Who may be next, so that they are made ready for before anything is to be done: on a node
//! without memory, what was opened before need not be looked up.
//! In: what the judge made of a tick. Out: the head of the ranking that there is, or of the one
//! that there would be.

use isobar_core::model::decision::Target;
use isobar_core::model::sample::Sample;
use isobar_core::model::threshold::Signal;
use isobar_core::model::units::Nanos;
use isobar_core::policy::assess::{growth, scope};
use isobar_core::policy::decide::target_of;
use isobar_core::policy::engine::{Engine, Step};
use isobar_core::policy::rank::{Field, Need, Purpose, contenders};

/// So many of the ranking's head are made ready for: the victim after the next is another tick's.
const LIKELY: usize = 3;
/// Whose memory lasts so long or less may have to be relieved of somebody soon, as may a node or
/// all pods of whose memory little is left.
const SOON: Nanos = Nanos(60 * Nanos::SECOND.0);

/// Those at the head of the ranking, as an action would name them. The policy ranks once something
/// is due, in the tick that acts on it; here it is enough that a threshold is met, in its grace or
/// not, or that memory is low.
pub(super) fn likely(engine: &Engine, step: &Step) -> Vec<Target> {
    let (settings, standing) = (engine.settings(), engine.standing());
    let Some(sample) = &standing.before else { return Vec::new() };
    let target = |candidate| target_of(candidate, sample);
    if let Some(ranking) = &step.decision.ranking {
        return ranking.candidates.iter().take(LIKELY).map(target).collect();
    }
    let Some(purpose) = purpose(step, sample) else { return Vec::new() };
    let order = settings.ranking.order;
    let kind = (purpose, order);
    let all = contenders::of_node(sample, &step.snapshot, &standing.harm, kind, settings);
    let field = Field::new(&all, purpose, order, &settings.ranking);
    field.first(LIKELY, |_| true).iter().map(target).collect()
}

/// What will have to be relieved first, if anything: memory leaves the least time.
fn purpose(step: &Step, sample: &Sample) -> Option<Purpose> {
    let outlooks = &step.decision.outlooks;
    let mut met = step.decision.met.iter().map(|met| Purpose::of(&met.threshold));
    let first = met.next();
    let low = || {
        let lasts = outlooks.iter().filter_map(|outlook| outlook.lasts).min();
        let is_low = !growth::low(outlooks, sample, scope::kubepods(&step.snapshot)).is_empty();
        (is_low || lasts.is_some_and(|lasts| lasts <= SOON))
            .then(|| Purpose::of_signal(Signal::MemoryAvailable))
    };
    first.filter(|first| first.need() == Need::Memory).or_else(low).or(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use isobar_core::model::cgroup::{Cgroup, CgroupId, CgroupPath, MemoryFiles, MemoryStat};
    use isobar_core::model::node::Meminfo;
    use isobar_core::model::quantity::Quantity;
    use isobar_core::model::sample::Moment;
    use isobar_core::model::settings::Settings;
    use isobar_core::model::threshold::{Amount, Threshold};
    use isobar_core::model::units::Bytes;
    use isobar_core::policy::engine::Standing;

    const MIB: u64 = 1 << 20;

    /// Four pods, the first of which holds least, on a node with so many MiB left of 1000.
    fn sample(left: u64) -> Sample {
        let cgroup = |path: String, used: u64| {
            let used = Bytes(used * MIB);
            let stat = Some(MemoryStat { anon: used, ..MemoryStat::default() });
            let memory = MemoryFiles { current: Some(used), stat, ..MemoryFiles::default() };
            Cgroup { path: CgroupPath(path), memory, ..Cgroup::default() }
        };
        let pod = |n| (CgroupId(n), cgroup(format!("/kubepods/besteffort/pod{n}"), n * 100));
        let root = (CgroupId(9), cgroup("/".into(), 1000 - left));
        let mut sample = Sample {
            cgroups: (1..=4).map(pod).chain([root]).collect(),
            at: Moment { boot: Nanos::SECOND, wall: Nanos(0) },
            ..Sample::default()
        };
        let (total, available) = (Bytes(1000 * MIB), Bytes(left * MIB));
        sample.node.memory = Some(Meminfo { total, available, ..Meminfo::default() });
        sample
    }

    #[test]
    fn whoever_would_go_first_is_known_before_anything_is_due() {
        let below = |n: u64, grace| Threshold {
            signal: Signal::MemoryAvailable,
            value: Amount::Quantity(Quantity::bytes(n * MIB)),
            grace,
            min_reclaim: None,
        };
        let (now, later) = (Nanos(0), Nanos(30 * Nanos::SECOND.0));
        #[rustfmt::skip]
        let table = [
            // left, threshold, it is ranked for, somebody is likely
            (500, below(400, now),   false, false),
            (500, below(600, later), false, true), // met, in its grace
            (500, below(600, now),   true,  true),
            (101, below(50, now),    false, false),
            (100, below(50, now),    false, true), // low
        ];
        for (left, threshold, is_ranked, is_likely) in table {
            let mut settings = Settings::default();
            settings.eviction.thresholds = vec![threshold];
            settings.eviction.pressure.clear();
            let mut engine = Engine::new(settings, Standing::new(1));
            let step = engine.step(sample(left));
            assert_eq!(step.decision.ranking.is_some(), is_ranked, "{left} {threshold:?}");
            let ids: Vec<_> = likely(&engine, &step).iter().map(|one| one.cgroup).collect();
            let want = [4, 3, 2].map(|n| Some(CgroupId(n)));
            assert_eq!(ids, if is_likely { &want[..] } else { &[] }, "{left} {threshold:?}");
        }
    }
}
