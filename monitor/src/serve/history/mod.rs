//! What has been published in the last hour and day, bounded: rings of figures, spans, events, and
//! the longest waits of each minute.
//!
//! The tick's thread fills it and never waits for a reader: while one reads, ticks queue up.

mod answer;
mod query;
mod rings;
mod series;
mod spans;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use self::rings::Rings;
use self::series::Tick;
pub(super) use self::spans::{Event, Room, Span};
use self::spans::{Spans, Told};
use isobar_core::model::cost::Cost;
use isobar_core::model::decision::Outcome;
use isobar_core::model::sample::Moment;
use isobar_core::model::threshold::Threshold;
use isobar_core::model::units::Nanos;
use isobar_core::policy::engine::Step;
use isobar_core::view::OomRecord;

pub(super) use self::answer::{events, series};
pub(super) use self::query::ago;

/// Ticks that wait for a reader to be done. More are dropped, the oldest first.
const WAITING: usize = 64;

/// The readers' end.
#[derive(Debug, Clone)]
pub(super) struct History(Arc<Mutex<Kept>>);

#[derive(Debug)]
struct Kept {
    rings: Rings,
    spans: Spans,
}

impl History {
    /// Everything that held and happened.
    pub(super) fn told(&self) -> (Vec<Span>, Vec<Event>) {
        let (kept, ever) = (self.lock(), Nanos(u64::MAX));
        let events = kept.spans.events(Nanos(0), ever).into_iter().cloned().collect();
        (kept.spans.spans(Nanos(0), ever, ever), events)
    }

    /// Until when, on the boot clock, there is something.
    pub(super) fn newest(&self) -> Nanos {
        self.lock().rings.newest()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one tick adds.
#[derive(Debug)]
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
        let kept = Kept { rings: Rings::new(), spans: Spans::new(room) };
        Self { history: History(Arc::new(Mutex::new(kept))), waiting: VecDeque::new() }
    }

    pub(super) fn history(&self) -> History {
        self.history.clone()
    }

    /// Adds a tick. Looks at the whole node, at all pods, and at the longest waits: its cost does not
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
        for Entry { tick, at, interval, row, told } in self.waiting.drain(..) {
            kept.rings.put(at.boot, interval, &row);
            kept.spans.put(at, tick, told);
        }
    }
}
