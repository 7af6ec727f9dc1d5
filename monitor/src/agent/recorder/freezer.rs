//! The thread that takes incidents out of the recording: it replays minutes, and no tick and no
//! write waits for that.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use crate::agent::log::chain;
use crate::clock;
use crate::record::incident::freeze::freeze;
use crate::record::incident::shelf::Shelf;
use crate::record::incident::words::paragraph;
use crate::record::incident::{Incident, State};
use crate::record::journal::Ring;

/// Incidents last half a minute at least, and one is frozen within seconds.
const WAITING: usize = 8;

enum Order {
    ReadFrom(Option<Ring>),
    Note(Box<Incident>),
    Freeze(Box<Incident>),
}

/// The writer's end of it.
pub(super) struct Freezer(SyncSender<Order>);

impl Freezer {
    /// Gives it a thread, which first freezes what an agent before this one left open.
    ///
    /// # Errors
    /// If none can be made.
    pub(super) fn begin(shelf: Arc<Shelf>, ring: Option<Ring>) -> io::Result<Self> {
        let (to, inbox) = sync_channel(WAITING);
        let run = move || Cold { shelf, ring }.run(&inbox);
        thread::Builder::new().name("incidents".into()).spawn(run)?;
        Ok(Self(to))
    }

    /// Keeps what is known of an incident that is open, for readers and for the next agent.
    pub(super) fn note(&self, incident: Incident) {
        self.send(Order::Note(Box::new(incident)));
    }

    pub(super) fn freeze(&self, incident: Incident) {
        self.send(Order::Freeze(Box::new(incident)));
    }

    pub(super) fn read_from(&self, ring: Option<Ring>) {
        self.send(Order::ReadFrom(ring));
    }

    fn send(&self, order: Order) {
        if self.0.try_send(order).is_err() {
            tracing::warn!("an incident is not kept: the disk is too slow");
        }
    }
}

struct Cold {
    shelf: Arc<Shelf>,
    /// `None` while nothing is recorded.
    ring: Option<Ring>,
}

impl Cold {
    fn run(&mut self, inbox: &Receiver<Order>) {
        self.shelf.sweep();
        let left = self.shelf.list().unwrap_or_default();
        for incident in left.into_iter().filter(|one| one.state == State::Open) {
            self.freeze(incident);
        }
        for order in inbox {
            match order {
                Order::ReadFrom(ring) => self.ring = ring,
                Order::Note(incident) => self.note(&incident),
                Order::Freeze(incident) => self.freeze(*incident),
            }
        }
    }

    fn note(&self, incident: &Incident) {
        let summary = paragraph(incident);
        if let Err(why) = self.shelf.note(&Incident { summary, ..incident.clone() }) {
            tracing::warn!("cannot keep incident {}: {}", incident.name, chain(&why));
        }
    }

    fn freeze(&mut self, incident: Incident) {
        let Some(ring) = &self.ring else { return };
        let name = incident.name.clone();
        match freeze(ring, &self.shelf, incident.clone()) {
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
