//! What one group of daemons used, tick by tick, and what reservations would have met of it.

use std::collections::BTreeMap;

use isobar_core::model::cgroup::CgroupPath;
use isobar_core::model::quantity::{Quantity, ResourceList};
use isobar_core::model::units::{Bytes, Moment};

use super::readings::Used;
use super::{Daemons, Group, Percentiles, Preview};
use crate::allocatable::{CPU, MEMORY};

/// Reservations are rounded up to these.
const MEMORY_STEP: u64 = 16 << 20;
const CPU_STEP: u64 = 10;

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
    /// With the cgroup that was largest then, a place in `largest`.
    ticks: Vec<(Moment, u64, u32)>,
    largest: Vec<CgroupPath>,
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
            let most = self.cgroups.entry(one.path).or_default();
            *most = (*most).max(one.memory.unwrap_or_default());
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
        let known = self.largest.iter().position(|known| known == path);
        let place = known.unwrap_or_else(|| {
            self.largest.push(path.clone());
            self.largest.len() - 1
        });
        self.ticks.push((at, used, u32::try_from(place).unwrap_or(u32::MAX)));
    }

    fn sorted(&self) -> Vec<u64> {
        let mut all: Vec<_> = self.ticks.iter().map(|(_, used, _)| *used).collect();
        all.sort_unstable();
        all
    }

    /// In how many ticks more was used, since when, and by whom first.
    fn above(&self, amount: u64) -> (u64, Option<Moment>, Option<CgroupPath>) {
        let mut above = self.ticks.iter().filter(|(_, used, _)| *used > amount);
        let n = above.clone().count() as u64;
        let first = above.next();
        let by = first.and_then(|(_, _, place)| self.largest.get(usize::try_from(*place).ok()?));
        (n, first.map(|(at, ..)| *at), by.cloned())
    }
}

/// Peaks with their values in order.
pub(super) struct Closed {
    peaks: Peaks,
    memory: Vec<u64>,
    cpu: Vec<u64>,
}

impl Closed {
    pub(super) fn group(&self, daemons: Daemons) -> Group {
        let mut cgroups: Vec<_> = self.peaks.cgroups.iter().collect();
        cgroups.sort_unstable_by_key(|(path, most)| (std::cmp::Reverse(**most), *path));
        let percentiles = |all: &[u64], quantity: fn(u64) -> Quantity| {
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
    /// 99 of 100 ticks: it is a share, and what is above it waits.
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
            |(resource, series, sorted, quantity): (_, &Series, &Vec<u64>, fn(u64) -> _)| {
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

/// The value that `share` percent of all do not exceed; `None` without any.
pub(super) fn percentile(sorted: &[u64], share: usize) -> Option<u64> {
    let place = (sorted.len() * share).div_ceil(100).saturating_sub(1);
    sorted.get(place).copied()
}

pub(super) fn with(amount: u64, margin: u64) -> u64 {
    let more = u128::from(amount) * u128::from(100 + margin) / 100;
    u64::try_from(more).unwrap_or(u64::MAX)
}

fn up(amount: u64, step: u64) -> u64 {
    amount.max(1).checked_next_multiple_of(step).unwrap_or(amount)
}
