//! The thread that takes incidents out of the recording: it replays minutes, and no tick and no
//! write waits for that.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use crate::causes::chain;
use crate::clock;
use crate::clock::pace::Pace;
use crate::record::incident::freeze::{FreezeError, freeze, tell_so_far};
use crate::record::incident::shelf::{Draft, Shelf};
use crate::record::incident::watch::Turn;
use crate::record::incident::words::paragraph;
use crate::record::incident::{Incident, State, Trigger};
use crate::record::journal::Ring;
use isobar_core::model::units::Nanos;

/// Incidents last half a minute at least, and one is frozen within seconds.
const WAITING: usize = 8;
/// How often a directory that could not be written to is tried again, and so is a recording that could
/// not be read.
const AGAIN: Nanos = Nanos(60 * Nanos::SECOND.0);
/// How often incidents are looked through for old ones, and it is noted how long the node was up.
const PRUNE: Nanos = Nanos(3_600 * Nanos::SECOND.0);
/// A recording that cannot be read is tried so often: what a disk has lost stays lost.
const TRIES: u32 = 10;
/// What the recording says of a longer span is read again only once it is longer by a quarter: an hour
/// takes seconds to read.
const SHORT: Nanos = Nanos(720 * Nanos::SECOND.0);
/// From one reading for an open incident to the next: under pressure triggers follow each other.
const APART: Nanos = Nanos(30 * Nanos::SECOND.0);

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
    /// Gives it a thread in the boot `boot_id`, which first freezes what an agent before this one left
    /// open, but for the one of this name, which goes on.
    ///
    /// # Errors
    /// If none can be made.
    pub(super) fn begin(
        shelf: Arc<Shelf>,
        ring: Option<Ring>,
        boot_id: String,
        going_on: Option<String>,
    ) -> io::Result<Self> {
        let (orders, inbox) = sync_channel(WAITING);
        let cold = Cold { boot_id, open: going_on, ..Cold::new(shelf, ring) };
        let run = move || Cold { pace: Pace::behind_the_tick(), ..cold }.run(&inbox);
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
    boot_id: String,
    /// `None` while nothing is recorded.
    ring: Option<Ring>,
    /// The open incident, as the recording told of it at last.
    told: Option<Incident>,
    /// Which one the recording was read for at last, and when.
    read: Option<(String, Nanos)>,
    /// The open incident, if the recording is to be read for it.
    untold: Option<Incident>,
    /// The name of the open incident: it goes on, and is not frozen.
    open: Option<String>,
    /// Those that ended while nothing was recorded, or while it could not be read, at most [`WAITING`];
    /// and how often reading was tried.
    waiting: VecDeque<(Incident, u32)>,
    pace: Pace,
}

impl Cold {
    fn new(shelf: Arc<Shelf>, ring: Option<Ring>) -> Self {
        let (boot_id, told, read, untold, open, waiting) = Default::default();
        let pace = Pace::full();
        Self { shelf, boot_id, ring, told, read, untold, open, waiting, pace }
    }

    fn run(mut self, inbox: &Receiver<Order>) {
        // What its agent had no time to tell.
        self.untold = self.take_up();
        self.prune();
        let mut tried = clock::now().boot;
        let mut pruned = tried;
        loop {
            let now = clock::now().boot;
            if now.since(tried) >= AGAIN {
                tried = now;
                self.settle_again();
                self.freeze_waiting();
            }
            if now.since(pruned) >= PRUNE {
                pruned = now;
                self.prune();
            }
            let left = self.tell(clock::now().boot);
            let order = match inbox.recv_timeout(Duration::from_nanos(left.0)) {
                Ok(order) => order,
                Err(RecvTimeoutError::Timeout) => continue,
                // The agent leaves: what is in memory ends with it.
                Err(RecvTimeoutError::Disconnected) => return self.settle_again(),
            };
            match order {
                Order::ReadFrom(ring) => {
                    self.ring = ring;
                    self.freeze_waiting();
                }
                Order::Note(incident) => {
                    self.open = Some(incident.name.clone());
                    // At once, for an agent that is killed: reading the recording takes its time.
                    self.note(&self.with_told(*incident.clone()));
                    self.untold = Some(*incident);
                }
                Order::Freeze(incident) => {
                    (self.open, self.untold) = (None, None);
                    // It is over, also for an agent that comes after one that is killed meanwhile.
                    self.note(&incident);
                    self.freeze(*incident, 0);
                }
                Order::Settle(dir) => match self.shelf.settle(&dir) {
                    Ok(()) => drop(self.take_up()),
                    Err(why) => tracing::warn!("incidents stay in memory: {}", chain(&why)),
                },
            }
        }
    }

    /// Moves to the directory what could not be written to it before: a disk that was full has room, say.
    fn settle_again(&self) {
        match self.shelf.settle_again() {
            Ok(true) => self.prune(),
            Ok(false) => {}
            Err(why) => tracing::debug!("incidents stay in memory: {}", chain(&why)),
        }
    }

