//! Which figures are kept, under which names, and how one tick's figure becomes two bytes.

use std::sync::LazyLock;

use serde::Serialize;

use isobar_core::model::condition::ScopeName;
use isobar_core::model::cost::Cost;
use isobar_core::model::decision::Assessment;
use isobar_core::model::psi::Pressure;
use isobar_core::model::snapshot::Scope;
use isobar_core::model::stall::MemoryCause;
use isobar_core::model::threshold::{Signal, Threshold};
use isobar_core::model::units::{Nanos, Percent};
use isobar_core::policy::engine::Step;
use isobar_core::view::verdict::Resource;

/// What a series is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Figure {
    /// Raw PSI, avg10.
    Some(Resource),
    Full(Resource),
    /// avg10, as conditions are judged.
    Contention,
    Shortage,
    /// Run-queue wait that so many of a hundred waits stayed below.
    Wait(u64),
    /// Share of wall time in which a task stalled.
    Stall(MemoryCause),
    Available,
    /// The highest threshold of what is available.
    Threshold,
    /// Until memory runs out.
    Lasts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Scope(ScopeName, Figure),
    AgentCpu,
    AgentResident,
    AgentTick,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) enum Unit {
    Percent,
    MilliCpu,
    Bytes,
    Nanoseconds,
}

/// What is kept of several values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) enum Keeps {
    Mean,
    /// The mean, and beside it the largest, which a mean hides.
    #[serde(rename = "mean")]
    MeanAndPeak,
    Max,
    Min,
}

#[derive(Debug)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) unit: Unit,
    pub(super) keeps: Keeps,
    source: Source,
}

/// All series, in the order of a row.
pub(super) static ALL: LazyLock<Vec<Series>> = LazyLock::new(|| {
    let scopes = [ScopeName::System, ScopeName::Kubepods].into_iter();
    let scoped = scopes.flat_map(|scope| figures().map(move |figure| Source::Scope(scope, figure)));
    let agent = [Source::AgentCpu, Source::AgentResident, Source::AgentTick];
    scoped.chain(agent).map(Series::of).collect()
});

fn figures() -> impl Iterator<Item = Figure> {
    let raw = [Resource::Cpu, Resource::Memory, Resource::Io];
    let raw = raw.into_iter().flat_map(|of| [Figure::Some(of), Figure::Full(of)]);
    let judged = [Figure::Contention, Figure::Shortage, Figure::Wait(50), Figure::Wait(99)];
    let stalls = MemoryCause::ALL.into_iter().map(Figure::Stall);
    raw.chain(judged).chain(stalls).chain([Figure::Available, Figure::Threshold, Figure::Lasts])
}

impl Series {
    fn of(source: Source) -> Self {
        let (unit, keeps) = match source {
            Source::Scope(_, figure) => match figure {
                Figure::Some(_) | Figure::Full(_) | Figure::Contention | Figure::Shortage => {
                    (Unit::Percent, Keeps::MeanAndPeak)
                }
                Figure::Stall(_) => (Unit::Percent, Keeps::Mean),
                Figure::Wait(_) => (Unit::Nanoseconds, Keeps::Max),
                Figure::Available => (Unit::Bytes, Keeps::Min),
                Figure::Threshold => (Unit::Bytes, Keeps::Max),
                Figure::Lasts => (Unit::Nanoseconds, Keeps::Min),
            },
            Source::AgentCpu => (Unit::MilliCpu, Keeps::Mean),
            Source::AgentResident => (Unit::Bytes, Keeps::Max),
            Source::AgentTick => (Unit::Nanoseconds, Keeps::Max),
        };
        Self { name: name(source), unit, keeps, source }
    }

    /// A kept value in the series' unit.
    pub(super) fn value(&self, code: Code) -> serde_json::Value {
        match self.unit {
            Unit::Percent => serde_json::json!(Percent(code.0)),
            Unit::MilliCpu => code.0.into(),
            Unit::Bytes | Unit::Nanoseconds => code.rounded().into(),
        }
    }
}

