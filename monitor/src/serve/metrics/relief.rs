//! What was decided and done, by isobar and by the kernel, and the limits of the node.

use std::fmt;

use super::catalogue::{
    CPU_EXCLUSIVE, CPU_SHARED_POOL, DECISIONS, FORECASTS, FREED, KILLED_PROCESSES,
    LIMIT_CONFIGURED, LIMIT_CONFIGURED_BYTES, LIMIT_DIFFERS, LIMIT_DRIFTS, LIMIT_LIVE,
    LIMIT_LIVE_BYTES, NODE_ALLOCATABLE, NODE_CAPACITY, NODE_REQUESTED, OOM_KILLS,
    OOM_KILLS_FORESEEN, STEPS, STEPS_IN_FORCE,
};
use super::families::Families;
use crate::serve::totals::{RESULTS, Totals, steps_and_release};
use isobar_core::model::cgroup::Limit;
use isobar_core::model::decision::StepKind;
use isobar_core::model::limit::{LimitResult, LimitState, NodeResources};
use isobar_core::model::quantity::ResourceList;
use isobar_core::model::snapshot::Scope;
use isobar_core::policy::scope::kubepods;
use isobar_core::view::View;
use isobar_core::view::foresight::OomLimit;
use isobar_kubelet::fit::requested;

/// Resources of which a node has a fixed amount, and pods a request.
const REQUESTED: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

pub(super) fn write(families: &mut Families<'_>, view: &View, totals: &Totals) -> fmt::Result {
    let decisions = totals.decisions.iter();
    families.write(&DECISIONS, decisions.map(|((result, why), n)| ([*result, why], *n)))?;

    // What has not happened yet is 0: a rate needs to see the first one come.
    let steps = &totals.steps;
    let all = steps_and_release().flat_map(|step| RESULTS.map(|result| (step, result)));
    let taken = all.map(|key| ([key.0, key.1], steps.taken.get(&key).copied().unwrap_or(0)));
    families.write(&STEPS, taken)?;
    let in_force =
        |step: StepKind| ([step.name()], steps.in_force.get(&step).copied().unwrap_or(0));
    families.write(&STEPS_IN_FORCE, StepKind::ALL.map(in_force))?;
    families.write(&KILLED_PROCESSES, [([], steps.ended)])?;
    families.write(&FREED, [([], steps.freed)])?;

    let counts =
        |scope: &Scope| scope.files.as_ref().is_some_and(|one| one.memory.events.is_some());
    // Where no source tells of kills, that none was seen does not mean that there was none.
    let is_seen = view.snapshot.covers.oom_kills || view.snapshot.scopes.values().any(counts);
    let kills =
        |limit: OomLimit| ([limit.name()], totals.oom_kills.get(&limit).copied().unwrap_or(0));
    let kills = is_seen.then_some(OomLimit::ALL.map(kills));
    families.write(&OOM_KILLS, kills.into_iter().flatten())?;
    let tally = totals.foresight.tally();
    let foreseen = is_seen.then_some(([], tally.oom_kills_foreseen));
    families.write(&OOM_KILLS_FORESEEN, foreseen)?;
    let forecasts = [
        (["cameTrue"], tally.came_true),
        (["averted"], tally.averted),
        (["unfounded"], tally.unfounded),
    ];
    families.write(&FORECASTS, forecasts)?;
    limits(families, view, totals)
}

fn limits(families: &mut Families<'_>, view: &View, totals: &Totals) -> fmt::Result {
    let drifts = totals.drifts;
    // What a state that the kubelet refuses assigns is not known.
    let cpus = totals.cpus.as_ref().filter(|pool| pool.problems.is_empty());
    let cpus = cpus.and_then(|pool| pool.sets.as_ref());
    let limits = &view.limits;
    let configured = |of_memory: bool| {
        let alike = limits.iter().filter(move |one| is_memory(&one.write.file) == of_memory);
        let numbers = alike.filter(|one| is_number(&one.write.file));
        numbers.filter_map(|one| Some((labels(one), one.write.value.parse::<u64>().ok()?)))
    };
    let live = |of_memory: bool| {
        let numbers = limits.iter().filter(|one| is_number(&one.write.file));
        let written =
            numbers.filter_map(|one| Some((labels(one), one.live.as_ref()?.parse().ok()?)));
        let all = written.chain(limits_of_pods(view));
        all.filter(move |([_, file], _): &([&str; 2], u64)| is_memory(file) == of_memory)
    };
    families.write(&LIMIT_CONFIGURED_BYTES, configured(true))?;
    families.write(&LIMIT_LIVE_BYTES, live(true))?;
    families.write(&LIMIT_CONFIGURED, configured(false))?;
    families.write(&LIMIT_LIVE, live(false))?;
    let is_other =
        |one: &LimitState| !matches!(one.result, LimitResult::Kept | LimitResult::Written);
    let differs = limits.iter().map(|one| (labels(one), is_other(one)));
    families.write(&LIMIT_DIFFERS, differs)?;
    families.write(&LIMIT_DRIFTS, [([], drifts)])?;
    let of = |list: fn(&NodeResources) -> &ResourceList| {
        let all = view.resources.iter().flat_map(list);
        all.map(|(name, amount)| ([name.as_str()], *amount))
    };
    families.write(&NODE_CAPACITY, of(|node| &node.capacity))?;
    families.write(&NODE_ALLOCATABLE, of(|node| &node.allocatable))?;
    let pods = view.snapshot.pods.as_deref();
    let asked = pods.into_iter().flat_map(|pods| {
        REQUESTED.map(|resource| ([resource], requested(pods.values(), resource)))
    });
    families.write(&NODE_REQUESTED, asked)?;
    families.write(&CPU_SHARED_POOL, cpus.map(|sets| ([], sets.shared_millicores)))?;
    families.write(&CPU_EXCLUSIVE, cpus.map(|sets| ([], sets.exclusive.0.len() as u64)))
}

/// The limits of all pods, which are the enforced allocatable, but for those that isobar writes.
fn limits_of_pods(view: &View) -> impl Iterator<Item = ([&str; 2], u64)> {
    let pods =
        kubepods(&view.snapshot).and_then(|(_, pods)| Some((&pods.path, pods.files.as_ref()?)));
    let found = pods.into_iter().flat_map(|(path, files)| {
        let files = [
            ("memory.max", files.memory.max.and_then(Limit::at)),
            ("cpu.weight", files.cpu.weight),
            ("pids.max", files.pids_max.and_then(Limit::at)),
        ];
        files.into_iter().filter_map(|(file, n)| Some(([&*path.0, file], n?)))
    });
    found.filter(|of| view.limits.iter().all(|one| labels(one) != of.0))
}

/// A set of CPUs is none, also where it has one CPU.
fn is_number(file: &str) -> bool {
    !file.starts_with("cpuset.")
}

fn is_memory(file: &str) -> bool {
    ["memory.", "hugetlb."].iter().any(|of| file.starts_with(of))
}

fn labels(limit: &LimitState) -> [&str; 2] {
    [&limit.write.cgroup.0, &limit.write.file]
}
