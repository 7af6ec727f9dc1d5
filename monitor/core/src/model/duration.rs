//! Durations as Go writes them: `1m30s`, `500ms`, `1.5h`.
//!
//! Source: Go `time.ParseDuration` and `Duration.String`. One difference: a fraction of more than
//! nine digits is exact and truncated, where Go computes in floats and may be off by a nanosecond.

use std::fmt;
use std::str::FromStr;

use super::units::Nanos;

/// A duration that parses and prints as Go's, in nanoseconds. May be negative.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(pub i64);

/// Go's error texts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    #[error("time: invalid duration {0:?}")]
    Invalid(String),
    /// A number without a unit.
    #[error("time: missing unit in duration {0:?}")]
    MissingUnit(String),
    #[error("time: unknown unit {unit:?} in duration {text:?}")]
    UnknownUnit { unit: String, text: String },
}

impl From<Nanos> for GoDuration {
    fn from(time: Nanos) -> Self {
        Self(i64::try_from(time.0).unwrap_or(i64::MAX))
    }
}

impl GoDuration {
    /// Negative durations become 0.
    pub fn nanos(self) -> Nanos {
        Nanos(u64::try_from(self.0).unwrap_or(0))
    }
}

const UNITS: [(&str, i64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let invalid = || DurationError::Invalid(text.into());
        let is_negative = text.starts_with('-');
        let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
        if rest == "0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total = 0_i128;
        while !rest.is_empty() {
            let (whole, after) = rest.split_at(digits(rest));
            let after_point = after.strip_prefix('.');
            let (fraction, after) =
                after_point.map_or(("", after), |after| after.split_at(digits(after)));
            if whole.is_empty() && fraction.is_empty() {
                return Err(invalid());
            }
            let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
            let (unit, after) = after.split_at(end);
            if unit.is_empty() {
                return Err(DurationError::MissingUnit(text.into()));
            }
            let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(|| {
                DurationError::UnknownUnit { unit: unit.into(), text: text.into() }
            })?;
            total += nanos(whole, fraction, *scale).ok_or_else(invalid)?;
            // Checked for each part: a long text would overflow any integer.
            if total > LARGEST {
                return Err(invalid());
            }
            rest = after;
        }
        let total = if is_negative { -total } else { total };
        i64::try_from(total).map(Self).map_err(|_| invalid())
    }
}

/// How many digits `text` begins with.
fn digits(text: &str) -> usize {
    text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len())
}

/// 2^63 ns, the absolute value of the smallest duration.
const LARGEST: i128 = 1 << 63;

/// `whole.fraction` times `scale`, truncated to nanoseconds; `None` if `whole` is out of range.
fn nanos(whole: &str, fraction: &str, scale: i64) -> Option<i128> {
    // Further digits of an hour are below a nanosecond.
    const DIGITS: usize = 18;
    let number = |digits: &str| format!("0{digits}").parse::<u64>().ok().map(i128::from);
    let fraction = &fraction[..fraction.len().min(DIGITS)];
    let tens = fraction.bytes().fold(1, |tens, _| tens * 10);
    let scale = i128::from(scale);
    Some(number(whole)? * scale + number(fraction)? * scale / tens)
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        let decimal = |n: u64, unit: u64| {
            let text = format!("{}.{:0>9}", n / unit, (n % unit) * (1_000_000_000 / unit));
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        };
        match n {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{n}ns"),
            1_000..1_000_000 => write!(f, "{}µs", decimal(n, 1_000)),
            1_000_000..1_000_000_000 => write!(f, "{}ms", decimal(n, 1_000_000)),
            _ => {
                let minutes = n / 60_000_000_000;
                let seconds = decimal(n % 60_000_000_000, 1_000_000_000);
                match (minutes / 60, minutes % 60) {
                    (0, 0) => write!(f, "{seconds}s"),
                    (0, minutes) => write!(f, "{minutes}m{seconds}s"),
                    (hours, minutes) => write!(f, "{hours}h{minutes}m{seconds}s"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
