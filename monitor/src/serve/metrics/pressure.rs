//! How long the node and its pods together were kept waiting.

use std::fmt;

use super::catalogue::{
    AGGRESSION, AGGRESSION_LOSS, AGGRESSION_OTHER, CPU_CONTENTION, CPU_THROTTLED, CPU_WAIT,
    IO_WAIT, MEMORY_SHORTAGE, MEMORY_STALL, PRESSURE_STALLED, PRESSURE_WAITING, RUN_QUEUE_LATENCY,
};
use super::families::Families;
use crate::serve::totals::Totals;
use isobar_core::model::condition::ScopeName;
use isobar_core::model::psi::{Line, Pressure, Pressures};
use isobar_core::model::snapshot::{CpuWait, Scope};
use isobar_core::model::units::Nanos;
use isobar_core::policy::scope::kubepods;
use isobar_core::view::View;
use isobar_core::view::cpu_loss::Harm;

pub(super) fn write(families: &mut Families<'_>, view: &View, totals: &Totals) -> fmt::Result {
    let snapshot = &view.snapshot;
    let pods = kubepods(snapshot).map(|(_, scope)| (ScopeName::Kubepods.name(), scope));
    let both = || [(ScopeName::System.name(), &snapshot.whole)].into_iter().chain(pods);

    let pressed = |line: fn(&Pressure) -> Option<Line>| {
        both().flat_map(move |(name, scope)| {
            lines(&scope.pressure, line).map(move |(resource, line)| ([name, resource], line.total))
        })
    };
    families.write(&PRESSURE_WAITING, pressed(|file| file.some))?;
    families.write(&PRESSURE_STALLED, pressed(|file| file.full))?;

    let each = |time: fn(&Scope) -> Option<Nanos>| {
        both().filter_map(move |(name, scope)| Some(([name], time(scope)?)))
    };
    families.write(&CPU_CONTENTION, each(|scope| scope.contention.map(|union| union.total)))?;
    families.write(&CPU_WAIT, each(|scope| scope.cpu.as_ref().map(|cpu| cpu.wait.total)))?;
    families.write(&CPU_THROTTLED, each(|scope| throttled(scope.cpu.as_ref()?)))?;
    let latency = &totals.latency;
    families.write_histogram(&RUN_QUEUE_LATENCY, bounds(), &latency.buckets, latency.sum)?;
    families.write(&MEMORY_SHORTAGE, each(|scope| scope.shortage.map(|union| union.total)))?;
    let stalls = both().flat_map(|(name, scope)| {
        let causes = scope.memory.iter().flat_map(|memory| &memory.causes);
        causes.map(move |(cause, stall)| ([name, cause.name()], stall.union.total))
    });
    families.write(&MEMORY_STALL, stalls)?;
    families.write(&IO_WAIT, each(|scope| scope.io_wait.map(|io| io.total)))?;

    let pairs = &totals.pairs;
    let of_pairs = |time: fn(&Harm) -> Nanos| {
        let kept = pairs.kept.iter();
        kept.map(move |((aggressor, victim), pair)| ([&**aggressor, victim], time(&pair.total)))
    };
    families.write(&AGGRESSION, of_pairs(|harm| harm.time))?;
    families.write(&AGGRESSION_LOSS, of_pairs(|harm| harm.loss))?;
    families.write(&AGGRESSION_OTHER, pairs.is_measured.then_some(([], pairs.others)))
}

/// One line of each pressure file that has it.
pub(super) fn lines(
    all: &Pressures,
    line: fn(&Pressure) -> Option<Line>,
) -> impl Iterator<Item = (&'static str, Line)> {
    let files = [("cpu", all.cpu), ("memory", all.memory), ("io", all.io), ("irq", all.irq)];
    files.into_iter().filter_map(move |(name, file)| Some((name, line(&file?)?)))
}

/// By its own quota or by an ancestor's.
pub(super) fn throttled(cpu: &CpuWait) -> Option<Nanos> {
    Some(cpu.throttled_own?.total.plus(cpu.throttled_ancestor?.total))
}

/// Of `GroupStall::histogram`.
fn bounds() -> impl Iterator<Item = Nanos> {
    (10..64).map(|power| Nanos(1 << power))
}
