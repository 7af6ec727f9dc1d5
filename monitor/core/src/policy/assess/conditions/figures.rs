//! The averages that a condition is judged on, or why there are none.

use crate::model::condition::{ConditionName, Measure, Resource, ScopeName};
use crate::model::duration::GoDuration;
use crate::model::psi::{Line, Pressure};
use crate::model::settings::ConditionRule;
use crate::model::snapshot::{Averaged, Scope, Snapshot, Union};
use crate::model::units::{Nanos, Percent};
use crate::policy::scope;

/// The two averages of one measure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Figures {
    /// Of what was measured.
    pub(super) avg10: Percent,
    pub(super) avg60: Percent,
    /// Between which bounds they lie.
    pub(super) within: Averaged,
    /// How much time was measured, if less than the averages look at.
    pub(super) seen: Option<Nanos>,
}

impl Figures {
    fn of(union: Union, within: Averaged) -> Self {
        Self { avg10: union.avg10, avg60: union.avg60, within, seen: union.seen }
    }

    /// Why they do not decide.
    pub(super) fn undecided(&self, rule: ConditionRule, name: ConditionName) -> String {
        let Averaged { avg60: minute, .. } = self.within;
        let measure = rule.measure.figure(name.resource);
        let whole = |seen: Nanos| Nanos(seen.0 - seen.0 % Nanos::SECOND.0);
        let seen = GoDuration::from(self.seen.map(whole).unwrap_or_default());
        format!(
            "warming up: {measure} has been measured for {seen} and lies between {} % and {} % \
             over a minute; the threshold is {} %",
            minute.low, minute.high, rule.threshold
        )
    }
}

impl From<Line> for Figures {
    fn from(line: Line) -> Self {
        Self { avg10: line.avg10, avg60: line.avg60, within: line.into(), seen: None }
    }
}

/// The averages for `rule`, or why they were not measured.
pub(super) fn of(
    name: ConditionName,
    rule: ConditionRule,
    snapshot: &Snapshot,
) -> Result<Figures, String> {
    let scope = scope::named(snapshot, name.scope).ok_or(scope::NO_KUBEPODS)?;
    match (rule.measure, name.resource) {
        (Measure::Contention, Resource::Cpu) => contention(scope, snapshot),
        (Measure::Shortage, Resource::Memory) => shortage(scope, rule.threshold, snapshot),
        (Measure::Contention, _) => Err("contention is measured for the CPU alone".into()),
        (Measure::Shortage, _) => Err("shortage is measured for memory alone".into()),
        (Measure::RawFull, Resource::Cpu) if name.scope == ScopeName::System => {
            Err("the kernel prints 0 for the node's `full` of CPU, whatever happens".into())
        }
        (Measure::RawSome, resource) => raw(scope, resource, |file| file.some),
        (Measure::RawFull, resource) => raw(scope, resource, |file| file.full),
    }
}

fn contention(scope: &Scope, snapshot: &Snapshot) -> Result<Figures, String> {
    let covers = snapshot.covers;
    let why = if !covers.waits && covers.memory {
        "waits for a CPU are not measured: what the agent says of sched_switch tells why"
    } else if !covers.waits {
        "waits for a CPU are not measured: the kernel side is missing"
    } else if !covers.throttling {
        "the kernel side cannot tell throttling from contention"
    } else {
        "there are no two measurements yet, or the scope has no run queue of its own"
    };
    let figures = scope.contention.zip(scope.averaged_contention());
    figures.map(|(union, within)| Figures::of(union, within)).ok_or(why.into())
}

/// Without causes, shortage is a lower bound: high is certain, low is not. Then raw PSI, which
/// counts every stall and so is an upper bound, decides whether low is certain.
fn shortage(scope: &Scope, threshold: Percent, snapshot: &Snapshot) -> Result<Figures, String> {
    let why = "memory stalls are not measured: the kernel side is missing, or has no two readings";
    let figures = scope.shortage.zip(scope.averaged_shortage());
    let figures = figures.map(|(union, within)| Figures::of(union, within)).ok_or(why)?;
    let is_high = figures.within.avg10.low >= threshold && figures.within.avg60.low >= threshold;
    if snapshot.covers.memory_causes || is_high {
        return Ok(figures);
    }
    let all = raw(scope, Resource::Memory, |file| file.some)?;
    if all.avg60 < threshold {
        return Ok(figures);
    }
    Err(format!(
        "the kernel side cannot tell whose limit stalls are about: shortage is between {} % and \
         {} % over a minute",
        figures.avg60, all.avg60
    ))
}

fn raw(
    scope: &Scope,
    resource: Resource,
    line: impl Fn(Pressure) -> Option<Line>,
) -> Result<Figures, String> {
    let pressure = &scope.pressure;
    let (file, name) = match resource {
        Resource::Cpu => (pressure.cpu, "cpu"),
        Resource::Memory => (pressure.memory, "memory"),
        Resource::Disk => (pressure.io, "io"),
    };
    let line = file.and_then(line).map(Figures::from);
    line.ok_or_else(|| format!("the {name} pressure file of {} gave no reading", scope.path))
}
