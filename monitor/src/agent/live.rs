//! This node as a [`Source`]: its files and the kernel side joined.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::agreement::{Agreement, Blind};
use super::pace::Alarms;
use super::run::AgentError;
use super::sampler::{Reading, Source};
use crate::causes::chain;
use crate::clock;
use crate::source::kernel::detach::LinkHolders;
use crate::source::kernel::{self, Kernel, MapReadError, Probes};
use crate::source::runners::Runners;
use crate::source::triggers::Triggers;
use crate::source::{self, Awake, Directories, Roots};
use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::node::NodeFacts;
use isobar_core::model::places;
use isobar_core::model::sample::{Cause, Gap, GapReason, Sample};
use isobar_core::model::settings::Node;
use isobar_core::model::stall::{Coverage, Lost};
use isobar_core::model::units::{Nanos, Percent};
use isobar_core::view::suspects::Suspect;
use isobar_core::view::verdict::Resource;

/// What to read, and from where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceOptions {
    /// Which kernel programs to attach, and how large.
    pub kernel: kernel::Options,
    /// Where cgroup v2 is mounted; `None` finds it.
    pub cgroup_root: Option<PathBuf>,
    /// Where the kubelet keeps its files.
    pub kubelet_root: PathBuf,
    /// The node's name; `None` takes the host name, which in a pod is the pod's.
    pub node_name: Option<String>,
}

