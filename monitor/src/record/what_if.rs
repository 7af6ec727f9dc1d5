//! What another configuration would have changed, as lanes over time: conditions and thresholds
//! then and otherwise, victims then and otherwise, and how much sooner.
//! Samples stay as they were recorded, but for the limit of all pods, so all after the first step
//! that differs is told with that limit. Times are told by the wall clock: that since boot begins
//! anew where the node was started again.

use std::collections::BTreeMap;

use serde::Serialize;

use super::incident::words::clock;
use super::replay::Judged;
use isobar_core::model::decision::{Action, Decision, StepKind};
use isobar_core::model::sample::PAUSE;
use isobar_core::model::threshold::Resource;
use isobar_core::model::units::{Moment, Nanos};
use isobar_core::room;
use isobar_core::view::foresight::OomLimit;

/// Steps that are told; more are counted.
const TOLD: usize = 20;
/// No lane is drawn finer than in so many parts.
const PARTS: u64 = 1_000;
/// Lanes, marks, spans of a lane and OOM kills that are kept of whatever a file has: more than a node has
/// conditions and thresholds, and than a lane can tell apart.
const LANES: usize = 64;
const MARKS: usize = 4_000;

/// A stretch of a recording, decided then and otherwise.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WhatIf {
    pub from: Moment,
    pub to: Moment,
    pub ticks: u64,
    /// Ticks in between that are not in the recording: it was thinned, or the disk was slow.
    pub missing: u64,
    pub lanes: Vec<Lane>,
    /// The lane of victims, of all steps.
    pub ended: Ended,
    pub steps: Pair<Vec<Taken>>,
    /// Steps that are not listed.
    pub more_steps: Pair<u64>,
    /// Of those for want of memory of the node or of all pods.
    pub oom_kills: Vec<Moment>,
    /// When the first step differed: the node would have gone on differently from there.
    pub diverged: Option<Moment>,
    /// Nanoseconds by which the first step would have come sooner; negative if later.
    pub gained: Option<i64>,
    /// The number of the last tick.
    #[serde(skip)]
    last: Option<u64>,
    #[serde(skip)]
    on: BTreeMap<String, Pair<bool>>,
    #[serde(skip)]
    by_name: BTreeMap<String, usize>,
}

/// As it was recorded, and with the other configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "camelCase")]
pub struct Pair<T> {
    pub then: T,
    pub otherwise: T,
}

/// One condition or threshold over time.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Lane {
    pub name: String,
    #[serde(flatten)]
    pub held: Pair<Vec<Span>>,
    /// As of the steps.
    pub gained: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Held"))]
#[serde(rename_all = "camelCase")]
pub struct Span {
    pub from: Moment,
    /// The first tick after it, or the last one before a pause; `None` if it held to the end.
    pub to: Option<Moment>,
}

/// Who was ended, over time.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    #[serde(flatten)]
    pub marks: Pair<Marks>,
    /// As of the steps, of those that end work.
    pub gained: Option<i64>,
}

#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Marks {
    /// Steps that end work, or would have where isobar only observes.
    pub n: u64,
    /// Those and gentler ones. Of several that no lane could tell apart the first.
    pub marks: Vec<Mark>,
    /// When a step first ended work.
    #[serde(skip)]
    first: Option<Moment>,
    /// No two marks of a kind are closer.
    #[serde(skip)]
    apart: Nanos,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Mark {
    pub at: Moment,
    /// The step ends work.
    pub is_final: bool,
}

/// A step of relief.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Taken {
    pub at: Moment,
    pub step: StepKind,
    pub target: String,
    pub because: String,
    /// Taken, and not only recorded.
    pub is_enforced: bool,
    /// Memory is what was short: only such a step may forestall an OOM kill.
    #[serde(skip)]
    pub is_for_memory: bool,
}

impl WhatIf {
    /// What all of these ticks come to.
    ///
    /// # Errors
    /// The first of theirs.
    pub fn of<E>(ticks: impl Iterator<Item = Result<Judged, E>>) -> Result<Self, E> {
        let mut all = Self::default();
        for judged in ticks {
            all.add(&judged?);
        }
        Ok(all.close())
    }

