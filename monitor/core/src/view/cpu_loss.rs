//! What each cgroup lost because another one ran: its waits for a CPU, weighed.
//!
//! Waits are summed over tasks, so on their own they tell little: eight threads that wait while a
//! ninth runs for a second have waited eight, and who starts more threads than there are CPUs waits
//! for its own most of all. Therefore
//! - a cgroup loses no more to another than that one ran;
//! - the loss is weighed by what it is of the time in which the sufferer's tasks wanted to run;
//! - who used more of the CPUs than its weights entitle it to loses nothing to one that used less.
//!
//! [`Harm`] orders pairs wherever they are listed, cut or named, so that all readers name the same
//! one first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::model::cgroup::{CgroupId, CgroupPath};
use crate::model::snapshot::{Blame, Snapshot};
use crate::model::units::{MilliCpu, Nanos};
use crate::policy::entitled::Entitled;

/// One sufferer and one aggressor, in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuLoss<'a> {
    pub blame: &'a Blame,
    pub loss: Nanos,
}

impl CpuLoss<'_> {
    pub fn harm(&self) -> Harm {
        Harm { loss: self.loss, time: self.blame.time }
    }
}

/// What one cgroup did to another. The greater one has cost more, or the same by a longer wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Harm {
    pub loss: Nanos,
    pub time: Nanos,
}

impl Harm {
    /// Of a pair in [`weighed`].
    pub fn of(blame: &Blame) -> Self {
        Self { loss: blame.loss.unwrap_or_default(), time: blame.time }
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { loss: self.loss.plus(other.loss), time: self.time.plus(other.time) }
    }
}

/// Of two that lost alike because of each other, neither is the aggressor.
pub fn is_mutual(one: Nanos, other: Nanos) -> bool {
    one.min(other) > Nanos(0) && one.min(other).0 >= one.max(other).0 / 2
}

/// Sets what is lost of each wait, and puts the pairs in the order of their [`Harm`].
pub fn weigh(snapshot: &mut Snapshot) {
    // Where readers look at each tick, it was done as the tick was recorded.
    if snapshot.aggressions.iter().any(|blame| blame.loss.is_none()) {
        snapshot.aggressions = weighed(snapshot);
    }
}

/// All pairs with what is lost of each, those with the greatest [`Harm`] first.
pub fn weighed(snapshot: &Snapshot) -> Vec<Blame> {
    let losses = losses(snapshot);
    let losses: BTreeMap<_, _> = losses
        .iter()
        .map(|CpuLoss { blame, loss }| ((blame.victim, blame.aggressor), *loss))
        .collect();
    let weighed = snapshot.aggressions.iter().map(|blame| {
        let loss = losses.get(&(blame.victim, blame.aggressor)).copied();
        Blame { loss: Some(loss.unwrap_or_default()), ..blame.clone() }
    });
    let mut weighed: Vec<_> = weighed.collect();
    weighed.sort_by_key(|blame| Reverse(Harm::of(blame)));
    weighed
}