fn name(source: Source) -> String {
    let (scope, figure) = match source {
        Source::Scope(ScopeName::System, figure) => ("system", figure),
        Source::Scope(ScopeName::Kubepods, figure) => ("kubepods", figure),
        Source::AgentCpu => return "agent.cpu".into(),
        Source::AgentResident => return "agent.resident".into(),
        Source::AgentTick => return "agent.tick".into(),
    };
    let resource = |of| match of {
        Resource::Cpu => "cpu",
        Resource::Memory => "memory",
        Resource::Io => "io",
    };
    match figure {
        Figure::Some(of) => format!("{scope}.{}.some", resource(of)),
        Figure::Full(of) => format!("{scope}.{}.full", resource(of)),
        Figure::Contention => format!("{scope}.cpu.contention"),
        Figure::Wait(part) => format!("{scope}.cpu.wait.p{part}"),
        Figure::Shortage => format!("{scope}.memory.shortage"),
        Figure::Stall(cause) => format!("{scope}.memory.stall.{}", word(cause)),
        Figure::Available => format!("{scope}.memory.available"),
        Figure::Threshold => format!("{scope}.memory.threshold"),
        Figure::Lasts => format!("{scope}.memory.lasts"),
    }
}

/// As in a snapshot's JSON.
fn word(cause: MemoryCause) -> String {
    let json = serde_json::to_value(cause).expect("a variant without fields is a string");
    json.as_str().unwrap_or_default().to_owned()
}

/// A kept value: two bytes, in the order of what it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Code(u16);

/// Bits of a byte count or a time that are kept.
const BITS: u32 = 11;
const HALF: u64 = 1 << (BITS - 1);

impl Code {
    /// A figure that is kept as it is: hundredths of a percent, thousandths of a CPU.
    pub(super) fn exact(value: u64) -> Self {
        Self(u16::try_from(value).unwrap_or(u16::MAX).min(Self::UNKNOWN - 1))
    }

    /// What stands in a row for a value that is not known.
    pub(super) const UNKNOWN: u16 = u16::MAX;

    pub(super) fn stored(of: Option<Self>) -> u16 {
        of.map_or(Self::UNKNOWN, |code| code.0)
    }

    pub(super) fn read(stored: u16) -> Option<Self> {
        (stored != Self::UNKNOWN).then_some(Self(stored))
    }

    pub(super) fn number(self) -> u64 {
        self.0.into()
    }

    /// The first 11 bits of a large figure, and how many follow: at most 0.1 % too small.
    pub(super) fn round(value: u64) -> Self {
        let shift = (u64::BITS - value.leading_zeros()).saturating_sub(BITS);
        let code = u64::from(shift) * HALF + (value >> shift);
        Self(u16::try_from(code).expect("53 shifts at most, of 1,024 each, and 2,047"))
    }

    /// What [`Code::round`] kept.
    pub(super) fn rounded(self) -> u64 {
        let code = u64::from(self.0);
        match code / HALF {
            0 | 1 => code,
            n => (code % HALF + HALF) << (n - 1).min(u64::from(u64::BITS - BITS)),
        }
    }
}

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
            Source::AgentCpu => Some(Code::exact(cost?.cpu?.0)),
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
            Figure::Available => Some(Code::round(available(assessment, name)?.0)),
            Figure::Threshold => {
                let (_, capacity) = available(assessment, name)?;
                let own = self.thresholds.iter().filter(|one| one.signal == signal(name));
                Some(Code::round(own.map(|one| one.value.of(capacity)).max()?))
            }
            Figure::Lasts => {
                let outlook = assessment.outlooks.iter().find(|outlook| outlook.scope == name);
                Some(rounded(outlook?.lasts?))
            }
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

/// The indexes of the series that `wanted` names: a whole name, or what stands before a dot.
pub(super) fn named(wanted: &str) -> Vec<usize> {
    let is_named = |name: &str| {
        name.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    ALL.iter().enumerate().filter(|(_, one)| is_named(&one.name)).map(|(i, _)| i).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_keeps_order_and_eleven_bits() {
        #[rustfmt::skip]
        let table = [
            // figure, what is kept
            (0,                   0),
            (2_047,               2_047),
            (2_049,               2_048),
            (6_710_886_401,       6_710_886_400),
            (33_554_432_000,      33_554_432_000),
            (999_999_999_999,     999_653_638_144),
            (u64::MAX,            2_047 << 53),
        ];
        let mut last = Code::exact(0);
        for (figure, want) in table {
            let code = Code::round(figure);
            assert_eq!(code.rounded(), want, "{figure}");
            assert!(code >= last && code.0 < Code::UNKNOWN, "{figure}");
            last = code;
        }
    }

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
    fn named_by_whole_words() {
        let table = [("system.cpu.some", 1), ("system.cpu", 5), ("agent", 3), ("sys", 0), ("", 0)];
        for (wanted, n) in table {
            assert_eq!(named(wanted).len(), n, "{wanted:?}");
        }
    }
}
