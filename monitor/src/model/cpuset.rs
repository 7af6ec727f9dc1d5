//! Sets of CPUs, as the kernel and the kubelet write them: `0-3,8`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A set of CPU numbers. Empty prints as the empty text.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuSet(pub BTreeSet<u32>);

/// Why a text is no set of CPUs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CpuSetError {
    /// A part is no number.
    #[error("{0:?} is no CPU number")]
    Number(String),
    /// A range runs backwards.
    #[error("the range {0:?} runs backwards")]
    Backwards(String),
}

/// No machine has as many: kernels are built for 8,192 at most.
const LARGEST: u32 = 1 << 16;

impl FromStr for CpuSet {
    type Err = CpuSetError;

    fn from_str(text: &str) -> Result<Self, CpuSetError> {
        let mut ranges = Vec::new();
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let number = |n: &str| {
                let number = n.parse().ok().filter(|n| *n < LARGEST);
                number.ok_or_else(|| CpuSetError::Number(n.into()))
            };
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (number(first)?, number(last)?);
            if first > last {
                return Err(CpuSetError::Backwards(part.into()));
            }
            ranges.push((first, last));
        }
        // Each CPU once, however often a long text names them all.
        ranges.sort_unstable();
        let mut cpus = BTreeSet::new();
        let mut next = 0;
        for (first, last) in ranges {
            cpus.extend(first.max(next)..=last);
            next = next.max(last + 1);
        }
        Ok(Self(cpus))
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.0.iter().copied().peekable();
        let mut comma = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if(|cpu| *cpu == last + 1) {
                last = next;
            }
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

impl Serialize for CpuSet {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_read_however_it_is_written_and_printed_in_one_way() {
        #[rustfmt::skip]
        let table = [
            // text, printed; none if it is no set
            ("",                Some("")),
            ("0-3,8",           Some("0-3,8")),
            ("8,3,0-2",         Some("0-3,8")),
            ("0-3,2-5,1",       Some("0-5")),     // overlapping
            ("0-3,0-3",         Some("0-3")),
            ("65535",           Some("65535")),
            ("65536",           None),
            ("3-1",             None),
            ("0-",              None),
            ("1,",              None),
            (" 1",              None),
            ("-1",              None),
        ];
        for (text, want) in table {
            let read: Option<CpuSet> = text.parse().ok();
            assert_eq!(read.map(|set| set.to_string()).as_deref(), want, "{text:?}");
        }
    }

    #[test]
    fn a_text_that_names_all_cpus_many_times_is_no_work() {
        let text = vec!["0-65535"; 2_000].join(",");
        assert_eq!(text.parse::<CpuSet>().unwrap().to_string(), "0-65535");
    }
}
