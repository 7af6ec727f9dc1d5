//! The only module that uses aya: loads the object, attaches what the kernel allows, reads maps.
//! `fold` interprets the readings.

mod errors;
mod object;

use std::any::Any;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use aya::maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray, PerCpuValues, RingBuf};
use aya::programs::{Program, ProgramError};
use aya::sys::{Stats, enable_stats};
use aya::util::nr_cpus;
use aya::{Btf, Ebpf, EbpfLoader};
use aya_log::EbpfLogger;
use isobar_ebpf::{Cpu, Event, Group, Memory, OnCpu, Pair, Pattern, SLICES, Slice, Slices};

pub use self::errors::MapReadError;
pub(super) use self::errors::{AttachFailure, LoadError};
pub(super) use self::object::is_built;
pub use self::object::{OBJECT_LICENSE, object};
use super::batch::{self, Plain, Then};
use super::fold::{Groups, only_losses};
use super::layout::Layout;
use super::programs::{CALLERS, Hook, Plan, pattern};

/// Sizes of the hash maps that grow with the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sizes {
    pub cgroups: u32,
    /// Pairs of the aggressor matrix.
    pub pairs: u32,
}

impl Sizes {
    /// What entries of cgroups by CPU may take at most. Beside them, with 256 CPUs and 2,048 cgroups, are
    /// 4 MiB of slices, 2.8 of pairs, 2 of memory stalls, 1.7 of threads, 1 of buckets and 0.6 of events.
    const ROOM: usize = 19 << 20;
    /// What one takes, with the key and the kernel's own head: the kernel allocates powers of two.
    const ENTRY: usize = (size_of::<OnCpu>() + size_of::<Group>() + 64).next_power_of_two();

    /// Entries of cgroups by CPU: all, unless there are so many CPUs that not every cgroup may have
    /// waited on each of them.
    fn groups(self, n_cpus: usize) -> u32 {
        let n_cpus = u32::try_from(n_cpus).unwrap_or(u32::MAX);
        let room = u32::try_from(Self::ROOM / Self::ENTRY).expect("some forty thousand");
        self.cgroups.saturating_mul(n_cpus).min(room.max(self.cgroups))
    }
}

/// The loaded object. Dropping it detaches every program.
pub(super) struct Loader {
    ebpf: Ebpf,
    /// By program. Dropping a link detaches its program.
    links: BTreeMap<&'static str, Box<dyn Any + Send>>,
    /// The kernel's types; dropped when everything is attached.
    btf: Option<Btf>,
    groups: HashMap<MapData, OnCpu, Group>,
    cpus: PerCpuArray<MapData, Cpu>,
    recent: PerCpuArray<MapData, Slices>,
    memory: HashMap<MapData, u64, Memory>,
    allocatable: HashMap<MapData, u64, u8>,
    io_sleepers: HashMap<MapData, u32, u64>,
    events: RingBuf<MapData>,
    oom_events: RingBuf<MapData>,
    // The same maps again, to read them in batches: aya has no call for that.
    groups_fd: OwnedFd,
    matrix_fd: OwnedFd,
    memory_fd: OwnedFd,
    // Dropping the logger would close its map, and programs loaded later would fail with EBADF.
    log: Option<EbpfLogger<&'static dyn log::Log>>,
    /// All maps, to ask for their memory.
    maps: Vec<OwnedFd>,
}

/// What the kernel counted for one program. `time` and `count` grow while statistics are on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Runs {
    /// Time in the program, ns.
    pub time: u64,
    pub count: u64,
    /// Runs skipped because the program was already running on that CPU.
    pub skipped: u64,
}

