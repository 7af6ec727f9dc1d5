//! Sets of CPUs, as the kernel and the kubelet write them: `0-3,8`.
//! Source: kubernetes `k8s.io/utils/cpuset`, `Parse` and `String`; the kernel's `%*pbl` prints alike.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::quoted::quoted;

/// CPU numbers; the empty set prints as the empty text.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub struct CpuSet(pub BTreeSet<u32>);

/// Why a text is no set. `Display` is for options and files of isobar, [`CpuSetError::in_go`] for
/// what the kubelet reads too.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CpuSetError {
    /// Not a number, and not a range of two; `why` as `strconv` words it.
    #[error("{part:?} is no CPU number and no range of them, as 8 or 0-3")]
    Number { part: String, number: String, why: &'static str },
    /// The range's end is below its start.
    #[error("the range {part:?} ends before it starts")]
    Backwards { part: String, first: i64, last: i64 },
    /// The kubelet takes it, and no kernel has it.
    #[error("{0:?} names a CPU above {LARGEST}")]
    TooLarge(String),
}

impl CpuSetError {
    /// In the words of `cpuset.Parse`.
    pub fn in_go(&self) -> String {
        match self {
            Self::Number { number, why, .. } => {
                format!("strconv.Atoi: parsing {}: {why}", quoted(number))
            }
            Self::Backwards { part, first, last } => {
                format!("invalid range {} ({first} > {last})", quoted(part))
            }
            Self::TooLarge(_) => self.to_string(),
        }
    }
}

/// Larger numbers are refused. Kernels support at most 8192 CPUs (`NR_CPUS`), and a set takes
/// memory for each member.
const LARGEST: u32 = (1 << 16) - 1;

impl FromStr for CpuSet {
    type Err = CpuSetError;

    fn from_str(text: &str) -> Result<Self, CpuSetError> {
        let parts = || text.split(',').filter(|_| !text.is_empty());
        // Before numbers are found too large: the kubelet reports the first part that is no range.
        let read = parts().map(range).collect::<Result<Vec<_>, _>>()?;
        let mut ranges = Vec::new();
        for (part, (first, last)) in parts().zip(read) {
            let small = |n: i64| u32::try_from(n).ok().filter(|n| *n <= LARGEST);
            let both = small(first).zip(small(last));
            ranges.push(both.ok_or_else(|| CpuSetError::TooLarge(part.into()))?);
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

/// The first and last of a part between commas. The minus of a negative number is that of a range,
/// so its end alone can be negative: `1--2` is a range that ends before it starts.
fn range(part: &str) -> Result<(i64, i64), CpuSetError> {
    let number = |number: &str| {
        let unread = |_| {
            let why = reason(number);
            CpuSetError::Number { part: part.into(), number: number.into(), why }
        };
        number.parse::<i64>().map_err(unread)
    };
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let (first, last) = (number(first)?, number(last)?);
    if first > last {
        return Err(CpuSetError::Backwards { part: part.into(), first, last });
    }
    Ok((first, last))
}

/// Why `strconv.Atoi` refuses `number`: it stops where 64 bits no longer hold it, or at the first
/// character that is no digit.
fn reason(number: &str) -> &'static str {
    let unsigned = number.strip_prefix(['+', '-']).unwrap_or(number);
    let digits = unsigned.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    let is_small = digits.is_empty() || digits.parse::<u64>().is_ok();
    if is_small && digits != unsigned || unsigned.is_empty() {
        "invalid syntax"
    } else {
        "value out of range"
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
