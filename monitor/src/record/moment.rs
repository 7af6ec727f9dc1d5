//! A moment of a recording as it was: the samples, and the decision as it was recorded. The engine
//! does not run, so reading begins at the mark before the moment, a few ticks away.

use std::path::Path;

use super::reader::{Entry, Marked, ReadError, Recorded, Recording};
use isobar_core::model::decision::Decision;
use isobar_core::model::kills::{Cgroups, named};
use isobar_core::model::node::NodeFacts;
use isobar_core::model::sample::{Moment, Sample};
use isobar_core::model::settings::Settings;
use isobar_core::model::snapshot::{Averages, Snapshot};
use isobar_core::model::stall::{OOM_KILLS_KEPT, OomRecord};
use isobar_core::model::units::Nanos;
use isobar_core::recording::format::Header;
use isobar_core::room;

/// A tick, and what a view of it tells of those before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tick {
    pub facts: NodeFacts,
    pub settings: Settings,
    /// In the chapter up to this tick, newest first.
    pub oom_kills: Vec<OomRecord>,
    pub snapshot: Snapshot,
    pub decision: Decision,
}

/// The last tick that is no later than `wall`. `None` if there is none, or if another version wrote
/// its decision in a way that this one cannot read.
///
/// # Errors
/// If the recording cannot be read.
pub fn at(path: &Path, wall: Nanos) -> Result<Option<Tick>, ReadError> {
    let (recording, marked) = Recording::open_near(path, wall)?;
    let mut run = Run { marked, ..Run::default() };
    let mut lost = Vec::new();
    for entry in recording {
        match entry? {
            Entry::Header(header) => {
                lost.clear();
                run.begin(*header);
            }
            Entry::Frame(recorded) if recorded.is_later(wall) => break,
            Entry::Frame(recorded) => run.tick(*recorded),
            Entry::Lost(why) => {
                lost.push(why);
                run.known = None;
            }
            Entry::Notice(text) => tracing::warn!("{text}"),
            Entry::Other(_) => {}
        }
    }
    // One alone is the end of a file that is being written.
    if lost.len() > 1 {
        lost.iter().for_each(|why| tracing::warn!("{why}"));
    }
    Ok(run.end(wall))
}

/// The ticks up to the moment.
#[derive(Default)]
struct Run {
    /// Until the first header, which is that of the mark's chapter.
    marked: Option<Marked>,
    facts: Option<NodeFacts>,
    settings: Settings,
    /// Of the last header, until a tick follows it: in a downtime none does.
    coming: Option<Settings>,
    begun: Option<Moment>,
    oom_kills: Vec<OomRecord>,
    /// `None` after ticks that are missing.
    known: Option<Known>,
    last: Option<(Snapshot, String)>,
}

/// What the next snapshot is made from.
struct Known {
    before: Option<Sample>,
    averages: Averages,
}

impl Run {
    fn begin(&mut self, header: Header) {
        if self.begun.is_none() {
            self.facts = Some(header.facts);
        }
        self.coming = Some(header.settings);
        if let Some(Marked { begun, oom_kills, before, averages }) = self.marked.take() {
            self.begun = Some(begun);
            self.oom_kills = oom_kills;
            self.known = Some(Known { before: Some(before), averages });
        } else if self.known.is_none() || !header.continues {
            let (before, averages) = (header.standing.before, header.standing.averages);
            self.known = Some(Known { before, averages });
        }
    }

    fn tick(&mut self, Recorded { sample, decision, .. }: Recorded) {
        let Some(known) = &mut self.known else { return };
        self.begun.get_or_insert(sample.at);
        if let Some(settings) = self.coming.take() {
            self.settings = settings;
        }
        let before = known.before.as_ref();
        let snapshot = Snapshot::between(before, &sample, &mut known.averages);
        for kill in named(&snapshot.oom_kills, before.map(Cgroups::from), (&sample).into()) {
            self.oom_kills.insert(0, kill);
        }
        self.oom_kills.truncate(OOM_KILLS_KEPT);
        known.before = Some(sample);
        self.last = Some((snapshot, decision));
    }

    fn end(self, wall: Nanos) -> Option<Tick> {
        let (snapshot, decision) = self.last.filter(|(last, _)| last.at.wall <= wall)?;
        let decision = room::from_slice(decision.as_bytes()).ok()?;
        let facts = self.facts.filter(|_| self.begun.is_some())?;
        let (settings, oom_kills) = (self.settings, self.oom_kills);
        Some(Tick { facts, settings, oom_kills, snapshot, decision })
    }
}

#[cfg(test)]
mod tests;
