//! Amounts in a scenario's file: memory, CPU, time.

use serde::{Deserialize, Serialize};

use crate::scenario::quantity::{Quantity, Unit};

/// Bytes: `64MiB`, `1GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
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

impl From<Memory> for String {
    fn from(memory: Memory) -> Self {
        memory.0.to_string()
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
            // text,  memory,          cpu,         time
            ("64MiB", Some(64 << 20),  None,        None),
            ("1.5GiB", Some(3 << 29),  None,        None),
            ("250m",  None,            Some(250),   None),
            ("2",     None,            Some(2000),  None),
            ("0",     None,            None,        None),
            ("20s",   None,            None,        Some(20.0)),
            ("-500ms", None,           None,        Some(-0.5)),
            ("5%",    None,            None,        None),
            ("",      None,            None,        None),
        ];
        for (text, bytes, milli, seconds) in table {
            assert_eq!(memory(text).ok(), bytes, "memory {text:?}");
            assert_eq!(cpu(text).ok(), milli, "cpu {text:?}");
            assert_eq!(time(text).ok(), seconds, "time {text:?}");
        }
        assert!(memory("a lot").unwrap_err().contains("\"a lot\": expected an amount of memory"));
    }
}
