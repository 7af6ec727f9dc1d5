//! Quantities: the unit is in the type, so that no two of them can be added by mistake.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Share of wall time, in hundredths of a percent (`12_34` is 12.34 %).
///
/// Source: `psi_show`, kernel/sched/psi.c, prints exactly two decimals, so for a pressure file
/// this integer is what the file said; nothing is rounded on the way in.
///
/// In JSON it is a decimal number, `12.34`, which the two decimals make lossless both ways.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent(pub u16);

impl Percent {
    /// All of the time.
    pub const FULL: Self = Self(100_00);

    /// `part` of `whole`, at most [`Percent::FULL`]; nothing of nothing is 0.
    #[must_use]
    pub fn share(part: u64, whole: u64) -> Self {
        if whole == 0 {
            return Self(0);
        }
        let hundredths = u128::from(part) * 100_00 / u128::from(whole);
        Self(u16::try_from(hundredths).map_or(Self::FULL.0, |h| h.min(Self::FULL.0)))
    }
}

// The only floats of the core: a number on its way into or out of JSON.
impl Serialize for Percent {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(f64::from(self.0) / 100.0)
    }
}

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let hundredths = (f64::deserialize(from)? * 100.0).round();
        if (0.0..=f64::from(u16::MAX)).contains(&hundredths) {
            // In range and whole: the cast is exact.
            return Ok(Self(hundredths as u16));
        }
        Err(D::Error::custom("a percentage is a number from 0 to 655.35"))
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.0 / 100, self.0 % 100)
    }
}

/// A length of time in nanoseconds.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// One second.
    pub const SECOND: Self = Self(1_000_000_000);

    /// The time from `earlier` to `self`; zero if it runs backwards.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// Both together; stops at the largest number there is.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        Self(self.0.saturating_add(more.0))
    }
}

/// A length of time in microseconds, as PSI and `cpu.stat` count it.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Micros(pub u64);

impl From<Micros> for Nanos {
    fn from(us: Micros) -> Self {
        Self(us.0.saturating_mul(1_000))
    }
}

/// An amount of memory or of transferred data.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// Processor use, in thousandths of one CPU (`1500` is one and a half CPUs).
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct MilliCpu(pub u64);

impl MilliCpu {
    /// CPU time `used` within `wall` time.
    #[must_use]
    pub fn rate(used: Nanos, wall: Nanos) -> Self {
        if wall.0 == 0 {
            return Self(0);
        }
        let milli = u128::from(used.0) * 1_000 / u128::from(wall.0);
        Self(u64::try_from(milli).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_json_round_trip() {
        for hundredths in 0..=u16::MAX {
            let json = serde_json::to_string(&Percent(hundredths)).unwrap();
            let back: Percent = serde_json::from_str(&json).unwrap();
            assert_eq!(back, Percent(hundredths), "{json}");
        }
        assert_eq!(serde_json::to_string(&Percent(12_34)).unwrap(), "12.34");
    }

    #[test]
    fn percent_refuses() {
        for json in ["-0.01", "655.36", "1e300", "\"12\"", "null"] {
            assert!(serde_json::from_str::<Percent>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn share_of_rounds_down() {
        let max = u64::MAX;
        #[rustfmt::skip]
        let table = [
            // part, whole, share in hundredths, milli CPUs
            (1,   3,       33_33,  333),
            (3,   2,      100_00,  1_500), // a share ends at all of the time, CPUs do not
            (0,   0,            0, 0),
            (5,   0,            0, 0),
            (max, max,    100_00,  1_000),
            (max, 1,      100_00,  max),
        ];
        for (part, whole, share, milli) in table {
            assert_eq!(Percent::share(part, whole), Percent(share), "{part} of {whole}");
            let rate = MilliCpu::rate(Nanos(part), Nanos(whole));
            assert_eq!(rate, MilliCpu(milli), "{part} in {whole}");
        }
    }
}
