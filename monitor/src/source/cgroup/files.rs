//! Which files of a cgroup are read, and where in a [`Cgroup`] each one's words go.

use std::ffi::CStr;

use super::parse;
use crate::source::lines::{Torn, value};
use crate::source::pressure;
use isobar_core::model::cgroup::Cgroup;
use isobar_core::model::psi::Pressure;
use isobar_core::model::units::Bytes;

/// A file of a cgroup directory. The first [`File::N_KEPT`] are read each tick, or may be.
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
    PidsMax,
    Procs,
}

use File::{
    CpuMax, CpuPressure, CpuStat, CpuWeight, IoPressure, IoStat, IrqPressure, MemoryCurrent,
    MemoryEvents, MemoryHigh, MemoryLow, MemoryMax, MemoryMin, MemoryPressure, MemoryStat,
    MemorySwapCurrent, PidsCurrent, PidsMax, Procs,
};

impl File {
    /// Files of which a descriptor may be kept.
    pub(crate) const N_KEPT: usize = 11;

    /// At most once a second; see [`pressure::LastRead`].
    pub(crate) const PRESSURE: [Self; 4] = [CpuPressure, MemoryPressure, IoPressure, IrqPressure];

    /// Stand still, as pressure does, in a cgroup where nothing happens.
    pub(crate) const EVENTS: [Self; 2] = [MemoryEvents, IoStat];

    /// Change each second, `cpu.stat` alone by what the cgroup itself does.
    pub(crate) const COUNTERS: [Self; 5] =
        [CpuStat, MemoryCurrent, MemorySwapCurrent, MemoryStat, PidsCurrent];

    /// Change when somebody configures something; the count of processes is no basis of any
    /// decision and rides along.
    pub(crate) const SETTINGS: [Self; 8] =
        [CpuMax, CpuWeight, MemoryMax, MemoryHigh, MemoryLow, MemoryMin, PidsMax, Procs];

    pub(crate) fn name(self) -> &'static str {
        self.c_name().to_str().expect("the names below are ASCII")
    }

    pub(crate) fn c_name(self) -> &'static CStr {
        match self {
            CpuPressure => c"cpu.pressure",
            MemoryPressure => c"memory.pressure",
            IoPressure => c"io.pressure",
            IrqPressure => c"irq.pressure",
            CpuStat => c"cpu.stat",
            MemoryCurrent => c"memory.current",
            MemorySwapCurrent => c"memory.swap.current",
            MemoryEvents => c"memory.events",
            MemoryStat => c"memory.stat",
            IoStat => c"io.stat",
            PidsCurrent => c"pids.current",
            CpuMax => c"cpu.max",
            CpuWeight => c"cpu.weight",
            MemoryMax => c"memory.max",
            MemoryHigh => c"memory.high",
            MemoryLow => c"memory.low",
            MemoryMin => c"memory.min",
            PidsMax => c"pids.max",
            Procs => c"cgroup.procs",
        }
    }

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let each_tick = Self::PRESSURE.into_iter().chain(Self::EVENTS).chain(Self::COUNTERS);
        each_tick.chain(Self::SETTINGS)
    }

    /// The controller without which the file is missing; `None` if it needs none.
    pub(crate) fn controller(self) -> Option<Controller> {
        match self {
            CpuPressure | MemoryPressure | IoPressure | IrqPressure | CpuStat | Procs => None,
            CpuMax | CpuWeight => Some(Controller::Cpu),
            IoStat => Some(Controller::Io),
            PidsCurrent | PidsMax => Some(Controller::Pids),
            MemoryCurrent | MemorySwapCurrent | MemoryEvents | MemoryStat | MemoryMax
            | MemoryHigh | MemoryLow | MemoryMin => Some(Controller::Memory),
        }
    }

    /// Puts what `text` says into `cgroup`. The line that this version does not understand, if
    /// there is one, is returned.
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
            IoStat => cgroup.io = Some(parse::io_stat(text)?),
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
            PidsMax => cgroup.pids_max = Some(parse::limit(text)?),
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
    pub(crate) const ALL: [Self; 4] = [Self::Cpu, Self::Memory, Self::Io, Self::Pids];

    /// As in `cgroup.controllers`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Io => "io",
            Self::Pids => "pids",
        }
    }

    /// The file that every cgroup but the root has if and only if the controller is on.
    pub(crate) fn mark(self) -> File {
        match self {
            Self::Cpu => CpuWeight,
            Self::Memory => MemoryCurrent,
            Self::Io => IoStat,
            Self::Pids => PidsCurrent,
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

    /// Those that are in this set and not in `other`.
    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) fn files(self) -> impl Iterator<Item = File> {
        File::all().filter(move |file| self.has(*file))
    }
}

impl FromIterator<File> for FileSet {
    fn from_iter<I: IntoIterator<Item = File>>(files: I) -> Self {
        let mut set = Self::default();
        files.into_iter().for_each(|file| set.add(file));
        set
    }
}

fn bit(file: File) -> u32 {
    1 << (file as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_read_at_one_pace_and_the_kept_ones_come_first() {
        let all: Vec<_> = File::all().collect();
        assert!(all.is_sorted_by(|a, b| a < b), "each once, in the order of the enum: {all:?}");
        let kept: Vec<_> = all.iter().filter(|file| (**file as usize) < File::N_KEPT).collect();
        let each_tick: Vec<_> =
            File::PRESSURE.iter().chain(&File::EVENTS).chain(&File::COUNTERS).collect();
        assert_eq!(kept, each_tick);
    }

    #[test]
    fn a_controller_is_known_by_a_file_of_its_own() {
        for controller in Controller::ALL {
            assert_eq!(controller.mark().controller(), Some(controller));
        }
    }
}
