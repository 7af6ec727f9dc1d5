//! Divides waiting by the share that each party took.

use std::collections::{BTreeMap, BTreeSet};

use super::{Doings, Entry, Party, Tree};
use crate::model::cgroup::{Cgroup, CgroupId};
use crate::model::pod::Place;
use crate::model::sample::Sample;
use crate::model::snapshot::Scope;
use crate::model::stall::MemoryCause;
use crate::model::units::{Nanos, Percent, scale};
use crate::policy::rank::contender::Harm;

/// What each party took and how long it waited in one interval.
#[derive(Debug, Default)]
pub(super) struct Share(BTreeMap<Party, Part>);

#[derive(Debug, Clone, Copy, Default)]
struct Part {
    /// Bytes.
    taken: u64,
    /// Wall time for memory, task time for IO.
    waited: Nanos,
    /// At its own limits, which no other party causes.
    limited: Nanos,
}

impl Share {
    /// Memory: growth of `memory.current`, and time in which the node or its allocatable was
    /// short.
    ///
    /// A new cgroup has charged all that it has. A cgroup that was unreadable counts as 0, because
    /// its growth is unknown. One that shrank counts as 0 too: what it freed undoes no waiting.
    pub(super) fn of_memory(tree: &Tree<'_>, before: &Sample, unread: &BTreeSet<CgroupId>) -> Self {
        let current = |files: &Cgroup| files.memory.current.map(|bytes| bytes.0);
        Self::of(tree, (before, unread), current, |scope| {
            let shortage = scope.shortage.map(|union| union.now).unwrap_or_default();
            Part {
                waited: of_interval(shortage, tree.snapshot.interval),
                limited: limited(scope),
                taken: 0,
            }
        })
    }

    /// Disks: bytes read and written, and task time in IO wait.
    pub(super) fn of_io(tree: &Tree<'_>, before: &Sample, unread: &BTreeSet<CgroupId>) -> Self {
        let moved = |files: &Cgroup| files.io.map(|io| io.read.0.saturating_add(io.written.0));
        Self::of(tree, (before, unread), moved, |scope| {
            let waited = scope.io_wait.map(|wait| wait.now).unwrap_or_default();
            Part { waited, ..Part::default() }
        })
    }

    /// Counts pods, workloads, and other cgroups without children, each once.
    fn of(
        tree: &Tree<'_>,
        (before, unread): (&Sample, &BTreeSet<CgroupId>),
        counter: fn(&Cgroup) -> Option<u64>,
        waits: impl Fn(&Scope) -> Part,
    ) -> Self {
        let mut share = Self::default();
        for (id, scope) in &tree.snapshot.scopes {
            let Some(party) = tree.parties.get(id) else { continue };
            let counts = match party {
                Party::Pod(_) => matches!(scope.place, Place::Pod { .. }),
                _ if tree.workloads.has(*id) => true,
                Party::Outside(path) => *path == scope.path && !tree.parents.contains(id),
            };
            if !counts {
                continue;
            }
            let now = scope.files.as_ref().and_then(counter);
            let earlier = match before.cgroups.get(id) {
                Some(group) => counter(group),
                None => (!unread.contains(id)).then_some(0),
            };
            let grown = now.zip(earlier).map_or(0, |(now, earlier)| now.saturating_sub(earlier));
            let part = share.0.entry(party.clone()).or_default();
            let Part { waited, limited, .. } = waits(scope);
            part.taken = part.taken.saturating_add(grown);
            (part.waited, part.limited) = (part.waited.plus(waited), part.limited.plus(limited));
        }
        share
    }

    /// Divides the waiting of all by the share that each took.
    pub(super) fn doings(self) -> Doings {
        let total = |of: fn(&Part) -> u64| self.0.values().map(|part| u128::from(of(part))).sum();
        let (taken, waited): (u128, u128) = (total(|part| part.taken), total(|part| part.waited.0));
        let doings = self.0.iter().map(|(party, part)| {
            let by_share = |time: u128| {
                let shared = time.saturating_mul(u128::from(part.taken)) / taken.max(1);
                Nanos(u64::try_from(shared).unwrap_or(u64::MAX))
            };
            let own = u128::from(part.waited.0);
            let harm =
                Harm { others: by_share(waited - own), own: by_share(own).plus(part.limited) };
            (party.clone(), Entry { harm, taken: part.taken })
        });
        doings.collect()
    }
}

/// Memory stall at the party's own limits.
fn limited(scope: &Scope) -> Nanos {
    let causes = scope.memory.iter().flat_map(|memory| &memory.causes);
    let own = causes.filter(|(cause, _)| {
        matches!(cause, MemoryCause::OwnLimit | MemoryCause::OwnHigh | MemoryCause::AncestorLimit)
    });
    own.fold(Nanos(0), |sum, (_, cause)| sum.plus(cause.union.now))
}

/// A share of the interval, as time.
fn of_interval(share: Percent, interval: Nanos) -> Nanos {
    Nanos(scale(interval.0, share.0.into(), Percent::FULL.0.into()))
}
