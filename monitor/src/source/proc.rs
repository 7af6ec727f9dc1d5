//! Reads what does not belong to any one cgroup, from `/proc`.

use std::fs;
use std::path::{Path, PathBuf};

use procfs::prelude::{FromBufReadSI, FromRead};
use procfs::{KernelStats, LoadAverage, ProcResult};

use super::gap::{Gaps, ReadError, unknown_line};
use super::lines::{Torn, lines, number, value, words};
use super::pressure::{self, LastRead, Parsed};
use isobar_core::model::node::{CpuTime, Filesystems, Meminfo, NodeFacts, NodeReading, Reclaim};
use isobar_core::model::psi::Pressures;
use isobar_core::model::sample::{Gap, GapReason};
use isobar_core::model::units::{Bytes, Nanos};

/// The node from tick to tick.
#[derive(Debug)]
pub(crate) struct Node {
    proc: PathBuf,
    last_pressure: LastRead,
    /// What `/proc/pressure` said last, and what of it could not be read.
    pressure: (Pressures, Vec<Gap>),
}

impl Node {
    /// The node whose `/proc` is at `proc`.
    pub(crate) fn new(proc: &Path) -> Self {
        Self {
            proc: proc.into(),
            last_pressure: LastRead::default(),
            pressure: (Pressures::default(), Vec::new()),
        }
    }

    /// What stays true for as long as the node is up.
    pub(crate) fn facts(&self) -> Result<NodeFacts, ReadError> {
        let cpus = self.stat()?.cpu_time.len();
        Ok(NodeFacts {
            name: self.word("sys/kernel/hostname")?,
            kernel: self.word("sys/kernel/osrelease")?,
            boot_id: self.word("sys/kernel/random/boot_id")?,
            n_cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
        })
    }

    /// Reads everything. What cannot be read goes to `gaps`.
    pub(crate) fn read(&mut self, now: Nanos, gaps: &mut Gaps) -> NodeReading {
        if self.last_pressure.may_read(now) {
            self.pressure = self.read_pressure();
        }
        let (pressure, pressure_gaps) = &self.pressure;
        pressure_gaps.iter().cloned().for_each(|gap| gaps.tell(gap));
        let mut or_gap = Noted { gaps };
        let load = or_gap.take(self.loadavg());
        NodeReading {
            pressure: *pressure,
            memory: or_gap.take(self.meminfo()),
            reclaim: or_gap.take(self.vmstat()),
            cpu: or_gap.take(self.stat().map(|stat| cpu_time(&stat.total))),
            n_threads: load.as_ref().map(|load| u64::from(load.max)),
            n_runnable: load.as_ref().map(|load| u64::from(load.cur)),
            max_threads: or_gap.take(self.max_threads()),
            filesystems: Filesystems::default(),
        }
    }

    fn read_pressure(&self) -> (Pressures, Vec<Gap>) {
        let mut gaps = Vec::new();
        let names = ["cpu", "memory", "io", "irq"];
        let mut files = names.map(|name| {
            let path = self.proc.join("pressure").join(name);
            let parsed =
                fs::read(&path).map_err(|error| ReadError::io(&path, error)).and_then(|text| {
                    pressure::parse(&text).map_err(|torn| ReadError::torn(&path, torn))
                });
            (path, parsed)
        });
        let is_off = |parsed: &Result<Parsed, ReadError>| {
            parsed.as_ref().is_err_and(|error| error.reason() == GapReason::Unsupported)
        };
        if files.iter().all(|(_, parsed)| is_off(parsed)) {
            let object = self.proc.join("pressure").display().to_string();
            let detail = "the kernel keeps no pressure: boot it with psi=1".into();
            return (
                Pressures::default(),
                vec![Gap { object, why: GapReason::Unsupported, detail }],
            );
        }
        for (path, parsed) in &mut files {
            match parsed {
                Ok(Parsed { unknown: Some(line), .. }) => gaps.push(unknown_line(path, *line)),
                Ok(_) => {}
                Err(error) => gaps.push(error.gap()),
            }
        }
        let [cpu, memory, io, irq] =
            files.map(|(_, parsed)| parsed.ok().map(|parsed| parsed.pressure));
        (Pressures { cpu, memory, io, irq }, gaps)
    }

    pub(crate) fn meminfo(&self) -> Result<Meminfo, ReadError> {
        let path = self.proc.join("meminfo");
        let text = fs::read(&path).map_err(|error| ReadError::io(&path, error))?;
        meminfo(&text).map_err(|torn| ReadError::torn(&path, torn))
    }

