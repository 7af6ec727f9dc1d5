//! Reads from `/proc` what belongs to the node as a whole.

use std::path::{Path, PathBuf};

use procfs::prelude::{FromBufReadSI, FromRead};
use procfs::{KernelStats, LoadAverage, ProcResult};

use super::gap::{self, Gaps, ReadError, unknown_line};
use super::lines::{Torn, keyed, lines, number, value, words};
use super::pressure::{self, LastRead};
use isobar_core::model::node::{CpuTime, Filesystems, Meminfo, NodeFacts, NodeReading, Reclaim};
use isobar_core::model::psi::Pressures;
use isobar_core::model::sample::{Gap, GapReason};
use isobar_core::model::units::{Bytes, Nanos};

/// The node, read tick by tick.
#[derive(Debug)]
pub(crate) struct Node {
    proc: PathBuf,
    last_pressure: LastRead,
    /// The last reading of `/proc/pressure`, and its gaps.
    pressure: (Pressures, Vec<Gap>),
}

impl Node {
    /// The node whose procfs is mounted at `proc`.
    pub(crate) fn new(proc: &Path) -> Self {
        Self { proc: proc.into(), last_pressure: LastRead::default(), pressure: Default::default() }
    }

    /// What does not change until the next boot.
    pub(crate) fn facts(&self) -> Result<NodeFacts, ReadError> {
        let n_cpus = n_cpus(&self.file("stat", stat)?);
        Ok(NodeFacts {
            name: self.file("sys/kernel/hostname", word)?,
            kernel: self.file("sys/kernel/osrelease", word)?,
            boot_id: self.file("sys/kernel/random/boot_id", word)?,
            n_cpus,
        })
    }

    /// Reads everything but the file systems and the memory, see [`Self::memory`].
    pub(crate) fn read(&mut self, now: Nanos, gaps: &mut Gaps) -> NodeReading {
        let last = self.last_pressure.at();
        let pressure_read = if self.last_pressure.may_read(now) {
            self.pressure = self.read_pressure();
            None
        } else {
            last
        };
        let (pressure, pressure_gaps) = &self.pressure;
        pressure_gaps.iter().cloned().for_each(|gap| gaps.add(gap));
        let load = gaps.ok(self.file("loadavg", loadavg));
        let stat = gaps.ok(self.file("stat", stat));
        NodeReading {
            pressure: *pressure,
            pressure_read,
            memory: None,
            reclaim: gaps.ok(self.file("vmstat", vmstat)),
            cpu: stat.as_ref().map(|stat| cpu_time(&stat.total)),
            n_cpus: stat.as_ref().map(n_cpus),
            n_threads: load.as_ref().map(|load| u64::from(load.max)),
            n_runnable: load.as_ref().map(|load| u64::from(load.cur)),
            max_threads: gaps.ok(self.max_threads()),
            filesystems: Filesystems::default(),
        }
    }

    fn read_pressure(&self) -> (Pressures, Vec<Gap>) {
        let dir = self.proc.join("pressure");
        let paths = ["cpu", "memory", "io", "irq"].map(|name| dir.join(name));
        let files = paths.each_ref().map(|path| gap::read(path, pressure::parse));
        let is_off = |error: &ReadError| error.reason() == GapReason::Unsupported;
        if files.iter().all(|file| file.as_ref().is_err_and(is_off)) {
            let detail = "pressure stall information is off: boot with psi=1".into();
            let object = dir.display().to_string();
            let gap = Gap { object, why: GapReason::Unsupported, detail };
            return (Pressures::default(), vec![gap]);
        }
        let mut gaps = Vec::new();
        let mut read = paths.iter().zip(files).map(|(path, file)| match file {
            Ok(parsed) => {
                gaps.extend(parsed.unknown.map(|line| unknown_line(path, line)));
                Some(parsed.pressure)
            }
            Err(error) => {
                gaps.push(error.gap());
                None
            }
        });
        let [cpu, memory, io, irq] = std::array::from_fn(|_| read.next().flatten());
        (Pressures { cpu, memory, io, irq }, gaps)
    }

    /// Read after the cgroups: of a party that ends meanwhile, its own figures may then be of before that,
    /// and what it gave back is never missing in the node's.
    pub(crate) fn memory(&self, gaps: &mut Gaps) -> Option<Meminfo> {
        gaps.ok(self.meminfo())
    }

    pub(crate) fn meminfo(&self) -> Result<Meminfo, ReadError> {
        self.file("meminfo", meminfo)
    }

    /// A thread needs a pid and a place among `threads-max`, so the smaller one binds.
    pub(crate) fn max_threads(&self) -> Result<u64, ReadError> {
        let pids = self.file("sys/kernel/pid_max", value)?;
        Ok(pids.min(self.file("sys/kernel/threads-max", value)?))
    }

    fn file<T, E: std::fmt::Display>(
        &self,
        name: &str,
        parse: impl FnOnce(&[u8]) -> Result<T, E>,
    ) -> Result<T, ReadError> {
        gap::read(&self.proc.join(name), parse)
    }
}

fn word(text: &[u8]) -> Result<String, std::str::Utf8Error> {
    str::from_utf8(text).map(|text| text.trim_end().into())
}

