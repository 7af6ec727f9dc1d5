//! From a finished tick to what every client sees of it.
//! In: a `Step`. Out: a [`View`] in a watch channel; the newest replaces the one before.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, OnceLock};

use axum::body::Bytes as Body;
use axum::http::HeaderValue;
use tokio::sync::watch;

use super::document::{Documents, render_brief, render_briefest};
use super::film::refill;
use super::film::runs::Known;
use super::history::{self, History, Recorder, Room};
use super::metrics::{self, Format};
use super::negotiate::gzip;
use super::parts::{Beside, Part};
use super::totals::Totals;
use crate::record::incident::Counts;
use crate::record::incident::shelf::Shelf;
use crate::record::journal::Ring;
use isobar_core::model::capability::Capability;
use isobar_core::model::cost::Cost;
use isobar_core::model::decision::Outcome;
use isobar_core::model::disk::PodDisks;
use isobar_core::model::limit::{LimitState, NodeResources};
use isobar_core::model::node::NodeFacts;
use isobar_core::model::sample::{Moment, Sample};
use isobar_core::model::settings::Settings;
use isobar_core::policy::engine::Step;
use isobar_core::policy::explain::explain_by;
use isobar_core::view::cpu_loss::weigh;
use isobar_core::view::headline::headline;
use isobar_core::view::pods::{name_scopes, name_spared};
use isobar_core::view::usage::Usage;
use isobar_core::view::verdict::judge;
use isobar_core::view::{OOM_KILLS_KEPT, OomRecord, View};
use isobar_kubelet::cpus::Pool;

/// The receiving end: `None` before the first sample.
pub type Latest = watch::Receiver<Option<Arc<Published>>>;
/// The sending end.
pub type Sender = watch::Sender<Option<Arc<Published>>>;

/// A view, its JSON and its metrics: made on the first request of each tick, so at most once,
/// however many clients there are, and not at all without any.
pub struct Published {
    pub tick: u64,
    /// When the sample was taken.
    pub at: Moment,
    pub view: LazyLock<View, Box<dyn FnOnce() -> View + Send>>,
    pub(super) history: History,
    /// As it was at this tick.
    pub(super) lasting: Lasting,
    brief: OnceLock<Body>,
    briefest: OnceLock<Body>,
}

/// What outlives one tick and is published with each.
#[derive(Debug, Clone, Default)]
pub(super) struct Lasting {
    started: Moment,
    /// Since the agent started.
    pub(super) totals: Totals,
    /// `None` if nothing is recorded.
    pub(super) incidents: Option<Arc<Shelf>>,
    /// `None` if nothing is recorded.
    pub(super) recording: Option<Ring>,
    /// In force; `None` if not known.
    pub(super) settings: Option<Arc<Settings>>,
    disks: Option<PodDisks>,
    /// By part, packed by gzip or not.
    documents: Documents<(Part, bool)>,
    metrics: Documents<Format>,
}

impl fmt::Debug for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Published").field("tick", &self.tick).finish_non_exhaustive()
    }
}

impl Published {
    /// A document of the view, packed by gzip or not.
    pub(super) fn document(&self, part: Part, is_packed: bool) -> Arc<Body> {
        let Lasting { documents: of, settings, disks, totals, .. } = &self.lasting;
        let (tick, cpus) = (self.tick, totals.cpus.as_ref());
        let beside = Beside { settings: settings.as_deref(), disks: disks.as_deref(), cpus };
        let plain = || of.of(tick, (part, false), || part.render(&self.view, beside));
        match is_packed {
            true => of.of(tick, (part, true), || gzip(&plain()).into()),
            false => plain(),
        }
    }

    /// See [`render_brief`].
    pub(super) fn brief(&self) -> &Body {
        self.brief.get_or_init(|| render_brief(&self.view))
    }

    /// See [`render_briefest`].
    pub(super) fn briefest(&self) -> &Body {
        self.briefest.get_or_init(|| render_briefest(&self.view))
    }

    /// What an agent knows of an earlier tick of the same boot.
    pub(super) fn known(&self, facts: &NodeFacts, at: Moment) -> Option<Known> {
        let view = &self.view;
        let before = view.recent_oom_kills.iter().filter(|one| one.kill.at < at.boot);
        let kills = before.cloned().collect();
        let started = (at.boot >= view.started.boot).then_some(view.started);
        (view.facts == *facts).then(|| Known { history: self.history.clone(), started, kills })
    }

