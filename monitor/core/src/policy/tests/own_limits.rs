//! A pod grows and will meet a limit of its own before the node has no memory left.

use std::sync::Arc;

use crate::model::cgroup::{Cgroup, CgroupId, CgroupPath, Limit, MemoryFiles, MemoryStat};
use crate::model::condition::ScopeName;
use crate::model::node::Meminfo;
use crate::model::sample::{Moment, Sample};
use crate::model::settings::Settings;
use crate::model::threshold::{PressureSignal, PressureThreshold};
use crate::model::units::{Bytes, Nanos};
use crate::policy::engine::{Engine, Standing};

const MIB: u64 = 1 << 20;

/// What each cgroup has in `memory.max`, and the container in `memory.high` too.
#[derive(Debug, Clone, Copy)]
struct Limits {
    pod: Limit,
    container: Limit,
    high: Limit,
}

/// A pod that takes 20 MiB a second until it holds 600, on a node of 1,100 MiB, all of which pods may use.
fn sample(tick: u64, limits: Limits) -> Sample {
    let held = (100 + 20 * tick).min(600);
    let container = format!("/kubepods/podu1/{}", "0".repeat(64));
    let cgroup = |(path, max, high, parent): (&str, Limit, Limit, Option<u64>)| {
        let held = Bytes(held * MIB);
        let stat = MemoryStat { anon: held, ..MemoryStat::default() };
        let memory = MemoryFiles {
            current: Some(held),
            max: Some(max),
            high: Some(high),
            stat: Some(stat),
            ..MemoryFiles::default()
        };
        let (path, parent) = (CgroupPath(path.into()), parent.map(CgroupId));
        Arc::new(Cgroup { path, parent, memory, pids_current: Some(1), ..Cgroup::default() })
    };
    let groups = [
        ("/kubepods", Limit::At(1_000 * MIB), Limit::Max, None),
        ("/kubepods/podu1", limits.pod, Limit::Max, Some(1)),
        (&container, limits.container, limits.high, Some(2)),
    ];
    let at = Nanos(tick * Nanos::SECOND.0);
    let mut sample = Sample { tick, at: Moment { boot: at, wall: at }, ..Sample::default() };
    sample.cgroups = (1..).map(CgroupId).zip(groups.map(cgroup)).collect();
    let left = Bytes((1_000 - held) * MIB);
    let total = Bytes(1_100 * MIB);
    sample.node.memory = Some(Meminfo { total, free: left, available: left, ..Meminfo::default() });
    sample
}

#[test]
fn exhaustion_is_not_foretold_of_growth_that_ends_at_an_own_limit() {
    const NO: Limit = Limit::Max;
    let at = |mib: u64| Limit::At(mib * MIB);
    #[rustfmt::skip]
    let table = [
        // memory.max of the pod and of the container, its memory.high; exhaustion is foretold
        (NO,        NO,        NO,      true),
        (at(600),   NO,        NO,      false),
        (NO,        at(600),   NO,      false),
        (NO,        NO,        at(600), false),
        (NO,        at(2_000), at(600), false), // as MemoryQoS sets it
        (at(2_000), at(2_000), NO,      true),  // more than the node has
    ];
    for (pod, container, high, want) in table {
        let limits = Limits { pod, container, high };
        for scope in [ScopeName::System, ScopeName::Kubepods] {
            let (on, grace) = (PressureSignal::Exhaustion(Nanos(60 * Nanos::SECOND.0)), Nanos(0));
            let mut settings = Settings::default();
            settings.eviction.thresholds.clear();
            settings.eviction.pressure = vec![PressureThreshold { scope, on, grace }];
            let mut engine = Engine::new(settings, Standing::new(1));
            let met: Vec<u64> = (1..=40)
                .filter(|tick| {
                    let assessment = engine.step(sample(*tick, limits)).decision.assessment;
                    let outlook = assessment.outlooks.iter().find(|one| one.scope == scope);
                    let lasts = outlook.and_then(|outlook| outlook.lasts);
                    assert!(want || lasts.is_none(), "{limits:?} {scope:?} {tick}: {lasts:?}");
                    !assessment.met.is_empty()
                })
                .collect();
            assert_eq!(!met.is_empty(), want, "{limits:?} {scope:?}: {met:?}");
        }
    }
}
