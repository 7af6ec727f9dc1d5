//! The thread that takes incidents out of the recording: it replays minutes, and no tick and no
//! write waits for that.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use crate::causes::chain;
use crate::clock;
use crate::record::incident::freeze::{FreezeError, freeze, tell_so_far};
use crate::record::incident::shelf::{Draft, Shelf};
use crate::record::incident::watch::Turn;
use crate::record::incident::words::paragraph;
use crate::record::incident::{Incident, State, Trigger};
use crate::record::journal::Ring;
use isobar_core::model::units::Nanos;

/// Incidents last half a minute at least, and one is frozen within seconds.
const WAITING: usize = 8;
/// What the recording says of a longer span is read again only once it is longer by a quarter: an hour
/// takes seconds to read.
const SHORT: Nanos = Nanos(720 * Nanos::SECOND.0);

enum Order {
    ReadFrom(Option<Ring>),
    Note(Box<Incident>),
    Freeze(Box<Incident>),
    /// Incidents can be kept in this directory.
    Settle(PathBuf),
}

/// The writer's end of it.
pub(super) struct Freezer {
    orders: SyncSender<Order>,
    /// Those for which there was no room.
    waiting: VecDeque<Order>,
}

impl Freezer {
    /// Gives it a thread, which first freezes what an agent before this one left open, but for the one
    /// of this name, which goes on.
    ///
    /// # Errors
    /// If none can be made.
    pub(super) fn begin(
        shelf: Arc<Shelf>,
        ring: Option<Ring>,
        going_on: Option<String>,
    ) -> io::Result<Self> {
        let (orders, inbox) = sync_channel(WAITING);
        let run = move || Cold { shelf, ring, told: None }.run(&inbox, going_on);
        thread::Builder::new().name("incidents".into()).spawn(run)?;
        Ok(Self { orders, waiting: VecDeque::new() })
    }

    /// Keeps an incident that is over; what is known of an open one, for readers and for the next
    /// agent.
    pub(super) fn take(&mut self, turn: Turn) {
        let order = match turn {
            Turn::Open(incident) => {
                // The newest tells everything.
                self.waiting.retain(|order| !matches!(order, Order::Note(_)));
                Order::Note(incident)
            }
            Turn::Over(incident) => Order::Freeze(incident),
        };
        self.send(order);
    }

    pub(super) fn read_from(&mut self, ring: Option<Ring>) {
        self.send(Order::ReadFrom(ring));
    }

    pub(super) fn settle(&mut self, dir: PathBuf) {
        self.send(Order::Settle(dir));
    }

    fn send(&mut self, order: Order) {
        self.waiting.push_back(order);
        self.flush();
    }

    /// Sends what waits, as far as there is room.
    pub(super) fn flush(&mut self) {
        while let Some(order) = self.waiting.pop_front() {
            if let Err(TrySendError::Full(order)) = self.orders.try_send(order) {
                return self.waiting.push_front(order);
            }
        }
    }
}

/// Whether it need not be read again for a new trigger.
fn is_told(told: &Incident, newest: Option<&Trigger>) -> bool {
    let read = told.to.boot.since(told.from.boot);
    let now = newest.map_or(told.to, |newest| newest.at).boot.since(told.from.boot);
    now > SHORT && now < Nanos(read.0 / 4 * 5)
}

struct Cold {
    shelf: Arc<Shelf>,
    /// `None` while nothing is recorded.
    ring: Option<Ring>,
    /// The open incident, as the recording told of it at last.
    told: Option<Incident>,
}