    /// Changes with each tick, and with each agent.
    pub(super) fn tag(&self) -> HeaderValue {
        let tag = format!("W/\"{:x}-{}\"", self.lasting.started.wall.0, self.tick);
        HeaderValue::try_from(tag).expect("digits, letters and quotes")
    }

    /// The metrics of the node and its pods in OpenMetrics, without those of the agent itself, which
    /// no recording has.
    pub fn recorded_metrics(self: &Arc<Self>) -> String {
        metrics::recorded(self)
    }

    /// See [`metrics::render`].
    pub(super) fn metrics(self: &Arc<Self>, format: Format) -> Arc<Body> {
        self.lasting.metrics.of(self.tick, format, || metrics::render(self, format))
    }
}

/// The sending end. It keeps what outlives one tick.
#[derive(Debug)]
pub struct Publisher {
    facts: Arc<NodeFacts>,
    kills: VecDeque<OomRecord>,
    limits: Vec<LimitState>,
    resources: Option<Arc<NodeResources>>,
    lasting: Lasting,
    recorder: Recorder,
    /// Of earlier actions, since the last tick.
    outcomes: Vec<Outcome>,
    to: Sender,
}

/// Both ends of what a publisher publishes: readers may come before it.
pub fn channel() -> (Sender, Latest) {
    watch::channel(None)
}

impl Publisher {
    /// Publishes to readers of `to`.
    pub fn new(facts: NodeFacts, started: Moment, to: Sender) -> Self {
        Self::with_room(facts, started, to, Room::OF_AGENT)
    }

    pub(super) fn with_room(facts: NodeFacts, started: Moment, to: Sender, room: Room) -> Self {
        let kills = VecDeque::with_capacity(OOM_KILLS_KEPT);
        let (facts, recorder) = (Arc::new(facts), Recorder::new(room));
        let lasting = Lasting { started, ..Lasting::default() };
        let (limits, resources, outcomes) = Default::default();
        Self { facts, kills, limits, resources, lasting, recorder, outcomes, to }
    }

    /// Sets the limits that the following views show.
    pub fn note_limits(&mut self, limits: &[LimitState]) {
        if self.limits != limits {
            self.lasting.totals.limits(limits);
            self.limits = limits.to_vec();
        }
    }

    /// Sets what the CPU manager leaves to whom, for the metrics, and what the node has for pods.
    pub fn note_node(&mut self, (pool, resources): (Option<&Pool>, Option<&NodeResources>)) {
        if self.lasting.totals.cpus.as_ref() != pool {
            self.lasting.totals.cpus = pool.cloned();
        }
        if self.resources.as_deref() != resources {
            self.resources = resources.cloned().map(Arc::new);
        }
    }

    /// The limits that views show.
    pub fn limits(&self) -> &[LimitState] {
        &self.limits
    }

    /// Begins to give the history what a recording, which goes on since now, has of this boot.
    pub fn refill(&self, recording: PathBuf) {
        let facts = NodeFacts::clone(&self.facts);
        refill::begin(&self.recorder.history(), facts, self.lasting.started, recording);
    }

    /// Readers may see these incidents from now on.
    pub fn show_incidents(&mut self, shelf: &Arc<Shelf>) {
        self.lasting.incidents = Some(Arc::clone(shelf));
    }

    /// Readers may go back in this recording from now on; how much there is of it, if anything.
    pub fn show_recording(&mut self, ring: Option<&Ring>, counts: Option<&Counts>) {
        self.lasting.recording = ring.cloned();
        if self.lasting.totals.recorded.as_ref() != counts {
            self.lasting.totals.recorded = counts.cloned();
        }
    }

    /// Takes note of what a tick has seen and done, for readers who look less often than once a
    /// tick.
    pub fn note(&mut self, sample: &Sample, settings: &Settings, step: &Step) {
        self.lasting.totals.tick(sample, settings, step);
        self.outcomes.extend_from_slice(&sample.outcomes);
        self.set_disks(sample);
        self.set_settings(settings);
    }

    /// What pods have on disks by the sample of a tick.
    pub(super) fn set_disks(&mut self, sample: &Sample) {
        self.lasting.disks.clone_from(&sample.pod_disks);
    }

    /// What was configured when the next tick was judged.
    pub fn set_settings(&mut self, settings: &Settings) {
        if self.lasting.settings.as_deref() != Some(settings) {
            self.lasting.settings = Some(settings.clone().into());
        }
    }

