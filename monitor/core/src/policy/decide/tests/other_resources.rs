//! Victims for want of something else than memory: when they are back, and what they wait for.

use super::*;
use crate::model::threshold::Resource;

fn set(node: &mut Node, uid: &str, mib: u64, threads: u64) {
    let mut groups = node.sample.cgroups.values_mut();
    let group = groups.find(|group| group.path.0.ends_with(uid)).unwrap();
    let group = Arc::make_mut(group);
    (group.memory.current, group.pids_current) = (Some(Bytes(mib * MIB)), Some(threads));
}

#[test]
fn victim_is_back_when_what_is_short_is_back() {
    let of = |signal| met(threshold(signal, Nanos(0)));
    let disk = met(Trigger::Pressure(PressureThreshold {
        scope: ScopeName::System,
        on: PressureSignal::Disk(Percent(60_00)),
        grace: seconds(5),
    }));
    #[rustfmt::skip]
    let table = [
        // what is short; MiB of 400 and threads of 80 that are left; is it back
        (of(Signal::MemoryAvailable),  50,  80, true),
        (of(Signal::NodefsAvailable),  50,  80, false), // it writes its files still
        (of(Signal::NodefsAvailable),  50,  0,  true),
        (of(Signal::NodefsInodesFree), 50,  1,  false),
        (of(Signal::PidAvailable),     50,  80, false),
        (of(Signal::PidAvailable),     400, 10, true),
        (of(Signal::PidAvailable),     400, 11, false),
        (disk,                         50,  80, false),
    ];
    for (short_of, mib, threads, is_back) in table {
        let mut node = Node::new();
        node.relief.steps.remove(&Squeeze);
        set(&mut node, "a", 400, 80);
        assert_eq!(short(&node.at(1, &[short_of])), Some(("a", Evict)), "{short_of:?}");
        set(&mut node, "a", mib, threads);
        let held = node.at(2, &[short_of]).held;
        let is_waited_for = matches!(held, Some(Hold::Settling { .. }));
        assert_eq!(!is_waited_for, is_back, "{short_of:?} {mib} {threads}: {held:?}");
    }
}

#[test]
fn pids_do_not_wait_for_a_disk() {
    let [nodefs, pids, soft] = [
        threshold(Signal::NodefsAvailable, Nanos(0)),
        threshold(Signal::PidAvailable, Nanos(0)),
        threshold(Signal::PidAvailable, seconds(30)),
    ]
    .map(met);
    let memory = met(threshold(Signal::MemoryAvailable, Nanos(0)));
    #[rustfmt::skip]
    let table = [
        // what is short first; what comes before it later; the step then
        (nodefs, pids, Some(("b", Evict))),
        (nodefs, soft, None),
        (memory, pids, None), // memory is not met any more, and may be again
        (pids, nodefs, None),
    ];
    for (first, then, want) in table {
        let mut node = Node::new();
        assert_eq!(short(&node.at(1, &[first])), Some(("a", Evict)));
        set(&mut node, "a", 400, 80);
        node.ranking.candidates.remove(0);
        let met = [then, first].into_iter().filter(|met| *met != memory);
        let verdict = node.at(3, &met.collect::<Vec<_>>());
        assert_eq!(short(&verdict), want, "{first:?} {then:?}: {:?}", verdict.held);
    }
}

fn pressure(on: PressureSignal) -> Met {
    let scope = ScopeName::System;
    met(Trigger::Pressure(PressureThreshold { scope, on, grace: seconds(5) }))
}

#[test]
fn rest_after_a_squeeze_is_of_its_resource() {
    let disk_space = met(threshold(Signal::NodefsAvailable, Nanos(0)));
    let memory = met(threshold(Signal::MemoryAvailable, Nanos(0)));
    let cpu = pressure(PressureSignal::Cpu(Percent(60_00)));
    let disk = pressure(PressureSignal::Disk(Percent(60_00)));
    #[rustfmt::skip]
    let table = [
        // what is short first and over after a second; what is short then; seconds of rest
        (cpu,        cpu,        10),
        (cpu,        disk,       0),
        (cpu,        disk_space, 0),
        (cpu,        memory,     0),
        // The end of a pod may give back anything.
        (disk_space, cpu,        10),
        (disk_space, memory,     2),
        (memory,     disk_space, 30),
    ];
    for (first, then, want) in table {
        let mut node = Node::new();
        assert!(short(&node.at(1, &[first])).is_some(), "{first:?}");
        if !matches!(first.threshold, Trigger::Pressure(_)) {
            node.end("a");
        }
        node.at(2, &[]);
        let rest = (2..60).find(|second| !node.at(*second, &[then]).actions.is_empty());
        assert_eq!(rest.map(|second| second - 2), Some(want), "{first:?} {then:?}");
    }
}

#[test]
fn cgroup_made_anew_is_squeezed_again() {
    let cpu = pressure(PressureSignal::Cpu(Percent(60_00)));
    for (is_anew, want) in [(true, Some(("a", Squeeze))), (false, None)] {
        let mut node = Node::new();
        node.ranking.candidates.truncate(1);
        assert_eq!(short(&node.at(1, &[cpu])), Some(("a", Squeeze)));
        if is_anew {
            let group = node.sample.cgroups.remove(&CgroupId(10)).unwrap();
            node.sample.cgroups.insert(CgroupId(99), group);
        }
        let next = (2..40).find_map(|second| {
            let verdict = node.at(second, &[cpu]);
            short(&verdict).map(|(uid, step)| (uid.to_owned(), step))
        });
        assert_eq!(next.as_ref().map(|(uid, step)| (&**uid, *step)), want);
    }
}

#[test]
fn hard_pids_leave_victims_of_a_disk_out_of_the_budget() {
    let hard = || threshold(Signal::PidAvailable, Nanos(0));
    #[rustfmt::skip]
    let table = [
        // what is short, what the victims before were ended for, first step
        (hard(),                                    Some(Resource::Storage), Some(("a", Evict))),
        (hard(),                                    Some(Resource::Memory),  Some(("a", Evict))),
        (hard(),                                    None,                    Some(("a", Evict))),
        (hard(),                                    Some(Resource::Pids),    None),
        (threshold(Signal::PidAvailable, seconds(30)), Some(Resource::Storage), None),
    ];
    for (short_of, before, want) in table {
        let mut node = Node::new();
        for at in 0..u64::from(node.relief.budget) {
            node.standing.add_victim(Nanos(at), &format!("ended-{at}"), before);
        }
        let verdict = node.at(60, &[met(short_of)]);
        assert_eq!(short(&verdict), want, "{short_of:?} {before:?}: {:?}", verdict.held);
    }
}
