//! The agent: how it is set up, what it sees, and what it costs.

use std::collections::BTreeSet;
use std::fmt;

use super::COMMIT;
use super::catalogue::{
    BUILD_INFO, CAPABILITY, CONFIG_GENERATION, COVERED, DOUBTS, EBPF_CPU, EBPF_MAPS, EBPF_RUN,
    GAPS, INCIDENTS, LAST_SAMPLE_TIME, LOST, LOST_PAIR_TIME, MODE, NODE_INFO, PROCESS_CPU,
    PROCESS_MAJOR_FAULTS, PROCESS_RESIDENT, START_TIME, STEP_ENFORCED, TICK_DURATION,
    TICK_LONGEST_GAP, TICKS, UNRECORDED, UNWATCHED,
};
use super::families::{Families, Value};
use crate::record::incident::Kind;
use crate::serve::totals::{TICK_BOUNDS, Totals};
use isobar_core::model::cost::Cost;
use isobar_core::model::decision::StepKind;
use isobar_core::model::sample::{Cause, GapReason};
use isobar_core::model::snapshot::{Doubts, Snapshot};
use isobar_core::model::stall::{Coverage, Lost};
use isobar_core::model::units::Nanos;
use isobar_core::view::View;

pub(super) fn write(families: &mut Families<'_>, view: &View, totals: &Totals) -> fmt::Result {
    setup(families, view, totals)?;
    ticks(families, view, totals)?;
    sight(families, view, totals)?;
    doubts(families, &view.snapshot)?;
    cost(families, &view.cost)
}

fn setup(families: &mut Families<'_>, view: &View, totals: &Totals) -> fmt::Result {
    let commit = COMMIT.unwrap_or_default();
    families.write(&BUILD_INFO, [([env!("CARGO_PKG_VERSION"), commit], true)])?;
    let facts = &view.facts;
    families.write(&NODE_INFO, [([&*facts.name, &facts.kernel], true)])?;
    if let Some(configured) = &totals.configured {
        let enforces = !configured.enforce.is_empty();
        families.write(&MODE, [(["observe"], !enforces), (["enforce"], enforces)])?;
        let is_enforced = |step: StepKind| ([step.name()], configured.enforce.contains(&step));
        families.write(&STEP_ENFORCED, StepKind::ALL.map(is_enforced))?;
    }
    families.write(&CONFIG_GENERATION, [([], view.decision.generation)])
}

fn ticks(families: &mut Families<'_>, view: &View, totals: &Totals) -> fmt::Result {
    families.write(&START_TIME, [([], view.started.wall)])?;
    families.write(&LAST_SAMPLE_TIME, [([], view.snapshot.at.wall)])?;
    let ticks = |cause: Cause| ([cause.name()], totals.ticks.get(&cause).copied().unwrap_or(0));
    families.write(&TICKS, Cause::ALL.map(ticks))?;
    let durations = &totals.tick_durations;
    families.write_histogram(&TICK_DURATION, TICK_BOUNDS, &durations.buckets, durations.sum)?;
    families.write(&TICK_LONGEST_GAP, [([], view.cost.longest_gap)])?;
    families.write(&UNWATCHED, [([], totals.unwatched)])
}

fn sight(families: &mut Families<'_>, view: &View, totals: &Totals) -> fmt::Result {
    let Coverage { waits, throttling, memory, memory_causes, oom_kills } = view.snapshot.covers;
    let covered = [
        (["waits"], waits),
        (["throttling"], throttling),
        (["memory"], memory),
        (["memoryCauses"], memory_causes),
        (["oomKills"], oom_kills),
    ];
    families.write(&COVERED, covered)?;
    // Two of one name and state would be one series twice.
    let capabilities = view.capabilities.iter().map(|one| [&*one.name, one.state.name()]);
    let capabilities: BTreeSet<[&str; 2]> = capabilities.collect();
    families.write(&CAPABILITY, capabilities.into_iter().map(|labels| (labels, true)))?;
    let recorded = totals.recorded.as_ref();
    let incidents = recorded.map(|of| {
        Kind::ALL.map(|kind| ([kind.name()], of.incidents.get(&kind).copied().unwrap_or(0)))
    });
    families.write(&INCIDENTS, incidents.into_iter().flatten())?;
    families.write(&UNRECORDED, recorded.map(|of| ([], of.lost)))?;
    let gaps = |why: GapReason| ([why.name()], totals.gaps.get(&why).copied().unwrap_or(0));
    let counted = GapReason::ALL.into_iter().filter(|why| *why != GapReason::Full);
    families.write(&GAPS, counted.map(gaps))
}

fn doubts(families: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let is_attached = snapshot.covers != Coverage::default();
    let Lost {
        cgroups,
        pairs,
        pair_time,
        stalls,
        io_waits,
        events,
        recursions,
        stale_stamps,
        too_deep,
    } = snapshot.lost;
    let lost = [
        (["cgroups"], cgroups),
        (["pairs"], pairs),
        (["stalls"], stalls),
        (["ioWaits"], io_waits),
        (["events"], events),
        (["recursions"], recursions),
        (["staleStamps"], stale_stamps),
        (["tooDeep"], too_deep),
    ];
    families.write(&LOST, lost.into_iter().filter(|_| is_attached))?;
    families.write(&LOST_PAIR_TIME, is_attached.then_some(([], pair_time)))?;
    let Doubts { backwards, too_fast, clock_jumps } = snapshot.doubts;
    let doubts =
        [(["backwards"], backwards), (["tooFast"], too_fast), (["clockJumps"], clock_jumps)];
    families.write(&DOUBTS, doubts)
}

fn cost(families: &mut Families<'_>, cost: &Cost) -> fmt::Result {
    families.write(&PROCESS_CPU, cost.used.map(|used| ([], used)))?;
    families.write(&PROCESS_RESIDENT, cost.resident.map(|resident| ([], resident)))?;
    families.write(&PROCESS_MAJOR_FAULTS, cost.major_faults.map(|faults| ([], faults)))?;
    let programs = &cost.kernel.programs;
    // CPU time per second of wall time.
    let share = |time: Nanos| Value::from(time);
    families.write(&EBPF_CPU, programs.iter().map(|one| ([&*one.name], share(one.per_second))))?;
    let metered = programs.iter().filter(|one| one.runs > 0);
    families.write(&EBPF_RUN, metered.map(|one| ([&*one.name], one.per_run)))?;
    families.write(&EBPF_MAPS, cost.kernel.map_bytes.map(|bytes| ([], bytes)))
}