impl Cold {
    fn run(&mut self, inbox: &Receiver<Order>, going_on: Option<String>) {
        self.shelf.remove_drafts();
        let left = self.shelf.list().unwrap_or_default();
        let is_left =
            |one: &Incident| one.state == State::Open && going_on.as_ref() != Some(&one.name);
        let (left, going_on): (Vec<_>, Vec<_>) = left.into_iter().partition(is_left);
        left.into_iter().for_each(|incident| self.freeze(incident));
        // What its agent had no time to tell.
        for incident in going_on.into_iter().filter(|one| one.state == State::Open) {
            let told = self.told(incident);
            self.note(&told);
        }
        for order in inbox {
            match order {
                Order::ReadFrom(ring) => self.ring = ring,
                Order::Note(incident) => {
                    // At once, for an agent that is killed: reading the recording takes its time.
                    self.note(&incident);
                    let told = self.told(*incident);
                    self.note(&told);
                }
                Order::Freeze(incident) => self.freeze(*incident),
                Order::Settle(dir) => {
                    if let Err(why) = self.shelf.settle(&dir) {
                        tracing::warn!("incidents stay in memory: {}", chain(&why));
                    }
                }
            }
        }
    }

    /// With what the recording says of it so far: who it is about, not only what began it.
    fn told(&mut self, incident: Incident) -> Incident {
        let is_same = |told: &&Incident| told.name == incident.name;
        if let Some(told) = self.told.as_ref().filter(is_same)
            && is_told(told, incident.triggers.last())
        {
            let Incident { kinds, triggers, .. } = incident;
            return Incident { kinds, triggers, ..told.clone() };
        }
        let told = self.ring.as_ref().map(|ring| tell_so_far(ring, incident.clone()));
        self.told = told.and_then(Result::ok);
        self.told.clone().unwrap_or(incident)
    }

    fn note(&self, incident: &Incident) {
        let incident = Incident { summary: paragraph(incident), ..incident.clone() };
        if let Err(why) = self.shelf.note(&incident) {
            let name = &incident.name;
            tracing::warn!("incident {name} is kept in memory: {}", chain(&why));
            self.shelf.note_in_memory(&incident);
        }
    }

    /// In files, or in memory if those cannot be written.
    fn frozen(&self, ring: &Ring, incident: Incident) -> Result<Incident, FreezeError> {
        let name = incident.name.clone();
        let draft = self.shelf.draft();
        let tried = draft
            .map_err(FreezeError::from)
            .and_then(|to| freeze(ring, &self.shelf, incident.clone(), to));
        match tried {
            Err(why @ (FreezeError::Write(_) | FreezeError::Shelf(_))) => {
                tracing::warn!("incident {name} is kept in memory: {}", chain(&why));
                freeze(ring, &self.shelf, incident, Draft::in_memory()?)
            }
            tried => tried,
        }
    }

    fn freeze(&mut self, incident: Incident) {
        let Some(ring) = &self.ring else { return };
        let name = incident.name.clone();
        match self.frozen(ring, incident.clone()) {
            Ok(frozen) => {
                tracing::info!(
                    incident = name,
                    ticks = frozen.ticks,
                    "incident kept: {}",
                    frozen.summary
                );
            }
            Err(why) => {
                tracing::warn!("cannot keep the ticks of incident {name}: {}", chain(&why));
                // Its ticks are gone; the next agent need not look for them again.
                self.note(&Incident { state: State::Frozen, ..incident });
            }
        }
        if let Err(why) = self.shelf.prune(clock::now().wall) {
            tracing::warn!("cannot remove old incidents: {}", chain(&why));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::incident::Kind;
    use isobar_core::model::sample::Moment;

    #[test]
    fn is_told_spares_a_long_recording_from_being_read_at_each_trigger() {
        let at = |second: u64| {
            let boot = Nanos(second * Nanos::SECOND.0);
            Moment { boot, wall: boot }
        };
        #[rustfmt::skip]
        let table = [
            // told until, second of the newest trigger, is that enough?
            (120,   121,   false), // a short span is read at once
            (700,   720,   false),
            (720,   721,   true),
            (720,   899,   true),
            (720,   900,   false), // longer by a quarter
            (2_000, 2_499, true),
        ];
        for (to, newest, want) in table {
            let told = Incident { to: at(to), ..Incident::default() };
            let (who, text) = <(String, String)>::default();
            let newest = Trigger { at: at(newest), kind: Kind::Condition, who, text };
            assert_eq!(is_told(&told, Some(&newest)), want, "{to} {newest:?}");
        }
    }
}
