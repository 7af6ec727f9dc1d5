//! The kernel side, as the agent sees it: attach what can be attached, say what cannot and why,
//! and once a second read everything as plain counters.
//!
//! Each program is optional. What a missing one leaves unknown is in [`Coverage`] and in the list
//! of capabilities; the agent as a whole never fails for it.

mod attach;
mod batch;
mod btf;
mod fold;
pub(super) mod layout;
mod loader;
mod meter;
mod programs;
mod unread;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;

use isobar_ebpf::{BORN, DIED, Event, OOM, OOM_LIMIT_KNOWN};

pub use self::attach::AttachError;
use self::fold::{Ledger, Maps};
pub use self::layout::Host;
use self::loader::Loader;
use self::meter::Meter;
pub use self::unread::Unread;
use crate::clock;
use crate::model::capability::Capability;
use crate::model::cgroup::{Cgroup, CgroupId, CgroupPath};
use crate::model::cost::KernelCost;
use crate::model::pod::Place;
use crate::model::stall::{Coverage, KernelStalls, OomKill, ShortLived};
use crate::model::units::Nanos;

/// How much to attach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Probes {
    /// Everything that the kernel allows.
    #[default]
    All,
    /// Tracepoints alone, as on kernels that refuse fentry.
    Tracepoints,
    /// One empty program: shows what any attached program costs on this machine.
    Empty,
    /// Nothing: PSI and files only.
    None,
}

/// What to attach, and how large to make it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How much.
    pub probes: Probes,
    /// Cgroups for which there is room; more are counted as lost.
    pub max_cgroups: u32,
}

/// The attached kernel side. Dropping it detaches everything.
pub struct Kernel {
    loader: Loader,
    host: Host,
    attached: Vec<&'static str>,
    covers: Coverage,
    ledger: Ledger,
    meter: Meter,
    /// Paths of cgroups born since they were last seen in the tree.
    born: BTreeMap<u64, CgroupPath>,
    /// Cgroups in the last tree: what is missing from the next is gone.
    known: BTreeSet<u64>,
    allocatable: BTreeSet<u64>,
}

impl Kernel {
    /// Attaches what the kernel allows. The list names every program, attached or why not.
    ///
    /// # Errors
    /// If nothing at all can be attached: the error says what is missing. Go on without.
    pub fn attach(options: Options, host: Host) -> Result<(Self, Vec<Capability>), AttachError> {
        attach::attach(options, host)
    }

    /// Reads everything. `tree` is this tick's cgroup tree: what is no longer in it is dropped.
    ///
    /// # Errors
    /// If a map cannot be read. Nothing was dropped then, and events wait for the next call.
    pub fn read(&mut self, tree: &BTreeMap<CgroupId, Cgroup>) -> Result<KernelStalls, Unread> {
        self.loader.flush_log();
        let maps = Maps {
            cpus: self.loader.cpus()?,
            groups: self.loader.groups()?,
            matrix: self.loader.matrix()?,
            memory: self.loader.memory()?,
            now: clock::monotonic().0,
            has_unions: self.host.cpu_on_v2,
        };
        let events = self.loader.events();
        for (id, cgroup) in tree {
            self.ledger.learn(id.0, cgroup.parent.map_or(0, |parent| parent.0));
        }
        self.follow_allocatable(tree);
        let mut stalls = self.ledger.fold(&maps, |id| tree.contains_key(&CgroupId(id)));
        stalls.covers = self.covers;
        stalls.oom_kills = events.iter().filter_map(|event| self.oom_kill(event)).collect();
        stalls.short_lived = self.follow_lives(&events, tree);
        stalls.lost.recursions =
            self.attached.iter().filter_map(|name| self.loader.runs(name)).map(|r| r.skipped).sum();
        self.tidy(&maps, tree);
        Ok(stalls)
    }

