//! On which CPUs the threads of some processes were seen, and how long they ran meanwhile: two looks,
//! for an operator who asks who runs on reserved CPUs.
//! Source: `/proc/PID/task/TID/stat`, fields 14, 15, 22 and 39 (proc_pid_stat(5)).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::gap;
use super::lines::{Torn, number};
use super::runners;
use isobar_core::model::cpuset::CpuSet;

/// A process's threads, up to this many: each costs a file, twice.
const MOST_THREADS: usize = 512;

/// Threads by process, id and time of start: an id may be used again.
#[derive(Debug, Default)]
pub struct Look(BTreeMap<(u32, u32, u64), Thread>);

/// What a thread has used, in ticks of the kernel's clock for user space, and where it ran last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Thread {
    used: u64,
    cpu: u32,
}

/// What the threads of a process did between two looks that were seen on some CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// Where threads that ran were seen; empty if none was.
    pub on: CpuSet,
    /// How long these ran, in milliseconds, in steps of the kernel's clock (10). They may have been
    /// on other CPUs for a part of it.
    pub millis: u64,
}

impl Look {
    pub fn at(proc: &Path, pids: impl IntoIterator<Item = u32>) -> Self {
        let mut look = Self::default();
        pids.into_iter().for_each(|pid| look.add(proc, pid));
        look
    }

    /// A thread that has exited is left out.
    fn add(&mut self, proc: &Path, pid: u32) {
        let tasks = proc.join(pid.to_string()).join("task");
        let entries = fs::read_dir(&tasks).into_iter().flatten().flatten().take(MOST_THREADS);
        for entry in entries {
            let tid = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let read = gap::read(&entry.path().join("stat"), thread).ok();
            if let Some((tid, (started, thread))) = tid.zip(read) {
                self.0.insert((pid, tid, started), thread);
            }
        }
    }

    /// What threads of `pid` did between this look and a `later` one that were seen on one of `cpus`
    /// at either; `None` if none is in both.
    pub fn ran(&self, later: &Self, pid: u32, cpus: &CpuSet) -> Option<Ran> {
        let all = self.0.range((pid, 0, 0)..=(pid, u32::MAX, u64::MAX));
        let both: Vec<_> =
            all.filter_map(|(key, first)| Some((first, later.0.get(key)?))).collect();
        if both.is_empty() {
            return None;
        }
        let (mut on, mut ticks) = (CpuSet::default(), 0);
        for (first, last) in both {
            let used = last.used.saturating_sub(first.used);
            let seen = [first.cpu, last.cpu].into_iter().filter(|cpu| cpus.0.contains(cpu));
            let seen: Vec<_> = seen.filter(|_| used > 0).collect();
            ticks += if seen.is_empty() { 0 } else { used };
            on.0.extend(seen);
        }
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        Some(Ran { on, millis: ticks.saturating_mul(1_000) / per_second })
    }
}

/// When the thread started, and the rest.
fn thread(text: &[u8]) -> Result<(u64, Thread), Torn> {
    let (_, fields) = runners::split(text)?;
    // As proc_pid_stat(5) counts: from 1, id and name included.
    let field = |n: usize| {
        let field = fields.get(n - 3).copied().and_then(number);
        field.ok_or_else(|| Torn::new(1, "`tid (name) state ..` with 39 fields", text))
    };
    let cpu = u32::try_from(field(39)?).map_err(|_| Torn::new(1, "a CPU in field 39", text))?;
    Ok((field(22)?, Thread { used: field(14)?.saturating_add(field(15)?), cpu }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sightings_tell_who_ran_from_who_may() {
        let dir = tempfile::tempdir().unwrap();
        let see = |threads: &[(u32, u64, u32)]| {
            for (tid, used, cpu) in threads {
                let task = dir.path().join(format!("7/task/{tid}"));
                fs::create_dir_all(&task).unwrap();
                let rest = format!("0 0 20 0 1 0 5 {}17", "1 ".repeat(15));
                let text =
                    format!("{tid} (a) R) S 1 1 1 0 -1 0 1 1 1 1 {used} 0 {rest} {cpu} 0 0\n");
                fs::write(task.join("stat"), text).unwrap();
            }
            Look::at(dir.path(), [7])
        };
        let reserved: CpuSet = "0,4".parse().unwrap();
        #[rustfmt::skip]
        let table = [
            // threads (id, ticks, CPU) before, after, where, ticks, why
            (vec![(7, 10, 0)],             vec![(7, 10, 0)],              "",    0,  "stands where it ran long ago"),
            (vec![(7, 10, 1)],             vec![(7, 30, 2)],              "",    0,  "ran elsewhere"),
            (vec![(7, 10, 1)],             vec![(7, 30, 4)],              "4",   20, "came"),
            (vec![(7, 10, 0)],             vec![(7, 30, 1)],              "0",   20, "left"),
            (vec![(7, 10, 0), (8, 0, 1)],  vec![(7, 10, 0), (8, 40, 1)],  "",    0,  "another thread ran"),
            (vec![(7, 10, 1), (8, 0, 0)],  vec![(7, 90, 1), (8, 40, 4)],  "0,4", 40, "only another thread was there"),
        ];
        let per_second = rustix::param::clock_ticks_per_second();
        for (before, after, on, ticks, why) in table {
            let (first, later) = (see(&before), see(&after));
            let want = Ran { on: on.parse().unwrap(), millis: ticks * 1_000 / per_second };
            assert_eq!(first.ran(&later, 7, &reserved), Some(want), "{why}");
            assert_eq!(first.ran(&Look::default(), 7, &reserved), None, "gone: {why}");
            assert_eq!(first.ran(&later, 8, &reserved), None, "another process: {why}");
        }
    }
}
