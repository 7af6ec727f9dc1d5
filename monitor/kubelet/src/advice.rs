//! What to reserve for daemons, from what they used.
//! In: the samples of a recording, in order. Out: peaks of the kubelet with its runtime and of the
//! rest of the system, reservations that would have held them, and when lower ones would have been
//! reached.

mod readings;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use isobar_core::model::cgroup::CgroupPath;
use isobar_core::model::quantity::{Quantity, ResourceList};
use isobar_core::model::sample::Sample;
use isobar_core::model::units::{Bytes, MilliCpu, Moment, Nanos};
use serde::Serialize;

use readings::{Readings, Used};

/// Reservations are rounded up to these.
const MEMORY_STEP: u64 = 16 << 20;
const CPU_STEP: u64 = 10;
/// The kubelet's own `memory.available`.
const LEAST_THRESHOLD: u64 = 100 << 20;
/// How long the kubelet may take to see that memory is short: its housekeeping interval.
const REACTION: Nanos = Nanos(10 * Nanos::SECOND.0);
/// Ticks further apart than this are a pause of the recording.
const PAUSE: Nanos = Nanos(10 * Nanos::SECOND.0);
const HOUR: u64 = 3_600 * Nanos::SECOND.0;

/// Whose reservation it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Daemons {
    /// The kubelet and the container runtime.
    Kube,
    /// Everything else that is no pod.
    System,
}

/// Adds up samples.
#[derive(Debug, Default)]
pub struct Record {
    readings: Readings,
    from: Option<Moment>,
    to: Moment,
    ticks: u64,
    covered: Nanos,
    kube: Peaks,
    system: Peaks,
    /// Memory left over the last [`REACTION`].
    left: VecDeque<(Nanos, Bytes)>,
    drop: Option<Bytes>,
}

/// What one group used, tick by tick.
#[derive(Debug, Default)]
struct Peaks {
    memory: Vec<(Moment, Bytes, u32)>,
    cpu: Vec<MilliCpu>,
    /// Its cgroups with the most that each used.
    cgroups: BTreeMap<CgroupPath, Bytes>,
    /// The cgroups that were largest in some tick.
    largest: Vec<CgroupPath>,
}

/// What follows from a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Advice {
    pub from: Moment,
    pub to: Moment,
    pub ticks: u64,
    /// How much time was recorded, without pauses.
    pub covered: Nanos,
    pub groups: Vec<Group>,
    /// Percent that was added to what was used.
    pub margin: u64,
    pub kube_reserved: ResourceList,
    pub system_reserved: ResourceList,
    /// `memory.available`; `None` if memory left was not recorded.
    pub threshold: Option<Quantity>,
    /// The most memory that the node lost within ten seconds.
    pub fastest_loss: Option<Quantity>,
    /// What limits would have met in this record, lowest first.
    pub preview: Vec<Preview>,
    /// What the advice lacks.
    pub problems: Vec<String>,
}

/// What one group of daemons used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    pub daemons: Daemons,
    /// Its cgroups, the largest first.
    pub cgroups: Vec<CgroupPath>,
    /// Working sets.
    pub memory: Option<Percentiles>,
    pub cpu: Option<Percentiles>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Percentiles {
    pub p50: Quantity,
    pub p95: Quantity,
    pub p99: Quantity,
    pub max: Quantity,
}

/// What a limit of memory would have met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    pub daemons: Daemons,
    /// Where the limit comes from.
    pub limit: &'static str,
    pub memory: Quantity,
    /// Ticks in which more was used.
    pub ticks: u64,
    /// The first of them.
    pub first: Option<Moment>,
    /// The cgroup of the group that was largest then.
    pub by: Option<CgroupPath>,
}

impl Record {
    /// A record in which `kube` is the cgroup of the kubelet and the runtime, if one is configured.
    #[must_use]
    pub fn new(kube: Option<CgroupPath>) -> Self {
        Self { readings: Readings::new(kube), ..Self::default() }
    }

    pub fn add(&mut self, sample: &Sample) {
        let at = sample.at;
        let passed = at.boot.since(self.to.boot);
        let goes_on = self.from.is_some() && at.boot > self.to.boot && passed <= PAUSE;
        if goes_on {
            self.covered = self.covered.plus(passed);
        } else {
            self.left.clear();
        }
        self.from.get_or_insert(at);
        (self.to, self.ticks) = (at, self.ticks + 1);
        let (kube, system) = self.readings.of(sample, goes_on.then_some(passed));
        self.kube.add(at, kube);
        self.system.add(at, system);
        if let Some(memory) = &sample.node.memory {
            self.lost(at.boot, memory.available);
        }
    }

    fn lost(&mut self, now: Nanos, left: Bytes) {
        self.left.push_back((now, left));
        while self.left.front().is_some_and(|(at, _)| now.since(*at) > REACTION) {
            self.left.pop_front();
        }
        let most = self.left.iter().map(|(_, left)| left.0).max().unwrap_or(left.0);
        self.drop = self.drop.max(Some(Bytes(most - left.0)));
    }

