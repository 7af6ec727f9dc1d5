//! The kernel side, as the agent uses it: attaches what the kernel allows, reports what it refuses
//! and why, and once a second reads all counters.
//!
//! Each program is optional. [`Coverage`] and the capabilities say what is unknown without it; the
//! agent runs all the same.

mod attach;
mod batch;
mod btf;
mod budget;
mod created;
pub mod detach;
mod fold;
pub(super) mod layout;
mod loader;
mod meter;
mod pairs;
mod programs;
mod switched;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use isobar_ebpf::{CREATED, Event, OOM, OOM_LIMIT_KNOWN, REMOVED};

pub use self::attach::AttachError;
use self::budget::{Budget, Verdict};
use self::created::Created;
use self::fold::{CounterTree, Maps};
pub use self::layout::Host;
use self::loader::Loader;
pub use self::loader::{MapReadError, OBJECT_LICENSE, object};
use self::meter::Meter;
use self::programs::Plan;
use self::switched::Switched;
use super::{Awake, gap, machine};
use crate::clock;
use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::cgroup::{Cgroup, CgroupId, CgroupPath};
use isobar_core::model::cost::KernelCost;
use isobar_core::model::places::Places;
use isobar_core::model::stall::{Coverage, KernelStalls, OomKill, ShortLived};
use isobar_core::model::units::{Bytes, Nanos, Percent, scale};

/// Which programs to attach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Probes {
    /// Every program that the kernel allows.
    #[default]
    All,
    /// Tracepoints alone, as on kernels that refuse fentry.
    Tracepoints,
    /// One empty program: shows what any attached program costs on this machine. For benchmarks.
    Empty,
    /// None: PSI and files only.
    None,
}

/// Which programs to attach, and their limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    pub probes: Probes,
    /// Capacity of the maps, in cgroups. Waits of further cgroups are counted as lost.
    pub max_cgroups: u32,
    /// Share of the node's CPU time that following context switches may take. Above it, the
    /// programs that do are detached for a time.
    pub budget: Percent,
}

/// What one reading of the kernel side gave.
#[derive(Debug)]
pub struct Counters {
    maps: Maps,
    events: Vec<Event>,
    /// Whose files may have changed.
    pub awake: Awake,
}

/// The attached kernel side. Dropping it detaches everything.
pub struct Kernel {
    loader: Loader,
    host: Host,
    /// Programs that could be attached, in that order.
    attached: Vec<&'static Plan>,
    /// The result of attaching, for each program.
    capabilities: Vec<Capability>,
    covers: Coverage,
    counters: CounterTree,
    meter: Meter,
    budget: Budget,
    /// Memory of the maps when the programs were last metered.
    map_bytes: Option<u64>,
    /// How often the kernel had skipped a program because it was running already, until then.
    recursions: u64,
    /// CPUs that have switched.
    n_cpus: usize,
    /// Cgroups created since the tree was last read, or while it was.
    created: Created,
    restless: Restless,
    switched: Switched,
    /// Cgroups in the last tree: those missing from the next were removed.
    known: BTreeSet<u64>,
    /// Cgroups whose limits are the node's allocatable.
    allocatable: BTreeSet<u64>,
}

impl Kernel {
    /// The state of every program.
    pub fn capabilities(&self) -> Vec<Capability> {
        let mut all = self.capabilities.clone();
        let Some(pause) = self.budget.pause else { return all };
        let waits: Vec<String> = self.waits().map(Plan::capability).collect();
        for program in all.iter_mut().filter(|program| waits.contains(&program.name)) {
            program.state = CapabilityState::Off;
            program.detail = format!(
                "left off for {} s: following context switches took {} % of the node's CPU \
                 time, and {} % is allowed{}",
                pause.length.0 / Nanos::SECOND.0,
                pause.used,
                self.budget.allowed,
                self.restless.words(),
            );
            program.remedy = Some("raise --probe-budget to keep it attached".into());
        }
        all
    }

    /// Whether waits for a CPU are measured now.
    pub fn follows_waits(&self) -> bool {
        self.covers.waits && self.budget.pause.is_none()
    }

    /// Reads all counters and events. They are read before files, because they tell whose files
    /// may have changed.
    ///
    /// # Errors
    /// If a map cannot be read. Events wait for the next call then; waits by pair that were read
    /// already are lost.
    pub fn read(&mut self) -> Result<Counters, MapReadError> {
        self.loader.flush_log();
        let maps = self.maps()?;
        let events = self.loader.events();
        let awake = self.switched.look(&maps, self.follows_waits(), &events);
        Ok(Counters { maps, events, awake })
    }

