//! The only module that knows aya: loads the object, attaches what the kernel allows, reads maps.
//! What the readings mean is `fold`'s business.

mod failure;

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::{fs, io};

use aya::maps::{
    Array, HashMap, Map, MapData, MapError, PerCpuArray, PerCpuHashMap, PerCpuValues, RingBuf,
};
use aya::programs::fentry::FEntryLink;
use aya::programs::fexit::FExitLink;
use aya::programs::tp_btf::BtfTracePointLink;
use aya::programs::{Program, ProgramError};
use aya::sys::{Stats, enable_stats};
use aya::util::nr_cpus;
use aya::{Btf, Ebpf, EbpfLoader};
use aya_log::EbpfLogger;
use isobar_ebpf::{Cpu, Event, Group, Memory, Pair, Pattern};

pub(super) use self::failure::{AttachFailure, LoadError};
use super::batch;
use super::fold::losses;
use super::layout::Layout;
use super::programs::{CALLERS, Hook, Plan, pattern};
use super::unread::{Unread, either};

/// The object that the build put in; empty if the build had no eBPF toolchain.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/probes.o"));

/// True if the build put an object in.
#[must_use]
pub(super) fn is_built() -> bool {
    !OBJECT.is_empty()
}

/// Sizes of the hashes that grow with the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Cgroups that may wait at the same time.
    pub cgroups: u32,
    /// Pairs of the aggressor matrix.
    pub pairs: u32,
}

/// Holds a program attached: dropping it detaches.
#[expect(dead_code, reason = "what counts is when it is dropped")]
enum Link {
    Tracepoint(BtfTracePointLink),
    Entry(FEntryLink),
    Exit(FExitLink),
}

/// The loaded object. Dropping it detaches every program.
pub(super) struct Loader {
    ebpf: Ebpf,
    /// By program.
    links: BTreeMap<&'static str, Link>,
    /// The kernel's types; until everything is attached.
    btf: Option<Btf>,
    groups: PerCpuHashMap<MapData, u64, Group>,
    cpus: PerCpuArray<MapData, Cpu>,
    matrix: HashMap<MapData, Pair, u64>,
    memory: HashMap<MapData, u64, Memory>,
    allocatable: HashMap<MapData, u64, u8>,
    io_sleepers: HashMap<MapData, u32, u64>,
    events: RingBuf<MapData>,
    sizes: Sizes,
    n_possible_cpus: usize,
    // The same maps, to be read in batches, for which aya has no call.
    groups_fd: OwnedFd,
    matrix_fd: OwnedFd,
    memory_fd: OwnedFd,
    // Dropping the logger would close its map, and programs loaded later would fail with EBADF.
    log: Option<EbpfLogger<&'static dyn log::Log>>,
    map_bytes: Option<u64>,
}

/// What one program has done, as the kernel counts it while statistics are on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Runs {
    /// Time in it, ns.
    pub time: u64,
    /// Times it ran.
    pub count: u64,
    /// Times it was skipped because it was already running on that CPU.
    pub skipped: u64,
}

