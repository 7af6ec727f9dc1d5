//! Parses the files of a cgroup, except pressure files.
//! Unknown keys are skipped: new kernels add some every year. A known key with a malformed value,
//! or a file without its oldest keys, is torn, and never reads as 0.

use crate::source::lines::{Torn, key_value, keyed, lines, number, only_line, words};
use crate::source::processes::pids;
use isobar_core::model::cgroup::{CpuFiles, IoLimit, IoStat, Limit, MemoryEvents, MemoryStat};
use isobar_core::model::units::{Bytes, Micros};

/// A file that holds a number or the word `max`.
pub(crate) fn limit(text: &[u8]) -> Result<Limit, Torn> {
    let line = only_line(text)?;
    limit_word(line).ok_or_else(|| Torn::new(1, "a number or `max`", line))
}

fn limit_word(word: &[u8]) -> Option<Limit> {
    if word == b"max" { Some(Limit::Max) } else { number(word).map(Limit::At) }
}

/// `cpu.max`: the quota, then the period.
pub(crate) fn cpu_max(text: &[u8]) -> Result<(Limit, Micros), Torn> {
    let line = only_line(text)?;
    let mut words = words(line);
    let quota = words.next().and_then(limit_word);
    let period = words.next().and_then(number).map(Micros);
    quota.zip(period).ok_or_else(|| Torn::new(1, "`quota|max period`", line))
}

/// `cpu.stat`: sets the counters that it has.
pub(crate) fn cpu_stat(text: &[u8], cpu: &mut CpuFiles) -> Result<(), Torn> {
    keyed(text, |key, value| match key {
        b"usage_usec" => cpu.usage = Some(Micros(value)),
        b"nr_periods" => cpu.periods = Some(value),
        b"nr_throttled" => cpu.throttled_periods = Some(value),
        b"throttled_usec" => cpu.throttled = Some(Micros(value)),
        _ => {}
    })?;
    cpu.usage.map(|_| ()).ok_or_else(|| Torn::new(1, "a line `usage_usec`", text))
}

/// `memory.events`.
pub(crate) fn memory_events(text: &[u8]) -> Result<MemoryEvents, Torn> {
    let mut events = MemoryEvents::default();
    let mut oom_kill = None;
    keyed(text, |key, value| match key {
        b"low" => events.low = value,
        b"high" => events.high = value,
        b"max" => events.max = value,
        b"oom" => events.oom = value,
        b"oom_kill" => oom_kill = Some(value),
        b"oom_group_kill" => events.oom_group_kill = value,
        _ => {}
    })?;
    let oom_kill = oom_kill.ok_or_else(|| Torn::new(1, "a line `oom_kill`", text))?;
    Ok(MemoryEvents { oom_kill, ..events })
}

/// `memory.stat`.
pub(crate) fn memory_stat(text: &[u8]) -> Result<MemoryStat, Torn> {
    let mut stat = MemoryStat::default();
    let (mut anon, mut inactive_file) = (None, None);
    keyed(text, |key, value| match key {
        b"anon" => anon = Some(Bytes(value)),
        b"file" => stat.file = Bytes(value),
        b"kernel" => stat.kernel = Bytes(value),
        b"zswap" => stat.zswap = Bytes(value),
        b"sock" => stat.sock = Bytes(value),
        b"shmem" => stat.shmem = Bytes(value),
        b"swapcached" => stat.swapcached = Bytes(value),
        b"inactive_anon" => stat.inactive_anon = Bytes(value),
        b"active_anon" => stat.active_anon = Bytes(value),
        b"inactive_file" => inactive_file = Some(Bytes(value)),
        b"active_file" => stat.active_file = Bytes(value),
        b"slab_reclaimable" => stat.slab_reclaimable = Bytes(value),
        b"slab_unreclaimable" => stat.slab_unreclaimable = Bytes(value),
        b"workingset_refault_anon" => stat.workingset_refault_anon = value,
        b"workingset_refault_file" => stat.workingset_refault_file = value,
        b"pgscan" => stat.pgscan = value,
        b"pgsteal" => stat.pgsteal = value,
        b"pgmajfault" => stat.pgmajfault = value,
        _ => {}
    })?;
    // The working set is made of these two: without them it would be too large, or 0.
    let (anon, inactive_file) = anon
        .zip(inactive_file)
        .ok_or_else(|| Torn::new(1, "lines `anon` and `inactive_file`", text))?;
    Ok(MemoryStat { anon, inactive_file, ..stat })
}

