//! One sample in, one decision out, and what is remembered from tick to tick.
//! The same samples, settings and standing give the same decisions, byte for byte.

use serde::{Deserialize, Serialize};

use crate::model::cgroup::CgroupId;
use crate::model::decision::{Assessment, Decision, InForce, Met, Order, Ranking, Target};
use crate::model::kills::{Cgroups, named};
use crate::model::sample::Sample;
use crate::model::settings::Settings;
use crate::model::snapshot::{Averages, Snapshot};
use crate::model::stall::OomRecord;
use crate::model::threshold::Resource;
use crate::model::units::{Nanos, scale};
use crate::model::unsampled::unsampled;
use crate::policy::assess::conditions::ConditionStanding;
use crate::policy::assess::growth;
use crate::policy::assess::{AssessStanding, assess, relief_of};
use crate::policy::decide::{
    Question, ReliefStanding, decide, decide_beside, is_observing, leaves_room, makes_way,
    targets_of,
};
use crate::policy::rank::harm::HarmStanding;
use crate::policy::rank::{Field, HEAD, Node, Pool, Purpose, Shortfall, protected_among};
use crate::policy::scope;
use crate::policy::takers::TakerStanding;
use crate::policy::workload::Workloads;

/// What the policy remembers. Stored at the head of a recording, so that a replay can start in
/// mid-life.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Standing {
    /// The sample before, which the next is compared with.
    pub before: Option<Sample>,
    /// Averages of the measured unions.
    pub averages: Averages,
    /// Who has made others wait lately.
    pub harm: HarmStanding,
    /// Who has taken memory lately.
    pub takers: TakerStanding,
    /// What has been short, and since when.
    pub assess: AssessStanding,
    /// What is being done about it.
    pub relief: ReliefStanding,
}

impl Standing {
    /// Nothing remembered yet of a node with this many CPUs.
    pub fn new(n_cpus: u32) -> Self {
        Self { averages: Averages::new(n_cpus), ..Self::default() }
    }

    /// The same, after an agent before this one in the same boot. Averages that are too old start
    /// anew, and conditions that are too old become Unknown, as after any pause.
    pub fn after(warm: WarmStart, n_cpus: u32) -> Self {
        let WarmStart { averages, conditions, takers } = warm;
        let averages = averages.again(n_cpus);
        let mut new = Self { averages, takers, ..Self::default() };
        new.assess.conditions = conditions;
        new
    }

    /// What the next agent may go on from; `kubepods` is the cgroup of all pods.
    pub fn warm_start(&self, kubepods: Option<CgroupId>) -> WarmStart {
        WarmStart {
            averages: self.averages.of_scopes(kubepods),
            conditions: self.assess.conditions.clone(),
            takers: self.takers.who_changed(),
        }
    }
}

/// What spares a restarted agent its warm-up: averages of the node and of all pods, conditions, and who
/// took memory lately.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WarmStart {
    averages: Averages,
    conditions: ConditionStanding,
    takers: TakerStanding,
}

/// Judges samples by settings. [`Engine::step`] is the only way to change one: other settings take
/// a new engine with the old one's standing.
#[derive(Debug, Clone, Default)]
pub struct Engine {
    settings: Settings,
    standing: Standing,
}

/// What one tick came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Step {
    pub snapshot: Snapshot,
    pub decision: Decision,
    /// What the kernel's OOM killer took; a cgroup that is gone has its name from the tick before.
    pub oom_kills: Vec<OomRecord>,
    /// The cgroup of all pods.
    pub kubepods: Option<CgroupId>,
    /// Targets that may be acted upon soon, first to go first: the actuator opens them beforehand,
    /// because on a node without memory nothing should have to be looked up.
    pub next_targets: Vec<Target>,
    /// Steps that ended work within the eviction budget's window, the latest last.
    pub ended: Vec<InForce>,
}

/// Whether a step that is enforced can be taken now and could not before, as an eviction once the API
/// server answers.
fn enables(before: &Sample, now: &Sample, settings: &Settings) -> bool {
    let can = |sample: &Sample, step| {
        sample.available_steps.as_ref().is_none_or(|steps| steps.contains(step))
    };
    settings.relief.enforce.iter().any(|step| can(now, step) && !can(before, step))
}

/// How many targets are made ready: the victim after the next is another tick's.
const NEXT: usize = 3;
/// A scope whose memory lasts no longer may soon need a victim.
const SOON: Nanos = Nanos(60 * Nanos::SECOND.0);

