//! What the kernel's OOM killer has just killed.

use std::sync::Arc;

use super::*;
use crate::model::cgroup::MemoryEvents;
use crate::model::stall::{KernelStalls, OomKill, ShortLived};

/// The kernel has killed in `victim` since the sample before, at the limit of `limit`.
fn kill(node: &mut Node, at: Nanos, victim: u64, limit: Option<u64>) {
    let (victim, limit) = (CgroupId(victim), limit.map(CgroupId));
    let kill = OomKill { at, victim, limit, limit_known: true, ..OomKill::default() };
    node.sample.kernel = Some(KernelStalls { oom_kills: vec![kill], ..KernelStalls::default() });
}

#[test]
fn kernel_kills_hold_back_a_second_victim() {
    let hard = threshold(Signal::MemoryAvailable, Nanos(0));
    let pids = threshold(Signal::PidAvailable, Nanos(0));
    #[rustfmt::skip]
    let table = [
        // short of, killed in, at the limit of, held
        (hard, 10, None,     true),  // the node had none left
        (hard, 12, None,     true),
        (hard, 12, Some(20), true),  // nor had all pods
        (hard, 10, Some(10), true),  // the first candidate is smaller by that much
        (hard, 12, Some(12), false), // another pod at its own limit
        (hard, 0,  Some(12), false), // whose process the kernel did not say: Linux 6.1
        (hard, 0,  Some(10), true),
        (hard, 0,  Some(20), true),
        (hard, 0,  None,     true),
        (hard, 99, Some(12), false), // its cgroup is gone already
        (hard, 99, Some(10), true),
        (hard, 98, Some(98), false), // and so is the limit's, a moment ago: of "c"
        (hard, 97, Some(97), true),  // of "a"
        (hard, 96, Some(96), true),  // it is not known whose it was
        (hard, 95, Some(95), false), // in the sample before: of "c"
        (hard, 94, Some(94), true),  // of "a"
        (pids, 10, None,     false), // it is no memory that is short
    ];
    for (trigger, victim, limit, is_held) in table {
        let mut node = Node::new();
        let kubepods = Cgroup { path: CgroupPath("/kubepods".into()), ..Cgroup::default() };
        node.sample.cgroups.insert(CgroupId(20), kubepods.into());
        kill(&mut node, seconds(1), victim, limit);
        let container = |(id, pod): (u64, &str)| ShortLived {
            id: CgroupId(id),
            path: CgroupPath(format!("/kubepods/besteffort/pod{pod}/{}", "0f".repeat(32)).into()),
        };
        let kernel = node.sample.kernel.as_mut().unwrap();
        kernel.short_lived = [(98, "c"), (97, "a")].map(container).into();
        let earlier = [(95, "c"), (94, "a")].map(container);
        let group = |one: ShortLived| Arc::new(Cgroup { path: one.path, ..Cgroup::default() });
        let cgroups = [95, 94].map(CgroupId).into_iter().zip(earlier.map(group)).collect();
        node.before = Some(Sample { cgroups, ..Sample::default() });
        let verdict = node.at(1, &[met(trigger)]);
        let want = is_held.then(|| Hold::KernelKilled { until: seconds(3) });
        assert_eq!(verdict.held, want, "{trigger:?} {victim} {limit:?}");
        node.sample.kernel = None;
        if is_held {
            assert!(node.at(2, &[met(trigger)]).actions.pop().is_none());
            assert_eq!(short(&node.at(3, &[met(trigger)])), Some(("a", Evict)), "its time is over");
        }
    }
}

#[test]
fn kernel_kills_relieve_every_workload_below_the_limit() {
    #[rustfmt::skip]
    let table = [
        // the limit's cgroup, who would go, held
        ("/batch",       "/batch/job",   true),
        ("/batch/job",   "/batch/job",   true),
        ("/batch/job/a", "/batch/job",   true),
        ("/batch/job",   "/batch/job2",  false),
        ("/batch/other", "/batch/job",   false),
    ];
    for (limit, next, is_held) in table {
        let mut node = Node::new();
        let group =
            |path: &str| Arc::new(Cgroup { path: CgroupPath(path.into()), ..Cgroup::default() });
        node.sample.cgroups = [(CgroupId(30), group(limit)), (CgroupId(31), group(next))].into();
        node.ranking.candidates.truncate(1);
        node.ranking.candidates[0].uid = next.into();
        kill(&mut node, seconds(1), 0, Some(30));
        let hard = met(threshold(Signal::MemoryAvailable, Nanos(0)));
        let held = node.at(1, &[hard]).held;
        assert_eq!(held.is_some(), is_held, "{limit} {next}: {held:?}");
    }
}

#[test]
fn kernel_kills_in_a_row_prolong_nothing() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    let mut node = Node::new();
    let first = (1..=5).find(|second| {
        kill(&mut node, seconds(*second), 12, None);
        node.at(*second, &hard).actions.pop().is_some()
    });
    assert_eq!(first, Some(3));
}

/// The event of a kill may come a sample late or not know the limit. Without the kernel side there is none.
#[test]
fn kernel_kills_are_known_by_their_counter() {
    #[rustfmt::skip]
    let table = [
        // cgroups whose counter of kills grew, and whose limit was reached; held
        (&[20, 10][..], &[][..],       true),  // a process of "a", because the node had no memory left
        (&[20, 12],     &[],           true),  // of another
        (&[20, 12],     &[20],         true),  // the limit of all pods
        (&[20, 12],     &[20, 12],     false), // its own limit
        (&[20, 10],     &[20, 10],     true),
        (&[20, 10, 12], &[20, 12],     true),  // one at its own limit, one for the node
        (&[],           &[20, 12],     false), // nothing was killed
    ];
    for ((killed, at_limit, is_held), has_event) in
        table.iter().flat_map(|row| [(row, false), (row, true)])
    {
        let mut node = Node::new();
        let kubepods = Cgroup { path: CgroupPath("/kubepods".into()), ..Cgroup::default() };
        node.sample.cgroups.insert(CgroupId(20), kubepods.into());
        if has_event {
            kill(&mut node, seconds(1), 12, None);
            node.sample.kernel.as_mut().unwrap().oom_kills[0].limit_known = false;
        }
        for id in [10, 12, 20].map(CgroupId) {
            let group = Arc::make_mut(node.sample.cgroups.get_mut(&id).unwrap());
            group.parent = (id != CgroupId(20)).then_some(CgroupId(20));
            group.memory.events = Some(MemoryEvents { oom: 4, oom_kill: 3, ..Default::default() });
        }
        node.before = Some(node.sample.clone());
        let count = |node: &mut Node, id: &u64, of: fn(&mut MemoryEvents) -> &mut u64| {
            let group = Arc::make_mut(node.sample.cgroups.get_mut(&CgroupId(*id)).unwrap());
            *of(group.memory.events.as_mut().unwrap()) += 1;
        };
        killed.iter().for_each(|id| count(&mut node, id, |events| &mut events.oom_kill));
        at_limit.iter().for_each(|id| count(&mut node, id, |events| &mut events.oom));
        let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
        let verdict = node.at(1, &hard);
        let want = is_held.then(|| Hold::KernelKilled { until: seconds(3) });
        assert_eq!(verdict.held, want, "{killed:?} {at_limit:?} {has_event}");
    }
}
