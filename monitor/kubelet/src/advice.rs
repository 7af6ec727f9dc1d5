//! What to reserve for daemons, from what they used, and what limits would have met.
//! In: the samples of a recording, in order, and settings. Out: peaks of the kubelet with its runtime
//! and of the rest of the system, reservations that would have held them, when lower ones would have
//! been reached, and how often all pods came to their limits.

mod peaks;
mod pods;
mod reach;
mod readings;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::VecDeque;

use isobar_core::model::cgroup::CgroupPath;
use isobar_core::model::quantity::{Quantity, ResourceList};
use isobar_core::model::sample::{PAUSE, Sample};
use isobar_core::model::settings::Settings;
use isobar_core::model::threshold::Signal;
use isobar_core::model::units::{Bytes, Moment, Nanos};
use serde::Serialize;

use self::peaks::{MOST_TICKS, Peaks, up_memory, with};
use self::pods::Limits;
use self::readings::{All, Readings};
use crate::allocatable::{CPU, MEMORY, Reservation};

pub use self::pods::Reached;
pub use self::reach::{Met, Share, Span, Tally};

/// The kubelet's own `memory.available`.
const LEAST_THRESHOLD: u64 = 100 << 20;
/// How long the kubelet may take to see that memory is short: its housekeeping interval.
const REACTION: Nanos = Nanos(10 * Nanos::SECOND.0);
const HOUR: u64 = 3_600 * Nanos::SECOND.0;

/// Whose reservation it is, or who used something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Daemons {
    /// The kubelet and the container runtime.
    Kube,
    /// Of these the kubelet.
    Kubelet,
    /// Of these the container runtime.
    Runtime,
    /// Everything else that is no pod.
    System,
}

/// Adds up samples.
#[derive(Debug, Default)]
pub struct Record {
    settings: Settings,
    /// What is known of it: CPUs, and memory once it was read.
    capacity: ResourceList,
    /// Later settings differ in what the advice depends on.
    has_changed: bool,
    readings: Readings,
    from: Option<Moment>,
    to: Moment,
    ticks: u64,
    covered: Nanos,
    kube: Peaks,
    kubelet: Peaks,
    runtime: Peaks,
    system: Peaks,
    pods: Limits,
    /// Memory left over the last [`REACTION`].
    left: VecDeque<(Nanos, Bytes)>,
    drop: Option<Bytes>,
}

/// What follows from a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// The reservations of the settings that were previewed.
    pub configured: Configured,
    /// What reservations would have met in this record, lowest first.
    pub preview: Vec<Preview>,
    /// What limits of all pods would have met.
    pub pods: Vec<Reached>,
    /// What the advice lacks.
    pub problems: Vec<String>,
}

/// What one group of daemons used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "DaemonGroup"))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Percentiles {
    pub p50: Quantity,
    pub p95: Quantity,
    pub p99: Quantity,
    pub max: Quantity,
}

/// What the settings reserve, as the kubelet counts it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Configured {
    pub kube_reserved: ResourceList,
    pub system_reserved: ResourceList,
    /// The hard threshold of `memory.available`.
    pub threshold: Option<String>,
}

/// What a reservation would have met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    pub daemons: Daemons,
    /// `memory`, of which an enforced reservation is a limit, or `cpu`, of which it is a share.
    pub resource: &'static str,
    /// Where the amount comes from.
    pub limit: &'static str,
    pub amount: Quantity,
    /// Ticks in which more was used.
    pub ticks: u64,
    /// The first of them.
    pub first: Option<Moment>,
    /// The cgroup of the group that was largest then.
    pub by: Option<CgroupPath>,
}

impl Record {
    /// A record of a node with so many CPUs, previewed with these settings.
    pub fn new(settings: Settings, n_cpus: Option<u32>) -> Self {
        let readings = Readings::new(settings.node.clone(), settings.workloads.clone());
        let mut record = Self { settings, readings, ..Self::default() };
        record.has_cpus(n_cpus);
        record
    }

    /// Takes note of how many CPUs the node has from now on; `None` or 0 if that is not known.
    pub fn has_cpus(&mut self, n_cpus: Option<u32>) {
        let n_cpus = n_cpus.filter(|n| *n > 0).map(u64::from);
        self.capacity.extend(n_cpus.map(|n| (CPU.into(), Quantity::count(n))));
        self.pods.allow(&self.settings, &self.capacity);
    }

