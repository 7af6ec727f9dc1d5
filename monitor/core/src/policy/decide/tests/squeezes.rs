//! Squeezes and their release, steps that are not available, and effects.

use std::sync::Arc;

use super::*;
use crate::model::decision::ReleaseReason;

/// Released how, of which action, in short.
fn released(verdict: &Relief) -> Vec<(u64, ReleaseReason)> {
    verdict.releases.iter().map(|release| (release.action, release.why)).collect()
}

#[test]
fn decide_skips_steps_that_are_not_available() {
    let soft = [met(threshold(Signal::MemoryAvailable, seconds(30)))];
    let all = StepKind::ALL.map(|step| step);
    #[rustfmt::skip]
    let table: [(&[StepKind], Option<StepKind>, Option<StepKind>); 5] = [
        // means, first step, what follows from it
        (&all,                              Some(Squeeze),        Some(Evict)),
        (&[Squeeze, StopContainers],        Some(Squeeze),        Some(StopContainers)),
        (&[Reclaim, KillContainers],        Some(KillContainers), None),
        (&[Squeeze],                        Some(Squeeze),        None),
        (&[],                               None,                 None),
    ];
    for (means, want, then) in table {
        let mut node = Node::new();
        node.sample.available_steps = Some(means.iter().copied().collect());
        let verdict = node.at(1, &soft);
        assert_eq!(short(&verdict), want.map(|step| ("a", step)), "{means:?}");
        let escalates_to =
            verdict.actions.into_iter().next().and_then(|action| action.escalates_to);
        assert_eq!(escalates_to, then, "{means:?}");
        if want.is_none() {
            assert_eq!(verdict.held, Some(Hold::NothingHelps), "{means:?}");
        }
    }
}

#[test]
fn decide_tries_each_step_once_on_each_candidate() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    let mut node = Node::new();
    let (mut n_actions, mut warnings) = (0, Vec::new());
    for second in 1..=60 {
        let verdict = node.at(second, &hard);
        if let Some(action) = &verdict.actions.into_iter().next() {
            n_actions += 1;
            node.hear(action.id, OutcomeResult::Failed);
        }
        warnings.extend(verdict.events.into_iter().map(|event| event.reason));
    }
    // Evict, stop, kill, take back memory: each once on each of three.
    assert_eq!(n_actions, 12);
    let want = ["ReliefFailed", "ReliefFailed", "ReliefFailed", "ReliefHeldBack"];
    assert_eq!(warnings, want);
}

#[test]
fn releases_end_a_squeeze_that_served_or_did_not_help() {
    let cpu = [met(pressure(PressureSignal::Cpu(Percent(60_00))))];
    type Row<'a> = (u64, u64, bool, &'a [(u64, ReleaseReason)]);
    #[rustfmt::skip]
    let table: [Row<'_>; 6] = [
        // met until second, looked at, pod ends, released
        (3,   12,  false, &[]),                              // calm since the fourth second
        (3,   14,  false, &[(1, ReleaseReason::Over)]),
        (4,   14,  false, &[]),
        (10,  6,   false, &[(1, ReleaseReason::NoEffect)]),  // its deadline is five seconds
        (10,  5,   false, &[]),
        (3,   14,  true,  &[]),                              // nobody is held back any longer
    ];
    for (met_until, looked_at, ends, want) in table {
        let mut node = Node::new();
        node.sample.cgroups.retain(|id, _| *id == CgroupId(10));
        let mut got = Vec::new();
        for second in 1..=looked_at {
            if ends && second == 5 {
                node.end("a");
            }
            let verdict = node.at(second, if second <= met_until { &cpu } else { &[] });
            assert!(verdict.releases.iter().all(|release| release.is_enforced));
            got.extend(released(&verdict));
        }
        assert_eq!(got, want, "met until {met_until}, at {looked_at}");
    }
}

#[test]
fn releases_end_a_squeeze_after_ten_minutes() {
    let cpu = met(pressure(PressureSignal::Cpu(Percent(60_00))));
    let pids = met(threshold(Signal::PidAvailable, Nanos(0)));
    let mut node = Node::new();
    // Another shortage comes first as soon as the squeeze is taken, and so it is never given up.
    node.at(1, &[cpu]);
    node.at(2, &[pids]);
    let later: Vec<_> = (3..=700)
        .flat_map(|second| {
            let verdict = node.at(second, &[pids, Met { is_due: false, ..cpu }]);
            released(&verdict).into_iter().map(move |release| (second, release))
        })
        .collect();
    assert_eq!(later, [(601, (1, ReleaseReason::Expired))]);
}