    pub fn add(&mut self, judged: &Judged) {
        // One that this version cannot read has nothing to compare.
        let Ok(then) = room::from_slice::<Decision>(judged.recorded.as_bytes()) else {
            return;
        };
        self.tick(&then, &judged.step.decision);
        let room = MARKS.saturating_sub(self.oom_kills.len());
        let snapshot = &judged.step.snapshot;
        // No step for the node or all pods forestalls a kill at a limit of its own.
        let kills = snapshot.oom_kills.iter();
        let kills = kills.filter(|kill| OomLimit::of(kill, snapshot).scope().is_some());
        self.oom_kills.extend(kills.take(room).map(|kill| {
            let wall = judged.at.wall.since(judged.at.boot.since(kill.at));
            Moment { boot: kill.at, wall }
        }));
    }

    /// After the last tick.
    #[must_use]
    pub fn close(mut self) -> Self {
        for lane in &mut self.lanes {
            let first = |spans: &[Span]| spans.first().map(|span| span.from);
            lane.gained = gained(first(&lane.held.then), first(&lane.held.otherwise));
        }
        let first = |steps: &[Taken]| steps.first().map(|step| step.at);
        self.gained = gained(first(&self.steps.then), first(&self.steps.otherwise));
        let Ended { marks: Pair { then, otherwise }, gained: sooner } = &mut self.ended;
        *sooner = gained(then.first(), otherwise.first());
        let apart = Nanos(self.to.wall.since(self.from.wall).0 / PARTS);
        then.thin(apart);
        otherwise.thin(apart);
        self
    }

    /// What cannot be known; `None` if no step differed and no tick is missing.
    pub fn limit(&self) -> Option<String> {
        let missing = (self.missing > 0).then(|| {
            let (s, are) = if self.missing == 1 { ("", "is") } else { ("s", "are") };
            format!(
                "{} tick{s} in between {are} not in the recording, as where old ones were thinned. \
                 After each gap the other configuration goes on from what the recorded one knew: a \
                 grace period that is longer than the ticks between two gaps is never over.",
                self.missing
            )
        });
        let diverged = self.diverged.map(|diverged| {
            format!(
                "From {} on the steps differ, and the node would have gone on differently. What \
                 follows is what each configuration decides about the node as it was recorded, \
                 without the effect that its own steps would have had.",
                clock(diverged.wall)
            )
        });
        let all: Vec<String> = missing.into_iter().chain(diverged).collect();
        (!all.is_empty()).then(|| all.join(" "))
    }

    /// One tick, as it was decided and as it would have been.
    pub fn tick(&mut self, then: &Decision, otherwise: &Decision) {
        if self.ticks == 0 {
            self.from = otherwise.at;
        }
        let at = otherwise.at;
        let is_new_run = self.last.is_some_and(|last| otherwise.tick <= last);
        let (now, last) = (at.boot, self.to.boot);
        if is_new_run || now < last || now.since(last) > PAUSE {
            self.pause();
        }
        // Another run counts from the beginning.
        let next = self.last.map_or(otherwise.tick, |last| last.saturating_add(1));
        self.missing = self.missing.saturating_add(otherwise.tick.saturating_sub(next));
        self.last = Some(otherwise.tick);
        (self.to, self.ticks) = (at, self.ticks + 1);
        let mut on: BTreeMap<String, Pair<bool>> = BTreeMap::new();
        held(then).for_each(|name| on.entry(name).or_default().then = true);
        held(otherwise).for_each(|name| on.entry(name).or_default().otherwise = true);
        // What ended in this tick.
        self.on.keys().for_each(|name| {
            on.entry(name.clone()).or_default();
        });
        for (name, now) in &on {
            let lanes = &mut self.lanes;
            if lanes.len() >= LANES && !self.by_name.contains_key(name) {
                continue;
            }
            let place = *self.by_name.entry(name.clone()).or_insert_with(|| {
                lanes.push(Lane { name: name.clone(), ..Lane::default() });
                lanes.len() - 1
            });
            let held = &mut self.lanes[place].held;
            turn(&mut held.then, now.then, at);
            turn(&mut held.otherwise, now.otherwise, at);
        }
        on.retain(|_, now| now.then || now.otherwise);
        self.on = on;
        self.steps(then, otherwise, at);
    }

    /// What held at the last tick is not known to have held any longer.
    fn pause(&mut self) {
        for lane in &mut self.lanes {
            turn(&mut lane.held.then, false, self.to);
            turn(&mut lane.held.otherwise, false, self.to);
        }
        self.on.clear();
    }

