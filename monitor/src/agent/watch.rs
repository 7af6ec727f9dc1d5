//! What happens in one tick: read, judge, write down, meter what it cost.
//! It owns the one `Engine`, and goes by another configuration when it is told to.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};

use super::acting::{Acting, Heard};
use super::likely::likely;
use super::live::chain;
use super::mode::Warrant;
use super::survive::Protected;
use super::{Reading, Sampler};
use crate::clock;
use crate::record::journal::{Bounds, Journal, JournalError, Start};
use isobar_core::model::capability::Capability;
use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::cost::Cost;
use isobar_core::model::decision::{Decision, Target};
use isobar_core::model::sample::Cause;
use isobar_core::model::settings::Settings;
use isobar_core::model::units::{Bytes, MilliCpu, Nanos};
use isobar_core::model::workload::Pod;
use isobar_core::policy::decide::ReliefStanding;
use isobar_core::policy::engine::{Engine, Standing, Step};

/// What an operator configured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// What to judge by.
    pub settings: Settings,
    /// The pods of this node by uid; `None` if nobody told.
    pub pods: Option<BTreeMap<String, Pod>>,
}

/// Reads the configuration again; an error says all that is wrong with it.
pub(super) type Again = Box<dyn FnMut() -> Result<Plan, Box<dyn Error>> + Send>;

/// The configuration, where to get it again, and what to record.
pub struct Orders {
    pub(super) plan: Plan,
    pub(super) again: Again,
    pub(super) record: Option<(PathBuf, Bounds)>,
}

impl Orders {
    /// Goes by `plan` until SIGHUP, and then by what `again` gives.
    pub fn new(
        plan: Plan,
        again: impl FnMut() -> Result<Plan, Box<dyn Error>> + Send + 'static,
    ) -> Self {
        Self { plan, again: Box::new(again), record: None }
    }

    /// Records every tick to `path`, and keeps so much of it.
    #[must_use]
    pub fn recording(self, path: PathBuf, bounds: Bounds) -> Self {
        Self { record: Some((path, bounds)), ..self }
    }
}

impl fmt::Debug for Orders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut orders = f.debug_struct("Orders");
        orders.field("plan", &self.plan).field("record", &self.record).finish_non_exhaustive()
    }
}

/// What one tick came to.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) step: Step,
    /// When, by the boot clock.
    pub(super) decided: Nanos,
    pub(super) capabilities: Vec<Capability>,
    pub(super) cost: Cost,
    /// Who may be next.
    pub(super) likely: Vec<Target>,
}

/// Reads and judges.
#[derive(Debug)]
pub(super) struct Watch<S> {
    sampler: S,
    engine: Engine,
    journal: Option<Journal>,
    /// What may be done; `None` for one that only looks.
    warrant: Option<Warrant>,
    pods: Option<BTreeMap<String, Pod>>,
    /// When the tick before began.
    begun: Option<Nanos>,
    longest_gap: Nanos,
    /// Memory that is kept for the agent, once it was asked for.
    protected: Option<(Option<Protected>, Capability)>,
    /// Boot clock and CPU time at the end of the tick before.
    before: Option<(Nanos, Nanos)>,
}

impl<S: Sampler> Watch<S> {
    /// With a warrant, goes on with what an agent before this one had under way.
    pub(super) fn new(sampler: S, plan: Plan, warrant: Option<Warrant>) -> Self {
        let Plan { mut settings, pods } = plan;
        if warrant.is_none() {
            settings.relief.enforce.clear();
        }
        let engine = Engine::new(settings, Standing::new(sampler.facts().n_cpus));
        let mut this = Self {
            sampler,
            engine,
            journal: None,
            warrant,
            pods,
            begun: None,
            longest_gap: Nanos(0),
            protected: None,
            before: None,
        };
        this.resume();
        this
    }

    /// Goes on with what an agent before this one had under way, if this one enforces.
    fn resume(&mut self) {
        let boot_id = self.sampler.facts().boot_id;
        let (own, now) = (&self.engine.standing().relief, clock::now().boot);
        let state = self.warrant.as_mut().map(|warrant| &mut warrant.state);
        if let Some(relief) = state.and_then(|state| state.restore(&boot_id, own, now)) {
            self.engine.resume(relief);
        }
    }