impl Loader {
    /// Makes the maps and writes the globals. Attaches nothing yet.
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
        loader.map_max_entries("GROUPS", sizes.cgroups);
        loader.map_max_entries("MEMORY", sizes.cgroups);
        loader.map_max_entries("MATRIX", sizes.pairs);
        for (global, value) in &layout.globals {
            loader.override_global(global, value, true);
        }
        let mut ebpf = loader.load(OBJECT).map_err(|source| LoadError::Load(Box::new(source)))?;
        let map_bytes = ebpf.maps().map(|(_, map)| map_memory(map)).sum();
        let log = EbpfLogger::init(&mut ebpf)
            .inspect_err(|error| tracing::debug!(%error, "no log from the kernel side"))
            .ok();
        let mut this = Self {
            groups_fd: descriptor(&ebpf, "GROUPS")?,
            matrix_fd: descriptor(&ebpf, "MATRIX")?,
            memory_fd: descriptor(&ebpf, "MEMORY")?,
            groups: take(&mut ebpf, "GROUPS")?,
            cpus: take(&mut ebpf, "CPUS")?,
            matrix: take(&mut ebpf, "MATRIX")?,
            memory: take(&mut ebpf, "MEMORY")?,
            allocatable: take(&mut ebpf, "ALLOCATABLE")?,
            io_sleepers: take(&mut ebpf, "IO_SLEEPERS")?,
            events: take(&mut ebpf, "EVENTS")?,
            sizes,
            n_possible_cpus: nr_cpus().map_err(|(_, error)| LoadError::Cpus(error))?,
            links: BTreeMap::new(),
            ebpf,
            btf: Some(btf),
            log,
            map_bytes,
        };
        this.write_callers()?;
        Ok(this)
    }

    fn write_callers(&mut self) -> Result<(), LoadError> {
        // Borrowed, not taken: the programs that use it are loaded later.
        let name = "CALLER_PATTERNS";
        let failed = |source| LoadError::Map { name, source: Box::new(source) };
        let map = self.ebpf.map_mut(name).ok_or(MapError::InvalidName { name: name.into() });
        let mut patterns: Array<&mut MapData, Pattern> =
            map.and_then(Array::try_from).map_err(failed)?;
        for (index, (symbol, cause)) in (0..).zip(CALLERS) {
            patterns.set(index, pattern(symbol, *cause), 0).map_err(failed)?;
        }
        Ok(())
    }

    /// Loads and attaches one program.
    ///
    /// # Errors
    /// What the verifier or the kernel said; the others are not affected.
    pub(super) fn attach(&mut self, plan: &Plan) -> Result<(), AttachFailure> {
        self.try_attach(plan).map_err(AttachFailure::from)
    }

    fn try_attach(&mut self, plan: &Plan) -> Result<(), ProgramError> {
        let (Some(program), Some(btf)) = (self.ebpf.program_mut(plan.program), &self.btf) else {
            return Err(ProgramError::NotLoaded);
        };
        match (plan.hook, program) {
            (Hook::Tracepoint, Program::BtfTracePoint(program)) => program.load(plan.target, btf),
            (Hook::Entry, Program::FEntry(program)) => program.load(plan.target, btf),
            (Hook::Exit, Program::FExit(program)) => program.load(plan.target, btf),
            _ => Err(ProgramError::UnexpectedProgramType),
        }?;
        self.link(plan.program)
    }

    fn link(&mut self, name: &'static str) -> Result<(), ProgramError> {
        let link = match self.ebpf.program_mut(name) {
            Some(Program::BtfTracePoint(program)) => {
                let id = program.attach()?;
                Link::Tracepoint(program.take_link(id)?)
            }
            Some(Program::FEntry(program)) => {
                let id = program.attach()?;
                Link::Entry(program.take_link(id)?)
            }
            Some(Program::FExit(program)) => {
                let id = program.attach()?;
                Link::Exit(program.take_link(id)?)
            }
            _ => return Err(ProgramError::NotLoaded),
        };
        self.links.insert(name, link);
        Ok(())
    }

    /// Takes a program off its hook; it stays loaded.
    pub(super) fn detach(&mut self, program: &'static str) {
        self.links.remove(program);
    }

    /// Puts it back.
    ///
    /// # Errors
    /// What the kernel said.
    pub(super) fn attach_again(&mut self, program: &'static str) -> Result<(), AttachFailure> {
        self.link(program).map_err(AttachFailure::from)
    }

    /// Forgets all that is known of waits, but not what was lost: as before the first switch.
    ///
    /// # Errors
    /// If a map cannot be changed.
    pub(super) fn forget_waits(&mut self) -> Result<(), MapError> {
        for group in self.groups.keys().collect::<Result<Vec<_>, _>>()? {
            let _ = self.groups.remove(&group);
        }
        for pair in self.matrix.keys().collect::<Result<Vec<_>, _>>()? {
            let _ = self.matrix.remove(&pair);
        }
        for thread in self.io_sleepers.keys().collect::<Result<Vec<_>, _>>()? {
            let _ = self.io_sleepers.remove(&thread);
        }
        let cpus: Vec<Cpu> = self.cpus.get(&0, 0)?.iter().map(losses).collect();
        self.cpus.set(0, PerCpuValues::try_from(cpus)?, 0)
    }

    /// Lets go of the kernel's types, two thirds of the agent's memory. Nothing is attached after.
    pub(super) fn settle(&mut self) {
        self.btf = None;
        // SAFETY: it touches nothing but free memory. What is freed in the middle of the heap is
        // not given back by itself, because what was allocated later lies above it.
        #[cfg(target_env = "gnu")]
        unsafe {
            libc::malloc_trim(0);
        }
    }

    /// Each CPU's state, by CPU number.
    pub(super) fn cpus(&self) -> Result<Vec<Cpu>, Unread> {
        let read = self.cpus.get(&0, 0).map_err(|why| Unread::of("CPUS", why))?;
        Ok(read.to_vec())
    }

    /// Each cgroup's state on each CPU. An entry that goes away meanwhile is left out.
    pub(super) fn groups(&self) -> Result<Vec<(u64, Vec<Group>)>, Unread> {
        let n_cpus = self.n_possible_cpus;
        let batch = batch::entries::<u64, Group>(self.groups_fd.as_fd(), n_cpus);
        let batch = batch.map(|(ids, values)| {
            ids.into_iter().zip(values.chunks(n_cpus).map(<[Group]>::to_vec)).collect()
        });
        let singly = self.groups.iter().map(|entry| entry.map(|(id, v)| (id, v.to_vec())));
        either("GROUPS", batch, || singly.collect::<Result<_, _>>())
    }

    /// The aggressor matrix.
    pub(super) fn matrix(&self) -> Result<Vec<(Pair, u64)>, Unread> {
        let batch = batch::entries(self.matrix_fd.as_fd(), 1);
        let batch = batch.map(|(pairs, times)| pairs.into_iter().zip(times).collect());
        either("MATRIX", batch, || self.matrix.iter().collect::<Result<_, _>>())
    }

    /// Each scope's memory stall.
    pub(super) fn memory(&self) -> Result<Vec<(u64, Memory)>, Unread> {
        let batch = batch::entries(self.memory_fd.as_fd(), 1);
        let batch = batch.map(|(scopes, stalls)| scopes.into_iter().zip(stalls).collect());
        either("MEMORY", batch, || self.memory.iter().collect::<Result<_, _>>())
    }

    /// Drops what is kept of a cgroup that is no more. What never was there is no error.
    pub(super) fn forget(&mut self, cgroup: u64) {
        let _ = self.groups.remove(&cgroup);
        let _ = self.memory.remove(&cgroup);
    }

    /// Pairs for which the matrix was made.
    pub(super) fn room_for_pairs(&self) -> usize {
        self.sizes.pairs as usize
    }

    /// Drops a pair.
    pub(super) fn forget_pair(&mut self, pair: Pair) {
        let _ = self.matrix.remove(&pair);
    }

    /// Says whose limits are the node's allocatable: kubepods and the QoS slices.
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
        while let Some(item) = self.events.next() {
            if item.len() == size_of::<Event>() {
                // SAFETY: the kernel side wrote an `Event`: integers only, any bytes are one.
                events.push(unsafe { item.as_ptr().cast::<Event>().read_unaligned() });
            }
        }
        events
    }

    /// Becomes readable when an event is urgent.
    pub(super) fn urgent(&self) -> io::Result<OwnedFd> {
        self.events.as_fd().try_clone_to_owned()
    }

    /// Passes on what the programs logged.
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

    /// What a program has done while metered. Source: `bpf_prog_show_fdinfo`, kernel/bpf/syscall.c.
    #[must_use]
    pub(super) fn runs(&self, program: &str) -> Option<Runs> {
        let program = self.ebpf.program(program)?;
        let fd = program.fd().ok()?;
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_fd().as_raw_fd()));
        let info = info.ok()?;
        let field = |name: &str| value(&info, name).unwrap_or(0);
        Some(Runs {
            time: field("run_time_ns"),
            count: field("run_cnt"),
            skipped: field("recursion_misses"),
        })
    }

    /// Memory of all maps when they were made: preallocated ones in full, the others' entries not
    /// included. `None` where the kernel does not say.
    #[must_use]
    pub(super) fn map_bytes(&self) -> Option<u64> {
        self.map_bytes
    }
}

