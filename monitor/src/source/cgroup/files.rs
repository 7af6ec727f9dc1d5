//! Which files of a cgroup are read, and which field of a [`Cgroup`] each one fills.

use std::ffi::CStr;

use super::parse;
use crate::source::lines::{Torn, value};
use crate::source::pressure;
use isobar_core::model::cgroup::Cgroup;
use isobar_core::model::psi::Pressure;
use isobar_core::model::units::Bytes;

/// A file of a cgroup directory. The first [`File::N_KEPT`] may be read in every tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum File {
    CpuPressure,
    MemoryPressure,
    IoPressure,
    IrqPressure,
    MemoryEvents,
    IoStat,
    CpuStat,
    MemoryCurrent,
    MemorySwapCurrent,
    MemoryStat,
    PidsCurrent,
    CpuMax,
    CpuWeight,
    MemoryMax,
    MemoryHigh,
    MemoryLow,
    MemoryMin,
    MemorySwapMax,
    PidsMax,
    IoMax,
    Procs,
}

use Controller::{Cpu, Io, Memory, Pids};
use File::*;

/// Every file in the order of the enum, its name, and the controller without which it is missing.
const FILES: [(File, &CStr, Option<Controller>); 21] = [
    (CpuPressure, c"cpu.pressure", None),
    (MemoryPressure, c"memory.pressure", None),
    (IoPressure, c"io.pressure", None),
    (IrqPressure, c"irq.pressure", None),
    (MemoryEvents, c"memory.events", Some(Memory)),
    (IoStat, c"io.stat", Some(Io)),
    (CpuStat, c"cpu.stat", None),
    (MemoryCurrent, c"memory.current", Some(Memory)),
    (MemorySwapCurrent, c"memory.swap.current", Some(Memory)),
    (MemoryStat, c"memory.stat", Some(Memory)),
    (PidsCurrent, c"pids.current", Some(Pids)),
    (CpuMax, c"cpu.max", Some(Cpu)),
    (CpuWeight, c"cpu.weight", Some(Cpu)),
    (MemoryMax, c"memory.max", Some(Memory)),
    (MemoryHigh, c"memory.high", Some(Memory)),
    (MemoryLow, c"memory.low", Some(Memory)),
    (MemoryMin, c"memory.min", Some(Memory)),
    (MemorySwapMax, c"memory.swap.max", Some(Memory)),
    (PidsMax, c"pids.max", Some(Pids)),
    (IoMax, c"io.max", Some(Io)),
    (Procs, c"cgroup.procs", None),
];

impl File {
    /// Files of which a descriptor may be kept.
    pub(crate) const N_KEPT: usize = 11;

    /// Read at most once a second; see [`pressure::LastRead`].
    pub(crate) const PRESSURE: [Self; 4] = [CpuPressure, MemoryPressure, IoPressure, IrqPressure];

    /// Count what happens in the cgroup and in all cgroups below it; see [`super::quiet`].
    pub(crate) const INHERITED: [Self; 5] =
        [CpuPressure, MemoryPressure, IoPressure, IrqPressure, IoStat];

    /// Like pressure, these do not change in an idle cgroup.
    pub(crate) const EVENTS: [Self; 2] = [MemoryEvents, IoStat];

    /// Read every tick. `cpu.stat` alone changes only if the cgroup itself runs.
    pub(crate) const COUNTERS: [Self; 5] =
        [CpuStat, MemoryCurrent, MemorySwapCurrent, MemoryStat, PidsCurrent];

    /// Change when the cgroup is configured. No decision depends on the number of processes, so it
    /// is read with them.
    pub(crate) const SETTINGS: [Self; 10] = [
        CpuMax,
        CpuWeight,
        MemoryMax,
        MemoryHigh,
        MemoryLow,
        MemoryMin,
        MemorySwapMax,
        PidsMax,
        IoMax,
        Procs,
    ];

