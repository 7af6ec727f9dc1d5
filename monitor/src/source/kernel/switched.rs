//! Whose tasks were switched to between two readings of the maps.

use std::collections::{BTreeMap, BTreeSet};

use isobar_ebpf::Event;

use super::fold::{Maps, n_waits};
use crate::source::Awake;
use isobar_core::model::cgroup::CgroupId;

/// What the maps showed last.
#[derive(Debug, Default)]
pub(super) struct Switched {
    /// Waits of each cgroup's own tasks: one more with each switch to one of them.
    n_waits: BTreeMap<u64, u64>,
    /// What was running.
    current: BTreeSet<u64>,
    /// Switches that the table of cgroups had no room for; `None` before the first time.
    n_lost: Option<u64>,
}

impl Switched {
    /// Who may have run since the maps were read last. `follows` is false while switches are not
    /// followed; `events` are of cgroups that changed without running.
    pub(super) fn look(&mut self, maps: &Maps, follows: bool, events: &[Event]) -> Awake {
        if !follows {
            *self = Self::default();
            return Awake::Unknown;
        }
        let n_lost = Some(maps.cpus.iter().map(|cpu| cpu.lost_groups).sum());
        let n_waits: BTreeMap<u64, u64> =
            maps.groups.iter().map(|(id, cpus)| (*id, n_waits(cpus))).collect();
        let current: BTreeSet<u64> = maps.cpus.iter().map(|cpu| cpu.current).collect();
        let switched = n_waits.iter().filter(|(id, n)| self.n_waits.get(id) != Some(*n));
        let ran = switched.map(|(id, _)| *id).chain(current.iter().copied());
        let ran = ran.chain(self.current.iter().copied());
        let ran = ran.chain(events.iter().map(|event| event.cgroup));
        let cgroups = ran.map(CgroupId).collect();
        // A cgroup for which there was no room just now may have no entry, like one that has slept.
        let is_whole = self.n_lost == n_lost;
        *self = Self { n_waits, current, n_lost };
        match is_whole {
            true => Awake::These { cgroups, by_queue: maps.has_unions },
            false => Awake::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use isobar_ebpf::{Cpu, Group};

    use super::*;

    #[test]
    fn switched_names_whoever_may_have_run() {
        let group = |n_waits| Group { n_waits, ..Group::default() };
        let maps = |groups: &[(u64, [u64; 2])], current, lost_groups| Maps {
            cpus: vec![Cpu { current, lost_groups, ..Cpu::default() }],
            groups: groups.iter().map(|(id, n)| (*id, (0..).zip(n.map(group)).collect())).collect(),
            ..Maps::default()
        };
        let awake = |ids: &[u64]| Awake::These {
            cgroups: ids.iter().copied().map(CgroupId).collect(),
            by_queue: false,
        };
        let one = [(7, [1, 0]), (8, [3, 4])];
        let two = [(7, [1, 0]), (8, [3, 5]), (9, [0, 1])];
        #[rustfmt::skip]
        let table = [
            // maps,               followed, who, and why
            (maps(&one, 20, 0),    true,     Awake::Unknown,          "nothing to compare with"),
            (maps(&one, 21, 0),    true,     awake(&[20, 21]),        "what runs on, and what ran until now"),
            (maps(&two, 0, 0),     true,     awake(&[0, 8, 9, 21]),   "a switch to it, its first too"),
            (maps(&two, 0, 0),     true,     awake(&[0]),             "all others sleep"),
            (maps(&two, 0, 1),     true,     Awake::Unknown,          "no room for somebody"),
            (maps(&two, 0, 1),     true,     awake(&[0]),             "room for all again"),
            (maps(&two, 0, 0),     false,    Awake::Unknown,          "paused"),
        ];
        let mut switched = Switched::default();
        for (maps, follows, want, why) in table {
            assert_eq!(switched.look(&maps, follows, &[]), want, "{why}");
        }
    }
}
