//! Numbers with what they measure, so that a scenario cannot compare a time with a share.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a number measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Unit {
    /// Nanoseconds.
    Time,
    /// Of one: 0.5 is 50 %.
    Share,
    /// Bytes, or pieces.
    Number,
}

/// A number and what it measures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Quantity {
    pub(crate) value: f64,
    pub(crate) unit: Unit,
}

impl Unit {
    /// What a constant is called by: `20ms`, `5%`, `512MiB`, `3`.
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
    /// Reads a constant; `None` if `word` is none.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
        let (number, name) = word.split_at(end);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_is_a_number_with_its_unit_and_prints_readably() {
        #[rustfmt::skip]
        let table = [
            ("5%",     Some("5.00 %")),
            ("20ms",   Some("20.0 ms")),
            ("1.5s",   Some("1500.0 ms")),
            ("2KiB",   Some("2048")),
            ("3",      Some("3")),
            ("3 ",     None),
            ("ms",     None),
            ("1.2.3",  None),
            ("4 kB",   None),
            ("-1",     None), // write 0 - 1
        ];
        for (word, want) in table {
            let got = Quantity::parse(word).map(|q| q.to_string());
            assert_eq!(got.as_deref(), want, "{word:?}");
        }
    }
}