/// The pairs with another cgroup, in their order. The idle task is no aggressor: that time is the
/// latency of a wake-up. Neither is one that is not known any more. The kernel's own threads are no
/// sufferers: they are no operator's work.
pub fn losses(snapshot: &Snapshot) -> Vec<CpuLoss<'_>> {
    let time = |MilliCpu(used)| part(snapshot.interval, u128::from(used), 1_000);
    let ran = |id: CgroupId| snapshot.scopes.get(&id)?.cpu_usage.map(time);
    let of_root = own_usage_of_root(snapshot).map(time);
    // One that is gone ran for less than the interval on each CPU; one CPU is the best guess.
    let most = |pair: &Blame| match &pair.aggressor_path {
        Some(path) if path.is_root() => of_root.unwrap_or(snapshot.interval),
        _ => ran(pair.aggressor).unwrap_or(snapshot.interval),
    };
    let pairs = snapshot.aggressions.iter();
    let pairs = pairs.filter(|pair| {
        let is_of_kernel = pair.victim_path.as_ref().is_some_and(CgroupPath::is_root);
        let is_known = ![CgroupId(0), CgroupId::UNKNOWN].contains(&pair.aggressor);
        is_known && pair.aggressor != pair.victim && !is_of_kernel
    });
    let pairs: Vec<_> = pairs.map(|pair| (pair, pair.time.min(most(pair)))).collect();
    let mut lost = BTreeMap::<CgroupId, Nanos>::new();
    for (pair, time) in &pairs {
        let sum = lost.entry(pair.victim).or_default();
        *sum = sum.plus(*time);
    }
    let mut entitled = Entitled::new(snapshot);
    let mut weighed = |(blame, time): (&'_ Blame, Nanos)| {
        let lost = lost.get(&blame.victim).copied().unwrap_or_default();
        let waited = snapshot.scopes.get(&blame.victim).and_then(|scope| scope.cpu.as_ref());
        let waited = waited.map_or(lost, |cpu| cpu.wait.now.max(lost));
        let wanted = waited.plus(ran(blame.victim).unwrap_or_default());
        let chosen = entitled.siblings(blame.victim, blame.aggressor);
        match chosen.is_some_and(|(victim, aggressor)| entitled.is_by_right(victim, aggressor)) {
            true => Nanos(0),
            false => part(time, lost.0.into(), wanted.0.into()),
        }
    };
    pairs.into_iter().map(|(blame, time)| CpuLoss { blame, loss: weighed((blame, time)) }).collect()
}

/// What ran in the root cgroup itself: all that no cgroup below it used.
fn own_usage_of_root(snapshot: &Snapshot) -> Option<MilliCpu> {
    let MilliCpu(all) = snapshot.whole.cpu_usage?;
    let below = snapshot.scopes.values().filter(|scope| scope.parent.is_none());
    let below: u64 = below.map(|scope| Some(scope.cpu_usage?.0)).sum::<Option<_>>()?;
    Some(MilliCpu(all.saturating_sub(below)))
}

