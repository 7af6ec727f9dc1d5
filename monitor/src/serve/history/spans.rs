//! What held from when to when (conditions, thresholds), and what happened (changes, actions,
//! outcomes, OOM kills).

use std::collections::VecDeque;

use serde::Serialize;

use super::minutes::{Minute, Minutes, OF_TICK};
use isobar_core::model::condition::{ConditionName, Status};
use isobar_core::model::decision::{Assessment, Decision, NodePressure, Outcome, Trigger};
use isobar_core::model::sample::{Moment, PAUSE};
use isobar_core::model::snapshot::Blame;
use isobar_core::model::units::Nanos;
use isobar_core::policy::explain::{self, relief as words};
use isobar_core::view::OomRecord;

/// How much is kept.
#[derive(Debug, Clone, Copy)]
pub(in crate::serve) struct Room {
    /// Ended spans, and as many events.
    told: usize,
    minutes: usize,
}

impl Room {
    pub(in crate::serve) const OF_AGENT: Self = Self { told: 512, minutes: 60 };
    /// A day of it; the answer that has all of it stays below 2 MiB.
    pub(in crate::serve) const OF_RECORDING: Self = Self { told: 2_048, minutes: 1_440 };
}

/// Times without a tick that are kept.
const PAUSES: usize = 32;
/// Bytes of an event's text; the log has all of it.
const TEXT: usize = 512;
/// Bytes of a span's reason.
const WHY: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Subject {
    Condition(ConditionName),
    Threshold(Trigger),
    NodePressure(NodePressure),
}

impl Subject {
    fn kind(self) -> Kind {
        match self {
            Self::Condition(_) => Kind::Condition,
            Self::Threshold(_) => Kind::Threshold,
            Self::NodePressure(_) => Kind::NodePressure,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "SpanKind"))]
#[serde(rename_all = "camelCase")]
enum Kind {
    Condition,
    Threshold,
    NodePressure,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "SpanState"))]
enum State {
    True,
    False,
    Unknown,
    /// A threshold is met, but not for its grace period yet.
    #[serde(rename = "met")]
    Met,
    #[serde(rename = "due")]
    Due,
}

/// A state from when to when.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(in crate::serve) struct Span {
    kind: Kind,
    name: String,
    state: State,
    /// The tick that first found it.
    tick: u64,
    pub(super) begin: Moment,
    /// `None` while it holds.
    pub(super) end: Option<Moment>,
    /// The rule and the figures by which it began; absent of a condition of the kubelet, which follows
    /// its thresholds, and where nothing could be measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<Box<str>>,
    #[serde(skip)]
    subject: Subject,
}

impl Span {
    /// What still held, held until then.
    pub(in crate::serve) fn until(self, at: Moment) -> Self {
        Self { end: self.end.or(Some(at)), ..self }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "EventKind"))]
#[serde(rename_all = "camelCase")]
enum Happened {
    Change,
    Action,
    Outcome,
    Effect,
    Release,
    OomKill,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "HistoryEvent"))]
#[serde(rename_all = "camelCase")]
pub(in crate::serve) struct Event {
    pub(super) at: Moment,
    tick: u64,
    kind: Happened,
    /// In one word, of a change.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The action that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<u64>,
    text: String,
    /// The tick that told of it, on the boot clock: the kernel may have killed after its moment.
    #[serde(skip)]
    told: Nanos,
}

/// A time without a tick: no agent ran, or none that could tell. What held and happened in it is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::serve) struct Pause {
    /// The last tick before it.
    pub(in crate::serve) begin: Moment,
    /// The first tick after it.
    pub(in crate::serve) end: Moment,
}

/// From when on all is told that there was; before it some may be missing. `None`: nothing of this
/// time is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct KnownSince {
    pub(super) spans: Option<Moment>,
    pub(super) events: Option<Moment>,
    pub(super) minutes: Option<Moment>,
}

/// The state of a condition or threshold in one tick.
#[derive(Debug, Clone)]
struct Found {
    subject: Subject,
    name: String,
    state: State,
    /// When it began.
    since: Moment,
    why: Option<Box<str>>,
}

/// What one tick adds, small enough to be handed over.
#[derive(Debug, Clone, Default)]
pub(super) struct Told {
    found: Vec<Found>,
    events: Vec<Event>,
    aggressions: Vec<Blame>,
}