impl Engine {
    /// An engine that goes on from `standing`.
    pub fn new(settings: Settings, standing: Standing) -> Self {
        Self { settings, standing }
    }

    /// An engine with other settings and the same standing. Where other steps are enforced, what
    /// relief was only observed is forgotten, and what is in force comes with the next sample.
    pub fn with_settings(&self, settings: Settings) -> Self {
        let mut standing = self.standing.clone();
        if settings.relief.enforce != self.settings.relief.enforce {
            standing.relief = standing.relief.without_observed();
        }
        Self { settings, standing }
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// The ranking for `purpose` of the last sample, of which `snapshot` is, with every candidate.
    pub fn rank(&self, snapshot: &Snapshot, purpose: Purpose) -> Option<Ranking> {
        let Standing { before, harm, takers, .. } = &self.standing;
        let (sample, settings) = (before.as_ref()?, &self.settings);
        let node = Node { sample, snapshot, harm, takers, settings };
        Some(Pool::of_node(node, purpose, Shortfall::default()).field().ranking(usize::MAX))
    }

    /// Judges one sample. Cannot fail.
    pub fn step(&mut self, sample: Sample) -> Step {
        let (settings, standing) = (&self.settings, &mut self.standing);
        let (before, relief) = (standing.before.as_ref(), &mut standing.relief);
        if is_observing(relief) && before.is_some_and(|before| enables(before, &sample, settings)) {
            *relief = std::mem::take(relief).without_observed();
        }
        let snapshot = Snapshot::between(standing.before.as_ref(), &sample, &mut standing.averages);
        let workloads = Workloads::of(&settings.workloads, &snapshot);
        let (before, parties) = (standing.before.as_ref(), workloads.parties(&snapshot));
        standing.harm.update(before, &sample, &snapshot, &workloads, &parties);
        standing.takers.update(before, &sample, &parties);
        let takers = &standing.takers;
        let kubepods = scope::kubepods(&snapshot);
        let limited = takers.limited(&snapshot, kubepods.map(|(_, pods)| pods));
        let kubepods = kubepods.map(|(id, _)| id);
        let node =
            Node { sample: &sample, snapshot: &snapshot, harm: &standing.harm, takers, settings };
        let stalled = || node.stalled();
        let (mut assessment, others) =
            assess(settings, &sample, &snapshot, limited, stalled, &mut standing.assess);
        standing.takers.note_short(&assessment.met);
        let takers = &standing.takers;

        let touched = standing.relief.touched(&sample);
        let protected = protected_among(settings, &sample, &snapshot, touched);

        let (sample_now, harm) = (&sample, &standing.harm);
        let node = Node { sample: sample_now, snapshot: &snapshot, harm, takers, settings };
        let pool = |purpose, shortfall| Pool::of_node(node, purpose, shortfall);
        let is_by_cause = settings.ranking.order == Order::Cause;
        let foretold = is_by_cause.then(|| foretold(&assessment)).flatten();
        let pool_for = |met: &Met| {
            let purpose = Purpose::of(&met.threshold);
            let is_thrashing = growth::is_thrashing(met, &assessment.outlooks);
            pool(purpose, Shortfall { missing: missing(met, sample.at.boot), is_thrashing })
        };
        let is_harm_paused = |met: &Met| standing.harm.is_paused(met.threshold.resource());
        let relieved = assessment.first.or(foretold);
        let pool_now = relieved.as_ref().map(pool_for);
        let field = pool_now.as_ref().map(Pool::field);
        let mut ranking = field.as_ref().map(head);
        let question = Question {
            relief: &settings.relief,
            eviction: &settings.eviction,
            sample: &sample,
            before: standing.before.as_ref(),
            snapshot: &snapshot,
            unseen: unsampled(snapshot.interval),
            met: &assessment.met,
            unmeasured: &assessment.unmeasured,
            first: assessment.first,
            foretold,
            is_stale: assessment.is_stale,
            ranking: ranking.as_ref(),
            field: field.as_ref(),
            protected: &protected,
            harm,
            is_harm_paused: relieved.as_ref().is_some_and(is_harm_paused),
            observations: &assessment.observations,
            outlooks: &assessment.outlooks,
        };
        let mut relief = decide(&question, &mut standing.relief);
        let mut instead = None;
        for met in others.iter().filter(|_| leaves_room(&relief)) {
            let mut tried = standing.relief.clone();
            if !makes_way(&mut tried, met) {
                continue;
            }
            let pool = pool_for(met);
            let field = pool.field();
            let its_ranking = head(&field);
            let (first, is_harm_paused) = (Some(*met), is_harm_paused(met));
            let (field, ranking) = (Some(&field), Some(&its_ranking));
            let question =
                Question { first, is_stale: false, ranking, field, is_harm_paused, ..question };
            if let Some(its_relief) = decide_beside(&question, &mut tried, &relief) {
                instead = Some((*met, its_ranking, its_relief, tried));
                break;
            }
        }
        drop(field);
        if let Some((met, its_ranking, its_relief, tried)) = instead {
            assessment.first = Some(met);
            assessment.events.push(relief_of(&met));
            (ranking, relief, standing.relief) = (Some(its_ranking), its_relief, tried);
        }
        let next = match (&ranking, soon(&assessment, &sample, &snapshot)) {
            (Some(ranking), _) => ranking.candidates.iter().take(NEXT).cloned().collect(),
            (None, Some(purpose)) => {
                pool(purpose, Shortfall::default()).field().first(NEXT, |_| true)
            }
            (None, None) => Vec::new(),
        };
        let next_targets = targets_of(&next.iter().collect::<Vec<_>>(), &sample, &snapshot);
        let is_used = assessment.first.is_some() || !relief.actions.is_empty();
        let ranking = ranking.filter(|_| is_used);
        let (tick, at, generation) = (sample.tick, sample.at, settings.generation);
        let ended = ended(&sample, settings.relief.budget_window);
        let before = standing.before.as_ref().map(Cgroups::from);
        let oom_kills = named(&snapshot.oom_kills, before, (&sample).into());
        standing.before = Some(sample);
        let decision = Decision { tick, at, generation, assessment, ranking, relief };
        Step { snapshot, decision, oom_kills, kubepods, next_targets, ended }
    }
}

/// Steps on this node that ended work within the `window`.
fn ended(sample: &Sample, window: Nanos) -> Vec<InForce> {
    let is_recent = |entry: &&InForce| {
        let InForce { action, since, .. } = entry;
        let is_end = action.is_enforced && action.step.is_final();
        is_end && sample.at.boot.since(*since) < window
    };
    sample.in_force.iter().filter(is_recent).cloned().collect()
}

/// What is written down of a ranking.
fn head(field: &Field<'_>) -> Ranking {
    let mut ranking = field.ranking(HEAD);
    // As in recordings of before, which must replay to the same bytes: readers have the namespaces by
    // `name_spared`.
    ranking.spared.iter_mut().for_each(|one| one.namespace.clear());
    ranking
}

/// How much more must be left; of disks and pids, how much in ten seconds if it goes on as since it ran
/// short: little is missing at first, however fast it goes.
fn missing(met: &Met, now: Nanos) -> u64 {
    let missing = met.missing.unwrap_or(0);
    let since = now.since(met.since).max(Nanos::SECOND);
    match met.threshold.resource() {
        Resource::Memory => missing,
        _ => missing.saturating_add(scale(missing, 10 * Nanos::SECOND.0, since.0)),
    }
}

/// That memory will run out, while nothing is due: a forecast that has not lasted for its grace.
fn foretold(assessment: &Assessment) -> Option<Met> {
    let mut met = assessment.met.iter().filter(|_| assessment.first.is_none());
    met.find(|met| met.threshold.is_forecast()).copied()
}

/// For what a victim may be needed soon: a threshold that is met, in its grace or not, or memory
/// that is low. Memory comes first: it leaves the least time.
fn soon(assessment: &Assessment, sample: &Sample, snapshot: &Snapshot) -> Option<Purpose> {
    let outlooks = &assessment.outlooks;
    let first = assessment.met.first().map(|met| Purpose::of(&met.threshold));
    let low = || {
        let lasts = outlooks.iter().filter_map(|outlook| outlook.lasts).min();
        let is_low = !growth::low(outlooks, sample, scope::kubepods(snapshot)).is_empty();
        (is_low || lasts.is_some_and(|lasts| lasts <= SOON)).then(Purpose::usual)
    };
    first.filter(|first| first.resource == Resource::Memory).or_else(low).or(first)
}

#[cfg(test)]
mod tests;