/// `time * numerator / denominator`, 0 if nothing divides.
fn part(time: Nanos, numerator: u128, denominator: u128) -> Nanos {
    let part = (u128::from(time.0) * numerator).checked_div(denominator).unwrap_or(0);
    Nanos(u64::try_from(part).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cgroup::{Cgroup, CpuFiles};
    use crate::model::snapshot::{CpuWait, Scope, Waited};

    /// Id, parent, weight, CPU in thousandths, waits in milliseconds.
    type Row = (u64, Option<u64>, Option<u64>, u64, u64);
    /// Sufferer, aggressor, milliseconds.
    type Pair = (u64, u64, u64);

    fn scope((_, parent, weight, used, waited): Row) -> Scope {
        let wait = Waited { now: Nanos(waited * 1_000_000), ..Waited::default() };
        let files = Cgroup { cpu: CpuFiles { weight, ..Default::default() }, ..Default::default() };
        Scope {
            parent: parent.map(CgroupId),
            cpu_usage: Some(MilliCpu(used)),
            cpu: Some(CpuWait { wait, ..CpuWait::default() }),
            files: Some(files.into()),
            ..Scope::default()
        }
    }

    /// What each pair of waits lost in a second.
    fn lost(rows: &[Row], pairs: &[Pair]) -> Vec<Pair> {
        let used = rows.iter().filter(|row| row.1.is_none()).map(|row| row.3).sum();
        let pair = |(victim, aggressor, ms): &Pair| Blame {
            victim: CgroupId(*victim),
            aggressor: CgroupId(*aggressor),
            time: Nanos(ms * 1_000_000),
            ..Blame::default()
        };
        let snapshot = Snapshot {
            interval: Nanos::SECOND,
            whole: Scope { cpu_usage: Some(MilliCpu(used)), ..Scope::default() },
            scopes: rows.iter().map(|row| (CgroupId(row.0), scope(*row))).collect(),
            aggressions: pairs.iter().map(pair).collect(),
            ..Snapshot::default()
        };
        let told = losses(&snapshot).into_iter();
        told.map(|CpuLoss { blame, loss }| (blame.victim.0, blame.aggressor.0, loss.0 / 1_000_000))
            .collect()
    }

    #[test]
    fn losses_of_cgroups_that_share_cpus() {
        const A: u64 = 1;
        const B: u64 = 2;
        let [none, one, many] = [None, Some(1), Some(4)];
        #[rustfmt::skip]
        let table: [(&[Row], &[Pair], &[Pair]); 8] = [
            // cgroups, pairs, what each pair lost
            // Three threads and one share a CPU, each has a quarter of it.
            (&[(A, None, none, 750, 2_250), (B, None, none, 250, 750)],
             &[(A, B, 750), (B, A, 750)], &[(A, B, 20), (B, A, 562)]),
            // Eight threads and a short burst, equal weights: who has more than half loses nothing.
            (&[(A, None, one, 1_500, 6_000), (B, None, one, 200, 40)],
             &[(A, B, 1_200), (B, A, 40)], &[(A, B, 0), (B, A, 6)]),
            // The first one has more, and is entitled to it.
            (&[(A, None, many, 600, 400), (B, None, one, 400, 600)],
             &[(A, B, 400), (B, A, 600)], &[(A, B, 160), (B, A, 0)]),
            // The weights of their parents count, too.
            (&[(3, None, many, 600, 400), (4, None, one, 400, 600),
               (A, Some(3), one, 600, 400), (B, Some(4), many, 400, 600)],
             &[(A, B, 400), (B, A, 600)], &[(A, B, 160), (B, A, 0)]),
            // One weight is not known.
            (&[(A, None, none, 600, 400), (B, None, one, 400, 600)],
             &[(A, B, 400), (B, A, 600)], &[(A, B, 160), (B, A, 360)]),
            // The one that ran is gone.
            (&[(A, None, one, 500, 500)], &[(A, 9, 500)], &[(A, 9, 250)]),
            // The one that waited is gone.
            (&[(A, None, one, 500, 0)], &[(9, A, 800)], &[(9, A, 500)]),
            // The idle task, and its own threads.
            (&[(A, None, one, 500, 900)], &[(A, 0, 400), (A, A, 500)], &[]),
        ];
        for (rows, pairs, want) in table {
            assert_eq!(lost(rows, pairs), want, "{rows:?}, {pairs:?}");
        }
    }

    #[test]
    fn weigh_puts_what_cost_most_first() {
        let scopes = [(1, 900), (2, 10), (3, 400), (4, 400)]
            .map(|(id, used)| (CgroupId(id), scope((id, None, None, used, 500))));
        let pair = |victim, aggressor, ms: u64| Blame {
            victim: CgroupId(victim),
            aggressor: CgroupId(aggressor),
            time: Nanos(ms * 1_000_000),
            ..Blame::default()
        };
        // Longest first: for its own tasks, for one that hardly ran, for one that ran.
        let aggressions = vec![pair(3, 3, 900), pair(3, 2, 800), pair(3, 1, 300), pair(4, 0, 9)];
        let (interval, scopes) = (Nanos::SECOND, scopes.into());
        let mut snapshot = Snapshot { interval, scopes, aggressions, ..Snapshot::default() };
        weigh(&mut snapshot);
        let order: Vec<_> = snapshot.aggressions.iter().map(|pair| pair.aggressor.0).collect();
        assert_eq!(order, [1, 2, 3, 0]);
        assert!(snapshot.aggressions.is_sorted_by(|a, b| Harm::of(a) >= Harm::of(b)));
        let again = weighed(&snapshot);
        assert_eq!(again, snapshot.aggressions);
    }
}