/// Why the sources could not be opened at all. Whatever can be done without is a capability that
/// is absent, not an error.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is nothing to read.
    #[error(transparent)]
    Sources(#[from] source::OpenError),
    /// The agent around the sources failed.
    #[error(transparent)]
    Agent(#[from] AgentError),
}

/// The node that this process runs on.
pub struct Live {
    sources: source::Sampler,
    /// Or why there is none.
    kernel: Result<Kernel, Capability>,
    agreement: Agreement,
    /// Programs that PSI gave the lie in the last tick.
    blind: Vec<Blind>,
    /// Only an agent asks for them.
    triggers: Option<Triggers>,
    /// For each resource.
    runners: [Runners; 3],
    tick: u64,
}

impl Live {
    /// Opens every source. Without the kernel side it goes on, and says what is missing.
    ///
    /// # Errors
    /// Only if nothing at all can be measured: no cgroup v2 tree, or no `/proc`.
    pub fn open(options: &SourceOptions) -> Result<Self, OpenError> {
        let filesystems = Directories::of_kubelet(&options.kubelet_root);
        let cgroup = options.cgroup_root.clone();
        let roots = Roots { cgroup, filesystems, ..Roots::default() };
        let mut sources = source::Sampler::open(&roots)?;
        if let Some(name) = &options.node_name {
            sources.rename(name);
        }
        sources.check_is_cgroup2()?;
        let kernel = attach(options.kernel, &sources);
        let runners = [Resource::Cpu, Resource::Memory, Resource::Io]
            .map(|resource| Runners::new(resource, &roots.proc, sources.cgroup_root()));
        Ok(Self {
            sources,
            kernel,
            agreement: Agreement::default(),
            blind: Vec::new(),
            triggers: None,
            runners,
            tick: 0,
        })
    }

    /// Tells in the log which programs are not attached: an agent's first lines. A verb that looks
    /// once has better ways to say what it could not see.
    pub fn tell(&self) {
        let lacking = |program: &Capability| program.state != CapabilityState::Attached;
        for Capability { name, state, detail, remedy } in
            self.programs().into_iter().filter(lacking)
        {
            let state = state.name();
            match remedy {
                Some(remedy) if self.kernel.is_err() => {
                    tracing::warn!(
                        "no kernel side, only pressure and files: {detail}; to have it: {remedy}"
                    );
                }
                _ => tracing::info!(%name, state, "{detail}"),
            }
        }
    }

    fn programs(&self) -> Vec<Capability> {
        match &self.kernel {
            Ok(kernel) => kernel.capabilities(),
            Err(none) => vec![none.clone()],
        }
    }
}

impl Source for Live {
    fn facts(&self) -> NodeFacts {
        self.sources.facts().clone()
    }

    fn alarms(&mut self) -> Alarms {
        let none = |what: &str, why: std::io::Error| {
            tracing::warn!("cannot wake up on {what}, only once a second: {why}");
        };
        let triggers = Triggers::new(Path::new("/proc"), self.sources.cgroup_root());
        self.triggers = triggers.map_err(|why| none("pressure", why)).ok();
        let pressure = self.triggers.as_ref().map(Triggers::alarm);
        let event = self.kernel.as_ref().ok().map(Kernel::urgent);
        Alarms {
            pressure: pressure.and_then(|alarm| alarm.map_err(|why| none("pressure", why)).ok()),
            event: event.and_then(|alarm| alarm.map_err(|why| none("OOM kills", why)).ok()),
        }
    }

    fn suspect(&mut self, suspects: Vec<CgroupId>, sample: &Sample) {
        if let Some(triggers) = &mut self.triggers {
            triggers.suspect(suspects, sample.at.boot);
            triggers.follow(sample);
        }
    }

    fn look_for(&mut self, suspect: impl Fn(Resource) -> Option<Suspect>) {
        let now = clock::now().boot;
        for runners in self.runners.iter_mut().filter(|runners| runners.is_due(now)) {
            runners.suspect(suspect(runners.resource()), now);
        }
    }

    fn cgroup_root(&self) -> Option<PathBuf> {
        Some(self.sources.cgroup_root().into())
    }

    fn leave(self, patience: Duration) -> usize {
        let links = LinkHolders::share_links();
        drop(self);
        links.release(patience)
    }

    fn read(&mut self, cause: Cause, node: &Node) -> Reading {
        self.tick += 1;
        let mut kernel = self.kernel.as_mut().ok();
        let counters = kernel.as_mut().map(|kernel| kernel.read());
        let awake = match &counters {
            Some(Ok(counters)) => &counters.awake,
            Some(Err(_)) | None => &Awake::Unknown,
        };
        let mut sample = self.sources.sample(self.tick, cause, trusted(awake, &self.blind));
        sample.kubepods = Some(places::kubepods(node, &sample.cgroups));
        sample.kernel = or_gap(counters, &mut sample.gaps)
            .zip(kernel)
            .map(|(counters, kernel)| kernel.fold(&counters, &sample.cgroups, &sample.places()));
        self.blind = self.agreement.check(&sample);
        if let Some(kernel) = &mut sample.kernel {
            self.blind.iter().for_each(|blind| distrust(&mut kernel.covers, blind));
        }
        self.runners.iter_mut().for_each(|runners| runners.read(&mut sample));
        if let Some(kernel) = &sample.kernel {
            let root = sample.cgroups.iter().find(|(_, cgroup)| cgroup.path.is_root());
            let waited = root.and_then(|(id, _)| kernel.groups.get(id)).map(|all| all.wait);
            sample.gaps.extend(losses(kernel.lost, waited));
        }
        let mut capabilities = pressure_files(&sample);
        capabilities.extend(self.triggers.as_ref().map(Triggers::capability));
        capabilities.extend(self.programs());
        self.blind.iter().for_each(|blind| tell_blind(&mut capabilities, blind));
        // What ended with this tick is metered by the clock, not by when the tick was due.
        let now = clock::now().boot;
        let kernel = self.kernel.as_mut().map(|kernel| {
            let before = kernel.follows_waits();
            let cost = kernel.cost(now);
            if kernel.follows_waits() != before {
                self.agreement.forget_waits();
            }
            cost
        });
        Reading { sample, capabilities, kernel: kernel.unwrap_or_default() }
    }
}

/// The kernel side's counters or, if they could not be read, the gap that says so: then all that
/// they would tell is unknown for this tick.
fn or_gap<T>(read: Option<Result<T, MapReadError>>, gaps: &mut Vec<Gap>) -> Option<T> {
    read?.map_err(|unread| gaps.push(unread.gap())).ok()
}

/// What a blind program reports is not used: unknown, and not calm.
fn distrust(covers: &mut Coverage, blind: &Blind) {
    match blind.target {
        "sched_switch" => (covers.waits, covers.throttling) = (false, false),
        _ => (covers.memory, covers.memory_causes) = (false, false),
    }
}

/// Who slept, as far as the program that follows context switches sees.
fn trusted<'a>(awake: &'a Awake, blind: &[Blind]) -> &'a Awake {
    let is_blind = blind.iter().any(|blind| blind.target == "sched_switch");
    if is_blind { &Awake::Unknown } else { awake }
}

fn tell_blind(capabilities: &mut [Capability], blind: &Blind) {
    if let Some(program) = capabilities.iter_mut().find(|program| program.name == blind.target) {
        program.state = CapabilityState::Blind;
        program.detail.clone_from(&blind.detail);
        program.remedy = Some("report this to isobar with the kernel's release".into());
    }
}

/// Attaches what the kernel allows. A refusal becomes a capability.
fn attach(options: kernel::Options, sources: &source::Sampler) -> Result<Kernel, Capability> {
    if options.probes == Probes::None {
        return Err(kernel_side(CapabilityState::Off, "switched off by --probes none"));
    }
    Kernel::attach(options, sources.host())
        .map_err(|why| kernel_side(CapabilityState::Absent, &chain(&why)).remedied(why.remedy()))
}

fn kernel_side(state: CapabilityState, detail: &str) -> Capability {
    Capability::new("kernel side", state, detail)
}