/// `io.stat`, summed over devices. A device without IO may have a line without numbers, and a
/// cgroup without IO has no line at all. What was done on a device that has a limit is kept with the limit.
pub(crate) fn io_stat(text: &[u8], limits: &mut [IoLimit]) -> Result<IoStat, Torn> {
    let mut sum = IoStat::default();
    limits.iter_mut().for_each(|limit| limit.done = Some(IoStat::default()));
    for numbered in lines(text) {
        let (n, line) = numbered?;
        let torn = || Torn::new(n, "`major:minor rbytes=.. wbytes=.. rios=.. wios=..`", line);
        add_device(line, &mut sum).ok_or_else(torn)?;
        let device = device(line);
        let limit = limits.iter_mut().find(|limit| Some(limit.device) == device);
        if let Some(done) = limit.and_then(|limit| limit.done.as_mut()) {
            add_device(line, done).ok_or_else(torn)?;
        }
    }
    Ok(sum)
}

/// The numbers of the device that a line begins with.
fn device(line: &[u8]) -> Option<(u32, u32)> {
    let first = words(line).next()?;
    let colon = first.iter().position(|byte| *byte == b':')?;
    let part = |text| u32::try_from(number(text)?).ok();
    Some((part(&first[..colon])?, part(&first[colon + 1..])?))
}

/// `io.max`: a line for each device that has a limit. What was `known` to be done on it is kept.
/// Source: `tg_print_limit`, block/blk-throttle.c.
pub(crate) fn io_max(text: &[u8], known: &[IoLimit]) -> Result<Vec<IoLimit>, Torn> {
    let limit = |line| {
        let mut limit = IoLimit { device: device(line)?, ..IoLimit::default() };
        for word in words(line).skip(1) {
            let (key, value) = key_value(word)?;
            let value = match limit_word(value)? {
                Limit::Max => continue,
                Limit::At(value) => Some(value),
            };
            match key {
                b"rbps" => limit.read = value.map(Bytes),
                b"wbps" => limit.written = value.map(Bytes),
                b"riops" => limit.reads = value,
                b"wiops" => limit.writes = value,
                _ => {}
            }
        }
        let known = known.iter().find(|known| known.device == limit.device);
        limit.done = known.and_then(|known| known.done);
        Some(limit)
    };
    lines(text)
        .map(|numbered| {
            let (n, line) = numbered?;
            let form = "`major:minor rbps=.. wbps=.. riops=.. wiops=..`";
            limit(line).ok_or_else(|| Torn::new(n, form, line))
        })
        .collect()
}

fn add_device(line: &[u8], sum: &mut IoStat) -> Option<()> {
    let mut words = words(line);
    words.next()?;
    for word in words {
        let (key, value) = key_value(word)?;
        let slot = match key {
            b"rbytes" => &mut sum.read.0,
            b"wbytes" => &mut sum.written.0,
            b"rios" => &mut sum.reads,
            b"wios" => &mut sum.writes,
            _ => continue,
        };
        *slot = slot.saturating_add(number(value)?);
    }
    Some(())
}

/// The number of processes in `cgroup.procs`.
pub(crate) fn n_procs(text: &[u8]) -> Result<u64, Torn> {
    pids(text).try_fold(0, |n, pid| pid.map(|_| n + 1))
}

/// `cgroup.controllers`: names separated by spaces; an empty file if there are none.
pub(crate) fn names(text: &[u8]) -> Result<impl Iterator<Item = &[u8]>, Torn> {
    let line = if text.is_empty() { text } else { only_line(text)? };
    Ok(words(line))
}

#[cfg(test)]
mod tests;
