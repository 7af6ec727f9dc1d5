//! Records each tick and freezes incidents, on threads of their own: a tick hands over a copy and
//! never waits for a disk.
//! In: what each tick read and decided. Out: the recording, incidents, and a capability that says how
//! it goes. Where files cannot be written the last ten minutes stay in memory.

mod freezer;
mod writer;

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TrySendError, channel, sync_channel,
};
use std::thread;
use std::time::Duration;

use self::freezer::Freezer;
use self::writer::Writer;
use crate::record::incident::Counts;
use crate::record::incident::shelf::Shelf;
use crate::record::incident::watch::{Seen, Turn, Watch};
use crate::record::journal::{Bounds, JournalError, Ring, Start};
use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::decision::Decision;
use isobar_core::model::limit::LimitState;
use isobar_core::model::sample::{Moment, Sample};
use isobar_core::model::settings::Settings;
use isobar_core::model::units::Nanos;
use isobar_core::policy::engine::Standing;
use isobar_core::view::OomRecord;

/// Ticks that may wait for a slow disk. A sample of 500 cgroups takes half a megabyte.
const WAITING: usize = 16;

/// What is recorded, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Record {
    #[default]
    Off,
    /// Into this directory; in memory if it cannot be written.
    WherePossible(PathBuf, Bounds),
    /// To this file, or into this directory, which the operator has named.
    To(PathBuf, Bounds),
}

impl Record {
    fn bounds(&self) -> Bounds {
        match self {
            Self::Off => Bounds::default(),
            Self::WherePossible(_, bounds) | Self::To(_, bounds) => *bounds,
        }
    }
}

/// What the writer is given.
enum Order {
    Tick(Box<Entry>),
    Turn(Turn),
    /// A chapter begins, because settings changed or ticks were lost.
    Chapter {
        settings: Box<Settings>,
        standing: Box<Standing>,
        at: Moment,
        continues: bool,
    },
}

/// One tick.
struct Entry {
    sample: Sample,
    decision: Decision,
    /// The engine's after it, if the writer has asked for one.
    standing: Option<Standing>,
}

/// What the writer says.
enum Report {
    /// The next tick should come with the engine's standing.
    WantsStanding,
    Is(Capability),
    /// Where it writes now; `None` while nothing is recorded.
    To(Option<Ring>),
    /// Since when every tick is in it, by the time since the boot; `None` if it has lost none.
    WholeSince(Option<Nanos>),
}

/// The tick's end of it.
#[derive(Debug)]
pub(super) struct Recorder {
    orders: SyncSender<Order>,
    reports: Receiver<Report>,
    shelf: Arc<Shelf>,
    /// `None` while nothing is recorded.
    ring: Option<Ring>,
    settings: Settings,
    capability: Capability,
    wants_standing: bool,
    /// Ticks that were not handed over since the last that was.
    n_waiting: u64,
    counts: Counts,
    watch: Watch,
    /// Of the recording in files.
    bounds: Bounds,
    /// Since when every tick is in the recording; `None` if it has lost none.
    whole_since: Option<Nanos>,
    /// Turns of incidents that were not handed over: none is lost with its tick.
    turns: VecDeque<Turn>,
}

impl Recorder {
    /// Begins to record; `None` if nothing is to be recorded.
    ///
    /// # Errors
    /// If a recording that the operator named cannot be made, or there is no thread for it.
    pub(super) fn begin(record: Record, start: Start) -> Result<Option<Self>, JournalError> {
        let (settings, facts, at) = (start.settings.clone(), start.facts.clone(), start.at);
        let (to, reports) = channel();
        let bounds = record.bounds();
        let Some((mut writer, kept)) = Writer::open(record, start, to)? else { return Ok(None) };
        let (shelf, capability) = (Arc::clone(writer.shelf()), writer.capability());
        let ring = writer.ring().cloned();
        let (orders, inbox) = sync_channel::<Order>(WAITING);
        let io = |source| JournalError::Io { path: "a thread".into(), source };
        let names: Vec<_> = kept.iter().map(|one| one.name.clone()).collect();
        let open = kept.into_iter().rev().find(|one| one.goes_on(&facts.boot_id, at));
        let name = open.as_ref().map(|open| open.name.clone());
        let boot_id = facts.boot_id.clone();
        let freezer =
            Freezer::begin(Arc::clone(&shelf), ring.clone(), boot_id, name).map_err(io)?;
        let watch = Watch::after(&facts, open, names.into_iter(), at);
        writer.freeze_with(freezer);
        let run = move || inbox.into_iter().for_each(|order| writer.take(order));
        thread::Builder::new().name("record".into()).spawn(run).map_err(io)?;
        let (wants_standing, n_waiting, counts, whole_since, turns) = Default::default();
        Ok(Some(Self {
            orders,
            reports,
            shelf,
            ring,
            settings,
            capability,
            wants_standing,
            n_waiting,
            counts,
            watch,
            bounds,
            whole_since,
            turns,
        }))
    }

    pub(super) fn shelf(&self) -> &Arc<Shelf> {
        &self.shelf
    }

    /// Where it is recorded; `None` in memory.
    pub(super) fn file(&self) -> Option<&Path> {
        match &self.ring {
            Some(Ring::Files(path)) => Some(path),
            _ => None,
        }
    }