    pub(crate) fn name(self) -> &'static str {
        self.c_name().to_str().expect("the names above are ASCII")
    }

    pub(crate) fn c_name(self) -> &'static CStr {
        FILES[self as usize].1
    }

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        FILES.into_iter().map(|(file, ..)| file)
    }

    /// The controller without which the file is missing; `None` if it needs none.
    pub(crate) fn controller(self) -> Option<Controller> {
        FILES[self as usize].2
    }

    /// What a pressure file said.
    pub(crate) fn pressure(self, cgroup: &Cgroup) -> Option<Pressure> {
        let psi = &cgroup.pressure;
        match self {
            CpuPressure => psi.cpu,
            MemoryPressure => psi.memory,
            IoPressure => psi.io,
            IrqPressure => psi.irq,
            _ => None,
        }
    }

    /// Copies the reading of an inherited file.
    pub(crate) fn carry(self, last: &Cgroup, now: &mut Cgroup) {
        let (to, from) = (&mut now.pressure, &last.pressure);
        match self {
            CpuPressure => to.cpu = from.cpu,
            MemoryPressure => to.memory = from.memory,
            IoPressure => to.io = from.io,
            IrqPressure => to.irq = from.irq,
            IoStat => now.io = last.io,
            _ => {}
        }
    }

    /// Parses `text` into `cgroup`. Returns the first line with a key that this version does not
    /// know, if there is one.
    pub(crate) fn fill(self, text: &[u8], cgroup: &mut Cgroup) -> Result<Option<usize>, Torn> {
        let Cgroup { pressure: psi, cpu, memory, .. } = cgroup;
        match self {
            CpuPressure => return fill_pressure(text, &mut psi.cpu),
            MemoryPressure => return fill_pressure(text, &mut psi.memory),
            IoPressure => return fill_pressure(text, &mut psi.io),
            IrqPressure => return fill_pressure(text, &mut psi.irq),
            CpuStat => parse::cpu_stat(text, cpu)?,
            MemoryCurrent => memory.current = Some(Bytes(value(text)?)),
            MemorySwapCurrent => memory.swap_current = Some(Bytes(value(text)?)),
            MemoryEvents => memory.events = Some(parse::memory_events(text)?),
            MemoryStat => memory.stat = Some(parse::memory_stat(text)?),
            IoStat => cgroup.io = Some(parse::io_stat(text, &mut cgroup.io_limits)?),
            PidsCurrent => cgroup.pids_current = Some(value(text)?),
            CpuMax => {
                let (quota, period) = parse::cpu_max(text)?;
                (cpu.quota, cpu.period) = (Some(quota), Some(period));
            }
            CpuWeight => cpu.weight = Some(value(text)?),
            MemoryMax => memory.max = Some(parse::limit(text)?),
            MemoryHigh => memory.high = Some(parse::limit(text)?),
            MemoryLow => memory.low = Some(parse::limit(text)?),
            MemoryMin => memory.min = Some(parse::limit(text)?),
            MemorySwapMax => memory.swap_max = Some(parse::limit(text)?),
            PidsMax => cgroup.pids_max = Some(parse::limit(text)?),
            IoMax => cgroup.io_limits = parse::io_max(text, &cgroup.io_limits)?,
            Procs => cgroup.n_procs = Some(parse::n_procs(text)?),
        }
        Ok(None)
    }
}

fn fill_pressure(text: &[u8], slot: &mut Option<Pressure>) -> Result<Option<usize>, Torn> {
    let parsed = pressure::parse(text)?;
    *slot = Some(parsed.pressure);
    Ok(parsed.unknown)
}

/// A controller of cgroup v2 whose files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Controller {
    Cpu,
    Memory,
    Io,
    Pids,
}

impl Controller {
    pub(crate) const ALL: [Self; 4] = [Cpu, Memory, Io, Pids];

    /// As in `cgroup.controllers`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Cpu => "cpu",
            Memory => "memory",
            Io => "io",
            Pids => "pids",
        }
    }

    /// The file that every cgroup but the root has if and only if the controller is on.
    pub(crate) fn mark(self) -> File {
        match self {
            Cpu => CpuWeight,
            Memory => MemoryCurrent,
            Io => IoStat,
            Pids => PidsCurrent,
        }
    }
}

/// A set of files, one bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FileSet(u32);

impl FileSet {
    pub(crate) fn has(self, file: File) -> bool {
        self.0 & bit(file) != 0
    }

    pub(crate) fn add(&mut self, file: File) {
        self.0 |= bit(file);
    }

    pub(crate) fn remove(&mut self, file: File) {
        self.0 &= !bit(file);
    }

    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) fn files(self) -> impl Iterator<Item = File> {
        File::all().filter(move |file| self.has(*file))
    }
}

impl FromIterator<File> for FileSet {
    fn from_iter<I: IntoIterator<Item = File>>(files: I) -> Self {
        Self(files.into_iter().fold(0, |set, file| set | bit(file)))
    }
}

fn bit(file: File) -> u32 {
    1 << (file as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_all_has_each_file_at_one_pace() {
        let all: Vec<_> = File::all().collect();
        assert!(all.is_sorted_by(|a, b| a < b), "each once, in the order of the enum: {all:?}");
        let paces = [&File::PRESSURE[..], &File::EVENTS, &File::COUNTERS, &File::SETTINGS].concat();
        assert_eq!(paces, all, "each file has one pace");
        let kept: Vec<_> = all.iter().filter(|file| (**file as usize) < File::N_KEPT).collect();
        let each_tick: Vec<_> =
            File::PRESSURE.iter().chain(&File::EVENTS).chain(&File::COUNTERS).collect();
        assert_eq!(kept, each_tick);
    }

    #[test]
    fn controller_mark_is_one_of_its_own_files() {
        for controller in Controller::ALL {
            assert_eq!(controller.mark().controller(), Some(controller));
        }
    }
}