    /// A descriptor that becomes readable when something urgent happens: an OOM kill.
    ///
    /// # Errors
    /// If this process may have no more descriptors.
    pub fn urgent(&self) -> io::Result<OwnedFd> {
        self.loader.urgent()
    }

    /// What the programs cost, measured for a second once a minute, and the maps' memory.
    pub fn cost(&mut self, tick: u64, now: Nanos) -> KernelCost {
        self.meter.tick(tick, now, &self.attached, &self.loader)
    }

    /// Tells the programs whose limits are the node's allocatable.
    fn follow_allocatable(&mut self, tree: &BTreeMap<CgroupId, Cgroup>) {
        let are: BTreeSet<u64> = tree
            .iter()
            .filter(|(_, cgroup)| {
                matches!(Place::of(&cgroup.path), Place::Kubepods | Place::Qos { .. })
            })
            .map(|(id, _)| id.0)
            .collect();
        for (id, is) in self
            .allocatable
            .difference(&are)
            .map(|id| (*id, false))
            .chain(are.difference(&self.allocatable).map(|id| (*id, true)))
        {
            if let Err(error) = self.loader.set_allocatable(id, is) {
                tracing::warn!(cgroup = id, %error, "its limit will count as a pod's, not as the node's");
            }
        }
        self.allocatable = are;
    }

    fn oom_kill(&self, event: &Event) -> Option<OomKill> {
        let limit_known = match event.kind {
            OOM => false,
            OOM_LIMIT_KNOWN => true,
            _ => return None,
        };
        Some(OomKill {
            at: Nanos(event.at),
            victim: CgroupId(event.cgroup),
            victim_pid: event.pid,
            limit: (event.limit != 0).then_some(CgroupId(event.limit)),
            limit_known,
            trigger: CgroupId(event.trigger),
        })
    }

    /// Cgroups that died since the last tick, with the names that no tree will give any more.
    fn follow_lives(
        &mut self,
        events: &[Event],
        tree: &BTreeMap<CgroupId, Cgroup>,
    ) -> Vec<ShortLived> {
        let mut gone = Vec::new();
        for event in events {
            match event.kind {
                BORN => {
                    self.born.insert(event.cgroup, path(event));
                }
                DIED => {
                    self.born.remove(&event.cgroup);
                    gone.push(ShortLived { id: CgroupId(event.cgroup), path: path(event) });
                }
                _ => {}
            }
        }
        self.born.retain(|id, _| !tree.contains_key(&CgroupId(*id)));
        gone.retain(|cgroup| !self.known.contains(&cgroup.id.0));
        gone
    }

    /// Drops what belongs to cgroups that are no more, after it was reported one last time.
    fn tidy(&mut self, maps: &Maps, tree: &BTreeMap<CgroupId, Cgroup>) {
        let lives = |id: u64, born: &BTreeMap<u64, CgroupPath>| {
            id <= isobar_ebpf::NODE || tree.contains_key(&CgroupId(id)) || born.contains_key(&id)
        };
        let ids: BTreeSet<u64> = maps
            .groups
            .iter()
            .map(|(id, _)| *id)
            .chain(maps.memory.iter().map(|(id, _)| *id))
            .chain(self.known.iter().copied())
            .filter(|id| !lives(*id, &self.born))
            .collect();
        for id in ids {
            self.ledger.bury(id, maps);
            self.loader.forget(id);
        }
        for pair in fold::least(&maps.matrix, self.loader.room_for_pairs()) {
            self.loader.forget_pair(pair);
        }
        for (pair, _) in &maps.matrix {
            if !lives(pair.victim, &self.born) || !lives(pair.aggressor, &self.born) {
                self.loader.forget_pair(*pair);
            }
        }
        self.known = tree.keys().map(|id| id.0).collect();
    }
}

/// The path that an event carries, as far as it fits.
fn path(event: &Event) -> CgroupPath {
    let text = event.path.split(|byte| *byte == 0).next().unwrap_or_default();
    CgroupPath(String::from_utf8_lossy(text).into_owned())
}