/// What the kernel side could not count, as gaps in every sample from then on: its counters go on
/// lacking it for as long as the agent runs. `waited` is the waiting of all tasks.
fn losses(lost: Lost, waited: Option<Nanos>) -> Vec<Gap> {
    let room = "; run with a larger --max-cgroups";
    // After a pause waits are counted from 0 again, losses are not.
    let waited = waited.filter(|all| *all > lost.pair_time);
    let share = waited.map(|all| Percent::share(lost.pair_time.0, all.0));
    let hidden = share.map_or_else(String::new, |share| format!(", {share} % of all waiting"));
    let pairs = format!("{hidden}{room}");
    #[rustfmt::skip]
    let table = [
        // count, of what, what to do
        (lost.cgroups,  "waits of cgroups: the table of cgroups had no room",       "; if it goes on, run with a larger --max-cgroups"),
        (lost.pairs,    "waits by pair of cgroups: the table of pairs was full",   &*pairs),
        (lost.stalls,   "memory stalls: the table of stalls is full",              room),
        (lost.io_waits, "waits for IO: the table of sleepers is full",             ""),
        (lost.events,   "OOM kills and cgroups created or removed: the event buffer was full", ""),
        (lost.too_deep, "context switches in cgroups that are nested too deeply",  ""),
    ];
    let found = table.into_iter().filter(|(n, ..)| *n > 0).map(|(n, what, todo)| Gap {
        object: "kernel side".into(),
        why: GapReason::Full,
        detail: format!("not counted since the start: {n} {what}{todo}"),
    });
    found.collect()
}

/// The node's pressure files, as this tick found them.
fn pressure_files(sample: &Sample) -> Vec<Capability> {
    let pressure = &sample.node.pressure;
    let files = [("cpu", pressure.cpu), ("memory", pressure.memory), ("io", pressure.io)];
    let gaps: BTreeMap<&str, &str> =
        sample.gaps.iter().map(|gap| (gap.object.as_str(), gap.detail.as_str())).collect();
    files
        .into_iter()
        .map(|(resource, read)| {
            let name = format!("/proc/pressure/{resource}");
            if read.is_some() {
                return Capability::new(name, CapabilityState::Attached, "");
            }
            let told = gaps.get(name.as_str()).or_else(|| gaps.get("/proc/pressure"));
            let detail = told.copied().unwrap_or("not read");
            Capability::new(name, CapabilityState::Absent, detail)
                .remedied("boot with psi=1, on a kernel with CONFIG_PSI=y")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn or_gap_turns_unread_counters_into_a_gap() {
        let mut gaps = Vec::new();
        assert_eq!(or_gap::<u64>(None, &mut gaps), None, "no kernel side is told by a capability");
        assert_eq!(or_gap(Some(Ok(1)), &mut gaps), Some(1));
        assert!(gaps.is_empty());
        assert_eq!(or_gap::<u64>(Some(Err(MapReadError::new("MEMORY", "gone"))), &mut gaps), None);
        let told: Vec<_> = gaps.iter().map(|gap| (gap.why, gap.detail.as_str())).collect();
        assert_eq!(told, [(GapReason::Failed, "cannot read the map MEMORY: gone")]);
    }

    #[test]
    fn trusted_takes_no_cgroup_for_asleep_while_switches_are_not_seen() {
        let awake = Awake::These { cgroups: [CgroupId(7)].into(), by_queue: false };
        for (target, want) in [("psi_memstall_enter", &awake), ("sched_switch", &Awake::Unknown)] {
            let blind = Blind { target, detail: String::new() };
            assert_eq!(trusted(&awake, &[blind]), want, "{target}");
        }
        assert_eq!(trusted(&awake, &[]), &awake);
    }

    #[test]
    fn losses_of_pairs_tell_how_much_they_hide() {
        let lost = Lost { pairs: 7, pair_time: Nanos(30), ..Lost::default() };
        let told =
            |waited| losses(lost, waited).into_iter().map(|gap| gap.detail).collect::<Vec<_>>();
        let of =
            "not counted since the start: 7 waits by pair of cgroups: the table of pairs was full";
        assert_eq!(
            told(Some(Nanos(1_000))),
            [format!("{of}, 3.00 % of all waiting; run with a larger --max-cgroups")]
        );
        assert_eq!(told(None), [format!("{of}; run with a larger --max-cgroups")]);
        assert_eq!(losses(Lost::default(), None), []);
    }

    #[test]
    fn losses_of_cgroups_ask_for_room_only_if_they_go_on() {
        let told = losses(Lost { cgroups: 1, ..Lost::default() }, None);
        let [Gap { detail, why: GapReason::Full, .. }] = &told[..] else { panic!("{told:?}") };
        assert_eq!(
            detail,
            "not counted since the start: 1 waits of cgroups: the table of cgroups had no room; if it \
             goes on, run with a larger --max-cgroups"
        );
    }
}