    /// True if this agent is the one who enforces.
    fn is_ours(&self) -> bool {
        self.warrant.as_ref().is_some_and(|warrant| warrant.state.is_ours())
    }

    /// Takes over what was in force when `acting` began, if this agent enforces. Once for each.
    pub(super) fn take_over(&mut self, acting: &mut Acting) {
        if self.is_ours() {
            let before = self.engine.standing().relief.clone();
            let in_force = acting.take_over(&before.squeezed());
            self.engine.learn_squeezed(&in_force);
            self.note_change(&before);
        } else if let Some(one) = acting.left_over().first() {
            let n = acting.left_over().len();
            tracing::warn!(
                "{n} squeezes of another agent are in force, the first on {}; if none runs, one \
                 with --mode enforce takes them back",
                one.target.name
            );
        }
    }

    /// Has the recording tell what no sample of it leads to, if the relief is not as `before`.
    fn note_change(&mut self, before: &ReliefStanding) {
        let standing = self.engine.standing();
        if let Some(journal) = &mut self.journal
            && standing.relief != *before
        {
            tell(journal.resume(standing, clock::now()));
        }
    }

    /// Writes down every tick from now on.
    ///
    /// # Errors
    /// [`JournalError`]; nothing was written then.
    pub(super) fn record(&mut self, path: &Path, bounds: Bounds) -> Result<(), JournalError> {
        let start = Start {
            facts: self.sampler.facts(),
            settings: self.engine.settings().clone(),
            standing: self.engine.standing().clone(),
            at: clock::now(),
        };
        self.journal = Some(Journal::create(path, start, bounds)?);
        Ok(())
    }

    /// One tick. When it returns, what follows from it is remembered, and neither done nor written
    /// down: see [`Watch::finish`].
    pub(super) fn look(&mut self, cause: Cause, heard: Heard) -> Seen {
        let begun = clock::now().boot;
        let Reading { mut sample, mut capabilities, kernel } = self.sampler.sample(cause);
        sample.pods.clone_from(&self.pods);
        sample.generation = self.engine.settings().generation;
        (sample.outcomes, sample.means) = (heard.outcomes, heard.means);
        let step = self.engine.step(sample);
        let decided = clock::now().boot;
        let likely = likely(&self.engine, &step);
        if let Some(warrant) = &mut self.warrant {
            warrant.state.keep(&self.engine.standing().relief);
            capabilities.extend(warrant.capabilities(self.engine.settings()));
        }
        self.longest_gap = self.longest_gap.max(begun.since(self.begun.unwrap_or(begun)));
        self.begun = Some(begun);
        let cost = Cost { kernel, decision: decided.since(begun), ..Cost::default() };
        Seen { step, decided, capabilities, cost, likely }
    }

    /// The rest of the tick, which no step may wait for: a disk can take its time.
    pub(super) fn finish(&mut self, seen: &mut Seen) {
        // Of whom nobody complains yet, nobody is watched more closely.
        let suspects = seen.step.decision.ranking.as_ref().map_or(&[][..], |_| &seen.likely);
        self.sampler.suspect(suspects.iter().flat_map(cgroups).collect());
        seen.capabilities.extend(self.protect());
        self.write_down(&seen.step.decision);
        seen.capabilities.extend(self.journal.as_ref().map(Journal::capability));
        let (now, used) = (clock::now().boot, clock::used_by_this_process());
        let cpu = self.before.map(|(then, had)| MilliCpu::rate(used.since(had), now.since(then)));
        self.before = Some((now, used));
        let (resident, major_faults) = own_memory();
        let (tick, longest_gap) = (now.since(self.begun.unwrap_or(now)), self.longest_gap);
        let Cost { decision, handover, kernel, .. } = std::mem::take(&mut seen.cost);
        seen.cost =
            Cost { cpu, resident, tick, decision, handover, longest_gap, major_faults, kernel };
    }

