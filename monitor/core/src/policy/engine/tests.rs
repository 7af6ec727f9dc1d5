//! Whole ticks, from samples that say less than those before them.

use std::sync::Arc;

use super::*;
use crate::model::cgroup::{Cgroup, CgroupId, CgroupPath, IoStat};
use crate::model::cgroup::{MemoryFiles, MemoryStat};
use crate::model::condition::{Measure, ScopeName, Status};
use crate::model::decision::{
    Action, Hold, InForce, Phase, ReleaseReason, StepKind, Trigger, made,
};
use crate::model::node::Meminfo;
use crate::model::psi::{Line, Pressure};
use crate::model::quantity::Quantity;
use crate::model::sample::Moment;
use crate::model::settings::ConditionRule;
use crate::model::stall::{Coverage, CpuStall, KernelStalls, OomKill};
use crate::model::threshold::Signal;
use crate::model::threshold::{Amount, Threshold};
use crate::model::threshold::{PressureSignal, PressureThreshold};
use crate::model::units::{Bytes, Micros, Percent};
use crate::model::workload::Pod;

/// A node whose disks stall all the time, with one pod; `covered` is whether the kernel side says who waits, and
/// without `stalls` the pressure file was not read.
fn sample(second: u64, covered: bool, stalls: Option<Percent>) -> Sample {
    let nanos = Nanos(second * Nanos::SECOND.0);
    let at = Moment { boot: nanos, wall: nanos };
    let group = |path: &str| {
        let path = CgroupPath(path.into());
        Cgroup { path, pids_current: Some(1), io: Some(IoStat::default()), ..Cgroup::default() }
    };
    let groups = ["/kubepods", "/kubepods/besteffort", "/kubepods/besteffort/poda"].map(group);
    let cgroups = (2..).map(CgroupId).zip(groups.map(Arc::new)).collect();
    let covers = Coverage::ALL;
    let kernel = covered.then(|| KernelStalls { covers, ..KernelStalls::default() });
    let mut sample = Sample { tick: second, at, cgroups, kernel, ..Sample::default() };
    let total = Micros(second * 1_000_000);
    let full = stalls.map(|avg10| Line { avg10, total, ..Line::default() });
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
fn step_takes_back_what_new_settings_protect() {
    let mut engine = engine();
    let path = CgroupPath("/kubepods/besteffort/poda".into());
    let target = Target { cgroup: Some(CgroupId(4)), path: Some(path), ..Target::default() };
    let met = made::met(Trigger::Pressure(engine.settings().eviction.pressure[0]));
    let action = Action { target, ..made::action(StepKind::Squeeze, met) };
    let (since, phase) = (Nanos(0), Phase::Squeezed);
    let entry = InForce { action, since, held: None, phase, largest: None };
    let in_force = vec![entry];
    for (second, never, want) in [
        (1, "/system.slice/*", None),
        (2, "/kubepods/besteffort/poda", Some(ReleaseReason::Protected)),
    ] {
        let mut settings = engine.settings().clone();
        settings.relief.never_touch = vec![never.parse().unwrap()];
        engine = engine.with_settings(settings);
        let calm = sample(second, true, Some(Percent(0)));
        let step = engine.step(Sample { in_force: in_force.clone(), ..calm });
        let released = step.decision.relief.releases.first().map(|release| release.why);
        assert_eq!(released, want, "{never}");
    }
}

#[test]
fn step_spares_harmless_pods_while_harm_is_paused() {
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
            assert_eq!(decision.relief.held, Some(want.clone()), "second {second}");
        }
    }
}

#[test]
fn step_takes_an_unread_file_for_no_effect() {
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
        let actions = steps.find_map(|decision| decision.relief.actions.into_iter().next());
        let action = actions.map(|action| (action.target.uid, action.step));
        assert_eq!(action, Some(("a".into(), StepKind::Squeeze)), "nobody measures harm here");
        let held = engine.step(sample(4, false, stalls)).decision.relief.held;
        assert_eq!(matches!(held, Some(Hold::Settling { .. })), is_waited_for, "{held:?}");
    }
}

const MIB: u64 = 1 << 20;

