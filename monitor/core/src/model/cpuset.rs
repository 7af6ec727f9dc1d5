//! Sets of CPUs, as the kernel and the kubelet write them: `0-3,8`.
//! Source: kubernetes `k8s.io/utils/cpuset`, `Parse` and `String`; the kernel's `%*pbl` prints alike.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// CPU numbers; the empty set prints as the empty text.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub struct CpuSet(pub BTreeSet<u32>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CpuSetError {
    /// Not a number below 65536, and not a range of two.
    #[error("{0:?} is no CPU number and no range of them, as 8 or 0-3")]
    Number(String),
    /// The range's end is below its start.
    #[error("the range {0:?} ends before it starts")]
    Backwards(String),
}

/// Larger numbers are refused. Kernels support at most 8192 CPUs (`NR_CPUS`), and a set takes
/// memory for each member.
const TOO_LARGE: u32 = 1 << 16;

impl FromStr for CpuSet {
    type Err = CpuSetError;

    fn from_str(text: &str) -> Result<Self, CpuSetError> {
        let mut ranges = Vec::new();
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let number = |n: &str| {
                let number = n.parse::<u32>().ok().filter(|n| *n < TOO_LARGE);
                number.ok_or_else(|| CpuSetError::Number(part.into()))
            };
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(CpuSetError::Backwards(part.into()));
            }
            ranges.push((first, last));
        }
        // Merged, so that a text with many overlapping ranges inserts each CPU once.
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

#[cfg(test)]
mod tests;
