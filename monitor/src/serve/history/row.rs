//! What one tick adds to each series.

use super::series::{ALL, Code, Figure, OF_CGROUP, Source};
use isobar_core::model::condition::ScopeName;
use isobar_core::model::cost::Cost;
use isobar_core::model::decision::Assessment;
use isobar_core::model::psi::Pressure;
use isobar_core::model::snapshot::{Scope, Snapshot, working_set};
use isobar_core::model::threshold::{Signal, Threshold};
use isobar_core::model::units::{Nanos, Percent, scale};
use isobar_core::policy::engine::Step;
use isobar_core::view::verdict::Resource;

/// What a row is read from.
pub(super) struct Tick<'a> {
    pub(super) step: &'a Step,
    pub(super) cost: Option<&'a Cost>,
    pub(super) thresholds: &'a [Threshold],
}

impl Tick<'_> {
    /// The values of all series.
    pub(super) fn row(&self) -> Vec<u16> {
        ALL.iter().map(|series| Code::stored(self.value(series.source))).collect()
    }

    fn value(&self, source: Source) -> Option<Code> {
        let cost = self.cost;
        match source {
            Source::Scope(scope, figure) => self.figure(scope, figure),
            Source::Cgroup(_) => None,
            Source::MemAvailable => Some(Code::round(self.step.snapshot.node.memory?.available.0)),
            Source::AgentCpu => Some(Code::round(cost?.cpu?.0)),
            Source::AgentResident => Some(Code::round(cost?.resident?.0)),
            Source::AgentTick => Some(Code::round(cost?.tick.0)),
        }
    }

    fn figure(&self, name: ScopeName, figure: Figure) -> Option<Code> {
        let snapshot = &self.step.snapshot;
        let assessment = &self.step.decision.assessment;
        let scope = match name {
            ScopeName::System => &snapshot.whole,
            ScopeName::Kubepods => snapshot.scopes.get(&self.step.kubepods?)?,
        };
        match figure {
            Figure::Available => Some(Code::round(available(assessment, name)?.0)),
            Figure::Threshold => {
                let (_, capacity) = available(assessment, name)?;
                let own = self.thresholds.iter().filter(|one| one.signal == signal(name));
                Some(Code::round(own.map(|one| one.value.of(capacity)).max()?))
            }
            Figure::Lasts => {
                let outlook = assessment.outlooks.iter().find(|outlook| outlook.scope == name);
                Some(Code::round(outlook?.lasts?.0))
            }
            measured => of_scope(snapshot, scope, measured),
        }
    }
}

fn raw(scope: &Scope, of: Resource) -> Option<Pressure> {
    match of {
        Resource::Cpu => scope.pressure.cpu,
        Resource::Memory => scope.pressure.memory,
        Resource::Io => scope.pressure.io,
    }
}

fn signal(name: ScopeName) -> Signal {
    match name {
        ScopeName::System => Signal::MemoryAvailable,
        ScopeName::Kubepods => Signal::AllocatableMemoryAvailable,
    }
}

/// What is available, and of how much.
fn available(assessment: &Assessment, name: ScopeName) -> Option<(u64, u64)> {
    let all = assessment.observations.iter();
    let own = all.into_iter().find(|observation| observation.signal == signal(name))?;
    Some((own.available, own.capacity))
}

/// The upper bound of the bucket below which `part` percent of all waits lie; `None` without waits.
/// Buckets: [`isobar_core::model::stall::GroupStall::histogram`].
fn percentile(histogram: &[u64], part: u64) -> Option<Nanos> {
    let all = histogram.iter().fold(0_u128, |sum, n| sum + u128::from(*n));
    let mut below = 0_u128;
    let reaches = |n: &u64| {
        below += u128::from(*n);
        below * 100 >= all * u128::from(part)
    };
    let bucket = histogram.iter().position(reaches).filter(|_| all > 0)?;
    Some(Nanos(1_u64.checked_shl(u32::try_from(bucket).ok()? + 10)?))
}

