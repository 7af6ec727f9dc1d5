//! What is left on the node, and what the policy made of it.

use std::collections::BTreeMap;
use std::fmt;

use super::catalogue::{
    CONDITION, CONDITION_AVERAGE, CONDITION_THRESHOLD, MEMORY_EXHAUSTION, MEMORY_GROWTH,
    MEMORY_LEFT, NODE_PRESSURE, RECLAIM_EFFICIENCY, SIGNAL_AVAILABLE, SIGNAL_AVAILABLE_BYTES,
    SIGNAL_CAPACITY, SIGNAL_CAPACITY_BYTES, THRESHOLD_DUE, THRESHOLD_MET,
};
use super::families::{Families, Value};
use crate::serve::totals::Totals;
use isobar_core::model::condition::{Condition, Status};
use isobar_core::model::decision::{Assessment, NodePressure, Observation, Outlook, Trigger};
use isobar_core::model::threshold::Resource;
use isobar_core::view::View;

pub(super) fn write(families: &mut Families<'_>, view: &View, totals: &Totals) -> fmt::Result {
    let assessment = &view.decision.assessment;
    outlooks(families, &assessment.outlooks)?;
    signals(families, &assessment.observations)?;
    conditions(families, &assessment.conditions)?;
    let holds = |one: NodePressure| ([one.name()], assessment.node_pressure.contains(&one));
    families.write(&NODE_PRESSURE, NodePressure::ALL.map(holds))?;

    let triggers = totals.configured.iter().flat_map(|configured| &configured.triggers);
    // Two thresholds may differ in their value alone; a series stands for both.
    let mut known = BTreeMap::<(String, &str), (bool, bool)>::new();
    for trigger in triggers.filter(|trigger| is_measured(trigger, assessment)) {
        let met = assessment.met.iter().find(|met| met.threshold == *trigger);
        let (is_met, is_due) = known.entry((trigger.name(), kind(trigger))).or_default();
        *is_met |= met.is_some();
        *is_due |= met.is_some_and(|met| met.is_due);
    }
    let met = known.iter().map(|((name, kind), (is_met, _))| ([&**name, kind], *is_met));
    families.write(&THRESHOLD_MET, met)?;
    let due = known.iter().map(|((name, kind), (_, is_due))| ([&**name, kind], *is_due));
    families.write(&THRESHOLD_DUE, due)
}

fn outlooks(families: &mut Families<'_>, outlooks: &[Outlook]) -> fmt::Result {
    fn each<V: Into<Value>>(
        outlooks: &[Outlook],
        value: impl Fn(&Outlook) -> Option<V>,
    ) -> impl Iterator<Item = ([&'static str; 1], V)> {
        outlooks.iter().filter_map(move |one| Some(([one.scope.name()], value(one)?)))
    }
    families.write(&MEMORY_LEFT, each(outlooks, |one| one.left))?;
    families.write(&MEMORY_GROWTH, each(outlooks, |one| one.growth))?;
    families.write(&MEMORY_EXHAUSTION, each(outlooks, |one| one.lasts))?;
    families.write(&RECLAIM_EFFICIENCY, each(outlooks, |one| one.efficiency))
}

fn signals(families: &mut Families<'_>, observations: &[Observation]) -> fmt::Result {
    let is_count =
        |one: &Observation| matches!(one.signal.resource(), Resource::Inodes | Resource::Pids);
    let each = |counts: bool, value: fn(&Observation) -> u64| {
        let alike = observations.iter().filter(move |one| is_count(one) == counts);
        alike.map(move |one| ([one.signal.name()], value(one)))
    };
    families.write(&SIGNAL_AVAILABLE_BYTES, each(false, |one| one.available))?;
    families.write(&SIGNAL_CAPACITY_BYTES, each(false, |one| one.capacity))?;
    families.write(&SIGNAL_AVAILABLE, each(true, |one| one.available))?;
    families.write(&SIGNAL_CAPACITY, each(true, |one| one.capacity))
}

fn conditions(families: &mut Families<'_>, conditions: &[Condition]) -> fmt::Result {
    let states = conditions.iter().flat_map(|one| {
        Status::ALL.map(|status| ([&*one.kind, status.name()], status == one.status))
    });
    families.write(&CONDITION, states)?;
    let averages = conditions.iter().flat_map(|one| {
        let windows = [("10s", one.avg10), ("60s", one.avg60)];
        windows.into_iter().filter_map(|(window, share)| Some(([&*one.kind, window], share?)))
    });
    families.write(&CONDITION_AVERAGE, averages)?;
    let thresholds = conditions.iter().map(|one| ([&*one.kind], one.threshold));
    families.write(&CONDITION_THRESHOLD, thresholds)
}

fn kind(trigger: &Trigger) -> &'static str {
    match trigger {
        Trigger::Eviction(threshold) if threshold.is_hard() => "hard",
        Trigger::Eviction(_) => "soft",
        Trigger::Pressure(_) => "pressure",
    }
}

/// One that was not measured is neither met nor calm.
fn is_measured(trigger: &Trigger, assessment: &Assessment) -> bool {
    let is_read = match trigger {
        Trigger::Eviction(threshold) => {
            assessment.observations.iter().any(|one| one.signal == threshold.signal)
        }
        Trigger::Pressure(_) => true,
    };
    is_read && !assessment.unmeasured.contains(trigger)
}
