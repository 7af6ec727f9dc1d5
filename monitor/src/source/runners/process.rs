//! What procfs says of one process: `stat` and `io`.

use std::path::Path;
use std::str;

use super::super::gap;
use super::super::lines::{Torn, lines, number, words};

/// What `/proc/PID/stat` says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) name: String,
    /// CPU time, in ticks of the kernel's clock for user space.
    pub(super) used: u64,
    pub(super) started: u64,
    /// Page faults and CPU time of children that have ended: all that are waited for add to it.
    pub(super) reaped: u64,
    /// Resident memory, in pages.
    pub(super) resident: u64,
}

/// `None` if the process is gone.
pub(super) fn stat_of(proc: &Path, pid: u32) -> Option<Stat> {
    gap::read(&proc.join(pid.to_string()).join("stat"), stat).ok()
}

pub(super) fn stat(text: &[u8]) -> Result<Stat, Torn> {
    let (name, fields) = split(text)?;
    // proc_pid_stat(5) counts from 1, pid and name included.
    let field = |n: usize| {
        let field = fields.get(n - 3).copied().and_then(number);
        field.ok_or_else(|| Torn::new(1, SHAPE, text))
    };
    Ok(Stat {
        name: str::from_utf8(name).map_or_else(|_| name.escape_ascii().to_string(), str::to_owned),
        used: field(14)?.saturating_add(field(15)?),
        started: field(22)?,
        reaped: [field(11)?, field(16)?, field(17)?].into_iter().fold(0, u64::saturating_add),
        resident: field(24)?,
    })
}

const SHAPE: &str = "`pid (name) state ..` with 24 fields";

/// `PID (NAME) STATE PPID ..`, as the name and the fields from the third on: a name may have
/// parentheses, spaces and line feeds.
pub(in crate::source) fn split(text: &[u8]) -> Result<(&[u8], Vec<&[u8]>), Torn> {
    let torn = || Torn::new(1, SHAPE, text);
    let open = text.iter().position(|byte| *byte == b'(').ok_or_else(torn)?;
    let close = text.iter().rposition(|byte| *byte == b')').ok_or_else(torn)?;
    let (name, rest) = text.split_at_checked(close).ok_or_else(torn)?;
    let name = name.get(open + 1..).ok_or_else(torn)?;
    let rest = rest.strip_suffix(b"\n").and_then(|rest| rest.get(1..)).ok_or_else(torn)?;
    Ok((name, words(rest).collect()))
}

/// Of `/proc/PID/io`, what reached the block layer or will.
pub(super) fn moved(text: &[u8]) -> Result<u64, Torn> {
    let mut sum = None;
    for numbered in lines(text) {
        let (n, line) = numbered?;
        let torn = || Torn::new(n, "`key: value`", line);
        let mut words = words(line);
        let (key, value) = words.next().zip(words.next()).ok_or_else(torn)?;
        if matches!(key, b"read_bytes:" | b"write_bytes:") {
            let more = number(value).ok_or_else(torn)?;
            sum = Some(sum.unwrap_or(0_u64).saturating_add(more));
        }
    }
    sum.ok_or_else(|| Torn::new(1, "lines `read_bytes` and `write_bytes`", text))
}
