//! What has been published in the last hour and day, bounded: rings of figures, spans, events, and
//! the waits of each minute that cost most.
//!
//! The tick's thread fills it and never waits for a reader: while one reads, ticks queue up.

pub(super) mod answer;
mod minutes;
mod query;
mod rings;
mod row;
mod series;
mod spans;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, TryLockError, Weak};

use serde::Serialize;

use self::rings::Rings;
use self::row::Tick;
use self::series::ALL;
pub(super) use self::spans::{Event, Pause, Room, Span};
use self::spans::{Spans, Told};
use crate::lock::lock;
use isobar_core::model::cost::Cost;
use isobar_core::model::decision::Outcome;
use isobar_core::model::sample::Moment;
use isobar_core::model::threshold::Threshold;
use isobar_core::model::units::Nanos;
use isobar_core::policy::engine::Step;
use isobar_core::view::OomRecord;

pub(super) use self::answer::{events, series};
pub(super) use self::query::{ago, only};

/// Ticks that wait for a reader to be done. More are dropped, the oldest first.
const WAITING: usize = 64;

/// Ticks that a refill may miss: of an hour, as a day takes that long to be read at most.
const SINCE: usize = 3_600;

/// Everything that held and happened.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct Whole {
    /// As in `HistoryEvents`, of all its time.
    pub(super) spans: Vec<Span>,
    /// As in `HistoryEvents`, of all its time.
    pub(super) events: Vec<Event>,
    /// As in `HistoryEvents`, of all its time; of a recording also those from one boot to the next.
    pub(super) pauses: Vec<Pause>,
    /// From when on these are all that there were; `None` if none is known.
    pub(super) known_since: Option<Moment>,
}

/// The readers' end.
#[derive(Debug, Clone)]
pub(super) struct History(Arc<Mutex<Kept>>);

#[derive(Debug)]
struct Kept {
    rings: Rings,
    spans: Spans,
    /// What came since a refill began; `None` if there is none, or if it has taken too long.
    since: Option<Vec<Entry>>,
}

impl Kept {
    fn new(room: Room) -> Self {
        Self { rings: Rings::new(&ALL), spans: Spans::new(room), since: None }
    }

    fn put(&mut self, entry: Entry) {
        match &mut self.since {
            Some(since) if since.len() < SINCE => since.push(entry.clone()),
            since => *since = None,
        }
        let Entry { tick, at, interval, row, told } = entry;
        self.rings.put(at.boot, interval, &row);
        self.spans.put(at, interval, tick, told);
    }
}

impl History {
    /// From now on what comes is kept for [`History::put_before`]. The history that is meant, as long
    /// as the agent lives.
    pub(super) fn begin_refill(&self) -> WeakHistory {
        lock(&self.0).since = Some(Vec::new());
        WeakHistory(Arc::downgrade(&self.0))
    }

    pub(super) fn end_refill(&self) {
        lock(&self.0).since = None;
    }

    /// Puts in what came before the refill began.
    pub(super) fn put_before(&self, older: &Self) {
        let mut older = lock(&older.0);
        let mut kept = lock(&self.0);
        let Some(since) = kept.since.take() else { return };
        older.since = Some(Vec::new());
        since.into_iter().for_each(|entry| older.put(entry));
        std::mem::swap(&mut *kept, &mut *older);
    }

    pub(super) fn told(&self) -> Whole {
        let (kept, ever) = (lock(&self.0), Nanos(u64::MAX));
        let known = kept.spans.known_since();
        Whole {
            spans: kept.spans.spans(Nanos(0), ever, ever),
            events: kept.spans.events(Nanos(0), ever, ever).into_iter().cloned().collect(),
            pauses: kept.spans.pauses(Nanos(0), ever, ever),
            known_since: known.spans.max(known.events),
        }
    }
}

/// A history that ends with its agent.
pub(super) struct WeakHistory(Weak<Mutex<Kept>>);

impl WeakHistory {
    pub(super) fn upgrade(&self) -> Option<History> {
        self.0.upgrade().map(History)
    }

    /// The agent lives, and what came meanwhile is still kept.
    pub(super) fn is_wanted(&self) -> bool {
        self.upgrade().is_some_and(|history| lock(&history.0).since.is_some())
    }
}

/// What one tick adds.
#[derive(Debug, Clone)]
struct Entry {
    tick: u64,
    at: Moment,
    interval: Nanos,
    row: Vec<u16>,
    told: Told,
}

/// The end of the tick's thread.
#[derive(Debug)]
pub(super) struct Recorder {
    history: History,
    waiting: VecDeque<Entry>,
}

/// What a tick measured and decided, beside its step.
pub(super) struct Beside<'a> {
    /// `None` of a recording, which does not have it.
    pub(super) cost: Option<&'a Cost>,
    pub(super) kills: &'a [OomRecord],
    /// Of earlier actions.
    pub(super) outcomes: &'a [Outcome],
    pub(super) thresholds: &'a [Threshold],
}

impl Recorder {
    pub(super) fn new(room: Room) -> Self {
        Self { history: History(Arc::new(Mutex::new(Kept::new(room)))), waiting: VecDeque::new() }
    }

    pub(super) fn history(&self) -> History {
        self.history.clone()
    }

    /// Adds a tick. Looks at the whole node, at all pods, and at the first waits: its cost does not
    /// grow with the number of cgroups.
    pub(super) fn record(&mut self, step: &Step, beside: Beside<'_>) {
        let Beside { cost, kills, outcomes, thresholds } = beside;
        let Step { snapshot, decision, .. } = step;
        if self.waiting.len() >= WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(Entry {
            tick: snapshot.tick,
            at: snapshot.at,
            interval: snapshot.interval,
            row: Tick { step, cost, thresholds }.row(),
            told: Told::of(decision, &snapshot.aggressions, outcomes, kills),
        });
        let mut kept = match self.history.0.try_lock() {
            Ok(kept) => kept,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        self.waiting.drain(..).for_each(|entry| kept.put(entry));
    }
}
