//! A recording on its way from tick to tick, and the view of the tick at which it stands.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use super::runs::Known;
use crate::record::boot;
use crate::record::incident::shelf::Shelf;
use crate::record::journal::Ring;
use crate::record::reader::{ReadError, Recording};
use crate::record::replay::Replay;
use crate::serve::publish::{Published, Publisher, channel};
use isobar_core::model::capability::Capability;
use isobar_core::model::cost::Cost;
use isobar_core::model::decision::Ranking;
use isobar_core::model::node::NodeFacts;
use isobar_core::model::units::Nanos;
use isobar_core::policy::engine::{Engine, Step};
use isobar_core::policy::rank::Purpose;
use isobar_core::view::View;

pub struct Reel {
    ring: Ring,
    replay: Replay,
    /// The number of the tick that was read last; after another agent has started they begin anew.
    tick: Option<u64>,
    /// `None` before the first tick.
    publisher: Option<Publisher>,
    /// The tick that was read last, until a view is made of it.
    last: Option<Step>,
    /// Segments in memory last as long as these.
    _held: Vec<File>,
}

impl Reel {
    /// Begins at the chapter that holds the moment `wall`.
    ///
    /// # Errors
    /// If the recording cannot be read.
    pub fn open_at(file: &Path, wall: Nanos) -> Result<Self, ReadError> {
        Self::open_ring(&Ring::Files(file.into()), wall)
    }

    /// The same of segments that another thread writes.
    pub(super) fn open_ring(ring: &Ring, wall: Nanos) -> Result<Self, ReadError> {
        let (recording, held) = Recording::open_ring(ring, wall)?;
        let (ring, replay) = (ring.clone(), Replay::new(recording, None));
        Ok(Self { ring, replay, tick: None, publisher: None, last: None, _held: held })
    }

    /// Whether the last step stopped before a tick that is there.
    pub(super) fn has_more(&self) -> bool {
        self.replay.has_more()
    }

    /// Reads one tick, if there is one that is no later than `wall`.
    ///
    /// # Errors
    /// If the recording cannot be read on.
    pub fn step(&mut self, wall: Nanos) -> Result<Option<&Step>, ReadError> {
        let Some(step) = self.replay.step_before(wall)? else { return Ok(None) };
        let facts = self.replay.facts().cloned().unwrap_or_default();
        let (tick, before) = (step.snapshot.tick, self.tick.replace(step.snapshot.tick));
        let is_same = |own: &Publisher| own.goes_on(&facts, before, tick);
        if !self.publisher.as_ref().is_some_and(is_same) {
            let started = boot::begun(&self.ring, &facts.boot_id, step.snapshot.at);
            self.publisher = Some(Publisher::new(facts, started, channel().0));
            self.last = None;
        }
        let publisher = self.publisher.as_mut();
        if let Some((before, publisher)) = self.last.replace(step).zip(publisher) {
            publisher.add_kills(before.oom_kills);
        }
        Ok(self.last.as_ref())
    }

    /// Reads all ticks that are no later than `wall`.
    ///
    /// # Errors
    /// If the recording cannot be read on.
    pub fn run_to(&mut self, wall: Nanos) -> Result<(), ReadError> {
        while self.step(wall)?.is_some() {}
        Ok(())
    }

    /// The tick that was read last, unless it was taken already.
    pub fn take(&mut self) -> Option<Step> {
        self.last.take()
    }

    /// The node that the last tick is of. The replay may have read the header after it already.
    pub(super) fn facts(&self) -> NodeFacts {
        self.publisher.as_ref().map(|publisher| publisher.facts().clone()).unwrap_or_default()
    }

    /// The engine after the last tick; `None` where ticks are missing.
    pub(super) fn engine(&self) -> Option<&Engine> {
        self.replay.engine()
    }

    /// The tick that was read last, and its ranking by the recorded configuration: for `purpose`, else
    /// for the threshold that was relieved then, else for `memory.available`. `None` if there is no
    /// tick, or ticks before it are missing.
    pub fn rank(&mut self, purpose: Option<Purpose>) -> Option<(Step, Ranking)> {
        let step = self.take()?;
        let purpose = purpose.unwrap_or_else(|| Purpose::of_decision(&step.decision));
        let ranking = self.engine()?.rank(&step.snapshot, purpose)?;
        Some((step, ranking))
    }

    /// The view of the tick that was read last; `None` if there is none, or if it was taken already.
    pub fn view(&mut self) -> Option<View> {
        let (step, publisher) = self.last.take().zip(self.publisher.as_mut())?;
        let settings = self.replay.engine().map(Engine::settings);
        settings.iter().for_each(|settings| publisher.set_settings(settings));
        let mode = mode(self.replay.engine());
        Some(publisher.view(step, mode, Cost::default())())
    }

    /// What a server shows of that tick, with what is known around it.
    pub(super) fn published(
        &mut self,
        known: Option<Known>,
        incidents: Option<&Arc<Shelf>>,
    ) -> Option<Arc<Published>> {
        let (step, publisher) = self.last.take().zip(self.publisher.as_mut())?;
        let mut history = publisher.history();
        if let Some(Known { history: own, started, kills }) = known {
            history = own;
            started.into_iter().for_each(|started| publisher.set_started(started));
            publisher.add_kills(kills);
        }
        if let Some(engine) = self.replay.engine() {
            publisher.set_settings(engine.settings());
            engine.standing().before.iter().for_each(|sample| publisher.set_disks(sample));
        }
        if let Some(shelf) = incidents {
            publisher.show_incidents(shelf);
        }
        let mode = mode(self.replay.engine());
        Some(publisher.published(step, mode, Cost::default(), history))
    }
}

/// Of what the agent was capable, only what it enforced is recorded.
fn mode(engine: Option<&Engine>) -> Vec<Capability> {
    engine.map(|engine| Capability::relief(&engine.settings().relief)).into_iter().collect()
}