    /// Takes note of settings that were in force later.
    pub fn later(&mut self, settings: &Settings) {
        let (was, is) = (&self.settings, settings);
        self.has_changed |=
            was.node != is.node || was.eviction.thresholds != is.eviction.thresholds;
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
        if let Some(memory) = &sample.node.memory {
            let total = Quantity::bytes(memory.total.0);
            // A node may come back with more.
            if self.capacity.insert(MEMORY.into(), total) != Some(total) {
                self.pods.allow(&self.settings, &self.capacity);
            }
            self.lost(at.boot, memory.available);
        }
        let passed = goes_on.then_some(passed);
        let All { kube, kubelet, runtime, system, pods } = self.readings.of(sample, passed);
        self.kube.add(at, kube);
        self.kubelet.add(at, kubelet);
        self.runtime.add(at, runtime);
        self.system.add(at, system);
        self.pods.add(sample, pods, passed);
    }

    fn lost(&mut self, now: Nanos, left: Bytes) {
        self.left.push_back((now, left));
        while self.left.front().is_some_and(|(at, _)| now.since(*at) > REACTION) {
            self.left.pop_front();
        }
        let most = self.left.iter().map(|(_, left)| left.0).max().unwrap_or(left.0);
        self.drop = self.drop.max(Some(Bytes(most - left.0)));
    }

    /// What to reserve, and what limits would have met. `None` if there was no sample.
    pub fn advice(self) -> Option<Advice> {
        let from = self.from?;
        let margin = match self.covered.0 / HOUR {
            0 => 50,
            1..24 => 25,
            _ => 10,
        };
        let configured = Configured::of(&self.settings, &self.capacity);
        let (kube, system) = (self.kube.close(), self.system.close());
        let (for_kube, for_system) = (kube.reserve(margin), system.reserve(margin));
        let mut preview = kube.preview(Daemons::Kube, &for_kube, &configured.kube_reserved);
        preview.extend(system.preview(Daemons::System, &for_system, &configured.system_reserved));
        let threshold = self
            .drop
            .map(|Bytes(most)| Quantity::bytes(up_memory(with(most, margin).max(LEAST_THRESHOLD))));
        // One alone says no more than both.
        let parts = [(Daemons::Kubelet, self.kubelet), (Daemons::Runtime, self.runtime)];
        let parts: Vec<_> = parts.map(|(who, peaks)| peaks.close().group(who)).into();
        let are_both = parts.iter().all(|part| !part.cgroups.is_empty());
        let parts = parts.into_iter().filter(|_| are_both);
        let of_kube = std::iter::once(kube.group(Daemons::Kube)).chain(parts);
        let groups: Vec<_> = of_kube.chain([system.group(Daemons::System)]).collect();
        let (pods, unknown) = self.pods.close(&self.settings, &self.capacity);
        let mut problems = problems(self.covered, &groups, self.readings.counted_in);
        if self.ticks > MOST_TICKS as u64 {
            problems.push(format!("of daemons, only the first {MOST_TICKS} ticks count"));
        }
        problems.extend(unknown);
        problems.extend(self.readings.left_out.map(|(kube, system)| {
            format!(
                "systemReserved is without what {} uses, which lies in {}: do not enforce it as a limit \
                 of that cgroup, or name it as systemReservedCgroup for advice on all of it",
                kube.0, system.0
            )
        }));
        if self.has_changed {
            problems.push(
                "the configuration changed within this record: limits are those of its begin"
                    .into(),
            );
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
            configured,
            preview,
            pods,
            problems,
        })
    }
}

impl Configured {
    fn of(settings: &Settings, capacity: &ResourceList) -> Self {
        let Reservation { kube, system, .. } = Reservation::of(settings, capacity);
        let mut thresholds = settings.eviction.thresholds.iter();
        let hard = thresholds.find(|one| one.signal == Signal::MemoryAvailable && one.is_hard());
        let threshold = hard.map(|one| one.value.to_string());
        Self { kube_reserved: kube, system_reserved: system, threshold }
    }
}

/// What the advice on daemons lacks.
fn problems(
    covered: Nanos,
    groups: &[Group],
    counted_in: Option<(CgroupPath, CgroupPath)>,
) -> Vec<String> {
    let is_blind = |group: &Group| {
        !group.cgroups.is_empty() && (group.memory.is_none() || group.cpu.is_none())
    };
    let kube = groups.iter().find(|group| group.daemons == Daemons::Kube);
    let all = [
        (
            covered.0 < 24 * HOUR,
            "this is little record: peaks of a day, as backups and rollouts, may be missing from it",
        ),
        (
            kube.is_none_or(|kube| kube.cgroups.is_empty()) && counted_in.is_none(),
            "no cgroup of a kubelet or a container runtime was found: what they use, if they run, is \
             in system",
        ),
        (groups.iter().any(is_blind), "what is not measured in this record is not advised on"),
    ];
    let all = all.into_iter().filter(|(is, _)| *is).map(|(_, text)| text.into());
    let counted = counted_in.map(|(kube, system)| {
        format!(
            "what {} uses is in systemReserved, because it lies in {}: kubeReserved is without it, or it \
             would be reserved twice",
            kube.0, system.0
        )
    });
    all.chain(counted).collect()
}