    fn steps(&mut self, then: &Decision, otherwise: &Decision, at: Moment) {
        self.ended.marks.then.add(&then.relief.actions, at);
        self.ended.marks.otherwise.add(&otherwise.relief.actions, at);
        let taken = |decision: &Decision| {
            decision.relief.actions.iter().map(|action| step(action, at)).collect::<Vec<_>>()
        };
        let (then, otherwise) = (taken(then), taken(otherwise));
        let key = |one: &Taken| (one.step, one.target.clone(), one.is_enforced);
        let is_same = |(a, b): (&Taken, &Taken)| key(a) == key(b);
        let differs = then.len() != otherwise.len() || !then.iter().zip(&otherwise).all(is_same);
        if differs {
            self.diverged.get_or_insert(at);
        }
        self.more_steps.then += keep(&mut self.steps.then, then);
        self.more_steps.otherwise += keep(&mut self.steps.otherwise, otherwise);
    }
}

impl Marks {
    fn add(&mut self, actions: &[Action], at: Moment) {
        for action in actions {
            let is_final = action.step.is_final();
            if is_final {
                self.n += 1;
                self.first.get_or_insert(at);
            }
            self.marks.push(Mark { at, is_final });
            if self.marks.len() > MARKS {
                self.apart = Nanos(self.apart.0.max(Nanos::SECOND.0 / 2).saturating_mul(2));
                self.thin(self.apart);
                self.marks.truncate(MARKS);
            }
        }
    }

    /// When a step first ended work.
    pub fn first(&self) -> Option<Moment> {
        self.first
    }

    /// Leaves out what is closer than `apart` to the one before of its kind.
    fn thin(&mut self, apart: Nanos) {
        let mut last: [Option<Nanos>; 2] = [None; 2];
        self.marks.retain(|mark| {
            let last = &mut last[usize::from(mark.is_final)];
            let at = mark.at.wall;
            // The wall clock may be set back.
            let is_apart = last.is_none_or(|last| at < last || at.since(last) > apart);
            *last = if is_apart { Some(at) } else { *last };
            is_apart
        });
    }
}

/// The conditions that are True, and the thresholds that are due.
fn held(decision: &Decision) -> impl Iterator<Item = String> {
    let assessment = &decision.assessment;
    let due = assessment.met.iter().filter(|met| met.is_due).map(|met| met.threshold.name());
    assessment.holding().map(str::to_owned).chain(due)
}

fn turn(spans: &mut Vec<Span>, is_on: bool, at: Moment) {
    let is_full = spans.len() >= MARKS;
    match (spans.last_mut(), is_on) {
        (Some(Span { to: to @ None, .. }), false) => *to = Some(at),
        (Some(Span { to: None, .. }), true) | (_, false) => {}
        // A lane of so many has no room for the gaps between them.
        (Some(last), true) if is_full => last.to = None,
        (_, true) => spans.push(Span { from: at, to: None }),
    }
}

fn step(action: &Action, at: Moment) -> Taken {
    let (step, target) = (action.step, action.target.full_name());
    let threshold = &action.reason.threshold;
    let (because, is_enforced) = (threshold.name(), action.is_enforced);
    let is_for_memory = threshold.resource() == Resource::Memory;
    Taken { at, step, target, because, is_enforced, is_for_memory }
}

/// How many there was no room for.
fn keep(kept: &mut Vec<Taken>, new: Vec<Taken>) -> u64 {
    let (room, n) = (TOLD.saturating_sub(kept.len()), new.len());
    kept.extend(new.into_iter().take(room));
    n.saturating_sub(room) as u64
}

fn gained(then: Option<Moment>, otherwise: Option<Moment>) -> Option<i64> {
    let (then, otherwise) = (then?.wall.0, otherwise?.wall.0);
    i64::try_from(i128::from(then) - i128::from(otherwise)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use isobar_core::model::cgroup::CgroupId;
    use isobar_core::model::stall::OomKill;
    use isobar_core::policy::engine::Step;

    #[test]
    fn add_keeps_kills_that_a_step_may_forestall() {
        #[rustfmt::skip]
        let table = [
            // the limit that was reached, whether it is known, kills that are kept
            (None,              true,  1),
            (Some(CgroupId(9)), true,  0), // a container's own
            (None,              false, 0),
        ];
        for (limit, limit_known, want) in table {
            let mut step = Step::default();
            let kill = OomKill { victim: CgroupId(9), limit, limit_known, ..OomKill::default() };
            step.snapshot.oom_kills.push(kill);
            let text = serde_json::to_string(&step.decision).unwrap();
            let mut all = WhatIf::default();
            let (at, recorded) = (Moment::default(), text.clone());
            all.add(&Judged { tick: 0, at, recorded, text, step });
            assert_eq!(all.oom_kills.len(), want, "{limit:?} {limit_known}");
        }
    }
}