/// Four pods, the first of which holds least, on a node with so many MiB left of 1000.
fn four_pods(left: u64) -> Sample {
    let cgroup = |path: String, used: u64| {
        let used = Bytes(used * MIB);
        let stat = Some(MemoryStat { anon: used, ..MemoryStat::default() });
        let memory = MemoryFiles { current: Some(used), stat, ..MemoryFiles::default() };
        Arc::new(Cgroup { path: CgroupPath(path.into()), memory, ..Cgroup::default() })
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
fn step_names_likely_victims_before_a_threshold_is_due() {
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
        let step = engine.step(four_pods(left));
        assert_eq!(step.decision.ranking.is_some(), is_ranked, "{left} {threshold:?}");
        let ids: Vec<_> = step.next_targets.iter().map(|one| one.cgroup).collect();
        let want = [4, 3, 2].map(|n| Some(CgroupId(n)));
        assert_eq!(ids, if is_likely { &want[..] } else { &[] }, "{left} {threshold:?}");
    }
}

#[test]
fn step_is_the_only_way_to_change_an_engine() {
    let source = include_str!("../engine.rs");
    let (_, engine) = source.split_once("impl Engine {").unwrap();
    let changes = engine.lines().filter(|line| line.contains("(&mut self")).collect::<Vec<_>>();
    assert_eq!(changes, ["    pub fn step(&mut self, sample: Sample) -> Step {"]);
}

#[test]
fn with_settings_forgets_what_was_only_observed_once_it_is_enforced() {
    let high = Some(Percent(90_00));
    let mut engine = engine();
    let actions =
        (1..=30).map(|second| engine.step(sample(second, false, high)).decision.relief.actions);
    let n = actions.flatten().count() as u64;
    assert!(n > 0);
    let mut settings = engine.settings().clone();
    settings.relief.enforce = StepKind::ALL.into();
    let mut engine = engine.with_settings(settings);
    let action = engine.step(sample(31, false, high)).decision.relief.actions.pop().unwrap();
    assert_eq!((action.step, action.is_enforced, action.id), (StepKind::Squeeze, true, n + 1));
}

#[test]
fn step_forgets_what_was_only_observed_once_a_step_that_is_enforced_can_be_taken() {
    use StepKind::{KillContainers, Squeeze, StopContainers};
    let high = Some(Percent(90_00));
    #[rustfmt::skip]
    let table = [
        // enforced, can be taken later, a squeeze is
        (vec![Squeeze],                 vec![Squeeze, StopContainers],        true),
        (vec![Squeeze],                 vec![StopContainers, KillContainers], false),
        (vec![],                        vec![Squeeze, StopContainers],        false),
    ];
    for (enforced, later, want) in table {
        let mut settings = engine().settings().clone();
        settings.relief.enforce = enforced.iter().copied().collect();
        let mut engine = Engine::new(settings, Standing::new(2));
        let mut step = |second, can: &[StepKind]| {
            let available_steps = Some(can.iter().copied().collect());
            engine.step(Sample { available_steps, ..sample(second, false, high) }).decision.relief
        };
        let all: Vec<_> = (1..=30).map(|second| step(second, &[StopContainers])).collect();
        let observed: Vec<_> = all.iter().flat_map(|relief| &relief.actions).collect();
        assert!(observed.iter().all(|action| action.step == StopContainers), "{observed:?}");
        assert!(matches!(all[29].held, Some(Hold::Observed { .. })), "{:?}", all[29]);
        let next = step(31, &later);
        let squeezes = next.actions.iter().any(|one| one.step == Squeeze && one.is_enforced);
        assert_eq!(squeezes, want, "{enforced:?} {later:?}: {next:?}");
    }
}

/// Two CPUs on which tasks have always waited, but for the first second of each hundred.
fn contended(second: u64) -> Sample {
    let mut sample = sample(second, true, None);
    let since = |n: u64| Nanos(n * Nanos::SECOND.0);
    let cpu = CpuStall {
        contention: since(second - second / 100),
        nonidle: since(second),
        switches: second,
    };
    let kernel = sample.kernel.as_mut().unwrap();
    (kernel.clock, kernel.cpus) = (since(second), vec![cpu; 2]);
    let line = Line { avg10: Percent(97_00), avg60: Percent(97_00), ..Line::default() };
    sample.node.pressure.cpu = Some(Pressure { some: Some(line), full: None });
    sample
}

#[test]
fn restart_goes_on_from_a_warm_start() {
    use Status::{True, Unknown};
    let settings = || {
        let mut settings = Settings::default();
        let rule = ConditionRule { measure: Measure::Contention, threshold: Percent(60_00) };
        settings.conditions.rules = [("SystemCPUContentionPressure".into(), rule)].into();
        settings
    };
    type Row<'a> = (u64, bool, &'a [(u64, Status)]);
    #[rustfmt::skip]
    let table: &[Row<'_>] = &[
        // seconds without an agent, warm start, (seconds after the restart, status)
        (5,  true,  &[(0, True), (2, True), (70, True)]),
        (25, true,  &[(0, True), (2, True), (3, True), (7, Unknown), (70, True)]), // until stale
        (5,  false, &[(0, Unknown), (2, Unknown), (70, True)]),
        (90, true,  &[(0, Unknown), (2, Unknown), (70, True)]),
    ];
    for &(pause, is_warm, want) in table {
        let mut engine = Engine::new(settings(), Standing::new(2));
        let last = (1..=90).map(|second| engine.step(contended(second))).last().unwrap();
        assert_eq!(last.decision.assessment.conditions[0].status, True);

        let warm = serde_json::to_string(&engine.standing().warm_start(last.kubepods)).unwrap();
        let warm =
            if is_warm { serde_json::from_str(&warm).unwrap() } else { WarmStart::default() };
        let mut next = Engine::new(settings(), Standing::after(warm, 2));
        for after in 0..=70 {
            let step = next.step(contended(90 + pause + after));
            let condition = &step.decision.assessment.conditions[0];
            assert_ne!(condition.status, Status::False, "{pause} {is_warm} {after}");
            if let Some((_, want)) = want.iter().find(|(second, _)| *second == after) {
                let why = &condition.why;
                assert_eq!(condition.status, *want, "{pause} s, {is_warm}, {after} s: {why:?}");
            }
        }
    }
}

