//! Divides waiting by the share that each party took.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Doings, Entry, HarmByParty, Party, Squeezed, There, Tree};
use crate::model::cgroup::{Cgroup, CgroupId, CgroupPath, IoStat};
use crate::model::sample::Sample;
use crate::model::snapshot::{Along, Scope};
use crate::model::units::{Nanos, Percent, scale};
use crate::policy::rank::contender::Harm;
use crate::policy::workload::{Parties, above};

/// Where pages are larger, too little counts as reclaimed, and growth alone is left.
const PAGE: u64 = 4_096;
/// In bytes, what a request counts beside what it moves: an estimate that was not measured, between what a
/// seek costs a rotating disk and next to nothing.
const REQUEST: u64 = 16 << 10;

/// What each party took and how long it waited in one interval.
#[derive(Debug, Default)]
pub(super) struct Share<'a>(BTreeMap<Party<'a>, Part>);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Part {
    /// Bytes.
    taken: u64,
    /// What disks did for it: many small requests keep one as busy as few large ones.
    cost: u64,
    /// The same as an average, which is remembered.
    average: u64,
    /// Wall time for memory, task time for IO.
    waited: Nanos,
    /// At its own limits, which no other party causes; no part of `waited`.
    limited: Nanos,
    /// Because the node or its allocatable was short.
    short: Nanos,
}

impl<'a> Share<'a> {
    /// Memory: what was charged, and time in which the node or its allocatable was short.
    ///
    /// A new cgroup has charged all that it has. A cgroup that was unreadable counts as 0, because
    /// what it charged is unknown.
    pub(super) fn of_memory(tree: &Tree<'a>, parties: &Parties<'_>, before: &Sample) -> Self {
        Self::of(tree, parties, before, charged, |_, scope| {
            let shortage = scope.shortage.map(|union| union.now).unwrap_or_default();
            Part {
                waited: of_interval(shortage, tree.snapshot.interval),
                short: of_interval(shortage, tree.snapshot.interval),
                limited: scope.stalled_at_limits(),
                ..Part::default()
            }
        })
    }

    /// Disks: bytes read and written, and task time in IO wait. What is in no party is the root's: kernel
    /// threads', and that of cgroups whose IO the kernel does not count. `None` where it counts none.
    pub(super) fn of_io(
        tree: &Tree<'a>,
        parties: &Parties<'_>,
        before: &Sample,
        squeezed: &Squeezed<'_>,
    ) -> Option<Self> {
        let scopes = &tree.snapshot.scopes;
        scopes.values().find_map(|scope| scope.files.as_ref()?.io)?;
        let waited = |scope: &Scope| scope.io_wait.map(|wait| wait.now).unwrap_or_default();
        let some_limited = scopes.values().any(|scope| scope.is_at_io_limit);
        let is_held_up = |id: CgroupId| {
            let mut above = above(id, tree.snapshot);
            let is_squeezed = || tree.parties.get(&id).is_some_and(|party| squeezed.has(party));
            let is_limited = |id| scopes.get(&id).is_some_and(|one| one.is_at_io_limit);
            some_limited && above.any(is_limited) || is_squeezed()
        };
        let mut share = Self::of(tree, parties, before, moved, |id, scope| match is_held_up(id) {
            true => Part { limited: waited(scope), ..Part::default() },
            false => Part { waited: waited(scope), ..Part::default() },
        });
        for (id, scope) in scopes.iter().filter(|(_, scope)| scope.is_at_io_limit) {
            let Some(party) = tree.parties.get(id) else { continue };
            let mut above =
                above(*id, tree.snapshot).take_while(|id| tree.parties.get(id) == Some(party));
            // Its waits are part of those of what it lies in.
            let is_counted =
                above.any(|id| scopes.get(&id).is_some_and(|above| above.is_at_io_limit));
            let Some(part) = share.0.get_mut(party).filter(|_| !is_counted) else { continue };
            let own = waited(scope).min(part.waited);
            (part.waited, part.limited) = (part.waited.since(own), part.limited.plus(own));
        }
        share.add_rest(tree);
        Some(share)
    }

    /// What the node did and no party is the root's. No party did more than the node: a cgroup that slept is
    /// read at its next turn, and what it did meanwhile seems to be of one tick.
    fn add_rest(&mut self, tree: &Tree<'_>) {
        let Some(whole) = tree.snapshot.whole.io else { return };
        let of_interval = |rate: u64| scale(rate, tree.snapshot.interval.0, Nanos::SECOND.0);
        let taken = of_interval(whole.bytes().0);
        let all = cost(taken, of_interval(whole.operations()));
        for part in self.0.values_mut().filter(|part| part.taken > taken) {
            part.cost = scale(part.cost, taken, part.taken);
            part.taken = taken;
        }
        let sum = |of: fn(&Part) -> u64| self.0.values().map(of).fold(0, u64::saturating_add);
        let (others_taken, others_cost) = (sum(|part| part.taken), sum(|part| part.cost));
        let root = self.0.entry(root()).or_default();
        root.taken = root.taken.saturating_add(taken.saturating_sub(others_taken));
        root.cost = root.cost.saturating_add(all.saturating_sub(others_cost));
    }