    /// Adds up what was read along `tree`, this tick's cgroup tree. Entries of cgroups that are no
    /// longer in it are dropped.
    pub fn fold(
        &mut self,
        Counters { maps, events, .. }: &Counters,
        tree: &BTreeMap<CgroupId, Arc<Cgroup>>,
        places: &Places<'_>,
    ) -> KernelStalls {
        for (id, cgroup) in tree {
            self.counters.set_parent(id.0, cgroup.parent.map_or(0, |parent| parent.0));
        }
        self.update_allocatable(tree, places);
        let mut stalls = self.counters.fold(maps, |id| tree.contains_key(&CgroupId(id)));
        stalls.covers = self.covers;
        if self.budget.pause.is_some() {
            (stalls.covers.waits, stalls.covers.throttling) = (false, false);
        }
        stalls.oom_kills = events.iter().filter_map(oom_kill).collect();
        stalls.short_lived = self.short_lived(events, tree);
        stalls.lost.recursions = self.recursions;
        self.n_cpus = self.n_cpus.max(stalls.cpus.len());
        self.restless.look(self.budget.is_close(), maps, tree);
        self.drop_removed(maps, tree);
        stalls
    }

    /// All maps; during a pause without those about waits.
    fn maps(&self) -> Result<Maps, MapReadError> {
        let (cpus, memory) = (self.loader.cpus()?, self.loader.memory()?);
        let (now, has_unions) = (clock::monotonic().0, self.host.cpu_on_v2);
        if self.budget.pause.is_some() {
            let cpus = cpus.iter().map(fold::only_losses).collect();
            return Ok(Maps { cpus, memory, now, has_unions, ..Maps::default() });
        }
        let (groups, matrix) = (self.loader.groups()?, self.loader.matrix()?);
        let offline = offline(cpus.len());
        Ok(Maps { cpus, offline, groups, matrix, memory, now, has_unions })
    }

    /// A descriptor that becomes readable at an OOM kill.
    ///
    /// # Errors
    /// If this process may open no more descriptors.
    pub fn urgent(&self) -> io::Result<OwnedFd> {
        self.loader.urgent()
    }

    /// The cost of the programs, measured for about a second of twenty, and the maps'
    /// memory. Pauses the programs that follow waits if they cost too much, and ends the pause.
    pub fn cost(&mut self, now: Nanos) -> KernelCost {
        let is_paused = self.budget.pause.is_some();
        let running = self.attached.iter().filter(|plan| !(is_paused && plan.set.is_waits()));
        let names = running.map(|plan| plan.program);
        let is_metered = self.meter.tick(now, names, &self.loader);
        if is_metered || self.map_bytes.is_none() {
            self.map_bytes = self.loader.map_bytes();
            let runs = self.attached.iter().filter_map(|plan| self.loader.runs(plan.program));
            self.recursions = runs.map(|runs| runs.skipped).sum();
        }
        if is_metered {
            match self.budget.judge(self.waits_cost(), self.n_cpus, now) {
                Verdict::Continue => {}
                Verdict::MeasureAgain => self.meter.request(),
                Verdict::Pause => self.pause_waits(),
            }
        } else if self.budget.ends(now) {
            self.resume_waits();
        }
        let programs = self.meter.programs.to_vec();
        KernelCost { programs, map_bytes: self.map_bytes.map(Bytes) }
    }

