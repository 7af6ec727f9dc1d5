//! Amounts in a scenario's file: times, shares, memory, CPUs. Each has its unit in the text, so that
//! a time cannot be compared with a share.

use std::fmt;

use serde::{Deserialize, Deserializer, de};

/// What a number measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Nanoseconds.
    Time,
    /// Of one: 0.5 is 50 %.
    Share,
    /// Bytes, or pieces.
    Number,
}

/// A number and what it measures: `20ms`, `5%`, `512MiB`, `3`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Quantity {
    pub(crate) value: f64,
    pub(crate) unit: Unit,
}

impl Unit {
    const NAMES: [(&str, f64, Self); 9] = [
        ("ns", 1.0, Self::Time),
        ("us", 1e3, Self::Time),
        ("ms", 1e6, Self::Time),
        ("s", 1e9, Self::Time),
        ("%", 0.01, Self::Share),
        ("KiB", 1024.0, Self::Number),
        ("MiB", 1_048_576.0, Self::Number),
        ("GiB", 1_073_741_824.0, Self::Number),
        ("", 1.0, Self::Number),
    ];
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Time => "a time",
            Self::Share => "a share",
            Self::Number => "a plain number",
        })
    }
}

impl Quantity {
    fn parse(text: &str) -> Option<Self> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, name) = text.split_at(end);
        let number: f64 = number.parse().ok()?;
        let (_, factor, unit) = Unit::NAMES.into_iter().find(|(known, ..)| *known == name)?;
        Some(Self { value: number * factor, unit })
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unit {
            Unit::Time => write!(f, "{:.1} ms", self.value / 1e6),
            Unit::Share => write!(f, "{:.2} %", self.value * 100.0),
            Unit::Number => write!(f, "{}", self.value),
        }
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let wrong = || format!("{text:?}: expected an amount such as 20ms, 5%, 512MiB or 3");
        Self::parse(&text).ok_or_else(|| de::Error::custom(wrong()))
    }
}

/// Bytes: `64MiB`, `1GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Memory(pub(crate) u64);

impl TryFrom<String> for Memory {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match Quantity::parse(&text) {
            Some(Quantity { value, unit: Unit::Number }) if value >= 4096.0 => {
                Ok(Self(value as u64))
            }
            _ => Err(format!("{text:?}: expected an amount of memory, such as 64MiB")),
        }
    }
}

/// Thousandths of a CPU: `250m`, `2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Cpu(pub(crate) u64);

impl TryFrom<String> for Cpu {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (number, factor) = text.strip_suffix('m').map_or((text.as_str(), 1000), |n| (n, 1));
        let milli = number.parse::<u64>().ok().and_then(|n| n.checked_mul(factor));
        let milli = milli.filter(|milli| *milli > 0);
        milli.map(Self).ok_or_else(|| format!("{text:?}: expected CPUs, such as 250m or 2"))
    }
}

/// A length of time: `20s`, `500ms`; `-2s` where it counts from the onset.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Seconds(pub(crate) f64);

impl TryFrom<String> for Seconds {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (sign, number) = text.strip_prefix('-').map_or((1.0, text.as_str()), |n| (-1.0, n));
        match Quantity::parse(number) {
            Some(Quantity { value, unit: Unit::Time }) => Ok(Self(sign * value / 1e9)),
            _ => Err(format!("{text:?}: expected a time, such as 20s or 500ms")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_with_their_units_and_refused_without() {
        let (memory, cpu, time) = (
            |text: &str| Memory::try_from(text.to_owned()).map(|m| m.0),
            |text: &str| Cpu::try_from(text.to_owned()).map(|c| c.0),
            |text: &str| Seconds::try_from(text.to_owned()).map(|s| s.0),
        );
        #[rustfmt::skip]
        let table = [
            // text,   memory,         cpu,        time,       any, as printed
            ("64MiB",  Some(64 << 20), None,       None,       Some("67108864")),
            ("1.5GiB", Some(3 << 29),  None,       None,       Some("1610612736")),
            ("250m",   None,           Some(250),  None,       None),
            ("2",      None,           Some(2000), None,       Some("2")),
            ("0",      None,           None,       None,       Some("0")),
            ("20s",    None,           None,       Some(20.0), Some("20000.0 ms")),
            ("-500ms", None,           None,       Some(-0.5), None),
            ("5%",     None,           None,       None,       Some("5.00 %")),
            ("4 kB",   None,           None,       None,       None),
            ("1.2.3",  None,           None,       None,       None),
            ("",       None,           None,       None,       None),
        ];
        for (text, bytes, milli, seconds, printed) in table {
            assert_eq!(memory(text).ok(), bytes, "memory {text:?}");
            assert_eq!(cpu(text).ok(), milli, "cpu {text:?}");
            assert_eq!(time(text).ok(), seconds, "time {text:?}");
            let any = Quantity::parse(text).map(|q| q.to_string());
            assert_eq!(any.as_deref(), printed, "{text:?}");
        }
        assert!(memory("a lot").unwrap_err().contains("\"a lot\": expected an amount of memory"));
    }
}
