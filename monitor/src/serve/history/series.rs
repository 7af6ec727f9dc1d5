//! Which figures are kept, under which names, and how one tick's figure becomes two bytes.

use std::sync::LazyLock;

use serde::Serialize;

use isobar_core::model::condition::ScopeName;
use isobar_core::model::stall::MemoryCause;
use isobar_core::model::units::Percent;
use isobar_core::view::verdict::Resource;

/// What a series is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Figure {
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
    /// CPU time, of all CPUs.
    Used,
    /// Task time that a quota stopped, in a second.
    Throttled,
    /// `memory.current`.
    Charged,
    /// As the kubelet computes it.
    WorkingSet,
    /// Bytes read from devices in a second.
    Read,
    /// Bytes written to devices in a second.
    Written,
    Available,
    /// The highest threshold of what is available.
    Threshold,
    /// Until memory runs out.
    Lasts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Scope(ScopeName, Figure),
    Cgroup(Figure),
    /// What the kernel itself says is available on the node.
    MemAvailable,
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
    pub(super) source: Source,
}

/// All series, in the order of a row.
pub(super) static ALL: LazyLock<Vec<Series>> = LazyLock::new(|| {
    let scopes = [ScopeName::System, ScopeName::Kubepods].into_iter();
    let scoped = scopes.flat_map(|scope| figures().map(move |figure| Source::Scope(scope, figure)));
    let others = [Source::MemAvailable, Source::AgentCpu, Source::AgentResident, Source::AgentTick];
    scoped.chain(others).map(Series::of).collect()
});

/// Those of one cgroup, which are read from a recording.
pub(super) static OF_CGROUP: LazyLock<Vec<Series>> = LazyLock::new(|| {
    let own = [Figure::Used, Figure::Throttled, Figure::Charged, Figure::WorkingSet];
    let all = own.into_iter().chain([Figure::Read, Figure::Written]).chain(measured());
    all.map(|figure| Series::of(Source::Cgroup(figure))).collect()
});

fn figures() -> impl Iterator<Item = Figure> {
    measured().chain([Figure::Available, Figure::Threshold, Figure::Lasts])
}

/// What is measured of every cgroup.
fn measured() -> impl Iterator<Item = Figure> {
    let raw = Resource::ALL.into_iter().flat_map(|of| [Figure::Some(of), Figure::Full(of)]);
    let judged = [Figure::Contention, Figure::Shortage, Figure::Wait(50), Figure::Wait(99)];
    let stalls = MemoryCause::ALL.into_iter().map(Figure::Stall);
    raw.chain(judged).chain(stalls)
}

impl Series {
    fn of(source: Source) -> Self {
        let (name, unit, keeps) = match source {
            Source::Scope(scope, figure) => figure.told(scope.name()),
            Source::Cgroup(figure) => figure.told("cgroup"),
            Source::MemAvailable => ("system.memory.memAvailable".into(), Unit::Bytes, Keeps::Min),
            Source::AgentCpu => ("agent.cpu".into(), Unit::MilliCpu, Keeps::Mean),
            Source::AgentResident => ("agent.resident".into(), Unit::Bytes, Keeps::Max),
            Source::AgentTick => ("agent.tick".into(), Unit::Nanoseconds, Keeps::Max),
        };
        Self { name, unit, keeps, source }
    }

    /// A kept value in the series' unit.
    pub(super) fn value(&self, code: Code) -> serde_json::Value {
        match self.unit {
            Unit::Percent => serde_json::json!(Percent(code.0)),
            Unit::MilliCpu | Unit::Bytes | Unit::Nanoseconds => code.rounded().into(),
        }
    }

    /// The mean of values, each with its weight; of none nothing.
    pub(super) fn mean(&self, of: impl Iterator<Item = (Code, u64)>) -> Option<Code> {
        let is_exact = self.unit == Unit::Percent;
        let (sum, n) = of.fold((0_u128, 0_u128), |(sum, n), (Code(code), weight)| {
            let value = if is_exact { code.into() } else { Code(code).rounded() };
            (sum + u128::from(value) * u128::from(weight), n + u128::from(weight))
        });
        let mean = u64::try_from(sum.checked_div(n)?).unwrap_or(u64::MAX);
        Some(if is_exact { Code::exact(mean) } else { Code::round(mean) })
    }
}

impl Figure {
    /// The name of its series, the unit, and what is kept of several values.
    fn told(self, of_whom: &str) -> (String, Unit, Keeps) {
        use Keeps::{Max, Mean, MeanAndPeak, Min};
        use Unit::{Bytes, MilliCpu, Nanoseconds, Percent};

        let (name, unit, keeps): (String, _, _) = match self {
            Self::Some(of) => (format!("{}.some", of.name()), Percent, MeanAndPeak),
            Self::Full(of) => (format!("{}.full", of.name()), Percent, MeanAndPeak),
            Self::Contention => ("cpu.contention".into(), Percent, MeanAndPeak),
            Self::Wait(part) => (format!("cpu.wait.p{part}"), Nanoseconds, Max),
            Self::Shortage => ("memory.shortage".into(), Percent, MeanAndPeak),
            Self::Stall(cause) => (format!("memory.stall.{}", cause.name()), Percent, Mean),
            Self::Used => ("cpu.used".into(), MilliCpu, Mean),
            Self::Throttled => ("cpu.throttled".into(), Nanoseconds, Max),
            Self::Charged => ("memory.current".into(), Bytes, Max),
            Self::WorkingSet => ("memory.workingSet".into(), Bytes, Max),
            Self::Read => ("io.read".into(), Bytes, MeanAndPeak),
            Self::Written => ("io.written".into(), Bytes, MeanAndPeak),
            Self::Available => ("memory.available".into(), Bytes, Min),
            Self::Threshold => ("memory.threshold".into(), Bytes, Max),
            Self::Lasts => ("memory.lasts".into(), Nanoseconds, Min),
        };
        (format!("{of_whom}.{name}"), unit, keeps)
    }
}

/// A kept value: two bytes, in the order of what it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Code(u16);

/// Bits of a byte count or a time that are kept.
const BITS: u32 = 11;
const HALF: u64 = 1 << (BITS - 1);

impl Code {
    /// A figure that is kept as it is: hundredths of a percent.
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

    #[cfg(test)]
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

/// The indexes of the series that `wanted` names: a whole name, or what stands before a dot.
pub(super) fn named(all: &[Series], wanted: &str) -> Vec<usize> {
    let is_named = |name: &str| {
        name.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    all.iter().enumerate().filter(|(_, one)| is_named(&one.name)).map(|(i, _)| i).collect()
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
    fn named_by_whole_words() {
        let table = [("system.cpu.some", 1), ("system.cpu", 5), ("agent", 3), ("sys", 0), ("", 0)];
        for (wanted, n) in table {
            assert_eq!(named(&ALL, wanted).len(), n, "{wanted:?}");
        }
    }
}