    fn vmstat(&self) -> Result<Reclaim, ReadError> {
        let path = self.proc.join("vmstat");
        let text = fs::read(&path).map_err(|error| ReadError::io(&path, error))?;
        vmstat(&text).map_err(|torn| ReadError::torn(&path, torn))
    }

    fn stat(&self) -> Result<KernelStats, ReadError> {
        self.parse("stat", stat)
    }

    fn loadavg(&self) -> Result<LoadAverage, ReadError> {
        self.parse("loadavg", loadavg)
    }

    /// A thread needs a pid and a place among `threads-max`, so the smaller one binds.
    pub(crate) fn max_threads(&self) -> Result<u64, ReadError> {
        Ok(self.number("sys/kernel/pid_max")?.min(self.number("sys/kernel/threads-max")?))
    }

    /// Has `procfs` read a file. It is read here first, so that a file that is missing and one
    /// that is not understood are told apart.
    fn parse<T>(
        &self,
        file: &str,
        read: impl FnOnce(&[u8]) -> ProcResult<T>,
    ) -> Result<T, ReadError> {
        let path = self.proc.join(file);
        let text = fs::read(&path).map_err(|error| ReadError::io(&path, error))?;
        read(&text).map_err(|error| ReadError::Foreign { path, reason: error.to_string() })
    }

    fn number(&self, file: &str) -> Result<u64, ReadError> {
        let path = self.proc.join(file);
        let text = fs::read(&path).map_err(|error| ReadError::io(&path, error))?;
        value(&text).map_err(|torn| ReadError::torn(&path, torn))
    }

    fn word(&self, file: &str) -> Result<String, ReadError> {
        let path = self.proc.join(file);
        let text = fs::read_to_string(&path).map_err(|error| ReadError::io(&path, error))?;
        Ok(text.trim_end().into())
    }
}

/// Turns failures into gaps.
struct Noted<'a> {
    gaps: &'a mut Gaps,
}

impl Noted<'_> {
    fn take<T>(&mut self, read: Result<T, ReadError>) -> Option<T> {
        read.map_err(|error| self.gaps.tell(error.gap())).ok()
    }
}

/// `/proc/meminfo`: `MemTotal:  16316412 kB`. Lines that are not needed are not looked at.
/// Source: `meminfo_proc_show`, fs/proc/meminfo.c; `MemAvailable` since Linux 3.14.
pub(super) fn meminfo(text: &[u8]) -> Result<Meminfo, Torn> {
    const NAMES: [&str; 5] = ["MemTotal", "MemFree", "MemAvailable", "SwapTotal", "SwapFree"];
    let mut found = [None; NAMES.len()];
    for numbered in lines(text) {
        let (n, line) = numbered?;
        let mut words = words(line);
        let name = words.next().and_then(|word| word.strip_suffix(b":"));
        let slot = name.and_then(|name| NAMES.iter().position(|known| known.as_bytes() == name));
        let Some(slot) = slot else { continue };
        let kib = words.next().and_then(number).filter(|_| words.next() == Some(b"kB"));
        let bytes = kib.and_then(|kib| kib.checked_mul(1024)).map(Bytes);
        found[slot] = Some(bytes.ok_or_else(|| Torn::new(n, "`name: number kB`", line))?);
    }
    let [Some(total), Some(free), Some(available), Some(swap_total), Some(swap_free)] = found
    else {
        return Err(Torn::new(1, "MemTotal, MemFree, MemAvailable, SwapTotal and SwapFree", text));
    };
    Ok(Meminfo { total, free, available, swap_total, swap_free })
}

/// `/proc/stat`.
pub(super) fn stat(text: &[u8]) -> ProcResult<KernelStats> {
    KernelStats::from_buf_read(text, procfs::current_system_info())
}

/// `/proc/loadavg`.
pub(super) fn loadavg(text: &[u8]) -> ProcResult<LoadAverage> {
    LoadAverage::from_read(text)
}

/// `/proc/vmstat`. What `memory.reclaim` has taken (`_proactive`) says nothing about a shortage.
pub(super) fn vmstat(text: &[u8]) -> Result<Reclaim, Torn> {
    let mut reclaim = Reclaim::default();
    let mut n_known = 0;
    for numbered in lines(text) {
        let (n, line) = numbered?;
        let mut words = words(line);
        let counter = match words.next() {
            Some(b"pgscan_kswapd" | b"pgscan_direct" | b"pgscan_khugepaged") => {
                &mut reclaim.scanned
            }
            Some(b"pgsteal_kswapd" | b"pgsteal_direct" | b"pgsteal_khugepaged") => {
                &mut reclaim.reclaimed
            }
            Some(b"workingset_refault_anon" | b"workingset_refault_file") => &mut reclaim.refaults,
            _ => continue,
        };
        let read = words.next().and_then(number);
        let read = read.ok_or_else(|| Torn::new(n, "`key number`", line))?;
        *counter = counter.saturating_add(read);
        n_known += 1;
    }
    // `_khugepaged` came with Linux 6.2; without the others nothing would look like no reclaim.
    const FEWEST: usize = 6;
    if n_known < FEWEST {
        return Err(Torn::new(1, "lines `pgscan_*`, `pgsteal_*`, `workingset_refault_*`", text));
    }
    Ok(reclaim)
}

