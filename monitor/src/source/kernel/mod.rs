//! The kernel side, as the agent sees it: attach what can be attached, say what cannot and why,
//! and once a second read everything as plain counters.
//!
//! Each program is optional. What a missing one leaves unknown is in [`Coverage`] and in the list
//! of capabilities; the agent as a whole never fails for it.

mod attach;
mod batch;
mod btf;
mod budget;
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
use self::budget::{Budget, Verdict};
use self::fold::{Ledger, Maps};
pub use self::layout::Host;
use self::loader::{Loader, Runs};
use self::meter::Meter;
use self::programs::Plan;
pub use self::unread::Unread;
use crate::clock;
use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::cgroup::{Cgroup, CgroupId, CgroupPath};
use isobar_core::model::cost::KernelCost;
use isobar_core::model::pod::Place;
use isobar_core::model::stall::{Coverage, KernelStalls, OomKill, ShortLived};
use isobar_core::model::units::{Bytes, Nanos, Percent};

/// How much to attach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Probes {
    /// Everything that the kernel allows.
    #[default]
    All,
    /// Tracepoints alone, as on kernels that refuse fentry.
    Tracepoints,
    /// One empty program: shows what any attached program costs on this machine. For benchmarks.
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
    /// Share of the node's CPU time that following context switches may take: above it that is
    /// left off for a time.
    pub budget: Percent,
}

/// The attached kernel side. Dropping it detaches everything.
pub struct Kernel {
    loader: Loader,
    host: Host,
    /// Programs that could be attached, in that order.
    attached: Vec<&'static Plan>,
    /// What attaching said of each program.
    capabilities: Vec<Capability>,
    covers: Coverage,
    ledger: Ledger,
    meter: Meter,
    budget: Budget,
    /// CPUs that have switched.
    n_cpus: usize,
    /// Paths of cgroups born since they were last seen in the tree.
    born: BTreeMap<u64, CgroupPath>,
    /// Cgroups in the last tree: what is missing from the next is gone.
    known: BTreeSet<u64>,
    allocatable: BTreeSet<u64>,
}

impl Kernel {
    /// Attaches what the kernel allows.
    ///
    /// # Errors
    /// If nothing at all can be attached: the error says what is missing. Go on without.
    pub fn attach(options: Options, host: Host) -> Result<Self, AttachError> {
        attach::attach(options, host)
    }

    /// Every program: attached, left off to stay within the budget, or why not.
    #[must_use]
    pub fn capabilities(&self) -> Vec<Capability> {
        let mut all = self.capabilities.clone();
        let Some(rest) = self.budget.rest() else { return all };
        let waits: Vec<String> = self.waits().map(Plan::capability).collect();
        for program in all.iter_mut().filter(|program| waits.contains(&program.name)) {
            program.state = CapabilityState::Off;
            program.detail = format!(
                "left off for {} min, because to follow context switches took {} % of the node's \
                 CPU time, and {} % is what it may take",
                rest.length.0 / (60 * Nanos::SECOND.0),
                rest.took,
                self.budget.allowed(),
            );
            program.remedy = Some("a larger --probe-budget, to have it all the time".into());
        }
        all
    }

    /// Whether waits are followed now.
    #[must_use]
    pub fn follows_waits(&self) -> bool {
        self.covers.waits && self.budget.rest().is_none()
    }

    /// Reads everything. `tree` is this tick's cgroup tree: what is no longer in it is dropped.
    ///
    /// # Errors
    /// If a map cannot be read. Nothing was dropped then, and events wait for the next call.
    pub fn read(&mut self, tree: &BTreeMap<CgroupId, Cgroup>) -> Result<KernelStalls, Unread> {
        self.loader.flush_log();
        let maps = self.maps()?;
        let events = self.loader.events();
        for (id, cgroup) in tree {
            self.ledger.learn(id.0, cgroup.parent.map_or(0, |parent| parent.0));
        }
        self.follow_allocatable(tree);
        let mut stalls = self.ledger.fold(&maps, |id| tree.contains_key(&CgroupId(id)));
        stalls.covers = self.covers;
        if self.budget.rest().is_some() {
            (stalls.covers.waits, stalls.covers.throttling) = (false, false);
        }
        stalls.oom_kills = events.iter().filter_map(|event| self.oom_kill(event)).collect();
        stalls.short_lived = self.follow_lives(&events, tree);
        stalls.lost.recursions = self.runs().map(|runs| runs.skipped).sum();
        self.n_cpus = self.n_cpus.max(stalls.cpus.len());
        self.tidy(&maps, tree);
        Ok(stalls)
    }

