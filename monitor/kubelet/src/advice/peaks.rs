//! What one group of daemons used, tick by tick, and what reservations would have met of it.

use std::collections::BTreeMap;

use isobar_core::model::cgroup::CgroupPath;
use isobar_core::model::quantity::{Quantity, ResourceList};
use isobar_core::model::sample::PAUSE;
use isobar_core::model::units::{Bytes, Moment, Nanos};

use super::readings::Used;
use super::{Daemons, Group, Percentiles, Preview};
use crate::allocatable::{CPU, MEMORY};

/// Reservations are rounded up to these.
const MEMORY_STEP: u64 = 16 << 20;
const CPU_STEP: u64 = 10;
/// Ticks that count: twelve days of them. A stranger's file may have any number.
pub(super) const MOST_TICKS: usize = 1 << 20;
/// Cgroups of a group that are named.
const NAMED: usize = 4_096;
/// A thinned recording has so many ticks of each chapter, and then none for so long at most.
const LEFT: usize = 15;
const THINNED: Nanos = Nanos(320 * Nanos::SECOND.0);

#[derive(Debug, Default)]
pub(super) struct Peaks {
    memory: Series,
    cpu: Series,
    /// Its cgroups with the most memory that each used.
    cgroups: BTreeMap<CgroupPath, Bytes>,
}

/// One resource: bytes, or thousandths of a CPU.
#[derive(Debug, Default)]
struct Series {
    ticks: Vec<Tick>,
    largest: Vec<CgroupPath>,
}

/// What was used, the least first, and how long each reading stands for.
type Readings = Vec<(u64, Nanos)>;

#[derive(Debug)]
struct Tick {
    at: Moment,
    used: u64,
    /// The cgroup that was largest then: its place in [`Series::largest`].
    largest: u32,
}

impl Peaks {
    pub(super) fn add(&mut self, at: Moment, used: Used) {
        if let Some(memory) = used.memory {
            self.memory.add(at, memory.0, used.cgroups.iter().max_by_key(|one| one.memory));
        }
        if let Some(cpu) = used.cpu {
            self.cpu.add(at, cpu.0, used.cgroups.iter().max_by_key(|one| one.cpu));
        }
        for one in used.cgroups {
            if self.cgroups.len() < NAMED || self.cgroups.contains_key(&one.path) {
                let most = self.cgroups.entry(one.path).or_default();
                *most = (*most).max(one.memory.unwrap_or_default());
            }
        }
    }

    pub(super) fn close(self) -> Closed {
        let (memory, cpu) = (self.memory.sorted(), self.cpu.sorted());
        Closed { peaks: self, memory, cpu }
    }
}

impl Series {
    fn add(&mut self, at: Moment, used: u64, largest: Option<&super::readings::Part>) {
        let Some(path) = largest.map(|one| &one.path) else { return };
        if self.ticks.len() >= MOST_TICKS {
            return;
        }
        let known = self.largest.iter().position(|known| known == path);
        let place = known.unwrap_or(self.largest.len());
        if known.is_none() && place < NAMED {
            self.largest.push(path.clone());
        }
        self.ticks.push(Tick { at, used, largest: u32::try_from(place).unwrap_or(u32::MAX) });
    }

    /// Ticks without a pause between them share the time until the next one, so that what is left of a
    /// thinned hour counts as an hour.
    fn sorted(&self) -> Readings {
        let goes_on = |a: &Tick, b: &Tick| {
            let passed = b.at.boot.since(a.at.boot);
            passed > Nanos(0) && passed <= PAUSE
        };
        let runs: Vec<_> = self.ticks.chunk_by(goes_on).collect();
        let begins = runs.iter().skip(1).map(|run| run.first().map(|tick| tick.at.boot));
        let mut all = Vec::with_capacity(self.ticks.len());
        for (run, next) in runs.iter().zip(begins.chain([None])) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let (n, lasted) = (run.len() as u64, last.at.boot.since(first.at.boot));
            let tick = lasted.0.checked_div(n - 1).map_or(Nanos::SECOND, Nanos);
            let until_next = next.map(|next| next.since(last.at.boot));
            let is_thinned = |pause: &Nanos| run.len() <= LEFT && pause.0 > 0 && *pause <= THINNED;
            let rest = until_next.filter(is_thinned).unwrap_or(tick);
            let each = Nanos(lasted.plus(rest).0 / n);
            all.extend(run.iter().map(|tick| (tick.used, each)));
        }
        all.sort_unstable();
        all
    }

    /// In how many ticks more was used, since when, and by whom first.
    fn above(&self, amount: u64) -> (u64, Option<Moment>, Option<CgroupPath>) {
        let mut above = self.ticks.iter().filter(|tick| tick.used > amount);
        let n = above.clone().count() as u64;
        let first = above.next();
        let by = first.and_then(|tick| self.largest.get(usize::try_from(tick.largest).ok()?));
        (n, first.map(|tick| tick.at), by.cloned())
    }
}