#[test]
fn step_tells_what_was_ended_within_the_budgets_window() {
    let mut engine = engine();
    let window = engine.settings().relief.budget_window.0 / Nanos::SECOND.0;
    let met = made::met(Trigger::Pressure(engine.settings().eviction.pressure[0]));
    let ended = Phase::Ended { at: Nanos(0) };
    #[rustfmt::skip]
    let table = [
        // step, enforced, phase, seconds since it was taken; is it told
        (StepKind::KillContainers, true,  ended,           0,          true),
        (StepKind::Evict,          true,  ended,           window - 1, true),
        (StepKind::Evict,          true,  ended,           window,     false),
        (StepKind::StopContainers, true,  Phase::Ending,   5,          true),
        (StepKind::StopContainers, false, Phase::Ending,   5,          false),
        (StepKind::Squeeze,        true,  Phase::Squeezed, 5,          false),
    ];
    let now = 2 * window;
    let entry = |(id, row): (u64, &(StepKind, bool, Phase, u64, bool))| {
        let (step, is_enforced, phase, ago, _) = *row;
        let action = Action { id, is_enforced, ..made::action(step, met) };
        let since = Nanos((now - ago) * Nanos::SECOND.0);
        InForce { action, since, held: None, phase, largest: None }
    };
    let in_force = (0..).zip(&table).map(entry).collect();
    let calm = sample(now, true, Some(Percent(0)));
    let step = engine.step(Sample { in_force, ..calm });
    let got: Vec<_> = step.ended.iter().map(|entry| entry.action.id).collect();
    let want = (0..).zip(&table).filter(|(_, row)| row.4).map(|(id, _)| id);
    assert_eq!(got, want.collect::<Vec<_>>());
}

/// The cgroup is often gone before the tick that tells of the kill, which may be the first to name its pod.
/// Yet one tick later no name is known.
#[test]
fn step_names_who_was_killed_by_the_tick_before() {
    let pod =
        Pod { uid: "a".into(), namespace: "shop".into(), name: "web".into(), ..Pod::default() };
    let pods = Some(Arc::new([(pod.uid.clone(), pod)].into()));
    #[rustfmt::skip]
    let table = [
        // ticks between, the tick that names the pod, is it named
        (0, 1, true),
        (0, 2, true),
        (1, 1, false),
    ];
    for (ticks_between, named_at, is_named) in table {
        let mut engine = engine();
        let told = |second| pods.clone().filter(|_| second == named_at);
        let there = Sample { pods: told(1), ..sample(1, true, None) };
        let (victim, path) = (CgroupId(4), there.cgroups[&CgroupId(4)].path.clone());
        engine.step(there);
        let last = 2 + ticks_between;
        for second in 2..=last {
            let mut gone = Sample { pods: told(second), ..sample(second, true, None) };
            gone.cgroups.remove(&victim);
            let kernel = gone.kernel.as_mut().unwrap();
            if second == last {
                kernel.oom_kills.push(OomKill { victim, ..OomKill::default() });
            }
            let told = engine.step(gone).oom_kills;
            let names = told.iter().map(|one| (one.victim.as_deref(), one.victim_path.as_ref()));
            let want = (is_named.then_some("shop/web"), is_named.then_some(&path));
            assert!(names.eq((second == last).then_some(want)), "{ticks_between}: {told:?}");
        }
    }
}
