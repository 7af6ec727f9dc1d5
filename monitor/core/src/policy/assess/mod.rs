//! Whether a resource is short, in which scope (the node or all pods), and since when.
//! In: settings, one sample, its snapshot and what was remembered. Out: an `Assessment`.
//! Reads no clock and no file, so the same recording gives the same bytes again.
//! Rules and their sources: docs/policy.md.

pub mod admission;
pub mod conditions;
pub mod critical;
pub mod growth;
mod kept;
mod local_storage;
pub mod nearly;
mod others;
pub mod pressure;
pub mod signals;
pub mod taint;
mod telling;
pub mod thresholds;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use self::conditions::ConditionStanding;
use self::growth::GrowthStanding;
pub(crate) use self::growth::THRASH;
use self::local_storage::OverrunStanding;
pub(crate) use self::others::CALM;
use self::others::{others, sort, waits_for_memory};
use self::pressure::{PressureStanding, is_emergency};
use self::telling::relief_begins;
pub(crate) use self::telling::relief_of;
use self::thresholds::ThresholdStanding;
use crate::model::decision::{Assessment, Met, Trigger, Unobserved};
use crate::model::sample::Sample;
use crate::model::settings::Settings;
use crate::model::snapshot::Snapshot;
use crate::model::threshold::Signal;
use crate::model::units::{Nanos, Percent};
use crate::model::unsampled::unsampled;
use crate::policy::scope;
use crate::policy::takers::Limited;

/// What is remembered from tick to tick.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AssessStanding {
    pub(super) conditions: ConditionStanding,
    thresholds: ThresholdStanding,
    pressure: PressureStanding,
    growth: GrowthStanding,
    overruns: OverrunStanding,
    /// When each threshold was last what is to be relieved, by name; forgotten after ten seconds.
    relieved: BTreeMap<String, Nanos>,
}

/// Judges one tick. Cannot fail. Also tells, in their order, the other thresholds that may be looked at
/// where nothing can be done about the first. `stalled`: for how long tasks stalled for want of memory, but
/// for those at limits of their own.
pub fn assess(
    settings: &Settings,
    sample: &Sample,
    snapshot: &Snapshot,
    limited: Limited,
    stalled: impl FnOnce() -> Option<Percent>,
    standing: &mut AssessStanding,
) -> (Assessment, Vec<Met>) {
    let kubepods = scope::kubepods(snapshot);
    let files = kubepods.and_then(|(_, scope)| scope.files.as_deref());
    let (conditions, mut events) =
        conditions::judge(&settings.conditions, snapshot, &mut standing.conditions);
    let taints = taint::taints(&settings.conditions, &conditions);

    let eviction = &settings.eviction;
    let all = thresholds::rewritten(&eviction.thresholds, &sample.node.filesystems);
    let watched: BTreeSet<_> = all.iter().map(|threshold| threshold.signal).collect();
    let (mut observations, mut unobserved) = (Vec::new(), Vec::new());
    for signal in Signal::ALL {
        match signals::observe(signal, sample, files) {
            Ok(observation) => observations.push(observation),
            Err(why) if watched.contains(&signal) => unobserved.push(Unobserved { signal, why }),
            Err(_) => {}
        }
    }
    let now = sample.at.boot;
    let unsampled = unsampled(snapshot.interval);
    standing.thresholds.pass_over(unsampled);
    standing.pressure.pass_over(unsampled);
    let verdict =
        thresholds::judge(eviction, &all, &observations, sample, &mut standing.thresholds);
    events.extend(verdict.events);

    let (overruns, told) = local_storage::judge(sample, &mut standing.overruns);
    events.extend(told);

    let outlooks = growth::outlooks(sample, kubepods, limited, &mut standing.growth);
    let low = growth::low(&outlooks, sample, kubepods);
    let ours =
        pressure::judge(&eviction.pressure, snapshot, &outlooks, &low, &mut standing.pressure);
    let mut met: Vec<_> = verdict.met.into_iter().chain(ours).collect();
    sort(&mut met, settings.ranking.order);
    let is_read = |signal| observations.iter().any(|observation| observation.signal == signal);
    let unread = all.iter().filter(|threshold| !is_read(threshold.signal));
    let unmeasured = unread
        .map(|threshold| Trigger::Eviction(*threshold))
        .chain(pressure::unmeasured(&eviction.pressure, snapshot, &outlooks))
        .collect();

    let waits = waits_for_memory(&met, stalled);
    for met in met.iter_mut().filter(|met| waits(met)) {
        met.is_due = false;
    }
    let due = || met.iter().filter(|met| met.is_due);
    let is_fresh = |met: &&Met| match met.threshold {
        Trigger::Eviction(threshold) => verdict.fresh.contains(&threshold.signal),
        Trigger::Pressure(threshold) => {
            !pressure::has_eased(&threshold, snapshot, &standing.growth)
        }
    };
    let fresh = due().find(is_fresh);
    let is_stale = fresh.is_none() && due().next().is_some();
    // Memory that is about to end does not wait for whatever else is due.
    let emergency = due().find(|met| is_emergency(&met.threshold, met.measured));
    let first = emergency.or(fresh).or(due().next()).copied();
    let others = first.map(|first| others(&first, due().filter(is_fresh)));
    events.extend(relief_begins(first.as_ref(), now, &mut standing.relieved));
    let assessment = Assessment {
        conditions,
        taints,
        refused: admission::refused(&verdict.pressure),
        node_pressure: verdict.pressure,
        observations,
        unobserved,
        outlooks,
        overruns,
        met,
        unmeasured,
        first,
        is_stale,
        events,
    };
    (assessment, others.unwrap_or_default())
}

#[cfg(test)]
mod tests;
