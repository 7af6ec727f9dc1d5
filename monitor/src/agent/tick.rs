//! One tick, from the sample to what readers see: read, step, act, log, record, publish.
//! It owns the one `Engine` and everything that lives from tick to tick.

mod orders;

use std::path::Path;
use std::time::Duration;

use super::actuator::{Farewell, Handle, Report};
use super::authority::{Authority, LockError};
use super::cluster::Cluster;
use super::disk_walks::DiskWalks;
use super::limits::{Keeping, Places, Terms};
use super::log::Log;
use super::meter::Meter;
use super::plan::Plan;
use super::recorder::{Record, Recorder};
use super::sampler::{Reading, Sampler, Source};
use super::survive::{Protected, Survival};
use super::warm::Warm;
use crate::act;
use crate::clock;
use crate::config::KubeletSource;
use crate::config::kubernetes::Publish;
use crate::kube::LastWord;
use crate::record::incident::watch::Seen;
use crate::record::journal::{JournalError, Start};
use crate::serve::publish::Publisher;
use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::decision::Decision;
use isobar_core::model::sample::Cause;
use isobar_core::model::stall::OomRecord;
use isobar_core::policy::engine::{Engine, Standing, Step};
use isobar_core::view::foresight::OomLimit;
use isobar_core::view::suspects::suspect;

/// How long a tick may wait for the thread of an actuator that has nothing under way.
const HALT: Duration = Duration::from_millis(50);
/// How long the exit may be held up by what the actuator is doing.
pub(super) const FAREWELL: Duration = Duration::from_secs(2);
/// And by what the cluster is told last: nothing else takes taints back.
pub(super) const LAST_WORD: Duration = Duration::from_millis(1500);
/// And by the last ticks of the recording, where the disk is slow.
const LAST_LINE: Duration = Duration::from_secs(1);

/// Everything that lives from tick to tick.
pub(super) struct Tick<S> {
    sampler: Sampler<S>,
    engine: Engine,
    /// Or why there is none.
    actuator: Result<Handle, String>,
    /// The actuator must be opened anew once nothing is under way: the lock was given up, the deny list is
    /// another one, or its thread exited.
    is_outdated: bool,
    authority: Authority,
    /// `None` where there is no API server to talk to.
    cluster: Option<Cluster>,
    /// Where the kubelet's fields of the settings come from.
    kubelet: KubeletSource,
    /// What pods have on disk where no kubelet tells.
    walks: DiskWalks,
    /// What the cluster is told.
    publish: Publish,
    /// Why the configuration that was read last is not in force.
    refused_plan: Option<String>,
    /// Keeps limits of the node written; `None` if it has no thread.
    limits: Option<Keeping>,
    recorder: Option<Recorder>,
    warm: Warm,
    survival: Option<Survival>,
    /// The agent's own cgroup keeps its memory, once that was asked for.
    protected: Option<(Option<Protected>, Capability)>,
    publisher: Publisher,
    meter: Meter,
    log: Log,
    /// Whether the kernel killed, before the last tick, because the node or all pods had no memory left.
    was_out_of_memory: bool,
}

impl<S: Source> Tick<S> {
    /// Opens the actuator.
    ///
    /// # Errors
    /// If another agent enforces.
    pub(super) fn new(
        source: S,
        plan: Plan,
        authority: Authority,
        cluster: Option<Cluster>,
        survival: Option<Survival>,
        publisher: Publisher,
    ) -> Result<Self, LockError> {
        let Plan { settings, publish, kubelet, pods } = plan;
        let facts = source.facts();
        let (warm, averages, left) = Warm::open(authority.state_dir(), &facts.boot_id);
        let engine = Engine::new(settings, Standing::after(averages, facts.n_cpus));
        let (left, awaits_names) = (left.filter(|_| cluster.is_some()), cluster.is_some());
        let mut tick = Self {
            sampler: Sampler { left, awaits_names, ..Sampler::new(source, pods) },
            engine,
            actuator: Err("not opened yet".into()),
            is_outdated: false,
            authority,
            cluster,
            kubelet,
            walks: DiskWalks::default(),
            publish,
            refused_plan: None,
            limits: None,
            recorder: None,
            warm,
            survival,
            protected: None,
            publisher,
            meter: Meter::default(),
            log: Log::default(),
            was_out_of_memory: false,
        };
        if let Some(cluster) = &mut tick.cluster {
            cluster.kubelet.took(None, Ok(kubelet));
        }
        tick.limits = tick.keep_limits();
        let mut settings = tick.engine.settings().clone();
        tick.begin_to_act(&mut settings)?;
        tick.engine = tick.engine.with_settings(settings);
        if tick.authority.ledger_dir().is_none()
            && let Ok(n @ 1..) = act::n_squeezes(Path::new("/proc"), tick.authority.state_dir())
        {
            tracing::warn!(
                n,
                "{n} squeezes of another agent are in force; if none runs, `--mode enforce` takes \
                 them back"
            );
        }
        Ok(tick)
    }