#[test]
fn releases_and_steps_heed_what_is_protected_now() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    let cpu = [met(pressure(PressureSignal::Cpu(Percent(60_00))))];
    #[rustfmt::skip]
    let table: [(&[Met], _, _, &[_]); 2] = [
        // what is met, the first step on two candidates, that on the other one then, released
        (&hard, Evict,   None,                 &[]), // the end of the first is under way
        (&cpu,  Squeeze, Some(("b", Squeeze)), &[(1, ReleaseReason::Protected)]),
    ];
    for (met, step, then, want) in table {
        let mut node = Node::new();
        assert_eq!(short(&node.at(1, met)), Some(("a", step)));
        node.protected = [CgroupId(10)].into();
        node.ranking.candidates.remove(0);
        let verdict = node.at(2, met);
        assert_eq!(short(&verdict), then, "{step:?}");
        assert_eq!(released(&verdict), want, "{step:?}");
        if then.is_none() {
            let next = (3..200)
                .find_map(|second| short(&node.at(second, met)).map(|one| one == ("b", step)));
            assert_eq!(next, Some(true), "no further step on the first");
        }
    }
}

#[test]
fn releases_of_an_observed_squeeze_are_observed() {
    let cpu = [met(pressure(PressureSignal::Cpu(Percent(60_00))))];
    let mut node = Node::new();
    node.relief.enforce.clear();
    let releases: Vec<_> = (1..=20).flat_map(|second| node.at(second, &cpu).releases).collect();
    let [release] = &releases[..] else { panic!("{releases:?}") };
    assert_eq!((release.action, release.is_enforced), (1, false));
}

#[test]
fn is_squeezed_is_kept_by_resource() {
    let memory = met(pressure(PressureSignal::Memory(Percent(60_00))));
    let soft = met(threshold(Signal::MemoryAvailable, seconds(30)));
    let cpu = met(pressure(PressureSignal::Cpu(Percent(60_00))));
    #[rustfmt::skip]
    let table = [
        // squeezed for, then short of, next step on the same pod
        (memory, soft, Some(("a", Evict))),
        (memory, cpu,  Some(("a", Squeeze))), // another file
    ];
    for (first, second, want) in table {
        let mut node = Node::new();
        assert_eq!(short(&node.at(1, &[first])), Some(("a", Squeeze)));
        // What it was for is over at once; the cool-down with it, before the squeeze is.
        let later = (2..=13).find_map(|at| {
            let is_due = at == 3;
            let met = [second, Met { is_due, ..first }];
            let met = if at == 2 { &met[..1] } else { &met };
            short(&node.at(at, met)).map(|s| (s.0.to_owned(), s.1))
        });
        let want = want.map(|(name, step)| (name.to_owned(), step));
        assert_eq!(later, want, "{first:?} {second:?}");
    }
}

#[test]
fn effects_are_seen_after_one_five_and_thirty_seconds() {
    effects_of(50, Some(Bytes(400 * MIB)));
    // Of more in shared memory, files on a tmpfs may be there still.
    effects_of(51, None);
}

/// Of a target of 400 MiB; `shared` in MiB.
fn effects_of(shared: u64, freed: Option<Bytes>) {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    let mut node = Node::new();
    node.at(1, &hard);
    let mut seen = Vec::new();
    for second in [2, 3, 8, 9, 40] {
        if second == 3 {
            let group = Arc::make_mut(node.sample.cgroups.get_mut(&CgroupId(10)).unwrap());
            group.memory.current = Some(Bytes(100 * MIB));
            group.memory.stat =
                Some(MemoryStat { shmem: Bytes(shared * MIB), ..MemoryStat::default() });
            group.pids_current = Some(3);
        }
        if second == 40 {
            node.end("a");
        }
        let met = if second < 40 { &hard[..] } else { &[] };
        let effects = node.at(second, met).effects;
        let its = effects.into_iter().filter(|effect| effect.action == 1);
        seen.extend(its.map(|e| (e.after, e.freed, e.left, e.measured)));
    }
    #[rustfmt::skip]
    let want = [
        // after, freed, left, measured
        (seconds(1),  Some(Bytes(0)),         None,    Some(50 * MIB)),
        (seconds(7),  Some(Bytes(300 * MIB)), Some(3), Some(50 * MIB)), // the first tick after five seconds
        (seconds(39), freed,                  Some(0), None),
    ];
    assert_eq!(seen, want);
}