impl Loader {
    /// Creates the maps and writes the globals. Attaches nothing yet.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub(super) fn new(layout: &Layout, sizes: Sizes) -> Result<Self, LoadError> {
        if !is_built() {
            return Err(LoadError::NotBuilt);
        }
        let btf = Btf::from_sys_fs().map_err(|source| LoadError::Btf(Box::new(source)))?;
        let mut loader = EbpfLoader::new();
        loader.btf(Some(&btf));
        let n_possible_cpus = nr_cpus().map_err(|(_, error)| LoadError::Cpus(error))?;
        loader.map_max_entries("GROUPS", sizes.groups(n_possible_cpus));
        loader.map_max_entries("MEMORY", sizes.cgroups);
        loader.map_max_entries("MATRIX", sizes.pairs);
        for (global, value) in &layout.globals {
            loader.override_global(global, value, true);
        }
        let mut ebpf =
            loader.load(&object::unpacked()).map_err(|source| LoadError::Load(Box::new(source)))?;
        let maps =
            ebpf.maps().filter_map(|(_, map)| data(map)?.fd().as_fd().try_clone_to_owned().ok());
        let maps = maps.collect();
        let log = EbpfLogger::init(&mut ebpf)
            .inspect_err(|error| tracing::debug!(%error, "no log from the eBPF programs"))
            .ok();
        let mut this = Self {
            groups_fd: descriptor(&ebpf, "GROUPS")?,
            matrix_fd: descriptor(&ebpf, "MATRIX")?,
            memory_fd: descriptor(&ebpf, "MEMORY")?,
            groups: take(&mut ebpf, "GROUPS")?,
            cpus: take(&mut ebpf, "CPUS")?,
            recent: take(&mut ebpf, "RECENT")?,
            memory: take(&mut ebpf, "MEMORY")?,
            allocatable: take(&mut ebpf, "ALLOCATABLE")?,
            io_sleepers: take(&mut ebpf, "IO_SLEEPERS")?,
            events: take(&mut ebpf, "EVENTS")?,
            oom_events: take(&mut ebpf, "OOM_EVENTS")?,
            links: BTreeMap::new(),
            ebpf,
            btf: Some(btf),
            log,
            maps,
        };
        this.write_callers()?;
        Ok(this)
    }

    fn write_callers(&mut self) -> Result<(), LoadError> {
        // Borrowed, not taken: the programs that use it are loaded later.
        let name = "CALLER_PATTERNS";
        let failed = |source| map_error(name, source);
        let map = self.ebpf.map_mut(name).ok_or_else(|| failed(no_map(name)))?;
        let mut patterns: Array<&mut MapData, Pattern> = Array::try_from(map).map_err(failed)?;
        for (index, (symbol, cause)) in (0..).zip(CALLERS) {
            patterns.set(index, pattern(symbol, *cause), 0).map_err(failed)?;
        }
        Ok(())
    }

    /// Loads and attaches one program.
    ///
    /// # Errors
    /// What the verifier or the kernel answered; the other programs are not affected.
    pub(super) fn attach(&mut self, plan: &Plan) -> Result<(), AttachFailure> {
        let (Some(program), Some(btf)) = (self.ebpf.program_mut(plan.program), &self.btf) else {
            return Err(ProgramError::NotLoaded.into());
        };
        match (plan.hook, program) {
            (Hook::Tracepoint, Program::BtfTracePoint(program)) => program.load(plan.target, btf),
            (Hook::Entry, Program::FEntry(program)) => program.load(plan.target, btf),
            (Hook::Exit, Program::FExit(program)) => program.load(plan.target, btf),
            _ => Err(ProgramError::UnexpectedProgramType),
        }?;
        self.reattach(plan.program)
    }

    /// Attaches a loaded program.
    ///
    /// # Errors
    /// What the kernel answered.
    pub(super) fn reattach(&mut self, name: &'static str) -> Result<(), AttachFailure> {
        self.links.insert(name, link(self.ebpf.program_mut(name))?);
        Ok(())
    }

    /// Detaches a program; it stays loaded.
    pub(super) fn detach(&mut self, program: &'static str) {
        self.links.remove(program);
    }

    /// Clears everything about waits except the counters of what was lost, as before the first
    /// switch.
    ///
    /// # Errors
    /// If a map cannot be changed.
    pub(super) fn forget_waits(&mut self) -> Result<(), MapError> {
        for group in self.groups.keys().collect::<Result<Vec<_>, _>>()? {
            let _ = self.groups.remove(&group);
        }
        let _ = self.matrix();
        for thread in self.io_sleepers.keys().collect::<Result<Vec<_>, _>>()? {
            let _ = self.io_sleepers.remove(&thread);
        }
        let cpus: Vec<Cpu> = self.cpus.get(&0, 0)?.iter().map(only_losses).collect();
        let none = Slices { newest: 0, ring: [Slice::default(); SLICES] };
        self.recent.set(0, PerCpuValues::try_from(vec![none; cpus.len()])?, 0)?;
        self.cpus.set(0, PerCpuValues::try_from(cpus)?, 0)
    }

    /// Frees the kernel's types, two thirds of the agent's memory. Nothing can be loaded after.
    pub(super) fn free_btf(&mut self) {
        self.btf = None;
        crate::heap::trim(0);
    }

    /// Each CPU's state, by CPU number.
    pub(super) fn cpus(&self) -> Result<Vec<Cpu>, MapReadError> {
        let read = self.cpus.get(&0, 0).map_err(|error| MapReadError::new("CPUS", error))?;
        Ok(read.to_vec())
    }

    /// Each cgroup's state on each CPU on which it has waited.
    pub(super) fn groups(&self) -> Result<Groups, MapReadError> {
        let mut groups = Groups::new();
        each("GROUPS", &self.groups_fd, Then::Keep, |OnCpu { cgroup, cpu }, group| {
            // A CPU's number, which the kernel side wrote.
            groups.entry(cgroup).or_default().push((cpu as usize, group));
        })?;
        groups.values_mut().for_each(|cpus| cpus.sort_unstable_by_key(|(cpu, _)| *cpu));
        Ok(groups)
    }

    /// The aggressor matrix since the last call.
    pub(super) fn matrix(&self) -> Result<Vec<(Pair, u64)>, MapReadError> {
        let mut pairs = Vec::new();
        each("MATRIX", &self.matrix_fd, Then::Delete, |pair, time| pairs.push((pair, time)))?;
        Ok(pairs)
    }

    /// Each scope's memory stall.
    pub(super) fn memory(&self) -> Result<BTreeMap<u64, Memory>, MapReadError> {
        let mut scopes = BTreeMap::new();
        each("MEMORY", &self.memory_fd, Then::Keep, |scope, memory| {
            scopes.insert(scope, memory);
        })?;
        Ok(scopes)
    }

    /// Drops the entries of a removed cgroup, as far as it has any.
    pub(super) fn forget(&mut self, cgroup: u64, groups: &Groups) {
        for (cpu, _) in groups.get(&cgroup).into_iter().flatten() {
            let _ = self.groups.remove(&OnCpu { cgroup, cpu: *cpu as u64 });
        }
        let _ = self.memory.remove(&cgroup);
    }

    /// Sets whether a cgroup's limits are the node's allocatable: kubepods and the QoS slices.
    ///
    /// # Errors
    /// If the map is full (64 cgroups).
    pub(super) fn set_allocatable(&mut self, cgroup: u64, is: bool) -> Result<(), MapError> {
        if is {
            return self.allocatable.insert(cgroup, 1, 0);
        }
        let _ = self.allocatable.remove(&cgroup);
        Ok(())
    }

    /// The rare events since the last call.
    pub(super) fn events(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        for ring in [&mut self.oom_events, &mut self.events] {
            while let Some(item) = ring.next() {
                if item.len() == size_of::<Event>() {
                    // SAFETY: the kernel side wrote an `Event`: integers only, any bytes are one.
                    events.push(unsafe { item.as_ptr().cast::<Event>().read_unaligned() });
                }
            }
        }
        events
    }

    /// A descriptor that becomes readable when an event is urgent.
    pub(super) fn urgent(&self) -> io::Result<OwnedFd> {
        self.oom_events.as_fd().try_clone_to_owned()
    }

    /// Memory of all maps now, entries included (`memlock` in fdinfo; before Linux 6.4 only of
    /// preallocated entries). `None` if the kernel does not report it.
    pub(super) fn map_bytes(&self) -> Option<u64> {
        self.maps.iter().map(|map| value(&fdinfo(map.as_raw_fd())?, "memlock")).sum()
    }

    /// Writes to the agent's log what the programs logged.
    pub(super) fn flush_log(&mut self) {
        if let Some(log) = &mut self.log {
            log.flush();
        }
    }

    /// Switches the kernel's statistics of programs on until the descriptor is dropped.
    /// While on, each run costs some 50 ns more.
    ///
    /// # Errors
    /// Without CAP_SYS_ADMIN.
    pub(super) fn meter() -> Result<OwnedFd, aya::sys::SyscallError> {
        enable_stats(Stats::RunTime)
    }

    /// One program's statistics. Source: `bpf_prog_show_fdinfo`, kernel/bpf/syscall.c.
    pub(super) fn runs(&self, program: &str) -> Option<Runs> {
        let fd = self.ebpf.program(program)?.fd().ok()?;
        let info = fdinfo(fd.as_fd().as_raw_fd())?;
        let field = |name: &str| value(&info, name).unwrap_or(0);
        Some(Runs {
            time: field("run_time_ns"),
            count: field("run_cnt"),
            skipped: field("recursion_misses"),
        })
    }
}