    /// Freezes what an agent before this one left open on the shelf. Returns the one that goes on.
    fn take_up(&mut self) -> Option<Incident> {
        self.shelf.remove_drafts();
        let mut all = self.shelf.list().unwrap_or_default();
        all.retain(|one| one.state == State::Open);
        let is_left = |one: &Incident| self.open.as_ref() != Some(&one.name);
        let (left, open): (Vec<_>, Vec<_>) = all.into_iter().partition(is_left);
        left.into_iter().for_each(|incident| self.freeze(incident, 0));
        open.into_iter().next()
    }

    /// Reads what the recording says of the open incident so far, if it is time: who it is about, not
    /// only what began it. Returns how long an order may be waited for.
    fn tell(&mut self, now: Nanos) -> Nanos {
        let Some(incident) = self.untold.take() else { return AGAIN };
        let left = match &self.read {
            Some((name, at)) if *name == incident.name => APART.since(now.since(*at)),
            _ => Nanos(0),
        };
        if left > Nanos(0) {
            self.untold = Some(incident);
            return left;
        }
        let told = self.told.as_ref().filter(|told| told.name == incident.name);
        if !told.is_some_and(|told| is_told(told, incident.triggers.last())) {
            self.read_for(&incident);
        }
        self.note(&self.with_told(incident));
        AGAIN
    }

    fn read_for(&mut self, incident: &Incident) {
        let Some(ring) = &self.ring else { return };
        self.pace.begin();
        let told = tell_so_far(ring, incident.clone(), || self.pace.between());
        self.told = told.ok();
        self.read = Some((incident.name.clone(), clock::now().boot));
    }

    /// An incident with what the recording told of it.
    fn with_told(&self, incident: Incident) -> Incident {
        match self.told.as_ref().filter(|told| told.name == incident.name) {
            None => incident,
            Some(told) => {
                let Incident { kinds, triggers, more_triggers, changes, .. } = incident;
                Incident { kinds, triggers, more_triggers, changes, ..told.clone() }
            }
        }
    }

    fn note(&self, incident: &Incident) {
        let incident = Incident { summary: paragraph(incident), ..incident.clone() };
        if let Err(why) = self.shelf.note(&incident) {
            let name = &incident.name;
            tracing::warn!("incident {name} is kept in memory: {}", chain(&why));
            self.shelf.note_in_memory(&incident);
        }
    }

    fn freeze_waiting(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_iter().for_each(|(incident, n_tried)| self.freeze(incident, n_tried));
    }

    /// Keeps an incident until it can be frozen.
    fn wait(&mut self, incident: Incident, n_tried: u32) {
        self.waiting.push_back((incident, n_tried));
        if self.waiting.len() > WAITING
            && let Some((oldest, _)) = self.waiting.pop_front()
        {
            self.give_up(oldest);
        }
    }

    /// Freezes an incident whose ticks could not be read `n_tried` times before.
    fn freeze(&mut self, incident: Incident, n_tried: u32) {
        self.waiting.retain(|(one, _)| one.name != incident.name);
        let Some(ring) = &self.ring else { return self.wait(incident, n_tried) };
        self.pace.begin();
        let name = incident.name.clone();
        match frozen(ring, &self.shelf, &incident, || self.pace.between()) {
            Ok(frozen) => {
                tracing::info!(
                    incident = name,
                    ticks = frozen.ticks,
                    "incident kept: {}",
                    frozen.summary
                );
            }
            Err(why) if why.may_pass() && n_tried + 1 < TRIES => {
                tracing::debug!("cannot read the ticks of incident {name} yet: {}", chain(&why));
                return self.wait(incident, n_tried + 1);
            }
            Err(why) => {
                tracing::warn!("cannot keep the ticks of incident {name}: {}", chain(&why));
                return self.give_up(incident);
            }
        }
        self.prune();
    }

    /// Keeps an incident without its ticks: the next agent need not look for them again.
    fn give_up(&self, incident: Incident) {
        self.note(&Incident { state: State::Frozen, ..incident });
        self.prune();
    }

    fn prune(&self) {
        if let Err(why) = self.shelf.prune(&self.boot_id, clock::now()) {
            tracing::warn!("cannot remove old incidents: {}", chain(&why));
        }
    }
}

/// In files, or in memory if those cannot be written.
fn frozen(
    ring: &Ring,
    shelf: &Shelf,
    incident: &Incident,
    mut rest: impl FnMut(),
) -> Result<Incident, FreezeError> {
    let draft = shelf.draft().map_err(FreezeError::from);
    match draft.and_then(|to| freeze(ring, shelf, incident.clone(), to, &mut rest)) {
        Err(why @ (FreezeError::Write(_) | FreezeError::Shelf(_))) => {
            tracing::warn!("incident {} is kept in memory: {}", incident.name, chain(&why));
            freeze(ring, shelf, incident.clone(), Draft::in_memory()?, rest)
        }
        tried => tried,
    }
}

#[cfg(test)]
mod tests;