#[test]
fn effects_of_observed_actions_are_none() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    let mut node = Node::new();
    node.relief.enforce.clear();
    assert!((1..=40).all(|second| node.at(second, &hard).effects.is_empty()));
}

#[test]
fn decide_emergency_without_a_candidate_keeps_the_step() {
    let cpu = met(pressure(PressureSignal::Cpu(Percent(60_00))));
    let hard = met(threshold(Signal::MemoryAvailable, Nanos(0)));
    let gone = pressure(PressureSignal::Exhaustion(seconds(10)));
    let gone = Met { measured: seconds(1).0, ..met(gone) };
    let mut node = Node::new();
    node.relief.budget = 1;
    assert_eq!(short(&node.at(1, &[hard])), Some(("a", Evict)));
    node.end("a");
    node.at(2, &[]);
    assert_eq!(short(&node.at(20, &[cpu])), Some(("b", Squeeze)));
    let (mut releases, mut warnings) = (Vec::new(), Vec::new());
    for second in 21..=30 {
        let verdict = node.at(second, &[gone, cpu]);
        assert!(matches!(verdict.held, Some(Hold::BudgetSpent { .. })), "{verdict:?}");
        releases.extend(released(&verdict).into_iter().map(|release| (second, release)));
        warnings.extend(verdict.events.into_iter().map(|event| (second, event.reason)));
    }
    assert_eq!(releases, [(25, (2, ReleaseReason::NoEffect))]);
    let want = [(21, "ReliefHeldBack".to_owned()), (25, "ReliefFailed".to_owned())];
    assert_eq!(warnings, want);
}

#[test]
fn reclaim_that_served_is_tried_again() {
    let soft = [met(threshold(Signal::MemoryAvailable, seconds(30)))];
    let mut node = Node::new();
    for group in node.sample.cgroups.values_mut().map(Arc::make_mut) {
        let (active_file, inactive_file) = (Bytes(90 * MIB), Bytes(7 * MIB));
        group.memory.stat =
            Some(MemoryStat { active_file, inactive_file, ..MemoryStat::default() });
    }
    let first = node.at(1, &soft);
    assert_eq!(short(&first), Some(("a", Reclaim)));
    // Of 50 MiB that are missing an eighth more, and before it what counts as free already.
    let amount = first.actions[0].want.map(|want| want.0);
    assert_eq!(amount, Some(50 * MIB + 50 * MIB / 8 + 7 * MIB));
    node.at(2, &[]);
    assert_eq!(short(&node.at(5, &soft)), Some(("a", Reclaim)));
}

#[test]
fn untried_skips_earlier_steps_after_a_new_one() {
    let soft = [met(threshold(Signal::MemoryAvailable, seconds(30)))];
    let mut node = Node::new();
    node.relief.steps = [Reclaim, StopContainers, KillContainers].into();
    node.relief.budget = 4;
    let mut seen = Vec::new();
    for second in 1..=400 {
        if second == 200 {
            let a = node.sample.cgroups.values_mut().map(Arc::make_mut).next().unwrap();
            let active_file = Bytes(60 * MIB);
            a.memory.stat = Some(MemoryStat { active_file, ..MemoryStat::default() });
        }
        let action = node.at(second, &soft).actions.pop();
        seen.extend(action.map(|a| (a.target.name, a.step, a.escalates_to)));
    }
    let each = |name: &str| {
        let name = name.to_owned();
        [(name.clone(), StopContainers, Some(KillContainers)), (name, KillContainers, None)]
    };
    let mut want: Vec<_> = ["a", "b", "c"].into_iter().flat_map(each).collect();
    want.push(("a".into(), Reclaim, None));
    assert_eq!(seen, want);
    assert_eq!(node.standing.victims.len(), 3, "nobody counts twice");
}
