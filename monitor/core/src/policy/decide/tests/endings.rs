//! Pods that others have ordered to end.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::model::cgroup::MemoryStat;
use crate::model::disk::{DiskReading, DiskSource, DiskUse, PodDisk};
use crate::model::threshold::Resource;
use crate::model::workload::Volume;

#[test]
fn endings_are_waited_for_where_they_suffice() {
    let hard = threshold(Signal::MemoryAvailable, Nanos(0));
    let pids = threshold(Signal::PidAvailable, Nanos(0));
    let soft = pressure(PressureSignal::Memory(Percent(60_00)));
    let gone = pressure(PressureSignal::Exhaustion(seconds(10)));
    #[rustfmt::skip]
    let table = [
        // short of, which pod ends, within how many seconds, its MiB, waited for until
        (hard, "b", 1,     400, Some(7)),
        (hard, "b", 0,      50, Some(6)),
        (hard, "b", 1,      49, None),     // fifty are missing
        (hard, "b", 900,   400, Some(36)), // no longer than an eviction of isobar's own
        (soft, "b", 1,      64, Some(7)),
        (soft, "b", 1,      63, None),
        (pids, "b", 1,     400, None),     // it is not known how many threads it has
        (gone, "b", 1,     400, None),     // there is no time to wait
        (hard, "x", 1,     400, None),     // its cgroup is gone already
    ];
    for (trigger, uid, within, mib, want) in table {
        let mut node = Node::new();
        end_within(&mut node, uid, within, false);
        Arc::make_mut(node.sample.cgroups.get_mut(&CgroupId(11)).unwrap()).memory.current =
            Some(Bytes(mib * MIB));
        let verdict = node.at(1, &[met(trigger)]);
        let until = |second| Hold::Ending { pod: uid.into(), until: seconds(second) };
        assert_eq!(verdict.held, want.map(until), "{trigger:?} {uid} {within} s {mib} MiB");
        let Some(until) = want else { continue };
        assert!(node.at(until - 1, &[met(trigger)]).actions.is_empty(), "{within} s");
        assert!(
            !node.at(until, &[met(trigger)]).actions.is_empty(),
            "{within} s: its time is over"
        );
    }
}

#[test]
fn endings_are_not_waited_for_where_memory_runs_out_before() {
    #[rustfmt::skip]
    let table = [
        // at which second, for how many memory lasts, waited for
        (1,  None,     true),
        (1,  Some(10), true),
        (1,  Some(9),  false),
        (30, Some(6),  true),  // it is given time until 36
        (30, Some(5),  false),
    ];
    for (second, lasts, is_awaited) in table {
        let mut node = Node::new();
        end_within(&mut node, "b", 900, false);
        let hard = met(threshold(Signal::MemoryAvailable, Nanos(0)));
        node.at(1, &[]);
        node.loses(6);
        node.outlooks[0].scope = ScopeName::System;
        node.outlooks[0].lasts = lasts.map(seconds);
        let held = node.at(second, &[hard]).held;
        let is_held = matches!(held, Some(Hold::Ending { .. }));
        assert_eq!(is_held, is_awaited, "{second} {lasts:?}: {held:?}");
    }
}

/// On a node of short jobs some pod ends at any time.
#[test]
fn endings_that_follow_one_upon_the_other_are_not_waited_for_without_end() {
    let soft = met(pressure(PressureSignal::Memory(Percent(60_00))));
    let mut node = Node::new();
    let acts = (1..300).find(|second| {
        // Another one each 20 s.
        if second % 20 == 1 {
            let pods = Arc::make_mut(node.sample.pods.as_mut().unwrap());
            pods.get_mut("b").unwrap().ends_within = None;
            node.at(*second, &[]);
            end_within(&mut node, "b", 30, false);
        }
        !node.at(*second, &[soft]).actions.is_empty()
    });
    // The one of the 21st second is waited for, and the next began to end too late.
    assert_eq!(acts, Some(41));
}

#[test]
fn endings_are_waited_for_where_pids_are_short() {
    let pids = [Met { missing: Some(50), ..met(threshold(Signal::PidAvailable, Nanos(0))) }];
    for (threads, want) in [(Some(50), Some(7)), (Some(49), None), (None, None)] {
        let mut node = Node::new();
        end_within(&mut node, "b", 1, false);
        Arc::make_mut(node.sample.cgroups.get_mut(&CgroupId(11)).unwrap()).pids_current = threads;
        let until = |second| Hold::Ending { pod: "b".into(), until: seconds(second) };
        assert_eq!(node.at(1, &pids).held, want.map(until), "{threads:?}");
    }
}