/// `/proc/meminfo`: `MemTotal:  16316412 kB`. Lines that are not needed are skipped. A kernel that is
/// built without swap has no `SwapCached`, one without zswap, or before Linux 5.19, no `Zswap`, and one
/// without huge pages no `Hugetlb`.
/// Source: `meminfo_proc_show`, fs/proc/meminfo.c; `MemAvailable` since Linux 3.14.
// Not procfs's `Meminfo`: it takes a line cut short after its number for a number of bytes.
pub(super) fn meminfo(text: &[u8]) -> Result<Meminfo, Torn> {
    const NAMES: [&str; 8] = [
        "MemTotal",
        "MemFree",
        "MemAvailable",
        "SwapTotal",
        "SwapFree",
        "SwapCached",
        "Zswap",
        "Hugetlb",
    ];
    let mut values = [None; NAMES.len()];
    for numbered in lines(text) {
        let (n, line) = numbered?;
        let mut words = words(line);
        let name = words.next().and_then(|word| word.strip_suffix(b":"));
        let slot = name.and_then(|name| NAMES.iter().position(|known| known.as_bytes() == name));
        let Some(slot) = slot else { continue };
        let kib = words.next().and_then(number).filter(|_| words.next() == Some(b"kB"));
        let bytes = kib.and_then(|kib| kib.checked_mul(1024)).map(Bytes);
        values[slot] = Some(bytes.ok_or_else(|| Torn::new(n, "`name: number kB`", line))?);
    }
    let [
        Some(total),
        Some(free),
        Some(available),
        Some(swap_total),
        Some(swap_free),
        cached,
        z,
        huge,
    ] = values
    else {
        return Err(Torn::new(1, "MemTotal, MemFree, MemAvailable, SwapTotal and SwapFree", text));
    };
    let [swap_cached, zswap, hugetlb] = [cached, z, huge].map(Option::unwrap_or_default);
    Ok(Meminfo { total, free, available, swap_total, swap_free, swap_cached, zswap, hugetlb })
}

/// `/proc/stat`.
pub(super) fn stat(text: &[u8]) -> ProcResult<KernelStats> {
    KernelStats::from_buf_read(text, procfs::current_system_info())
}

/// A line for each CPU that is online.
fn n_cpus(stat: &KernelStats) -> u32 {
    u32::try_from(stat.cpu_time.len()).unwrap_or(u32::MAX)
}

/// `/proc/loadavg`.
pub(super) fn loadavg(text: &[u8]) -> ProcResult<LoadAverage> {
    LoadAverage::from_read(text)
}

/// `/proc/vmstat`. Pages that `memory.reclaim` took (`_proactive`) do not count: they are no sign
/// of a shortage.
pub(super) fn vmstat(text: &[u8]) -> Result<Reclaim, Torn> {
    /// `_khugepaged` came with Linux 6.2. Without the others the node would seem not to reclaim.
    const MIN_KEYS: usize = 6;
    let mut reclaim = Reclaim::default();
    let mut n_keys = 0;
    keyed(text, |key, value| {
        let counter = match key {
            b"pgscan_kswapd" | b"pgscan_direct" | b"pgscan_khugepaged" => &mut reclaim.scanned,
            b"pgsteal_kswapd" | b"pgsteal_direct" | b"pgsteal_khugepaged" => &mut reclaim.reclaimed,
            b"workingset_refault_anon" | b"workingset_refault_file" => &mut reclaim.refaults,
            _ => return,
        };
        *counter = counter.saturating_add(value);
        n_keys += 1;
    })?;
    if n_keys < MIN_KEYS {
        return Err(Torn::new(1, "lines `pgscan_*`, `pgsteal_*`, `workingset_refault_*`", text));
    }
    Ok(reclaim)
}

/// Guests' time is part of `user` and `nice` already (`account_guest_time`,
/// kernel/sched/cputime.c).
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
    fn meminfo_needs_every_field() {
        let whole = "MemTotal: 16 kB\nMemFree:  8 kB\nMemAvailable: 12 kB\nBuffers: 1 kB\n\
                     SwapTotal: 4 kB\nSwapFree: 2 kB\nHugePages_Total:       0\n";
        let read = meminfo(whole.as_bytes()).unwrap();
        assert_eq!((read.total, read.free), (Bytes(16 << 10), Bytes(8 << 10)));
        assert_eq!(read.available, Bytes(12 << 10));
        assert_eq!((read.swap_total, read.swap_free), (Bytes(4 << 10), Bytes(2 << 10)));
        assert_eq!((read.swap_cached, read.zswap, read.hugetlb), (Bytes(0), Bytes(0), Bytes(0)));
        let more = format!("{whole}SwapCached: 1 kB\nZswap: 2 kB\nZswapped: 8 kB\nHugetlb: 4 kB\n");
        let more = meminfo(more.as_bytes()).unwrap();
        let read = (more.swap_cached, more.zswap, more.hugetlb);
        assert_eq!(read, (Bytes(1 << 10), Bytes(2 << 10), Bytes(4 << 10)));
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
    fn cpu_time_saturates() {
        let line = |user| format!("cpu  {user} 1 1 1 1 1 1 1 1 1\nctxt 1\nbtime 1\nprocesses 1\n");
        let busy = |user| cpu_time(&stat(line(user).as_bytes()).unwrap().total).busy;
        assert_eq!(busy(u64::MAX), Nanos(u64::MAX));
        assert_eq!(busy(96), Nanos::SECOND);
    }

    #[test]
    fn n_cpus_counts_those_that_are_online() {
        let cpu = |name| format!("cpu{name} 1 1 1 1 1 1 1 1 1 1\n");
        // The second is unplugged.
        let text = ["", "0", "2"].map(cpu).concat() + "ctxt 1\nbtime 1\nprocesses 1\n";
        assert_eq!(n_cpus(&stat(text.as_bytes()).unwrap()), 2);
    }

    #[test]
    fn vmstat_sums_reclaim() {
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