impl Told {
    pub(super) fn of(
        decision: &Decision,
        aggressions: &[Blame],
        outcomes: &[Outcome],
        kills: &[OomRecord],
    ) -> Self {
        let found = found(&decision.assessment, decision.at).collect();
        let events = events(decision, outcomes, kills);
        let aggressions = aggressions.iter().take(OF_TICK).cloned().collect();
        Self { found, events, aggressions }
    }
}

fn found(assessment: &Assessment, at: Moment) -> impl Iterator<Item = Found> {
    let conditions = assessment.conditions.iter().map(|condition| {
        let state = match condition.status {
            Status::True => State::True,
            Status::False => State::False,
            Status::Unknown => State::Unknown,
        };
        let subject = Subject::Condition(condition.name);
        let why = bounded(explain::condition_numbers(condition));
        Found { subject, name: condition.kind.clone(), state, since: condition.since, why }
    });
    let threshold = |threshold: Trigger, state, since, why| {
        let subject = Subject::Threshold(threshold);
        Found { subject, name: threshold.name(), state, since, why }
    };
    let met = assessment.met.iter().map(move |met| {
        let since = Moment { boot: met.since, wall: at.wall.since(at.boot.since(met.since)) };
        let why = bounded(explain::met_sentence(met, at.boot));
        match met.is_due {
            true => threshold(met.threshold, State::Due, at, why),
            false => threshold(met.threshold, State::Met, since, why),
        }
    });
    let unmeasured = assessment.unmeasured.iter();
    let unmeasured = unmeasured.map(move |one| threshold(*one, State::Unknown, at, None));
    let pressure = assessment.node_pressure.iter().map(move |one| {
        let (subject, name) = (Subject::NodePressure(*one), one.name().to_owned());
        Found { subject, name, state: State::True, since: at, why: None }
    });
    conditions.chain(met).chain(unmeasured).chain(pressure)
}

fn bounded(mut why: String) -> Option<Box<str>> {
    why.truncate(why.floor_char_boundary(WHY));
    Some(why.into())
}

fn events(decision: &Decision, outcomes: &[Outcome], kills: &[OomRecord]) -> Vec<Event> {
    let (at, tick, relief) = (decision.at, decision.tick, &decision.relief);
    let event = |kind, action, mut text: String| {
        text.truncate(text.floor_char_boundary(TEXT));
        Event { at, tick, kind, reason: None, action, text, told: at.boot }
    };
    let mut all: Vec<_> = kills
        .iter()
        .map(|kill| {
            let own = Moment { boot: kill.kill.at, wall: kill.wall };
            Event { at: own, ..event(Happened::OomKill, None, kill.sentence()) }
        })
        .collect();
    all.extend(outcomes.iter().map(|outcome| {
        let text = format!("{}: {}", outcome.result.name(), outcome.detail);
        event(Happened::Outcome, Some(outcome.action), text)
    }));
    all.extend(decision.events().map(|change| {
        let reason = Some(change.reason.clone());
        Event { reason, ..event(Happened::Change, None, change.message.clone()) }
    }));
    let effects = relief.effects.iter();
    all.extend(effects.map(|one| event(Happened::Effect, Some(one.action), words::effect(one))));
    let actions = relief.actions.iter();
    all.extend(actions.map(|one| {
        let text = format!("{}; {}", words::action(one, at.boot), words::choice(one));
        event(Happened::Action, Some(one.id), text)
    }));
    let releases = relief.releases.iter();
    all.extend(releases.map(|one| event(Happened::Release, Some(one.action), words::release(one))));
    all
}

#[derive(Debug)]
pub(super) struct Spans {
    room: Room,
    /// The last tick, and its number.
    last: Option<(Moment, u64)>,
    /// Spans begin no earlier than the end of the last one.
    pauses: VecDeque<Pause>,
    open: Vec<Span>,
    ended: VecDeque<Span>,
    events: VecDeque<Event>,
    minutes: Minutes,
    known: KnownSince,
}

impl Spans {
    pub(super) fn new(room: Room) -> Self {
        let (last, pauses, open, ended, events, known) = Default::default();
        let minutes = Minutes::new(room.minutes);
        Self { room, last, pauses, open, ended, events, minutes, known }
    }