    /// Programs that follow waits, whether paused or not.
    fn waits(&self) -> impl DoubleEndedIterator<Item = &'static Plan> {
        self.attached.iter().copied().filter(|plan| plan.set.is_waits())
    }

    /// CPU time per second of the programs that follow waits, in the last measurement.
    fn waits_cost(&self) -> Nanos {
        let is_waits = |name: &str| self.waits().any(|plan| plan.program == name);
        let programs = self.meter.programs.iter();
        programs.filter(|cost| is_waits(&cost.name)).fold(Nanos(0), |sum, c| sum.plus(c.per_second))
    }

    fn pause_waits(&mut self) {
        // Programs that open an interval before those that close it.
        let waits: Vec<_> = self.waits().collect();
        waits.iter().rev().for_each(|plan| self.loader.detach(plan.program));
        self.counters.forget_waits();
        if let Some(switch) = self.capabilities().iter().find(|one| one.name == "sched_switch") {
            tracing::warn!("waits for CPUs are not followed: {}", switch.detail);
        }
    }

    /// Starts from zero, because the time of the pause is unknown.
    fn resume_waits(&mut self) {
        let cleared = self.loader.forget_waits().map_err(|error| error.to_string());
        let resumed = cleared.and_then(|()| {
            let mut waits = self.waits().collect::<Vec<_>>().into_iter();
            let attach = |plan: &'static Plan| self.loader.reattach(plan.program);
            waits.try_for_each(attach).map_err(|error| error.to_string())
        });
        match resumed {
            Ok(()) if self.follows_waits() => tracing::info!("waits for CPUs are followed again"),
            Ok(()) => {}
            Err(error) => self.give_up_waits(&error),
        }
    }

    /// Waits stay unknown until the agent restarts.
    fn give_up_waits(&mut self, error: &str) {
        tracing::error!("waits for CPUs cannot be followed again: {error}");
        for plan in self.waits().collect::<Vec<_>>() {
            self.loader.detach(plan.program);
            let name = plan.capability();
            for capability in self.capabilities.iter_mut().filter(|one| one.name == name) {
                capability.state = CapabilityState::Absent;
                capability.detail = format!("could not be attached again after a pause: {error}");
                capability.remedy = Some("restart isobar".into());
            }
        }
        self.attached.retain(|plan| !plan.set.is_waits());
        (self.covers.waits, self.covers.throttling) = (false, false);
    }

    /// Tells the programs which cgroups' limits are the node's allocatable.
    fn update_allocatable(&mut self, tree: &BTreeMap<CgroupId, Arc<Cgroup>>, places: &Places<'_>) {
        let now = tree.iter().filter(|(_, cgroup)| places.is_shared(&cgroup.path));
        let now: BTreeSet<u64> = now.map(|(id, _)| id.0).collect();
        for id in self.allocatable.symmetric_difference(&now) {
            if let Err(error) = self.loader.set_allocatable(*id, now.contains(id)) {
                tracing::warn!(
                    cgroup = id, %error, "its memory limit will count as a pod's, not as the node's"
                );
            }
        }
        self.allocatable = now;
    }

    /// Cgroups that were created and removed between two ticks, with the paths that no tree shows.
    fn short_lived(
        &mut self,
        events: &[Event],
        tree: &BTreeMap<CgroupId, Arc<Cgroup>>,
    ) -> Vec<ShortLived> {
        let mut removed = Vec::new();
        for event in events {
            match event.kind {
                CREATED => drop(self.created.new.insert(event.cgroup)),
                REMOVED => {
                    self.created.remove(event.cgroup);
                    let path = CgroupPath(text(event).into());
                    removed.push(ShortLived { id: CgroupId(event.cgroup), path });
                }
                _ => {}
            }
        }
        self.created.seen(tree);
        removed.retain(|cgroup| !self.known.contains(&cgroup.id.0));
        removed
    }

    /// Drops the entries of removed cgroups, which were reported one last time.
    fn drop_removed(&mut self, maps: &Maps, tree: &BTreeMap<CgroupId, Arc<Cgroup>>) {
        let Self { loader, counters, created, known, .. } = self;
        let exists = |id: u64| {
            id <= isobar_ebpf::NODE || tree.contains_key(&CgroupId(id)) || created.contains(id)
        };
        let ids = maps.groups.keys().copied();
        let ids = ids.chain(maps.memory.keys().copied()).chain(known.iter().copied());
        let ids = ids.chain(counters.heirs());
        let removed: BTreeSet<u64> = ids.filter(|id| !exists(*id)).collect();
        counters.remove_all(&removed, maps);
        removed.into_iter().for_each(|id| loader.forget(id, &maps.groups));
        *known = tree.keys().map(|id| id.0).collect();
    }
}

/// The cgroup that switches most: why the budget is exceeded.
#[derive(Debug, Default)]
struct Restless {
    /// Waits of each cgroup's own tasks when the budget came close, on that clock.
    before: BTreeMap<u64, u64>,
    since: u64,
    most: Option<(CgroupPath, u64)>,
}

impl Restless {
    /// Compares two readings while a pause is close.
    fn look(&mut self, is_close: bool, maps: &Maps, tree: &BTreeMap<CgroupId, Arc<Cgroup>>) {
        if !is_close {
            self.before.clear();
            return;
        }
        let now = maps.groups.iter().map(|(id, cpus)| (*id, fold::n_waits(cpus)));
        if self.before.is_empty() {
            (self.before, self.since) = (now.collect(), maps.now);
            return;
        }
        let before = |id| self.before.get(&id).copied().unwrap_or(0);
        let grown = now.map(|(id, n)| (n.saturating_sub(before(id)), id));
        let interval = maps.now.saturating_sub(self.since);
        self.most = grown.max().and_then(|(n, id)| {
            let per_second = scale(n, Nanos::SECOND.0, interval);
            Some((tree.get(&CgroupId(id))?.path.clone(), per_second))
        });
    }

    fn words(&self) -> String {
        self.most.as_ref().map_or_else(String::new, |(path, per_second)| {
            format!("; {path} was switched to most often, {per_second} times a second")
        })
    }
}

/// CPUs that are offline, of the first `n`; none if the kernel does not report it.
fn offline(n: usize) -> BTreeSet<usize> {
    let online = gap::read(Path::new("/sys/devices/system/cpu/online"), machine::cpu_set);
    let Ok(online) = online else { return BTreeSet::new() };
    let is_online = |cpu: &usize| u32::try_from(*cpu).is_ok_and(|cpu| online.0.contains(&cpu));
    (0..n).filter(|cpu| !is_online(cpu)).collect()
}

fn oom_kill(event: &Event) -> Option<OomKill> {
    let limit_known = match event.kind {
        OOM => false,
        OOM_LIMIT_KNOWN => true,
        _ => return None,
    };
    Some(OomKill {
        at: Nanos(event.at),
        victim: CgroupId(event.cgroup),
        victim_pid: Some(event.pid),
        more: 0,
        victim_comm: Some(text(event)).filter(|comm| !comm.is_empty()),
        limit: (event.limit != 0).then_some(CgroupId(event.limit)),
        limit_known,
        trigger: CgroupId(event.trigger),
    })
}

/// The text that an event carries, as far as it fits.
fn text(event: &Event) -> String {
    let text = event.text.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into()
}
