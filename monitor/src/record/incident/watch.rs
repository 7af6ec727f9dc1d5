//! Where an incident begins and where it ends.
//! In: what each tick decided, and what it found killed or changed. Out: the turns of an incident.
//! A trigger while one is open joins it: what goes wrong at one time has one story.

use std::collections::{BTreeMap, VecDeque};
use std::iter::once;

use super::{Change, Incident, Kind, State, Trigger};
use isobar_core::model::capability::Capability;
use isobar_core::model::condition::{Condition, Status};
use isobar_core::model::decision::{Decision, NodePressure};
use isobar_core::model::limit::{LimitResult, LimitState};
use isobar_core::model::node::NodeFacts;
use isobar_core::model::sample::{Moment, Sample};
use isobar_core::model::units::Nanos;
use isobar_core::policy::explain::{condition_numbers, measured, relief as words};
use isobar_core::view::OomRecord;

/// What came before belongs to it.
pub const BEFORE: Nanos = Nanos(120 * Nanos::SECOND.0);
/// It ends so long after the first trigger, calm or not: a condition that holds for days is the
/// recording's, and what happens within it has an incident of its own.
pub const LONGEST: Nanos = Nanos(3_600 * Nanos::SECOND.0);
/// Nothing holds and nothing happens for so long.
pub(super) const CALM: Nanos = Nanos(30 * Nanos::SECOND.0);
/// More triggers of one incident are not listed, unless they are graver.
const TRIGGERS: usize = 32;
/// Names that are remembered.
const NAMED: usize = 200;
/// No machine that isobar runs on has larger pages.
const PAGE: u64 = 64 << 10;

/// One tick.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    pub sample: &'a Sample,
    pub decision: &'a Decision,
    pub kills: &'a [OomRecord],
    pub limits: &'a [LimitState],
}

/// What a tick changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// One began, or another trigger joined it.
    Open(Box<Incident>),
    Over(Box<Incident>),
}

#[derive(Debug, Default)]
pub struct Watch {
    node: String,
    boot_id: String,
    /// No incident lasts longer.
    longest: Nanos,
    open: Option<Incident>,
    /// The last tick on which something held or happened.
    stirred: Nanos,
    /// Limits that were found changed, and how the last tick found them.
    drifted: BTreeMap<String, LimitResult>,
    /// What the agent can measure and do.
    capabilities: Vec<Capability>,
    /// The kubelet's conditions of the last tick; `None` before the first.
    pressed: Option<Vec<NodePressure>>,
    /// The newest names.
    named: VecDeque<String>,
}

impl Watch {
    pub fn new(node: String, boot_id: String) -> Self {
        Self { node, boot_id, longest: LONGEST, ..Self::default() }
    }

    /// Goes on with an incident that the agent before left open, `now`, beside others that are kept.
    pub fn after(
        facts: &NodeFacts,
        open: Option<Incident>,
        kept: impl Iterator<Item = String>,
        now: Moment,
    ) -> Self {
        let mut capabilities = open.as_ref().map_or(Vec::new(), |open| open.capabilities.clone());
        for Change { capability, .. } in open.iter().flat_map(|open| &open.changes) {
            capabilities.retain(|one| one.name != capability.name);
            capabilities.push(capability.clone());
        }
        Self {
            named: kept.collect(),
            open,
            stirred: now.boot,
            capabilities,
            ..Self::new(facts.name.clone(), facts.boot_id.clone())
        }
    }

    /// Ends incidents before the recording, which has every tick of the last `age`, has lost their beginning.
    pub fn record_keeps(&mut self, age: Nanos) {
        self.longest = LONGEST.min(Nanos(age.0 / 2));
    }

