//! What limits of all pods would have met: the one in force, that of the settings, and a strict set of
//! CPUs.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use isobar_core::model::cgroup::{Cgroup, Limit};
use isobar_core::model::quantity::{Quantity, ResourceList};
use isobar_core::model::sample::Sample;
use isobar_core::model::settings::Settings;
use isobar_core::model::snapshot::working_set;
use isobar_core::model::units::{MilliCpu, Moment, Nanos};
use serde::Serialize;

use super::reach::{Met, Of, Reach, Seen, Tree};
use crate::allocatable::{CPU, MEMORY, Reservation};
use crate::cpus;
use crate::enforce::memory_of_pods;

/// A limit of all pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "LimitReached"))]
#[serde(rename_all = "camelCase")]
pub struct Reached {
    pub resource: &'static str,
    /// Where the limit comes from: `inForce`, `configured` or `strictCpus`.
    pub limit: &'static str,
    /// Of one that changed the last; `None` if it is not known.
    pub amount: Option<Quantity>,
    /// `None` if it is not known what the pods used.
    pub met: Option<Met>,
    /// The candidate that these settings rank first for `allocatableMemory.available` when a limit of
    /// memory was first exceeded, or, of one that was only close, when most was used. `None` if it was
    /// never close, no pod may be evicted, or that tick could not be judged; of CPU always.
    pub evicted_first: Option<String>,
}

impl Reached {
    /// The tick for which [`Reached::evicted_first`] is told.
    pub fn at_limit(&self) -> Option<Moment> {
        let met = self.met.as_ref().filter(|_| self.resource == MEMORY)?;
        met.first.or_else(|| met.longest.map(|_| met.at))
    }
}

#[derive(Debug, Default)]
pub(super) struct Limits {
    /// `memory.max` of kubepods, as it was recorded.
    in_force: Reach,
    last_in_force: Option<u64>,
    configured: Reach,
    /// `memory.max` that the settings give kubepods.
    memory: Option<u64>,
    strict: Reach,
    /// Thousandths of the CPUs that a strict reservation leaves to pods.
    cpu: Option<u64>,
    /// Of the tick before.
    before: Option<Tree>,
    has_pods: bool,
}

impl Limits {
    /// Sets what pods may use on a node of this capacity, as far as it is known.
    pub(super) fn allow(&mut self, settings: &Settings, capacity: &ResourceList) {
        self.memory = memory_of_pods(settings, capacity).and_then(Limit::at);
        // Where it does not start, it keeps pods from no CPUs either.
        if Reservation::of(settings, capacity).refusal(capacity).is_some() {
            self.cpu = None;
            return;
        }
        let n_cpus = capacity.get(CPU).map(|n| n.to_u64());
        let left = n_cpus.zip(cpus::n_reserved(settings)).map(|(all, n)| all.saturating_sub(n));
        self.cpu = left.map(|n| n.saturating_mul(1_000));
    }

    /// Adds a tick. `kubepods` is the cgroup of all pods with the CPU that it used.
    pub(super) fn add(
        &mut self,
        sample: &Sample,
        kubepods: Option<(&Cgroup, Option<MilliCpu>)>,
        passed: Option<Nanos>,
    ) {
        let tree = Arc::new(sample.cgroups.clone());
        let before = self.before.replace(Arc::clone(&tree)).filter(|_| passed.is_some());
        self.has_pods |= kubepods.is_some();
        let used = kubepods.and_then(|(files, _)| working_set(files)).map(|bytes| bytes.0);
        let in_force = match kubepods.and_then(|(files, _)| files.memory.max) {
            Some(Limit::At(limit)) => Some(limit),
            _ => None,
        };
        self.last_in_force = in_force.or(self.last_in_force);
        let cpu = kubepods.and_then(|(_, cpu)| cpu).map(|cpu| cpu.0);
        let all = [
            (&mut self.in_force, used, in_force),
            (&mut self.configured, used, self.memory),
            (&mut self.strict, cpu, self.cpu),
        ];
        let (at, tree, before) = (sample.at, &tree, before.as_ref());
        let (kubepods, pods) = (sample.kubepods.as_ref(), sample.pods.as_ref());
        for (reach, used, limit) in all {
            match used.zip(limit) {
                Some((used, limit)) => {
                    reach.add(&Seen { at, passed, used, limit, tree, before, kubepods, pods });
                }
                None => reach.pause(),
            }
        }
    }

    /// What they would have met, and what is not known of it.
    pub(super) fn close(
        self,
        settings: &Settings,
        capacity: &ResourceList,
    ) -> (Vec<Reached>, Vec<String>) {
        let Self { in_force, last_in_force, configured, memory, strict, cpu, has_pods, .. } = self;
        let node = &settings.node;
        let of = |limit, of: Of, amount: Option<u64>, reach: Reach| Reached {
            resource: if of == Of::Cpu { CPU } else { MEMORY },
            limit,
            amount: amount.map(|amount| of.quantity(amount)),
            met: reach.close(of),
            evicted_first: None,
        };
        let is_reserved = cpus::n_reserved(settings).is_some();
        let all = [
            last_in_force.map(|_| of("inForce", Of::Memory, last_in_force, in_force)),
            // Without it there is no cgroup of all pods.
            node.cgroups_per_qos.then(|| of("configured", Of::Memory, memory, configured)),
            is_reserved.then(|| of("strictCpus", Of::Cpu, cpu, strict)),
        ];
        let all: Vec<_> = all.into_iter().flatten().collect();
        let refusal = Reservation::of(settings, capacity).refusal(capacity);
        let is_unknown = all.iter().any(|one| one.amount.is_none() || one.met.is_none());
        let unknown = match (&refusal, has_pods, is_unknown) {
            (Some(refusal), ..) => Some(refusal.as_str()),
            (None, false, _) => Some(
                "no cgroup of all pods (kubepods) was found: what its limits would have met is not \
                 known",
            ),
            (None, true, true) => Some(
                "a limit of all pods, or what they used of it, is not recorded: what it would have \
                 met is not known",
            ),
            (None, true, false) => None,
        };
        let loose = (is_reserved && !cpus::is_strict(node)).then_some(
            "the reservation of CPUs is not strict: cpuManagerPolicy static with \
             strict-cpu-reservation, or writeLimits: [reservedCpus], would keep pods from them",
        );
        (all, unknown.into_iter().chain(loose).map(String::from).collect())
    }
}