fn link(program: Option<&mut Program>) -> Result<Box<dyn Any + Send>, ProgramError> {
    Ok(match program {
        Some(Program::BtfTracePoint(program)) => {
            let id = program.attach()?;
            Box::new(program.take_link(id)?)
        }
        Some(Program::FEntry(program)) => {
            let id = program.attach()?;
            Box::new(program.take_link(id)?)
        }
        Some(Program::FExit(program)) => {
            let id = program.attach()?;
            Box::new(program.take_link(id)?)
        }
        _ => return Err(ProgramError::NotLoaded),
    })
}

fn each<K: Plain, V: Plain>(
    name: &'static str,
    map: &OwnedFd,
    then: Then,
    take: impl FnMut(K, V),
) -> Result<(), MapReadError> {
    batch::each(map.as_fd(), then, take).map_err(|error| MapReadError::new(name, error))
}

fn map_error(name: &'static str, source: MapError) -> LoadError {
    LoadError::Map { name, source: Box::new(source) }
}

fn no_map(name: &str) -> MapError {
    MapError::InvalidName { name: name.into() }
}

/// A typed map, taken out of the object so that the loader can own both.
fn take<M>(ebpf: &mut Ebpf, name: &'static str) -> Result<M, LoadError>
where
    M: TryFrom<Map, Error = MapError>,
{
    let map = ebpf.take_map(name).ok_or_else(|| no_map(name));
    map.and_then(M::try_from).map_err(|source| map_error(name, source))
}

/// A second descriptor of a map.
fn descriptor(ebpf: &Ebpf, name: &'static str) -> Result<OwnedFd, LoadError> {
    let data = ebpf.map(name).and_then(data).ok_or_else(|| map_error(name, no_map(name)))?;
    let fd = data.fd().as_fd().try_clone_to_owned();
    fd.map_err(|error| map_error(name, MapError::IoError(error)))
}

/// The map, if it is of a type that the object uses.
fn data(map: &Map) -> Option<&MapData> {
    match map {
        Map::Array(data)
        | Map::HashMap(data)
        | Map::LruHashMap(data)
        | Map::PerCpuArray(data)
        | Map::RingBuf(data) => Some(data),
        _ => None,
    }
}

fn fdinfo(fd: i32) -> Option<String> {
    fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()
}

/// A number in fdinfo: `name:\tvalue`.
fn value(info: &str, name: &str) -> Option<u64> {
    info.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .and_then(|value| value.trim().parse().ok())
}

#[cfg(test)]
mod tests;