    /// Records each tick from now on.
    ///
    /// # Errors
    /// If the recording that the operator named cannot be made.
    pub(super) fn record(&mut self, record: Record) -> Result<(), JournalError> {
        let facts = self.sampler.source.facts();
        let settings = self.engine.settings().clone();
        let standing = self.engine.standing().clone();
        let start = Start { facts, settings, standing, at: clock::now() };
        self.recorder = Recorder::begin(record, start)?;
        if let Some(recorder) = &self.recorder {
            self.publisher.show_incidents(recorder.shelf());
            if let Some(file) = recorder.file() {
                self.publisher.refill(file.into());
            }
        }
        Ok(())
    }

    /// One tick. What was decided is handed over before anything that may take its time: a slow
    /// disk or a reader never holds up relief.
    pub(super) fn run(&mut self, cause: Cause) -> Decision {
        self.meter.begin();
        let report = self.report();
        self.sampler.listed = self.cluster.as_ref().and_then(|cluster| cluster.api.pods());
        let told = self.cluster.as_ref().and_then(|cluster| cluster.api.pod_disks());
        let has_kubelet = told.is_some();
        self.sampler.disks = told.or_else(|| self.walks.reading());
        self.sampler.disk_gaps = self.walks.gaps();
        let reading = self.sampler.sample(cause, report, self.engine.settings());
        self.meter.has_read();
        let Reading { mut sample, capabilities, kernel } = reading;
        if let Ok(actuator) = &mut self.actuator {
            sample.outcomes.extend(actuator.late(sample.at.boot));
        }

        let step = self.engine.step(sample);
        let decided = clock::now().boot;

        if let Ok(actuator) = &mut self.actuator {
            actuator.hand_over(&step.decision.relief, decided);
            actuator.prepare(step.next_targets.clone());
            // Without the lock the ledger on disk may be another agent's.
            self.is_outdated |=
                actuator.is_free() && self.authority.release_if_observing(self.engine.settings());
        }
        let kills = &step.oom_kills;
        let is_shared = |one: &OomRecord| OomLimit::of(&one.kill, &step.snapshot).scope().is_some();
        self.was_out_of_memory = kills.iter().any(is_shared);
        if let Some(sample) = &self.engine.standing().before {
            self.log.tick(sample, &step.decision, kills);
            self.walks.look(sample, self.engine.settings(), has_kubelet);
            if let Some(cluster) = &mut self.cluster {
                let (decision, limits) = (&step.decision, self.publisher.limits());
                let seen = Seen { sample, decision, kills, limits };
                cluster.tell(self.engine.settings(), self.publish, seen);
            }
            self.publisher.note(sample, self.engine.settings(), &step);
        }
        self.watch_suspects(&step);
        self.protect();

        let capabilities = self.capabilities(capabilities);
        if let Some(recorder) = &mut self.recorder {
            recorder.can(step.snapshot.at, &capabilities);
            recorder.tick(self.engine.standing(), &step.decision, kills, self.publisher.limits());
            self.publisher.show_recording(recorder.ring(), Some(recorder.counts()));
        }
        let pods = self.sampler.of_cluster();
        self.warm.tick(decided, self.engine.standing(), step.kubepods, pods);

        let decision = step.decision.clone();
        self.log.missing(&capabilities, &step.snapshot.gaps);
        let handover = self.actuator.as_ref().ok().and_then(Handle::handover);
        let cost = self.meter.cost(decided, handover, kernel);
        let resident = cost.resident;
        self.publisher.publish(step, capabilities, cost);
        if let Some(survival) = &mut self.survival {
            survival.give_back(resident);
        }
        self.meter.ends();
        decision
    }

    pub(super) fn was_out_of_memory(&self) -> bool {
        self.was_out_of_memory
    }

    /// Takes squeezes back: nothing would undo them once the agent is gone. Then another agent may
    /// enforce, while the source still has to leave.
    pub(super) fn leave(mut self) -> S {
        if let Ok(actuator) = self.actuator {
            self.log.outcomes(&actuator.leave(FAREWELL));
        }
        if let Some(cluster) = self.cluster {
            cluster.api.last_word().say(LAST_WORD);
        }
        // The disk may be slow.
        self.warm.save(self.engine.standing());
        if let Some(recorder) = self.recorder {
            recorder.leave(LAST_LINE);
        }
        self.sampler.source
    }

    /// The same beside a tick that may not return: for the squeezes, and for the cluster.
    pub(super) fn farewell(&self) -> (Option<Farewell>, Option<LastWord>) {
        let squeezes = self.actuator.as_ref().ok().map(Handle::farewell);
        (squeezes, self.cluster.as_ref().map(|cluster| cluster.api.last_word()))
    }

    /// What is enforced, in words, and what of it is not possible on this node.
    pub(super) fn words(&self) -> String {
        let words = self.authority.words().to_owned();
        let Ok(actuator) = &self.actuator else { return words };
        let relief = &self.engine.settings().relief;
        let chosen = relief.enforce.intersection(&relief.steps);
        let lacking: Vec<&str> =
            chosen.filter(|step| !actuator.can(**step)).map(|s| s.name()).collect();
        if lacking.is_empty() {
            words
        } else {
            format!("{words} (not possible here: {})", lacking.join(", "))
        }
    }