#[test]
fn endings_give_back_no_cache_that_is_available_already() {
    for (inactive, is_awaited) in [(350, true), (351, false)] {
        let mut node = Node::new();
        end_within(&mut node, "b", 1, false);
        let memory = &mut Arc::make_mut(node.sample.cgroups.get_mut(&CgroupId(11)).unwrap()).memory;
        let inactive_file = Bytes(inactive * MIB);
        memory.stat = Some(MemoryStat { inactive_file, ..MemoryStat::default() });
        let verdict = node.at(1, &[met(threshold(Signal::MemoryAvailable, Nanos(0)))]);
        let is_held = matches!(verdict.held, Some(Hold::Ending { .. }));
        assert_eq!(is_held, is_awaited, "{inactive} MiB of 400: {:?}", verdict.held);
    }
}

#[test]
fn endings_are_waited_for_where_a_disk_is_short() {
    let mib = |n: u64| DiskUse { bytes: Some(Bytes(n * MIB)), inodes: Some(n) };
    let unknown = DiskUse::default();
    #[rustfmt::skip]
    let table = [
        // signal, within how many seconds, what the pod has on disk, waited for until
        (Signal::NodefsAvailable,  1,   Some(mib(400)),  Some(32)),
        (Signal::ImagefsAvailable, 0,   Some(mib(50)),   Some(31)),
        (Signal::NodefsAvailable,  900, Some(mib(400)),  Some(61)), // no longer than an eviction of isobar's own
        (Signal::NodefsAvailable,  1,   Some(mib(49)),   None),     // fifty are missing
        (Signal::NodefsAvailable,  1,   Some(unknown),   None),
        (Signal::NodefsAvailable,  1,   None,            None),     // not measured
        (Signal::NodefsInodesFree, 1,   Some(mib(52_428_800)), Some(32)),
        (Signal::NodefsInodesFree, 1,   Some(mib(400)),  None),
        (Signal::PidAvailable,     1,   Some(mib(400)),  None),
    ];
    for (signal, within, used, want) in table {
        let mut node = Node::new();
        end_within(&mut node, "b", within, false);
        let volumes = used.map(|used| BTreeMap::from([("cache".to_owned(), used)]));
        let disk = volumes.map(|volumes| PodDisk { volumes, ..PodDisk::default() });
        let pods = disk.into_iter().map(|disk| ("b".to_owned(), disk)).collect();
        let source = DiskSource::Walk;
        node.sample.pod_disks = Some(Arc::new(DiskReading { pods, source, at: Nanos(0) }));
        let volume = Volume { name: "cache".into(), is_local: true, limit: None };
        let all = Arc::make_mut(node.sample.pods.as_mut().unwrap());
        all.entry("b".into()).or_default().volumes = vec![volume];
        let short_of = [met(threshold(signal, Nanos(0)))];
        let verdict = node.at(1, &short_of);
        let until = |second| Hold::Ending { pod: "b".into(), until: seconds(second) };
        assert_eq!(verdict.held, want.map(until), "{signal} {within} s {used:?}");
        let Some(until) = want else { continue };
        assert!(node.at(until - 1, &short_of).actions.is_empty(), "{signal}");
        assert!(!node.at(until, &short_of).actions.is_empty(), "{signal}: its time is over");
    }
}

#[test]
fn endings_by_the_kubelet_count_against_the_budget() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    use Resource::{Memory, Storage};
    #[rustfmt::skip]
    let table = [
        // memory is short then, the kubelet ended it, for want of; the budget for memory is spent
        (true,  true,  None,          true),
        (true,  false, None,          false),
        (true,  true,  Some(Memory),  true),
        (true,  true,  Some(Storage), false), // a volume of it was above its limit
        (false, true,  Some(Storage), false),
        (false, true,  Some(Memory),  true),
        (false, true,  None,          false), // its status does not say for want of what
    ];
    for (is_short, is_evicted, evicted_for, is_spent) in table {
        let mut node = Node::new();
        node.relief.budget = 1;
        end_within(&mut node, "b", 1, is_evicted);
        let pod = Arc::make_mut(node.sample.pods.as_mut().unwrap()).get_mut("b").unwrap();
        (pod.is_over, pod.evicted_for) = (true, evicted_for);
        node.at(1, if is_short { &hard } else { &[] });
        node.end("b");
        let held = node.at(10, &hard).held;
        assert_eq!(matches!(held, Some(Hold::BudgetSpent { .. })), is_spent, "{held:?}");
    }
}