    /// Publishes one tick. Never blocks.
    pub fn publish(&mut self, mut step: Step, capabilities: Vec<Capability>, cost: Cost) {
        self.lasting.totals.took(&cost);
        self.record(&mut step, Some(&cost));
        self.lasting.totals.waits(&step.snapshot);
        let history = self.recorder.history();
        let published = self.published(step, capabilities, cost, history);
        // `send` would fail without a receiver; the next client must find this view all the same.
        self.to.send_replace(Some(published));
    }

    /// One tick, with what is to be shown as its history.
    pub(super) fn published(
        &mut self,
        step: Step,
        capabilities: Vec<Capability>,
        cost: Cost,
        history: History,
    ) -> Arc<Published> {
        let (tick, at) = (step.snapshot.tick, step.snapshot.at);
        let view = LazyLock::new(Box::new(self.view(step, capabilities, cost)) as Box<_>);
        Arc::new(Published {
            tick,
            at,
            view,
            history,
            lasting: self.lasting.clone(),
            brief: OnceLock::new(),
            briefest: OnceLock::new(),
        })
    }

    /// What makes the view of one tick.
    pub fn view(
        &mut self,
        Step { mut snapshot, mut decision, oom_kills, ended, .. }: Step,
        capabilities: Vec<Capability>,
        cost: Cost,
    ) -> impl FnOnce() -> View + Send + use<> {
        self.add_kills(oom_kills);
        let (facts, started) = (Arc::clone(&self.facts), self.lasting.started);
        let (mut kills, limits) = (self.kills.clone(), self.limits.clone());
        let (resources, settings) = (self.resources.clone(), self.lasting.settings.clone());
        let foresight =
            (!self.lasting.totals.ticks.is_empty()).then(|| self.lasting.totals.foresight.tally());
        move || {
            name_scopes(&mut snapshot);
            name_spared(&mut decision, &snapshot);
            weigh(&mut snapshot);
            let verdict = judge(&snapshot, &decision.assessment);
            let told = headline(&snapshot, &verdict, &decision, kills.make_contiguous());
            let explanation = explain_by(settings.as_deref(), &ended, &snapshot, &decision);
            View {
                facts: NodeFacts::clone(&facts),
                started,
                headline: told.text,
                headline_figures: told.figures,
                verdict,
                usage: Usage::of(&snapshot, &decision),
                recent_oom_kills: kills.into(),
                foresight,
                capabilities,
                limits,
                resources: resources.map(Arc::unwrap_or_clone),
                cost,
                snapshot,
                explanation,
                decision,
            }
        }
    }

    /// Adds a tick to the history.
    pub(super) fn record(&mut self, step: &mut Step, cost: Option<&Cost>) {
        weigh(&mut step.snapshot);
        let outcomes = std::mem::take(&mut self.outcomes);
        let settings = self.lasting.settings.as_ref();
        let thresholds = settings.map_or(&[][..], |settings| &settings.eviction.thresholds);
        let beside =
            history::Beside { cost, kills: &step.oom_kills, outcomes: &outcomes, thresholds };
        self.recorder.record(step, beside);
    }

    pub(super) fn history(&self) -> History {
        self.recorder.history()
    }

    pub(super) fn facts(&self) -> &NodeFacts {
        &self.facts
    }

    /// Whether a tick of a recording, with the facts of its node, is of the same agent as the tick
    /// `before`: another agent counts from 1 again.
    pub fn goes_on(&self, facts: &NodeFacts, before: Option<u64>, tick: u64) -> bool {
        *self.facts == *facts && before < Some(tick)
    }

    pub(super) fn set_started(&mut self, started: Moment) {
        self.lasting.started = started;
    }

    /// Kills up to the next tick, beside those that are remembered; one that is known is told once.
    pub fn add_kills(&mut self, kills: Vec<OomRecord>) {
        let known = |one: &OomRecord| (one.victim.is_some(), one.victim_path.is_some());
        for new in kills {
            match self.kills.iter_mut().find(|own| own.kill == new.kill) {
                Some(own) if known(own) < known(&new) => *own = new,
                Some(_) => {}
                None => self.kills.push_front(new),
            }
        }
        self.kills.make_contiguous().sort_by_key(|one| Reverse(one.kill.at));
        self.kills.truncate(OOM_KILLS_KEPT);
    }
}

#[cfg(test)]
mod tests;