    /// What the actuator has done since the last tick. Once nothing is under way, goes on with one
    /// that knows the lock and the deny list.
    fn report(&mut self) -> Option<Report> {
        let actuator = self.actuator.as_mut().ok()?;
        let report = actuator.report();
        self.is_outdated |= actuator.is_lost();
        if !self.is_outdated || !actuator.is_idle() {
            return Some(report);
        }
        // Two threads would write one ledger. The old one may look at marks: then this is for another tick.
        let Some(halted) = actuator.halt(HALT) else { return Some(report) };
        self.is_outdated = false;
        match self.open_actuator(&self.engine.settings().relief) {
            Ok(mut opened) => {
                let anew = opened.report();
                self.use_actuator(opened);
                Some(Report { outcomes: report.outcomes, ..anew })
            }
            Err(why) => {
                tracing::error!("cannot open the actuator anew; keeping the old one: {why}");
                halted.go_on();
                self.actuator.iter_mut().for_each(Handle::try_later);
                Some(report)
            }
        }
    }

    fn keep_limits(&self) -> Option<Keeping> {
        let cgroup_root = self.sampler.source.cgroup_root()?;
        let (proc, sys) = ("/proc".into(), "/sys".into());
        let places = Places { proc, sys, cgroup_root: Some(cgroup_root.clone()) };
        let (proc, state) = (places.proc.clone(), self.authority.state_dir().to_owned());
        let acts = act::limits::Places { cgroup_root, proc, state };
        let failed =
            |why: &std::io::Error| tracing::error!("limits are not written: no thread: {why}");
        Keeping::begin(places, acts).inspect_err(failed).ok()
    }

    /// Cgroups that may be to blame are sampled more closely, while a threshold is due; and of the
    /// aggressor the processes. A trigger takes the kernel's lock on cgroups, for which a kill would wait.
    fn watch_suspects(&mut self, step: &Step) {
        let targets = step.decision.ranking.as_ref().map_or(&[][..], |_| &step.next_targets);
        let cgroups = targets.iter().flat_map(|target| target.cgroups().map(|(id, _)| id));
        let before = self.engine.standing().before.as_ref();
        if let Some(sample) = before.filter(|_| step.decision.relief.actions.is_empty()) {
            self.sampler.source.suspect(cgroups.collect::<Vec<CgroupId>>(), sample);
        }
        self.sampler.source.look_for(|of| suspect(of, &step.snapshot, &step.decision));
    }

    /// Has the agent keep its code, and its own cgroup its memory, while it enforces.
    fn protect(&mut self) {
        let is_enforcing = !self.engine.settings().relief.enforce.is_empty();
        self.survival.iter_mut().filter(|_| is_enforcing).for_each(Survival::keep_code);
        if is_enforcing
            && self.protected.is_none()
            && let Some(root) = self.sampler.source.cgroup_root()
            && let Some(sample) = &self.engine.standing().before
        {
            self.protected = Some(Protected::begin(&root, sample));
        }
    }

    /// Whether the kubelet has told what it reserves. Without a connection to ask it by, by its file alone.
    fn knows_reservations(&self) -> bool {
        let by_file = self.kubelet == KubeletSource::File;
        self.cluster.as_ref().map_or(by_file, |cluster| cluster.kubelet.is_known())
    }

    /// Everything that this agent can measure and do, and what it cannot.
    fn capabilities(&mut self, of_sources: Vec<Capability>) -> Vec<Capability> {
        let mut all = of_sources;
        all.extend(self.authority.capabilities(self.engine.settings()));
        all.extend(self.refused_plan.as_ref().map(|why| {
            let detail = format!("that of before is in force, and the new one is refused: {why}");
            Capability::new("configuration", CapabilityState::Absent, detail)
                .remedied("mend the file (`isobar config check`), and send SIGHUP again")
        }));
        let own = self.limits.as_ref().and_then(|limits| limits.node().1);
        all.extend(self.cluster.iter().flat_map(|cluster| cluster.capabilities(own)));
        self.sampler.name_source(&mut all);
        all.extend(self.walks.capability());
        all.extend(self.protected.iter().map(|(_, capability)| capability.clone()));
        all.extend(self.recorder.as_ref().map(|recorder| recorder.capability().clone()));
        all.push(match &self.actuator {
            Ok(actuator) => actuator.capability(),
            Err(why) => Capability::new("actuator", CapabilityState::Absent, why)
                .remedied("run as root, in the node's own namespaces"),
        });
        let (is_enforced, is_told) = (self.authority.writes_limits(), self.knows_reservations());
        if let Some(limits) = &mut self.limits {
            let terms = Terms { is_enforced, is_told };
            let (states, refused) = limits.look(clock::now().boot, self.engine.settings(), terms);
            self.publisher.note_limits(states);
            self.publisher.note_node(limits.node());
            all.extend(refused);
        }
        all.extend(self.survival.iter().flat_map(Survival::capabilities).cloned());
        all
    }
}

#[cfg(test)]
mod tests;