    /// What to reserve, and what `kube` and `system`, the configured reservations, would have met.
    /// `None` if there was no sample.
    #[must_use]
    pub fn advice(self, kube: &ResourceList, system: &ResourceList) -> Option<Advice> {
        let from = self.from?;
        let margin = match self.covered.0 / HOUR {
            0 => 50,
            1..24 => 25,
            _ => 10,
        };
        let (all_kube, all_system) = (self.kube.close(), self.system.close());
        let (for_kube, for_system) = (all_kube.reserve(margin), all_system.reserve(margin));
        let mut preview = all_kube.preview(Daemons::Kube, &for_kube, kube);
        preview.extend(all_system.preview(Daemons::System, &for_system, system));
        let threshold = self.drop.map(|Bytes(most)| {
            Quantity::bytes(up(with(most, margin).max(LEAST_THRESHOLD), MEMORY_STEP))
        });
        let groups = vec![all_kube.group(Daemons::Kube), all_system.group(Daemons::System)];
        let mut problems = Vec::new();
        if self.covered.0 < 24 * HOUR {
            problems.push(
                "this is little record: peaks of a day, as backups and rollouts, may be missing \
                 from it"
                    .into(),
            );
        }
        if groups[0].cgroups.is_empty() {
            problems.push(
                "no cgroup of a kubelet or a container runtime was found: what they use, if they \
                 run, is in system"
                    .into(),
            );
        }
        let is_blind = |group: &Group| {
            !group.cgroups.is_empty() && (group.memory.is_none() || group.cpu.is_none())
        };
        if groups.iter().any(is_blind) {
            problems.push("what is not measured in this record is not advised on".into());
        }
        Some(Advice {
            from,
            to: self.to,
            ticks: self.ticks,
            covered: self.covered,
            groups,
            margin,
            kube_reserved: for_kube,
            system_reserved: for_system,
            threshold,
            fastest_loss: self.drop.map(|Bytes(most)| Quantity::bytes(most)),
            preview,
            problems,
        })
    }
}

impl Peaks {
    fn add(&mut self, at: Moment, used: Used) {
        let largest = used.cgroups.iter().max_by_key(|(_, memory)| *memory);
        if let (Some(memory), Some((path, _))) = (used.memory, largest) {
            let known = self.largest.iter().position(|known| known == path);
            let place = known.unwrap_or_else(|| {
                self.largest.push(path.clone());
                self.largest.len() - 1
            });
            self.memory.push((at, memory, u32::try_from(place).unwrap_or(u32::MAX)));
        }
        self.cpu.extend(used.cpu);
        for (path, memory) in used.cgroups {
            let most = self.cgroups.entry(path).or_default();
            *most = (*most).max(memory);
        }
    }

    fn close(self) -> Closed {
        let mut memory: Vec<_> = self.memory.iter().map(|(_, memory, _)| memory.0).collect();
        memory.sort_unstable();
        let mut cpu: Vec<_> = self.cpu.iter().map(|cpu| cpu.0).collect();
        cpu.sort_unstable();
        Closed { peaks: self, memory, cpu }
    }
}

/// Peaks with their values in order.
struct Closed {
    peaks: Peaks,
    memory: Vec<u64>,
    cpu: Vec<u64>,
}

impl Closed {
    fn group(&self, daemons: Daemons) -> Group {
        let mut cgroups: Vec<_> = self.peaks.cgroups.iter().collect();
        cgroups.sort_by_key(|(path, most)| (std::cmp::Reverse(**most), *path));
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
    fn reserve(&self, margin: u64) -> ResourceList {
        let memory = percentile(&self.memory, 100)
            .map(|most| ("memory".into(), Quantity::bytes(up(with(most, margin), MEMORY_STEP))));
        let cpu = percentile(&self.cpu, 99)
            .map(|most| ("cpu".into(), Quantity::milli(up(with(most, margin), CPU_STEP))));
        memory.into_iter().chain(cpu).collect()
    }

    fn preview(
        &self,
        daemons: Daemons,
        advised: &ResourceList,
        configured: &ResourceList,
    ) -> Vec<Preview> {
        let limits = [
            ("p95", percentile(&self.memory, 95)),
            ("p99", percentile(&self.memory, 99)),
            ("recommended", advised.get("memory").map(|memory| memory.to_u64())),
            ("configured", configured.get("memory").map(|memory| memory.to_u64())),
        ];
        let met = |(limit, memory): (&'static str, Option<u64>)| {
            let memory = memory?;
            let mut above = self.peaks.memory.iter().filter(|(_, used, _)| used.0 > memory);
            let ticks = above.clone().count() as u64;
            let first = above.next();
            let by = first.and_then(|(_, _, place)| {
                self.peaks.largest.get(usize::try_from(*place).ok()?).cloned()
            });
            let first = first.map(|(at, ..)| *at);
            let memory = Quantity::bytes(memory);
            Some(Preview { daemons, limit, memory, ticks, first, by })
        };
        limits.into_iter().filter_map(met).collect()
    }
}

/// The value that `share` percent of all do not exceed; `None` without any.
fn percentile(sorted: &[u64], share: usize) -> Option<u64> {
    let place = (sorted.len() * share).div_ceil(100).saturating_sub(1);
    sorted.get(place).copied()
}

fn with(amount: u64, margin: u64) -> u64 {
    let more = u128::from(amount) * u128::from(100 + margin) / 100;
    u64::try_from(more).unwrap_or(u64::MAX)
}

fn up(amount: u64, step: u64) -> u64 {
    amount.max(1).checked_next_multiple_of(step).unwrap_or(amount)
}