/// Peaks with their values in order.
pub(super) struct Closed {
    peaks: Peaks,
    memory: Readings,
    cpu: Readings,
}

impl Closed {
    pub(super) fn group(&self, daemons: Daemons) -> Group {
        let mut cgroups: Vec<_> = self.peaks.cgroups.iter().collect();
        cgroups.sort_unstable_by_key(|(path, most)| (std::cmp::Reverse(**most), *path));
        let percentiles = |all: &[(u64, Nanos)], quantity: fn(u64) -> Quantity| {
            Some(Percentiles {
                p50: quantity(percentile(all, 50)?),
                p95: quantity(percentile(all, 95)?),
                p99: quantity(percentile(all, 99)?),
                max: quantity(percentile(all, 100)?),
            })
        };
        Group {
            daemons,
            cgroups: cgroups.into_iter().map(|(path, _)| path.clone()).collect(),
            memory: percentiles(&self.memory, Quantity::bytes),
            cpu: percentiles(&self.cpu, Quantity::milli),
        }
    }

    /// Memory holds the highest peak, because above an enforced limit the kernel kills. CPU holds
    /// 99 of 100 seconds: it is a share, and what is above it waits.
    pub(super) fn reserve(&self, margin: u64) -> ResourceList {
        let memory = percentile(&self.memory, 100)
            .map(|most| (MEMORY.into(), Quantity::bytes(up(with(most, margin), MEMORY_STEP))));
        let cpu = percentile(&self.cpu, 99)
            .map(|most| (CPU.into(), Quantity::milli(up(with(most, margin), CPU_STEP))));
        memory.into_iter().chain(cpu).collect()
    }

    pub(super) fn preview(
        &self,
        daemons: Daemons,
        advised: &ResourceList,
        configured: &ResourceList,
    ) -> Vec<Preview> {
        let resources = [
            (MEMORY, &self.peaks.memory, &self.memory, Quantity::bytes as fn(u64) -> Quantity),
            (CPU, &self.peaks.cpu, &self.cpu, Quantity::milli),
        ];
        let of_one =
            |(resource, series, sorted, quantity): (_, &Series, &Readings, fn(u64) -> _)| {
                let limits = [
                    ("p95", percentile(sorted, 95).map(quantity)),
                    ("p99", percentile(sorted, 99).map(quantity)),
                    ("recommended", advised.get(resource).copied()),
                    ("configured", configured.get(resource).copied()),
                ];
                // Without any reading it is not known what a limit would have met.
                let limits = limits.into_iter().filter(|_| !sorted.is_empty());
                let met = |(limit, amount): (&'static str, Option<Quantity>)| {
                    let amount: Quantity = amount?;
                    let n = if resource == CPU { amount.to_milli() } else { amount.to_u64() };
                    let (ticks, first, by) = series.above(n);
                    Some(Preview { daemons, resource, limit, amount, ticks, first, by })
                };
                limits.filter_map(met).collect::<Vec<_>>()
            };
        resources.into_iter().flat_map(of_one).collect()
    }
}

/// Rounded up as a reservation of memory is.
pub(super) fn up_memory(amount: u64) -> u64 {
    up(amount, MEMORY_STEP)
}

/// The value that is not exceeded for `share` percent of the time; `None` without any.
pub(super) fn percentile(sorted: &[(u64, Nanos)], share: u64) -> Option<u64> {
    let all: u128 = sorted.iter().map(|(_, lasted)| u128::from(lasted.0)).sum();
    let mut left = (all * u128::from(share)).div_ceil(100);
    let is_it = |(_, lasted): &&(u64, Nanos)| {
        left = left.saturating_sub(u128::from(lasted.0));
        left == 0
    };
    sorted.iter().find(is_it).map(|(used, _)| *used)
}

pub(super) fn with(amount: u64, margin: u64) -> u64 {
    let more = u128::from(amount) * u128::from(100 + margin) / 100;
    u64::try_from(more).unwrap_or(u64::MAX)
}

fn up(amount: u64, step: u64) -> u64 {
    amount.max(1).checked_next_multiple_of(step).unwrap_or(amount)
}