/// Guests' time is part of `user` and `nice` already (`account_guest_time`, kernel/sched/cputime.c).
pub(super) fn cpu_time(total: &procfs::CpuTime) -> CpuTime {
    let tick = Nanos::SECOND.0 / procfs::ticks_per_second().max(1);
    let time = |all: &[u64]| {
        let ticks = all.iter().fold(0, |sum: u64, ticks| sum.saturating_add(*ticks));
        Nanos(ticks.saturating_mul(tick))
    };
    let or_0 = Option::unwrap_or_default;
    let interrupts = [or_0(total.irq), or_0(total.softirq)];
    CpuTime {
        busy: time(&[total.user, total.nice, total.system, interrupts[0], interrupts[1]]),
        idle: time(&[total.idle, or_0(total.iowait)]),
        steal: time(&[or_0(total.steal)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_full_or_not_at_all() {
        let whole = "MemTotal: 16 kB\nMemFree:  8 kB\nMemAvailable: 12 kB\nBuffers: 1 kB\n\
                     SwapTotal: 4 kB\nSwapFree: 2 kB\nHugePages_Total:       0\n";
        let read = meminfo(whole.as_bytes()).unwrap();
        assert_eq!((read.total, read.free), (Bytes(16 << 10), Bytes(8 << 10)));
        assert_eq!(read.available, Bytes(12 << 10));
        assert_eq!((read.swap_total, read.swap_free), (Bytes(4 << 10), Bytes(2 << 10)));
        #[rustfmt::skip]
        let table = [
            // what, becomes, torn in line
            ("MemFree:  8 kB", "MemFree:  8",                    2),
            ("MemFree:  8 kB", "MemFree:  8 MB",                 2),
            ("MemFree:  8 kB", "MemFree: -8 kB",                 2),
            ("MemFree:  8 kB", "MemFree: 18446744073709551615 kB", 2), // more bytes than a u64 holds
            ("MemAvailable: 12 kB\n", "",                        1),
            ("0\n",            "0",                              7), // cut off
        ];
        for (what, becomes, line) in table {
            let text = whole.replace(what, becomes);
            let torn = meminfo(text.as_bytes()).unwrap_err();
            assert_eq!(torn.line, line, "{becomes:?}: {torn:?}");
        }
    }

    #[test]
    fn cpu_time_ends_at_what_a_number_holds() {
        let line = |user| format!("cpu  {user} 1 1 1 1 1 1 1 1 1\nctxt 1\nbtime 1\nprocesses 1\n");
        let busy = |user| cpu_time(&stat(line(user).as_bytes()).unwrap().total).busy;
        assert_eq!(busy(u64::MAX), Nanos(u64::MAX));
        assert_eq!(busy(96), Nanos::SECOND);
    }

    #[test]
    fn reclaim_of_the_node_is_summed_and_what_is_torn_is_told() {
        let whole = "nr_free_pages 9\nworkingset_refault_anon 1\nworkingset_refault_file 20\n\
                     pgsteal_kswapd 3\npgsteal_direct 40\npgsteal_khugepaged 500\n\
                     pgscan_kswapd 6\npgscan_direct 70\npgscan_khugepaged 800\n\
                     pgscan_direct_throttle 9000\npgsteal_proactive 9000\npgsteal_file 9000\n";
        let old = whole
            .replace("pgsteal_khugepaged 500\npg", "pg")
            .replace("pgscan_khugepaged 800\n", "");
        let reclaim = |scanned, reclaimed| Reclaim { scanned, reclaimed, refaults: 21 };
        #[rustfmt::skip]
        let table = [
            // what, text, read
            ("whole",          whole.to_owned(),                                 Some(reclaim(876, 543))),
            ("Linux 6.1",      old.clone(),                                      Some(reclaim(76, 43))),
            ("no number",      whole.replace("direct 40", "direct x"),           None),
            ("a key too few",  old.replace("workingset_refault_anon 1\n", ""),   None),
            ("cut off",        whole.trim_end().to_owned(),                      None),
            ("empty",          String::new(),                                    None),
        ];
        for (what, text, want) in table {
            assert_eq!(vmstat(text.as_bytes()).ok(), want, "{what}");
        }
    }
}