/// Until its containers have ended, no status says that the kubelet evicts a pod.
#[test]
fn endings_begun_by_the_kubelet_are_waited_for() {
    let hard = threshold(Signal::MemoryAvailable, Nanos(0));
    let soft = threshold(Signal::MemoryAvailable, seconds(30));
    #[rustfmt::skip]
    let table = [
        // short of, the pod's own grace, its containers have ended, waited for until
        (hard, 900, false, 7), // the kubelet gives it a second
        (soft, 900, false, 7), // and no longer than evictionMaxPodGracePeriod, which is 0
        (hard, 0,   true,  6),
    ];
    for (trigger, grace, is_over, until) in table {
        let mut node = Node::new();
        evicted(&mut node, grace, is_over);
        let row = format!("{trigger:?} {grace} {is_over}");
        let want = Hold::Ending { pod: "b".into(), until: seconds(until) };
        assert_eq!(node.at(1, &[met(trigger)]).held, Some(want), "{row}");
        assert!(node.at(until - 1, &[met(trigger)]).actions.is_empty(), "{row}");
        assert_eq!(node.standing.victims.len(), usize::from(is_over), "{row}");
        assert!(!node.at(until, &[met(trigger)]).actions.is_empty(), "{row}: its time is over");
    }
}

#[test]
fn endings_begun_by_the_kubelet_are_killed_in_an_emergency() {
    let gone = [met(pressure(PressureSignal::Exhaustion(seconds(10))))];
    #[rustfmt::skip]
    let table = [
        // evicted by the kubelet, its MiB, in a group with, killed
        (true,  400, None,      "b"),
        (true,  400, Some("c"), "b"), // alone
        (true,  63,  None,      "a"), // what it holds does not suffice
        (false, 400, None,      "a"), // its deletion was ordered: it did not run out of memory
    ];
    for (is_evicted, mib, other, want) in table {
        let mut node = Node::new();
        let members = other.map(|other| vec!["b".into(), other.into()]);
        node.ranking.candidates[1].members = members.unwrap_or_default();
        end_within(&mut node, "b", 30, is_evicted);
        Arc::make_mut(node.sample.cgroups.get_mut(&CgroupId(11)).unwrap()).memory.current =
            Some(Bytes(mib * MIB));
        let verdict = node.at(1, &gone);
        assert_eq!(short(&verdict), Some((want, KillContainers)), "{is_evicted} {mib}");
        assert!(verdict.actions[0].target.members.is_empty(), "{is_evicted} {mib} {other:?}");
    }
}

/// An event that is no kubelet's costs a wait, and no budget.
#[test]
fn endings_begun_count_against_the_budget_once_they_are_over() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    let mut node = Node::new();
    for (second, is_over, n_victims) in [(1, false, 0), (2, false, 0), (3, true, 1), (4, true, 1)] {
        evicted(&mut node, 30, is_over);
        node.at(second, &hard);
        assert_eq!(node.standing.victims.len(), n_victims, "second {second}");
    }
}

#[test]
fn endings_long_over_count_for_nothing() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    let mut node = Node::new();
    node.relief.budget = 1;
    // The API keeps evicted pods for hours; their cgroups are gone.
    end_within(&mut node, "x", 0, true);
    assert_eq!(short(&node.at(1, &hard)), Some(("a", Evict)));
}

#[test]
fn evictions_refused_do_not_count_against_the_budget() {
    let soft = [met(pressure(PressureSignal::Memory(Percent(60_00))))];
    // Whether some pods of a group end all the same, and what comes next.
    for (is_partly, want) in [(false, Some(("b", Evict))), (true, None)] {
        let mut node = Node::new();
        node.relief.budget = 1;
        node.relief.steps.remove(&Squeeze);
        let action = node.at(1, &soft).actions.remove(0);
        assert_eq!((&*action.target.uid, action.step), ("a", Evict));
        node.hear(1, OutcomeResult::Refused);
        let (since, held, phase) = (seconds(1), None, Phase::Ending);
        let entry = InForce { action, since, held, phase, largest: None };
        node.sample.in_force.extend(is_partly.then_some(entry));
        assert_eq!(short(&node.at(2, &soft)), want);
    }
}

/// Has the API tell that a pod ends.
fn end_within(node: &mut Node, uid: &str, seconds: i64, is_evicted: bool) {
    let pods = Arc::make_mut(node.sample.pods.as_mut().unwrap());
    let pod = pods.entry(uid.into()).or_default();
    (pod.uid, pod.name) = (uid.into(), uid.into());
    (pod.ends_within, pod.is_evicted) = (Some(seconds), is_evicted);
}

/// The kubelet evicts pod `b`.
fn evicted(node: &mut Node, grace: i64, is_over: bool) {
    end_within(node, "b", grace, true);
    let pods = Arc::make_mut(node.sample.pods.as_mut().unwrap());
    let pod = pods.get_mut("b").unwrap();
    (pod.termination_grace, pod.is_over) = (Some(grace), is_over);
}
