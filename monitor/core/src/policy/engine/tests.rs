//! Whole ticks, from samples that say less than those before them.

use super::*;
use crate::model::cgroup::{Cgroup, CgroupId, CgroupPath};
use crate::model::condition::ScopeName;
use crate::model::decision::{Hold, StepKind};
use crate::model::psi::{Line, Pressure};
use crate::model::sample::Moment;
use crate::model::stall::{Coverage, KernelStalls};
use crate::model::threshold::{PressureSignal, PressureThreshold};
use crate::model::units::{Nanos, Percent};

/// A node whose disks stall, with one pod; `covered` is whether the kernel side says who waits, and
/// without `stalls` the pressure file was not read.
fn sample(second: u64, covered: bool, stalls: Option<Percent>) -> Sample {
    let nanos = Nanos(second * Nanos::SECOND.0);
    let at = Moment { boot: nanos, wall: nanos };
    let group = |path: &str| Cgroup { path: CgroupPath(path.into()), ..Cgroup::default() };
    let groups = ["/kubepods", "/kubepods/besteffort", "/kubepods/besteffort/poda"].map(group);
    let cgroups = (2..).map(CgroupId).zip(groups).collect();
    let covers = Coverage { waits: true, throttling: true, memory: true, memory_causes: true };
    let kernel = covered.then(|| KernelStalls { covers, ..KernelStalls::default() });
    let mut sample = Sample { tick: second, at, cgroups, kernel, ..Sample::default() };
    let full = stalls.map(|avg10| Line { avg10, ..Line::default() });
    sample.node.pressure.io = full.map(|full| Pressure { some: None, full: Some(full) });
    sample
}

/// Relieves the disks when they have stalled for two seconds.
fn engine() -> Engine {
    let (scope, on) = (ScopeName::System, PressureSignal::Disk(Percent(40_00)));
    let grace = Nanos(2 * Nanos::SECOND.0);
    let mut settings = Settings::default();
    settings.eviction.pressure = vec![PressureThreshold { scope, on, grace }];
    Engine::new(settings, Standing::new(2))
}

#[test]
fn a_harmless_pod_is_no_victim_while_nobody_measures_harm() {
    let mut engine = engine();
    #[rustfmt::skip]
    let table = [
        // seconds, the kernel side says who waits, held
        (1..=1,     true,  Hold::InGrace),
        (3..=4,     true,  Hold::BelowHarmBudget),
        (5..=5,     false, Hold::HarmUnknown), // one unread tick
        (6..=6,     true,  Hold::HarmUnknown), // compared with that
        (7..=8,     true,  Hold::BelowHarmBudget),
        (9..=700,   false, Hold::HarmUnknown), // left off to stay within a budget
        (701..=701, true,  Hold::HarmUnknown),
        (702..=703, true,  Hold::BelowHarmBudget),
    ];
    for (seconds, covered, want) in table {
        for second in seconds {
            let decision = engine.step(sample(second, covered, Some(Percent(90_00)))).decision;
            assert_eq!(decision.held, Some(want.clone()), "second {second}");
        }
    }
}

#[test]
fn a_pressure_file_that_was_not_read_is_no_effect() {
    let high = Some(Percent(90_00));
    #[rustfmt::skip]
    let table = [
        // what the file says after the squeeze, the squeeze is still waited for
        (high,               true),
        (None,               true),
        (Some(Percent(100)), false),
    ];
    for (stalls, is_waited_for) in table {
        let mut engine = engine();
        let mut steps = (1..=3).map(|second| engine.step(sample(second, false, high)).decision);
        let actions = steps.find_map(|decision| decision.actions.into_iter().next());
        let action = actions.map(|action| (action.target.uid, action.step));
        assert_eq!(action, Some(("a".into(), StepKind::Squeeze)), "nobody measures harm here");
        let held = engine.step(sample(4, false, stalls)).decision.held;
        assert_eq!(matches!(held, Some(Hold::Settling { .. })), is_waited_for, "{held:?}");
    }
}