    /// Where it is recorded now.
    pub(super) fn ring(&self) -> Option<&Ring> {
        self.ring.as_ref()
    }

    /// The state of the recording, for `status`, `doctor` and the page.
    pub(super) fn capability(&self) -> &Capability {
        &self.capability
    }

    /// What was recorded since the agent started.
    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// What the agent can measure and do at the tick that is handed over next.
    pub(super) fn can(&mut self, at: Moment, capabilities: &[Capability]) {
        self.watch.can(at, capabilities);
    }

    /// Hands a tick over; `standing` is the engine's after it. Never waits.
    pub(super) fn tick(
        &mut self,
        standing: &Standing,
        decision: &Decision,
        kills: &[OomRecord],
        limits: &[LimitState],
    ) {
        self.listen();
        let Some(sample) = &standing.before else { return };
        let bounds = match self.ring {
            Some(Ring::Memory { .. }) => Bounds::IN_MEMORY,
            _ => self.bounds,
        };
        let whole = self.whole_since.map_or(bounds.age, |since| sample.at.boot.since(since));
        self.watch.record_keeps(whole.min(bounds.age));
        let turn = self.watch.tick(Seen { sample, decision, kills, limits });
        if let Some(Turn::Open(incident)) = &turn
            && let Some(first) = incident.triggers.first()
            && incident.begin == sample.at
        {
            *self.counts.incidents.entry(first.kind).or_default() += 1;
        }
        if let Some(Turn::Open(_)) = turn {
            // The newest tells everything, also where a slow disk takes none for long.
            self.turns.retain(|waiting| !matches!(waiting, Turn::Open(_)));
        }
        self.turns.extend(turn);
        self.hand_over(standing, sample, decision);
        while let Some(turn) = self.turns.pop_front() {
            if let Err(TrySendError::Full(Order::Turn(turn))) =
                self.orders.try_send(Order::Turn(turn))
            {
                return self.turns.push_front(turn);
            }
        }
    }

    fn hand_over(&mut self, standing: &Standing, sample: &Sample, decision: &Decision) {
        if self.n_waiting > 0 {
            // What comes after lost ticks cannot be replayed without the standing between.
            let settings = self.settings.clone();
            return self.chapter(settings, standing, sample.at, false);
        }
        let entry = Entry {
            sample: sample.clone(),
            decision: decision.clone(),
            standing: self.wants_standing.then(|| standing.clone()),
        };
        let sent = self.orders.try_send(Order::Tick(Box::new(entry)));
        self.sent(sent);
    }

    /// Begins a chapter for new settings.
    pub(super) fn reload(&mut self, settings: Settings, standing: &Standing, at: Moment) {
        self.settings = settings.clone();
        let continues = self.n_waiting == 0;
        self.chapter(settings, standing, at, continues);
    }

    /// Has the last ticks written, and waits so long for it.
    pub(super) fn leave(self, patience: Duration) {
        let Self { orders, reports, .. } = self;
        drop(orders);
        let last = loop {
            if let Err(why) = reports.recv_timeout(patience) {
                break why;
            }
        };
        if last == RecvTimeoutError::Timeout {
            tracing::warn!("the disk is slow: the last ticks may not be in the recording");
        }
    }

    fn chapter(&mut self, settings: Settings, standing: &Standing, at: Moment, continues: bool) {
        let (settings, standing) = (Box::new(settings), Box::new(standing.clone()));
        let n_before = self.n_waiting;
        let sent = self.orders.try_send(Order::Chapter { settings, standing, at, continues });
        self.sent(sent);
        if n_before > 0 && self.n_waiting == 0 {
            self.counts.lost += n_before + 1;
            tracing::warn!(
                lost = self.counts.lost,
                "{} ticks are not in the recording: the disk is slow",
                n_before + 1
            );
        }
    }

    /// Notes whether an order was handed over; each has the standing that the writer asked for.
    fn sent(&mut self, sent: Result<(), TrySendError<Order>>) {
        self.wants_standing &= sent.is_err();
        self.n_waiting = match sent {
            Ok(()) => 0,
            Err(_) => self.n_waiting + 1,
        };
        let why = match sent {
            Ok(()) => return,
            Err(TrySendError::Full(_)) => {
                "the disk is slow: ticks are not recorded until it has \
                                           caught up"
            }
            Err(TrySendError::Disconnected(_)) => "its thread has ended",
        };
        if self.n_waiting == 1 {
            tracing::warn!("recording pauses: {why}");
        }
        self.capability = failing(why.to_owned());
    }

    fn listen(&mut self) {
        for report in self.reports.try_iter() {
            match report {
                Report::WantsStanding => self.wants_standing = true,
                Report::Is(capability) => self.capability = capability,
                Report::To(ring) => self.ring = ring,
                Report::WholeSince(since) => self.whole_since = since,
            }
        }
    }
}

fn failing(why: String) -> Capability {
    Capability::new("recording", CapabilityState::Absent, why)
        .remedied("give the recording a disk that is fast enough and has room")
}

/// What may keep a directory from being used, told apart from other failures.
fn taken(why: io::Error) -> io::Error {
    match why.kind() {
        io::ErrorKind::WouldBlock => io::Error::other("another agent records there"),
        _ => why,
    }
}

#[cfg(test)]
mod tests;