    /// What the agent can measure and do at a tick.
    pub fn can(&mut self, at: Moment, now: &[Capability]) {
        let (before, open) = (std::mem::take(&mut self.capabilities), &mut self.open);
        let is_known = |one: &&Capability| {
            before.iter().any(|other| (&other.name, other.state) == (&one.name, one.state))
        };
        let new: Vec<_> = now.iter().filter(|one| !is_known(one)).cloned().collect();
        self.capabilities = if new.is_empty() { before } else { now.to_vec() };
        if let Some(open) = open {
            let room = TRIGGERS.saturating_sub(open.changes.len());
            let new = new.into_iter().map(|capability| Change { at, capability });
            open.changes.extend(new.take(room));
        }
    }

    /// At most one turn a tick.
    pub fn tick(&mut self, seen: Seen<'_>) -> Option<Turn> {
        let at = seen.sample.at;
        let new = self.triggers(seen);
        let since = self.open.as_ref().map_or(at.boot, |open| open.begin.boot).since(BEFORE);
        if !new.is_empty() || !is_calm(seen, since) {
            self.stirred = at.boot;
        }
        let (stirred, longest) = (self.stirred, self.longest);
        let Some(open) = &mut self.open else {
            let first = new.first()?;
            let name = new_name(first, &self.named);
            self.named.push_back(name.clone());
            self.named.drain(..self.named.len().saturating_sub(NAMED));
            let (who, begin) = (first.who.clone(), at);
            let (node, boot_id) = (self.node.clone(), self.boot_id.clone());
            let capabilities = self.capabilities.clone();
            let mut incident =
                Incident { name, who, begin, node, boot_id, capabilities, ..Incident::default() };
            join(&mut incident, new);
            return Some(Turn::Open(Box::new(self.open.insert(incident).clone())));
        };
        let is_calm = at.boot.since(stirred) >= CALM;
        let has_new = !new.is_empty();
        join(open, new);
        if is_calm || at.boot.since(open.begin.boot) >= longest {
            let (end, is_cut) = (Some(at), !is_calm);
            let incident = Incident { end, is_cut, state: State::Open, ..std::mem::take(open) };
            self.open = None;
            return Some(Turn::Over(Box::new(incident)));
        }
        has_new.then(|| Turn::Open(Box::new(open.clone())))
    }

    fn triggers(&mut self, Seen { sample, decision, kills, limits }: Seen<'_>) -> Vec<Trigger> {
        let (at, now) = (decision.at, decision.at.boot);
        let trigger = |kind, who, text| Trigger { at, kind, who, text, at_own_limit: false };
        let mut all: Vec<_> = kills.iter().map(|kill| of_kill(kill, sample)).collect();
        all.extend(decision.relief.actions.iter().map(|action| {
            let kind = if action.step.is_final() { Kind::Kill } else { Kind::Action };
            trigger(kind, action.target.full_name(), words::action(action, now))
        }));
        let conditions = decision.assessment.conditions.iter();
        let raised = conditions.filter(|one| one.status == Status::True && one.since.boot == now);
        all.extend(raised.map(|one| {
            let text = format!("{} became True: {}", one.kind, condition_numbers(one));
            trigger(Kind::Condition, one.kind.clone(), text)
        }));
        let pressed = &decision.assessment.node_pressure;
        // What holds at the first tick may have held for long.
        let before = self.pressed.replace(pressed.clone()).unwrap_or_else(|| pressed.clone());
        all.extend(pressed.iter().filter(|one| !before.contains(one)).map(|one| {
            let name = one.name();
            trigger(Kind::Condition, name.into(), format!("{name} became True"))
        }));
        let met = decision.assessment.met.iter();
        let foretold = met.filter(|met| met.since == now && met.threshold.is_forecast());
        all.extend(foretold.map(|met| {
            let name = met.threshold.name();
            let text = format!("{name}: {}", measured(&met.threshold, met.measured));
            trigger(Kind::Exhaustion, name, text)
        }));
        let drifts = self.drifts(limits).into_iter();
        all.extend(drifts.map(|(file, text)| trigger(Kind::Drift, file, text)));
        all
    }

