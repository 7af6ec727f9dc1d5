//! Reads what does not belong to any one cgroup, from `/proc`.

use std::fs;
use std::path::{Path, PathBuf};

use procfs::prelude::{FromBufRead, FromBufReadSI, FromRead};
use procfs::{KernelStats, LoadAverage, ProcError, ProcResult};

use super::gap::{Gaps, ReadError, unknown_line};
use super::lines::value;
use super::pressure::{self, LastRead, Parsed};
use crate::model::node::{CpuTime, Filesystems, Meminfo, NodeFacts, NodeReading};
use crate::model::psi::Pressures;
use crate::model::sample::{Gap, GapReason};
use crate::model::units::{Bytes, Nanos};

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
        let read = |text: &[u8]| {
            let meminfo = procfs::Meminfo::from_buf_read(text)?;
            let available = meminfo.mem_available;
            let available = available.ok_or_else(|| ProcError::Other("no MemAvailable".into()))?;
            Ok(Meminfo {
                total: Bytes(meminfo.mem_total),
                free: Bytes(meminfo.mem_free),
                available: Bytes(available),
                swap_total: Bytes(meminfo.swap_total),
                swap_free: Bytes(meminfo.swap_free),
            })
        };
        self.parse("meminfo", read)
    }

    fn stat(&self) -> Result<KernelStats, ReadError> {
        let host = procfs::current_system_info();
        self.parse("stat", |text| KernelStats::from_buf_read(text, host))
    }

    fn loadavg(&self) -> Result<LoadAverage, ReadError> {
        self.parse("loadavg", |text| LoadAverage::from_read(text))
    }

    /// A thread needs a pid and a place among `threads-max`, so the smaller one binds.
    fn max_threads(&self) -> Result<u64, ReadError> {
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

/// Guests' time is part of `user` and `nice` already (`account_guest_time`, kernel/sched/cputime.c).
fn cpu_time(total: &procfs::CpuTime) -> CpuTime {
    let tick = Nanos::SECOND.0 / procfs::ticks_per_second().max(1);
    let time = |ticks: u64| Nanos(ticks.saturating_mul(tick));
    let interrupts = total.irq.unwrap_or(0) + total.softirq.unwrap_or(0);
    CpuTime {
        busy: time(total.user + total.nice + total.system + interrupts),
        idle: time(total.idle + total.iowait.unwrap_or(0)),
        steal: time(total.steal.unwrap_or(0)),
    }
}