/// A typed map, taken out of the object so that it can be kept beside it.
fn take<M>(ebpf: &mut Ebpf, name: &'static str) -> Result<M, LoadError>
where
    M: TryFrom<Map, Error = MapError>,
{
    let map = ebpf.take_map(name).ok_or(MapError::InvalidName { name: name.into() });
    map.and_then(M::try_from).map_err(|source| LoadError::Map { name, source: Box::new(source) })
}

/// Another descriptor of a map.
fn descriptor(ebpf: &Ebpf, name: &'static str) -> Result<OwnedFd, LoadError> {
    let gone = || MapError::InvalidName { name: name.into() };
    let data = ebpf.map(name).and_then(data).ok_or_else(gone);
    let failed = |source| LoadError::Map { name, source: Box::new(source) };
    let data = data.map_err(failed)?;
    data.fd().as_fd().try_clone_to_owned().map_err(|error| failed(MapError::IoError(error)))
}

/// `memlock` of a map's fdinfo.
fn map_memory(map: &Map) -> Option<u64> {
    let Some(data) = data(map) else { return Some(0) };
    let fd = data.fd().as_fd().as_raw_fd();
    value(&fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?, "memlock")
}

/// A map of a kind that the object has.
fn data(map: &Map) -> Option<&MapData> {
    match map {
        Map::Array(data)
        | Map::HashMap(data)
        | Map::LruHashMap(data)
        | Map::PerCpuArray(data)
        | Map::PerCpuHashMap(data)
        | Map::RingBuf(data) => Some(data),
        _ => None,
    }
}

/// A number out of fdinfo: `name:\tvalue`.
fn value(info: &str, name: &str) -> Option<u64> {
    info.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .and_then(|value| value.trim().parse().ok())
}