    /// Limits that are found changed, or are given up after that, each once.
    fn drifts(&mut self, limits: &[LimitState]) -> Vec<(String, String)> {
        let (mut before, mut told) = (std::mem::take(&mut self.drifted), Vec::new());
        for LimitState { write, result, detail, live, .. } in limits {
            let file = write.path();
            let last = before.remove(&file);
            let text = match result {
                LimitResult::Drifted => Some(format!("{file}: {detail}")),
                LimitResult::Failed
                    if last.is_some() && is_other(live.as_deref(), &write.value) =>
                {
                    Some(format!("{file} is not {}: {detail}", write.value))
                }
                _ => None,
            };
            // A look that failed while the limit stood tells nothing of it.
            let seen = match (result, &text) {
                (LimitResult::Failed, None) => last,
                (_, None) => last.map(|_| *result),
                (_, Some(_)) => Some(*result),
            };
            self.drifted.extend(seen.map(|seen| (file.clone(), seen)));
            told.extend(text.filter(|_| last != Some(*result)).map(|text| (file, text)));
        }
        told
    }
}

/// Whether it is known that another value stands there than is to, also in whole pages, to which the kernel
/// cuts a limit: else no other writer is at work.
fn is_other(live: Option<&str>, value: &str) -> bool {
    let pages = |text: &str| text.parse::<u64>().ok().map(|n| n / PAGE).filter(|n| *n > 0);
    let is_same =
        |live: &str| live == value || pages(live).is_some() && pages(live) == pages(value);
    live.is_some_and(|live| !is_same(live))
}

/// A name that none of these has: where the wall clock was set back, a second comes twice.
fn new_name(first: &Trigger, named: &VecDeque<String>) -> String {
    let name = super::name_of(first);
    let others = (2..).map(|n| format!("{name}-{n}"));
    once(name.clone()).chain(others).find(|name| !named.contains(name)).unwrap_or_default()
}

fn join(incident: &mut Incident, new: Vec<Trigger>) {
    incident.kinds.extend(new.iter().map(|trigger| trigger.kind));
    incident.kinds.sort_unstable();
    incident.kinds.dedup();
    let all = &mut incident.triggers;
    for trigger in new {
        if all.len() >= TRIGGERS {
            incident.more_triggers += 1;
            // The first has given the incident its name.
            let gentlest = all.iter().enumerate().skip(1).max_by_key(|(_, one)| gravity(one));
            match gentlest {
                Some((place, one)) if gravity(one) > gravity(&trigger) => drop(all.remove(place)),
                _ => continue,
            }
        }
        all.push(trigger);
    }
}

/// Gravest first: an OOM kill at a limit of the victim's own is a lesser one than that of a node without
/// memory, and than one by isobar.
fn gravity(trigger: &Trigger) -> (bool, bool, Kind) {
    (!trigger.kind.is_kill(), trigger.at_own_limit, trigger.kind)
}

fn of_kill(record: &OomRecord, sample: &Sample) -> Trigger {
    let at = Moment { boot: record.kill.at, wall: record.wall };
    let limit = record.limit_path.as_ref();
    let is_shared = || limit.is_some_and(|path| sample.places().is_shared(path));
    let at_own_limit = record.kill.limit.is_some() && !is_shared();
    let (who, text) = (record.who().into(), record.sentence());
    Trigger { at, kind: Kind::OomKill, who, text, at_own_limit }
}

/// Nothing of what began after `since` holds, and nothing was killed or done: what has held for days
/// belongs to no incident.
fn is_calm(Seen { sample, decision, kills, .. }: Seen<'_>, since: Nanos) -> bool {
    let assessment = &decision.assessment;
    let is_held = |one: &Condition| one.status == Status::True && one.since.boot >= since;
    !assessment.conditions.iter().any(is_held)
        && assessment.met.iter().all(|met| met.since < since)
        && decision.relief.actions.is_empty()
        && !sample.in_force.iter().any(|entry| entry.can_be_undone() && entry.since >= since)
        && kills.is_empty()
}

#[cfg(test)]
mod tests;