    /// The maps; without what was counted of waits if they are not followed.
    fn maps(&self) -> Result<Maps, Unread> {
        let (cpus, memory) = (self.loader.cpus()?, self.loader.memory()?);
        let (now, has_unions) = (clock::monotonic().0, self.host.cpu_on_v2);
        if self.budget.rest().is_some() {
            let cpus = cpus.iter().map(fold::losses).collect();
            return Ok(Maps { cpus, memory, now, has_unions, ..Maps::default() });
        }
        let (groups, matrix) = (self.loader.groups()?, self.loader.matrix()?);
        Ok(Maps { cpus, groups, matrix, memory, now, has_unions })
    }

    /// A descriptor that becomes readable when something urgent happens: an OOM kill.
    ///
    /// # Errors
    /// If this process may have no more descriptors.
    pub fn urgent(&self) -> io::Result<OwnedFd> {
        self.loader.urgent()
    }

    /// What the programs cost, measured for about a second every twenty ticks, and the maps' memory.
    /// Leaves waits off if they cost more than they may, and follows them again when that is over.
    pub fn cost(&mut self, tick: u64, now: Nanos) -> KernelCost {
        let is_resting = self.budget.rest().is_some();
        let running = self.attached.iter().filter(|plan| !(is_resting && plan.set.is_waits()));
        let names = running.map(|plan| plan.program);
        if self.meter.tick(tick, now, names, &self.loader) {
            match self.budget.metered(self.waits_cost(), self.n_cpus, now) {
                Verdict::GoOn => {}
                Verdict::LookAgain => self.meter.again(),
                Verdict::LeaveOff => self.leave_off(),
            }
        } else if self.budget.is_over(now) {
            self.follow_again();
        }
        let programs = self.meter.programs().to_vec();
        KernelCost { programs, map_bytes: self.loader.map_bytes().map(Bytes) }
    }

    /// What each program that was attached has done.
    fn runs(&self) -> impl Iterator<Item = Runs> {
        self.attached.iter().filter_map(|plan| self.loader.runs(plan.program))
    }

    /// Programs that are attached because of waits, or would be.
    fn waits(&self) -> impl DoubleEndedIterator<Item = &'static Plan> {
        self.attached.iter().copied().filter(|plan| plan.set.is_waits())
    }

    /// Time in the programs that follow waits, for each second, as it was metered last.
    fn waits_cost(&self) -> Nanos {
        let is_waits = |name: &str| self.waits().any(|plan| plan.program == name);
        let programs = self.meter.programs().iter();
        programs.filter(|cost| is_waits(&cost.name)).fold(Nanos(0), |sum, c| sum.plus(c.per_second))
    }

    fn leave_off(&mut self) {
        // Who opens before who closes.
        let waits: Vec<_> = self.waits().collect();
        waits.iter().rev().for_each(|plan| self.loader.detach(plan.program));
        self.ledger.forget_waits();
        if let Some(told) = self.capabilities().iter().find(|one| one.name == "sched_switch") {
            tracing::warn!("waits for CPUs are not followed: {}", told.detail);
        }
    }

    /// From the beginning: nothing is known of the time in between.
    fn follow_again(&mut self) {
        let forgotten = self.loader.forget_waits().map_err(|why| why.to_string());
        let attached = forgotten.and_then(|()| {
            let mut waits = self.waits().collect::<Vec<_>>().into_iter();
            let again = |plan: &'static Plan| self.loader.attach_again(plan.program);
            waits.try_for_each(again).map_err(|why| why.to_string())
        });
        match attached {
            Ok(()) if self.follows_waits() => tracing::info!("waits for CPUs are followed again"),
            Ok(()) => {}
            Err(why) => self.give_up(&why),
        }
    }

    /// Waits stay unknown from now on.
    fn give_up(&mut self, why: &str) {
        tracing::error!("waits for CPUs cannot be followed again: {why}");
        let waits: Vec<_> = self.waits().collect();
        for plan in waits {
            self.loader.detach(plan.program);
            let name = plan.capability();
            for capability in self.capabilities.iter_mut().filter(|one| one.name == name) {
                capability.state = CapabilityState::Absent;
                capability.detail = format!("could not be attached again: {why}");
                capability.remedy = Some("restart isobar".into());
            }
        }
        self.attached.retain(|plan| !plan.set.is_waits());
        (self.covers.waits, self.covers.throttling) = (false, false);
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