/// The values of all series of one cgroup.
pub(super) fn of_cgroup(snapshot: &Snapshot, scope: &Scope) -> Vec<u16> {
    let value = |source| match source {
        Source::Cgroup(figure) => of_scope(snapshot, scope, figure),
        _ => None,
    };
    OF_CGROUP.iter().map(|series| Code::stored(value(series.source))).collect()
}

fn of_scope(snapshot: &Snapshot, scope: &Scope, figure: Figure) -> Option<Code> {
    let percent = |Percent(hundredths)| Code::exact(hundredths.into());
    let rounded = |Nanos(time)| Code::round(time);
    match figure {
        Figure::Some(of) => Some(percent(raw(scope, of)?.some?.avg10)),
        Figure::Full(of) => Some(percent(raw(scope, of)?.full?.avg10)),
        Figure::Contention => Some(percent(scope.contention?.avg10)),
        Figure::Shortage => Some(percent(scope.shortage?.avg10)),
        Figure::Wait(part) => Some(rounded(percentile(&scope.cpu.as_ref()?.histogram, part)?)),
        Figure::Stall(_) if snapshot.interval == Nanos(0) => None,
        Figure::Stall(cause) => {
            let causes = &scope.memory.as_ref()?.causes;
            let stalled = causes.get(&cause).map(|wait| wait.union.now);
            // What no cause can be told of may be any of them.
            let none = snapshot.covers.memory_causes.then_some(Nanos(0));
            Some(percent(Percent::share(stalled.or(none)?.0, snapshot.interval.0)))
        }
        Figure::Used => Some(Code::round(scope.cpu_usage?.0)),
        Figure::Throttled => {
            let cpu = scope.cpu.as_ref()?;
            let Nanos(time) = cpu.throttled_own?.now.plus(cpu.throttled_ancestor?.now);
            Some(Code::round(scale(time, Nanos::SECOND.0, snapshot.interval.0)))
        }
        Figure::Charged => Some(Code::round(scope.files.as_ref()?.memory.current?.0)),
        Figure::WorkingSet => Some(Code::round(working_set(scope.files.as_ref()?)?.0)),
        Figure::Read => Some(Code::round(scope.io?.read.0)),
        Figure::Written => Some(Code::round(scope.io?.written.0)),
        // Of the node and of all pods alone.
        Figure::Available | Figure::Threshold | Figure::Lasts => None,
    }
}

#[cfg(test)]
mod tests {
    use isobar_core::model::snapshot::IoRate;
    use isobar_core::model::units::Bytes;

    use super::*;

    #[test]
    fn percentile_of_waits() {
        #[rustfmt::skip]
        let table: [(&[u64], u64, Option<u64>); 6] = [
            // waits by length, percent, nanoseconds
            (&[],           99, None),
            (&[0, 0],       99, None),
            (&[1],          50, Some(1_024)),
            (&[0, 3, 1],    50, Some(2_048)),
            (&[0, 3, 1],    99, Some(4_096)),
            (&[99, 0, 0, 1], 99, Some(1_024)),
        ];
        for (histogram, part, want) in table {
            assert_eq!(percentile(histogram, part), want.map(Nanos), "{histogram:?} {part}");
        }
    }

    #[test]
    fn of_cgroup_knows_what_it_reads_and_writes() {
        let (read, written) = (Bytes(1_000), Bytes(5));
        let io = Some(IoRate { read, written, ..IoRate::default() });
        for (io, want) in [(io, [Some(1_000), Some(5)]), (None, [None, None])] {
            let row = of_cgroup(&Snapshot::default(), &Scope { io, ..Scope::default() });
            let of = |name: &str| {
                let at = OF_CGROUP.iter().position(|series| series.name == name).unwrap();
                Code::read(row[at]).map(Code::rounded)
            };
            assert_eq!(["cgroup.io.read", "cgroup.io.written"].map(of), want);
        }
    }
}