    /// Puts in a tick that was `interval` long.
    pub(super) fn put(&mut self, at: Moment, interval: Nanos, tick: u64, told: Told) {
        let Told { found, events, aggressions } = told;
        self.known.spans.get_or_insert(at);
        self.known.events.get_or_insert(at);
        self.pause(at, tick);
        let holds = |span: &Span| {
            found.iter().any(|one| (one.subject, one.state) == (span.subject, span.state))
        };
        let (open, over): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.open).into_iter().partition(holds);
        self.open = open;
        self.ended.extend(over.into_iter().map(|span| Span { end: Some(at), ..span }));
        for Found { subject, name, state, since: begin, why } in found {
            if self.open.iter().all(|span| span.subject != subject) {
                let resumed = self.pauses.back().map(|pause| pause.end);
                let begin = resumed.filter(|at| at.boot > begin.boot).unwrap_or(begin);
                let kind = subject.kind();
                self.open.push(Span { kind, name, state, tick, begin, end: None, why, subject });
            }
        }
        for event in events {
            if !self.has_release(&event) {
                self.events.push_back(event);
            }
        }
        let gone = newest(&mut self.ended, self.room.told);
        self.known.spans = gone.and_then(|span| span.end).or(self.known.spans);
        let gone = newest(&mut self.events, self.room.told);
        // Others of its tick may be gone, too.
        let after =
            |at: Moment| Moment { boot: at.boot.plus(Nanos(1)), wall: at.wall.plus(Nanos(1)) };
        self.known.events = gone.map(|event| after(event.at)).or(self.known.events);
        self.minutes.put(at, interval, aggressions);
    }

    /// Ends what held when no agent ran, or none that could tell: it was last seen in the last tick.
    fn pause(&mut self, at: Moment, tick: u64) {
        let Some((last, number)) = self.last.replace((at, tick)) else { return };
        // Another agent counts from 1 again.
        if tick > number && at.boot.since(last.boot) <= PAUSE {
            return;
        }
        self.pauses.push_back(Pause { begin: last, end: at });
        newest(&mut self.pauses, PAUSES);
        self.ended.extend(self.open.drain(..).map(|span| span.until(last)));
    }

    /// A release is ordered in each tick until it is done.
    fn has_release(&self, new: &Event) -> bool {
        let is_it = |old: &Event| (old.kind, old.action) == (new.kind, new.action);
        new.kind == Happened::Release && self.events.iter().any(is_it)
    }

    /// What held at any time from `begin` to `end`, in the order in which it began, as it was known
    /// at `now`: what ended later held then.
    pub(super) fn spans(&self, begin: Nanos, end: Nanos, now: Nanos) -> Vec<Span> {
        let within =
            |span: &&Span| span.begin.boot < end && span.end.is_none_or(|at| at.boot > begin);
        let known =
            |span: &Span| Span { end: span.end.filter(|at| at.boot <= now), ..span.clone() };
        let all = self.ended.iter().chain(&self.open).filter(within);
        let mut all: Vec<_> = all.map(known).collect();
        all.sort_by_key(|span| span.begin.boot);
        all
    }

    /// What happened from `begin` to `end`, as it was known at `now`.
    pub(super) fn events(&self, begin: Nanos, end: Nanos, now: Nanos) -> Vec<&Event> {
        let within = |event: &&Event| (begin..end).contains(&event.at.boot) && event.told <= now;
        let mut all: Vec<_> = self.events.iter().filter(within).collect();
        // The kernel has killed before the tick that tells of it.
        all.sort_by_key(|event| event.at.boot);
        all
    }

    /// The pauses of which a part lies between `begin` and `end`, as they were known at `now`.
    pub(super) fn pauses(&self, begin: Nanos, end: Nanos, now: Nanos) -> Vec<Pause> {
        let within = |pause: &&Pause| {
            pause.begin.boot < end && pause.end.boot > begin && pause.end.boot <= now
        };
        self.pauses.iter().filter(within).copied().collect()
    }

    /// See [`Minutes::between`].
    pub(super) fn minutes(&self, begin: Nanos, end: Nanos, now: Nanos) -> Vec<&Minute> {
        self.minutes.between(begin, end, now)
    }

    pub(super) fn known_since(&self) -> KnownSince {
        KnownSince { minutes: self.minutes.known_since(), ..self.known }
    }
}

/// Keeps the last `n`; the newest of those that it drops.
pub(super) fn newest<T>(all: &mut VecDeque<T>, n: usize) -> Option<T> {
    all.drain(..all.len().saturating_sub(n)).last()
}

#[cfg(test)]
mod tests;