    /// Has the agent's own cgroup keep its memory while it enforces.
    fn protect(&mut self) -> Option<Capability> {
        let root = self.sampler.cgroup_root()?;
        let sample = self.engine.standing().before.as_ref()?;
        if self.protected.is_none() && !self.engine.settings().relief.enforce.is_empty() {
            self.protected = Some(Protected::begin(&root, sample));
        }
        self.protected.as_ref().map(|(_, capability)| capability.clone())
    }

    fn write_down(&mut self, decision: &Decision) {
        let standing = self.engine.standing();
        if let (Some(journal), Some(sample)) = (&mut self.journal, &standing.before) {
            tell(journal.write(sample, decision, standing));
        }
    }

    /// Goes by another configuration from the next tick on. A bad one changes nothing. Returns
    /// whether whoever acts has to begin anew, because it must know of something else.
    pub(super) fn reload(&mut self, read: Result<Plan, Box<dyn Error>>) -> bool {
        let (was_ours, never) = (self.is_ours(), self.engine.settings().relief.never_touch.clone());
        match read {
            Ok(Plan { mut settings, pods }) => {
                settings.generation = self.engine.settings().generation + 1;
                let words = self.bind(&mut settings);
                let before = self.engine.standing().relief.clone();
                if !was_ours {
                    self.resume();
                }
                tracing::info!(
                    generation = settings.generation,
                    "configuration read again: {words}"
                );
                if let Some(journal) = &mut self.journal {
                    let (standing, now) = (self.engine.standing(), clock::now());
                    tell(journal.reload(settings.clone(), standing, now));
                }
                self.note_change(&before);
                self.engine.reload(settings);
                self.pods = pods;
            }
            Err(why) => {
                tracing::error!("the configuration stays as it was; what was read is wrong: {why}");
            }
        }
        was_ours != self.is_ours() || never != self.engine.settings().relief.never_touch
    }

    /// Goes by what may be enforced of new settings. Returns it in words.
    fn bind(&mut self, settings: &mut Settings) -> String {
        let Some(warrant) = &mut self.warrant else { return "observing".into() };
        if let Err(why) = warrant.bind(settings) {
            tracing::error!("{why}");
            warrant.only_observe(settings);
        }
        warrant.words().into()
    }

    /// Leaves enforcing to others, if this agent does not do it any more.
    pub(super) fn let_go(&mut self) {
        let is_enforcing = !self.engine.settings().relief.enforce.is_empty();
        if let Some(warrant) = &mut self.warrant
            && warrant.state.is_ours()
            && !is_enforcing
            && !warrant.writes_limits()
        {
            warrant.state.let_go();
            tracing::info!("nothing is enforced or in force any more: another agent may enforce");
        }
    }

    /// Somebody can act from now on, or why still nobody can.
    pub(super) fn note_unable(&mut self, why: Option<String>) {
        if let Some(warrant) = &mut self.warrant {
            warrant.unable = why;
        }
    }

    /// What it goes by.
    pub(super) fn settings(&self) -> &Settings {
        self.engine.settings()
    }

    /// Whether the limits that the settings name are written.
    pub(super) fn writes_limits(&self) -> bool {
        self.warrant.as_ref().is_some_and(Warrant::writes_limits)
    }

    /// What is enforced, for the log.
    pub(super) fn words(&self) -> &str {
        self.warrant.as_ref().map_or("observing", Warrant::words)
    }
}

/// The cgroups of a target.
fn cgroups(target: &Target) -> impl Iterator<Item = CgroupId> {
    target.cgroup.into_iter().chain(target.groups.iter().map(|group| group.id))
}

/// A recording that ends is told, and ends nothing else.
fn tell(written: Result<(), JournalError>) {
    if let Err(why) = written {
        tracing::warn!("recording has stopped: {}", chain(&why));
    }
}

/// Memory of this process that is in RAM, and pages that had to be read from a disk; `None` if
/// `/proc` does not say.
fn own_memory() -> (Option<Bytes>, Option<u64>) {
    let Ok(me) = procfs::process::Process::myself() else { return (None, None) };
    let resident = me.statm().ok().map(|statm| statm.resident);
    let resident = resident.map(|pages| Bytes(pages.saturating_mul(procfs::page_size())));
    (resident, me.stat().ok().map(|stat| stat.majflt))
}

#[cfg(test)]
mod tests;
