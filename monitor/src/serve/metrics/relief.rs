//! What was decided and done, by isobar and by the kernel, and the limits of the node.

use std::fmt;

use super::catalogue::{
    DECISIONS, FREED, KILLED_PROCESSES, LIMIT_CONFIGURED, LIMIT_CONFIGURED_BYTES, LIMIT_DIFFERS,
    LIMIT_DRIFTS, LIMIT_LIVE, LIMIT_LIVE_BYTES, OOM_KILLS, STEPS, STEPS_IN_FORCE,
};
use super::families::Families;
use crate::serve::totals::{OomLimit, RESULTS, STEPS_AND_RELEASE, Totals};
use isobar_core::model::capability::CapabilityState;
use isobar_core::model::decision::StepKind;
use isobar_core::model::limit::{LimitResult, LimitState};
use isobar_core::view::View;

/// The capability without which OOM kills are not seen.
const OOM_PROBE: &str = "mark_victim";

pub(super) fn write(families: &mut Families<'_>, view: &View, totals: &Totals) -> fmt::Result {
    let decisions = totals.decisions.iter();
    families.write(&DECISIONS, decisions.map(|((result, why), n)| ([*result, why], *n)))?;

    // What has not happened yet is 0: a rate needs to see the first one come.
    let steps = &totals.steps;
    let all = STEPS_AND_RELEASE.iter().flat_map(|step| RESULTS.map(|result| (*step, result)));
    let taken = all.map(|key| ([key.0, key.1], steps.taken.get(&key).copied().unwrap_or(0)));
    families.write(&STEPS, taken)?;
    let in_force =
        |step: StepKind| ([step.name()], steps.in_force.get(&step).copied().unwrap_or(0));
    families.write(&STEPS_IN_FORCE, StepKind::ALL.map(in_force))?;
    families.write(&KILLED_PROCESSES, [([], steps.ended)])?;
    families.write(&FREED, [([], steps.freed)])?;

    let probe = view.capabilities.iter().find(|capability| capability.name == OOM_PROBE);
    let is_seen = probe.is_some_and(|probe| probe.state == CapabilityState::Attached);
    let kills =
        |limit: OomLimit| ([limit.name()], totals.oom_kills.get(&limit).copied().unwrap_or(0));
    let kills = is_seen.then_some(OomLimit::ALL.map(kills));
    families.write(&OOM_KILLS, kills.into_iter().flatten())?;
    limits(families, &view.limits, totals.drifts)
}

fn limits(families: &mut Families<'_>, limits: &[LimitState], drifts: u64) -> fmt::Result {
    let is_memory =
        |one: &LimitState| ["memory.", "hugetlb."].iter().any(|of| one.write.file.starts_with(of));
    let each = |of_memory: bool, value: fn(&LimitState) -> Option<&String>| {
        let alike = limits.iter().filter(move |one| is_memory(one) == of_memory);
        alike.filter_map(move |one| Some((labels(one), value(one)?.parse::<u64>().ok()?)))
    };
    families.write(&LIMIT_CONFIGURED_BYTES, each(true, |one| Some(&one.write.value)))?;
    families.write(&LIMIT_LIVE_BYTES, each(true, |one| one.live.as_ref()))?;
    families.write(&LIMIT_CONFIGURED, each(false, |one| Some(&one.write.value)))?;
    families.write(&LIMIT_LIVE, each(false, |one| one.live.as_ref()))?;
    let is_other =
        |one: &LimitState| !matches!(one.result, LimitResult::Kept | LimitResult::Written);
    let differs = limits.iter().map(|one| (labels(one), is_other(one)));
    families.write(&LIMIT_DIFFERS, differs)?;
    families.write(&LIMIT_DRIFTS, [([], drifts)])
}

fn labels(limit: &LimitState) -> [&str; 2] {
    [&limit.write.cgroup.0, &limit.write.file]
}
