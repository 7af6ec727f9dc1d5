//! Newtypes with the unit in the type, so that different units cannot be added by mistake.

use std::fmt;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A moment on two clocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Moment {
    /// `CLOCK_BOOTTIME`: never jumps, runs through suspend. All intervals are taken from it.
    pub boot: Nanos,
    /// `CLOCK_REALTIME`, since 1970: for people. May jump.
    pub wall: Nanos,
}

/// Percent of wall time, exact to hundredths, which it holds (`12_34` is 12.34 %).
///
/// Source: `psi_show`, kernel/sched/psi.c, prints two decimals, so the integer is exact. In JSON
/// it is the decimal number `12.34`, which is exact in both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "f64"))]
pub struct Percent(pub u16);

impl Percent {
    pub const FULL: Self = Self(100_00);

    /// `part` of `whole`, at most [`Percent::FULL`]; 0 of 0 is 0.
    pub fn share(part: u64, whole: u64) -> Self {
        let hundredths = scale(part, 100_00, whole).min(u64::from(Self::FULL.0));
        Self(u16::try_from(hundredths).expect("at most 100 %"))
    }

    /// The sum, at most 655.35 %.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        Self(self.0.saturating_add(more.0))
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
            // Whole and in range: the cast is exact.
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

/// A length of time, or a moment of a clock, in nanoseconds.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    pub const SECOND: Self = Self(1_000_000_000);

    /// Time from `earlier` to `self`; 0 if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// Saturating sum.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        Self(self.0.saturating_add(more.0))
    }
}

/// Microseconds, as PSI and `cpu.stat` count.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Micros(pub u64);

/// More than 584 years are as many.
impl From<Duration> for Nanos {
    fn from(time: Duration) -> Self {
        Self(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Micros> for Nanos {
    fn from(us: Micros) -> Self {
        Self(us.0.saturating_mul(1_000))
    }
}

/// An amount of memory or of transferred data, in bytes.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// For people: three digits at most, in the largest unit, as in `1.9Gi`, `267Mi`.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(n) = *self;
        let units = [("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];
        match units.into_iter().find(|(_, bits)| n >> bits > 0) {
            Some((unit, bits)) if n >> bits < 10 && n.trailing_zeros() < bits => {
                let tenths = (u128::from(n) * 10) >> bits;
                write!(f, "{}.{}{unit}", tenths / 10, tenths % 10)
            }
            Some((unit, bits)) => write!(f, "{}{unit}", n >> bits),
            None if n == 0 => f.write_str("0"),
            None => write!(f, "{n} bytes"),
        }
    }
}

/// CPU use in thousandths of a CPU.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct MilliCpu(pub u64);

impl MilliCpu {
    /// `used` CPU time per `wall` time.
    pub fn rate(used: Nanos, wall: Nanos) -> Self {
        Self(scale(used.0, 1_000, wall.0))
    }
}

/// `amount * by / of` without overflow; saturates, and is 0 if `of` is 0.
pub fn scale(amount: u64, by: u64, of: u64) -> u64 {
    let scaled = (u128::from(amount) * u128::from(by)).checked_div(u128::from(of));
    u64::try_from(scaled.unwrap_or(0)).unwrap_or(u64::MAX)
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

    #[test]
    fn bytes_for_people() {
        #[rustfmt::skip]
        let table = [
            (0,                  "0"),
            (900,                "900 bytes"),
            (1_023,              "1023 bytes"),
            (1 << 10,            "1Ki"),
            (1_535,              "1.4Ki"), // never more than it is
            (83_820 << 10,       "81Mi"),
            (1_940 << 20,        "1.8Gi"),
            (2 << 30,            "2Gi"),
            ((2 << 30) + 1,      "2.0Gi"),
            (u64::MAX,           "15Ei"),
        ];
        for (n, want) in table {
            assert_eq!(Bytes(n).to_string(), want, "{n}");
        }
    }
}
