//! What the agent has seen and done since it started, where a view tells of one tick alone.
//! In: each tick, as it is published. Out: counters that never fall, and what pods are called.

mod pairs;
mod steps;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use isobar_core::model::cost::Cost;
use isobar_core::model::decision::{Decision, StepKind, Trigger};
use isobar_core::model::limit::{LimitResult, LimitState};
use isobar_core::model::sample::{Cause, GapReason, Sample};
use isobar_core::model::settings::Settings;
use isobar_core::model::snapshot::Snapshot;
use isobar_core::model::units::Nanos;
use isobar_core::model::unsampled::unsampled;
use isobar_core::model::workload::{Pod, Pods, by_cgroup_uid};
use isobar_core::policy::engine::Step;
use isobar_core::view::foresight::{Foresight, OomLimit};
use isobar_kubelet::cpus::Pool;

use crate::record::incident::Counts;

use self::pairs::Pairs;
use self::steps::Steps;
pub(super) use self::steps::{RESULTS, steps_and_release};

/// Namespace and name of pods, by uid.
pub(super) type Names = BTreeMap<String, (String, String)>;

/// Upper bounds of tick durations; one bucket more has none.
#[rustfmt::skip]
pub(super) const TICK_BOUNDS: [Nanos; 10] = [
    Nanos(1_000_000), Nanos(2_000_000), Nanos(5_000_000), Nanos(10_000_000), Nanos(20_000_000),
    Nanos(50_000_000), Nanos(100_000_000), Nanos(250_000_000), Nanos(500_000_000), Nanos::SECOND,
];

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Totals {
    pub(super) ticks: BTreeMap<Cause, u64>,
    pub(super) tick_durations: Histogram,
    /// See [`unsampled`].
    pub(super) unwatched: Nanos,
    /// Waits for a CPU; bounds as in `GroupStall::histogram`.
    pub(super) latency: Histogram,
    pub(super) pairs: Pairs,
    /// By result and reason.
    pub(super) decisions: BTreeMap<(&'static str, String), u64>,
    pub(super) steps: Steps,
    pub(super) oom_kills: BTreeMap<OomLimit, u64>,
    pub(super) foresight: Foresight,
    /// As of the last look; `None` without the static policy of the CPU manager.
    pub(super) cpus: Option<Pool>,
    pub(super) gaps: BTreeMap<GapReason, u64>,
    /// How often a limit was found changed by another process.
    pub(super) drifts: u64,
    pub(super) names: Arc<Names>,
    /// The pods that have these names.
    named: Option<Pods>,
    /// `None` if nothing is recorded.
    pub(super) recorded: Option<Counts>,
    /// `None` before the first tick.
    pub(super) configured: Option<Arc<Configured>>,
}

/// Counts by length, and the sum of all lengths. Without a bucket nothing was measured.
#[derive(Debug, Clone, Default)]
pub(super) struct Histogram {
    pub(super) buckets: Vec<u64>,
    pub(super) sum: Nanos,
}

/// What the configuration asks for.
#[derive(Debug)]
pub(super) struct Configured {
    pub(super) generation: u64,
    pub(super) triggers: Vec<Trigger>,
    pub(super) enforce: BTreeSet<StepKind>,
}

impl Totals {
    /// Counts what a tick has seen, decided and heard of.
    pub(super) fn tick(&mut self, sample: &Sample, settings: &Settings, step: &Step) {
        let Step { snapshot, decision, .. } = step;
        *self.ticks.entry(sample.cause).or_default() += 1;
        self.unwatched = self.unwatched.plus(unsampled(snapshot.interval));
        self.name(sample.pods.as_ref());
        self.configure(settings);
        self.latency.add_waits(snapshot);
        for kill in &snapshot.oom_kills {
            *self.oom_kills.entry(OomLimit::of(kill, snapshot)).or_default() += kill.processes();
        }
        self.foresight.tick(&sample.outcomes, step);
        // That a table was full stays a gap for good; how much it lost is counted in the kernel.
        for gap in snapshot.gaps.iter().filter(|gap| gap.why != GapReason::Full) {
            *self.gaps.entry(gap.why).or_default() += 1;
        }
        *self.decisions.entry(result_and_reason(decision)).or_default() += 1;
        self.steps.tick(sample, &decision.relief);
    }

    /// Counts who made whom wait, from pairs in the order of what they cost.
    pub(super) fn waits(&mut self, snapshot: &Snapshot) {
        self.pairs.tick(snapshot, &self.names);
    }

    /// Counts what a tick took.
    pub(super) fn took(&mut self, cost: &Cost) {
        let durations = &mut self.tick_durations;
        durations.buckets.resize(TICK_BOUNDS.len() + 1, 0);
        let took = cost.tick.plus(cost.publishing);
        durations.buckets[TICK_BOUNDS.partition_point(|bound| *bound < took)] += 1;
        durations.sum = durations.sum.plus(took);
    }

    /// Counts limits that a new look found changed.
    pub(super) fn limits(&mut self, states: &[LimitState]) {
        let drifted = states.iter().filter(|state| state.result == LimitResult::Drifted);
        self.drifts += drifted.count() as u64;
    }

    fn name(&mut self, pods: Option<&Pods>) {
        let Some(pods) = pods else { return };
        if self.named.as_ref().is_some_and(|before| Arc::ptr_eq(before, pods)) {
            return;
        }
        let name =
            |(uid, pod): (&str, &Pod)| (uid.to_owned(), (pod.namespace.clone(), pod.name.clone()));
        self.names = Arc::new(by_cgroup_uid(pods).into_iter().map(name).collect());
        self.named = Some(Arc::clone(pods));
    }

    fn configure(&mut self, settings: &Settings) {
        if self.configured.as_ref().is_some_and(|old| old.generation == settings.generation) {
            return;
        }
        let of_kubelet = settings.eviction.thresholds.iter().copied().map(Trigger::Eviction);
        let own = settings.eviction.pressure.iter().copied().map(Trigger::Pressure);
        self.configured = Some(Arc::new(Configured {
            generation: settings.generation,
            triggers: of_kubelet.chain(own).collect(),
            enforce: settings.relief.enforce.clone(),
        }));
    }
}

impl Histogram {
    /// Waits of the whole node that ended in this interval.
    fn add_waits(&mut self, snapshot: &Snapshot) {
        let Some(cpu) = &snapshot.whole.cpu else { return };
        let Some(contention) = cpu.contention else { return };
        let n = self.buckets.len().max(cpu.histogram.len());
        self.buckets.resize(n, 0);
        for (total, now) in self.buckets.iter_mut().zip(&cpu.histogram) {
            *total += now;
        }
        self.sum = self.sum.plus(contention.now);
    }
}

fn result_and_reason(decision: &Decision) -> (&'static str, String) {
    let relief = &decision.relief;
    match (relief.actions.first(), &relief.held) {
        (Some(action), _) => ("acted", action.reason.threshold.name()),
        (None, Some(hold)) => ("held", hold.name().into()),
        (None, None) => ("none", String::new()),
    }
}

#[cfg(test)]
mod tests;