    fn of(
        tree: &Tree<'a>,
        parties: &Parties<'_>,
        before: &Sample,
        taken: fn(&Scope, &Cgroup, Option<&Cgroup>) -> Option<[u64; 2]>,
        waits: impl Fn(CgroupId, &Scope) -> Part,
    ) -> Self {
        let mut share = Self::default();
        let (mut named, mut earlier) = (Along::of(&tree.parties), Along::of(&before.cgroups));
        for (id, scope) in parties {
            let (party, earlier) = (named.get(id), earlier.get(id).map(Arc::as_ref));
            let Some(party) = party else { continue };
            let now = scope.files.as_ref();
            let grown = now.and_then(|now| taken(scope, now, earlier)).unwrap_or_default();
            let Part { waited, limited, short, .. } = waits(*id, scope);
            let [taken, cost] = grown;
            // Most have done nothing.
            if (Part { taken, cost, waited, limited, short, ..Part::default() }) == Part::default()
            {
                continue;
            }
            let part = share.0.entry(party.clone()).or_default();
            part.taken = part.taken.saturating_add(taken);
            part.cost = part.cost.saturating_add(cost);
            part.short = part.short.plus(short);
            (part.waited, part.limited) = (part.waited.plus(waited), part.limited.plus(limited));
        }
        share
    }

    /// Puts averages in place of what disks did in the interval: most of a wait that ends now was for what
    /// they did before. That of parties that are gone is the root's.
    pub(super) fn averaged(
        mut self,
        earlier: &HarmByParty,
        there: &There<'_>,
        interval: Nanos,
    ) -> Self {
        for (party, part) in &mut self.0 {
            let entry = match party {
                Party::Pod(uid) => earlier.pods.get(&**uid),
                Party::Outside(path) => earlier.outside.get(&**path),
            };
            let cost = entry.map_or(0, |entry| entry.cost);
            part.cost = earlier.average(cost, part.cost, interval);
        }
        let pods = earlier.pods.iter().filter(|(_, entry)| entry.cost > 0);
        let pods = pods.map(|(uid, entry)| (Party::Pod(Cow::Borrowed(&**uid)), entry.cost));
        let outside = earlier.outside.iter().filter(|(_, entry)| entry.cost > 0);
        let outside =
            outside.map(|(path, entry)| (Party::Outside(Cow::Borrowed(path)), entry.cost));
        let idle = pods.chain(outside).filter(|(party, _)| !self.0.contains_key(party));
        let idle: Vec<(Party<'a>, u64)> = idle
            .map(|(party, cost)| match party {
                Party::Pod(uid) if there.has_pod(&uid) => {
                    (Party::Pod(Cow::Owned(uid.into_owned())), cost)
                }
                Party::Outside(path) if there.has_outside(&path) => {
                    (Party::Outside(Cow::Owned(path.into_owned())), cost)
                }
                _ => (root(), cost),
            })
            .collect();
        for (party, cost) in idle {
            let part = self.0.entry(party).or_default();
            part.cost = part.cost.saturating_add(earlier.average(cost, 0, interval));
        }
        for part in self.0.values_mut() {
            part.average = part.cost;
        }
        self
    }

    /// Divides the waiting of all by the share that each took.
    pub(super) fn doings(self) -> Doings<'a> {
        let total = |of: fn(&Part) -> u64| self.0.values().map(|part| u128::from(of(part))).sum();
        let (cost, waited): (u128, u128) = (total(|part| part.cost), total(|part| part.waited.0));
        let mut doings = Doings::default();
        for (party, part) in self.0 {
            let by_share = |time: u128| {
                let shared = time.saturating_mul(u128::from(part.cost)) / cost.max(1);
                Nanos(u64::try_from(shared).unwrap_or(u64::MAX))
            };
            let own = u128::from(part.waited.0);
            let harm =
                Harm { others: by_share(waited - own), own: by_share(own).plus(part.limited) };
            *doings.of(party) = Entry {
                harm,
                late: harm.others,
                taken: part.taken,
                cost: part.average,
                limited: part.limited,
                short: part.short,
            };
        }
        doings
    }
}

/// What runs in no cgroup below it is the root's.
fn root<'a>() -> Party<'a> {
    Party::Outside(Cow::Owned(CgroupPath::root()))
}

/// Bytes charged since `earlier`: growth, and what was reclaimed meanwhile. Growth alone would
/// blame a sufferer that reads its pages back, and not who keeps the memory full. What a party
/// reclaims at a limit of its own it takes from itself, and is left out.
fn charged(scope: &Scope, now: &Cgroup, earlier: Option<&Cgroup>) -> Option<[u64; 2]> {
    let current = |files: &Cgroup| files.memory.current.map(|bytes| bytes.0);
    let before = earlier.map_or(Some(0), current)?;
    let stats = now.memory.stat.zip(earlier.and_then(|earlier| earlier.memory.stat));
    let reclaimed = match (scope.stalled_at_limits(), stats) {
        (Nanos(0), Some((now, earlier))) => now.pgsteal.saturating_sub(earlier.pgsteal),
        _ => 0,
    };
    let all = current(now)?.saturating_add(reclaimed.saturating_mul(PAGE));
    Some([all.saturating_sub(before); 2])
}

/// Bytes read and written since `earlier`, and what that cost.
fn moved(_: &Scope, now: &Cgroup, earlier: Option<&Cgroup>) -> Option<[u64; 2]> {
    let (now, before) = (now.io?, earlier.map_or(Some(IoStat::default()), |earlier| earlier.io)?);
    let moved = now.bytes().saturating_sub(before.bytes());
    let sent = now.operations().saturating_sub(before.operations());
    Some([moved, cost(moved, sent)])
}

/// What disks do for so many bytes in so many requests.
fn cost(bytes: u64, requests: u64) -> u64 {
    bytes.saturating_add(requests.saturating_mul(REQUEST))
}

/// A share of the interval, as time.
fn of_interval(share: Percent, interval: Nanos) -> Nanos {
    Nanos(scale(interval.0, share.0.into(), Percent::FULL.0.into()))
}
