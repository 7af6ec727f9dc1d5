//! Runs a recording through the engine again: with its own settings, which gives the same bytes, or
//! with others, which gives the difference.
//! In: a recording. Out: for each tick the recorded decision, and the one that this code makes.

mod limit;
mod own;

use self::limit::PodsLimit;
use self::own::Own;
use super::ahead::Ahead;
use super::reader::{Entry, ReadError, Recorded, Recording};
use isobar_core::model::decision::Decision;
use isobar_core::model::node::NodeFacts;
use isobar_core::model::sample::Moment;
use isobar_core::model::settings::Settings;
use isobar_core::model::units::Nanos;
use isobar_core::policy::engine::{Engine, Step};
use isobar_core::recording::format::Header;
use isobar_core::room;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replayed {
    Tick(Box<Judged>),
    /// A message for the operator: lost ticks, or the beginning of another run.
    Notice(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judged {
    pub tick: u64,
    pub at: Moment,
    /// The recorded decision, as it was written.
    pub recorded: String,
    /// The decision of this code, written the same way.
    pub text: String,
    /// What this code makes of it.
    pub step: Step,
}

/// A decision in the bytes in which it is recorded and compared: JSON, fields in their order.
pub fn canonical(decision: &Decision) -> serde_json::Result<String> {
    serde_json::to_string(decision)
}

/// What other settings are where these were recorded.
pub type Other = dyn Fn(&Settings) -> Settings + Send;

/// The same ones whatever was recorded.
pub fn always(settings: Settings) -> Box<Other> {
    Box::new(move |_| settings.clone())
}

pub struct Replay {
    entries: Ahead,
    /// Read by [`Replay::step_before`] and later than it was asked for.
    later: Option<Entry>,
    other: Option<Box<Other>>,
    /// Settings that take over at the first tick at or after a moment of the wall clock.
    coming: Option<(Nanos, Box<Other>)>,
    /// `None` before the first header, and after a loss until the next.
    engine: Option<Engine>,
    /// The engine that made the last tick, if it has no more to make.
    former: Option<Engine>,
    facts: Option<NodeFacts>,
    /// What the other settings give all pods.
    limit: Option<PodsLimit>,
    /// The steps that the other settings have taken.
    own: Option<Own>,
    /// To be told after the tick.
    notice: Option<String>,
}

/// What the next entry of a recording came to.
enum Stepped {
    Tick { recorded: String, step: Box<Step> },
    Notice(String),
    Nothing,
}

impl Replay {
    /// With the recorded settings, or with `other` ones. The samples are the recorded ones, but for
    /// the limit of all pods where the settings differ in it: they do not show what actions under the
    /// other settings would have changed on the node.
    pub fn new(recording: Recording, other: Option<Settings>) -> Self {
        let entries = Ahead::of(recording);
        let other = other.map(always);
        let (later, coming, engine, former, facts, limit, own, notice) = Default::default();
        Self { entries, later, other, coming, engine, former, facts, limit, own, notice }
    }

    /// With the recorded settings before `begin` on the wall clock, and from there on with what `other`
    /// makes of them, as if that had been reloaded then.
    pub fn changed_at(recording: Recording, begin: Nanos, other: Box<Other>) -> Self {
        Self { coming: Some((begin, other)), ..Self::new(recording, None) }
    }

    /// The engine after the last tick, whatever was read since: of a recording that is being written,
    /// the last line is torn. `None` before the first header.
    pub fn engine(&self) -> Option<&Engine> {
        self.former.as_ref().or(self.engine.as_ref())
    }

    /// The node that the last tick is of.
    pub fn facts(&self) -> Option<&NodeFacts> {
        self.facts.as_ref()
    }

    /// The next tick, if it is no later than `wall`; `None` before the first that is later, which
    /// stays the next one, and at the end. Ticks from before the wall clock was set back to the moment
    /// at which the recording was opened are passed over. The decision is the recorded one.
    ///
    /// # Errors
    /// If the recording cannot be read on.
    pub fn step_before(&mut self, wall: Nanos) -> Result<Option<Step>, ReadError> {
        while let Some(entry) = self.read().transpose()? {
            if matches!(&entry, Entry::Frame(recorded) if recorded.is_later(wall)) {
                self.later = Some(entry);
                return Ok(None);
            }
            if let Entry::Notice(text) = &entry {
                tracing::warn!("{text}");
            }
            if let Stepped::Tick { recorded, step } = self.take(entry)
                && step.snapshot.at.wall <= wall
            {
                return Ok(Some(as_recorded(&recorded, *step)));
            }
        }
        Ok(None)
    }

    /// True if [`Replay::step_before`] stopped before a tick that is later.
    pub fn has_more(&self) -> bool {
        self.later.is_some()
    }

    fn read(&mut self) -> Option<Result<Entry, ReadError>> {
        self.later.take().map(Ok).or_else(|| self.entries.next())
    }

    fn take(&mut self, entry: Entry) -> Stepped {
        match entry {
            Entry::Header(header) => self.begin(*header),
            Entry::Frame(recorded) => {
                let Recorded { mut sample, decision: recorded, .. } = *recorded;
                self.change(sample.at.wall);
                let Some(engine) = &mut self.engine else { return Stepped::Nothing };
                self.former = None;
                let told = self.limit.as_mut().and_then(|limit| limit.put_in(&mut sample));
                self.notice = told.or(self.notice.take());
                if let Some(own) = &mut self.own {
                    own.put_in(&mut sample);
                }
                let step = Box::new(engine.step(sample));
                if let Some(own) = &mut self.own {
                    let decision = &step.decision;
                    own.note(&recorded, &decision.relief, decision.at.boot);
                }
                Stepped::Tick { recorded, step }
            }
            Entry::Lost(why) => {
                // The engine's standing is from before the loss; the next header has the right one.
                self.follow(None);
                Stepped::Notice(why)
            }
            Entry::Notice(text) => Stepped::Notice(text),
            Entry::Other(_) => Stepped::Nothing,
        }
    }

    /// Has the settings that are coming judge from the tick at `wall` on, if their moment has come.
    fn change(&mut self, wall: Nanos) {
        let (Some(engine), Some(facts)) = (&self.engine, &self.facts) else { return };
        let Some((_, other)) = self.coming.take_if(|(begin, _)| wall >= *begin) else { return };
        let recorded = engine.settings().clone();
        let settings = Settings { generation: recorded.generation, ..other(&recorded) };
        let next = engine.with_settings(settings.clone());
        self.own = Some(Own::of(&next));
        self.limit = Some(PodsLimit::new(None, recorded, settings, facts.n_cpus));
        self.other = Some(other);
        self.follow(Some(next));
    }

    /// Has `next` make the ticks to come.
    fn follow(&mut self, next: Option<Engine>) {
        let before = std::mem::replace(&mut self.engine, next);
        self.former = self.former.take().or(before);
    }

    fn begin(&mut self, header: Header) -> Stepped {
        let n_cpus = header.facts.n_cpus;
        let (before, recorded) = (self.limit.take(), &header.settings);
        let other = self.other.as_ref().map(|other| other(recorded));
        let limit = |other: &Settings| {
            PodsLimit::new(before.as_ref(), recorded.clone(), other.clone(), n_cpus)
        };
        self.limit = other.as_ref().map(limit);
        let mut settings = other.unwrap_or_else(|| header.settings.clone());
        // Decisions name the generation of the configuration, and do not depend on it.
        settings.generation = header.settings.generation;
        if let Some(engine) = self.engine.as_ref().filter(|_| header.continues) {
            let next = engine.with_settings(settings);
            self.follow(Some(next));
            return Stepped::Nothing;
        }
        let is_first = self.engine.is_none();
        let is_same_run = self.facts.as_ref() == Some(&header.facts);
        let paused = self.engine.as_ref().and_then(|engine| {
            let last = engine.standing().before.as_ref()?.tick;
            let next = header.standing.before.as_ref()?.tick;
            (is_same_run && next > last).then(|| next - last)
        });
        // What the recorded settings only observed is not in force under the other ones.
        let mut engine = Engine::new(header.settings, header.standing);
        if self.other.is_some() {
            engine = engine.with_settings(settings);
            self.own = Some(Own::of(&engine));
        }
        self.follow(Some(engine));
        let who = format!("isobar {} on {}", header.isobar, header.facts.name);
        self.facts = Some(header.facts);
        match paused {
            Some(n) => Stepped::Notice(format!("{n} ticks are not in the recording")),
            None if !is_first && !header.continues => {
                Stepped::Notice(format!("another run begins: {who}"))
            }
            None => Stepped::Nothing,
        }
    }
}

impl Iterator for Replay {
    type Item = Result<Replayed, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(text) = self.notice.take() {
                return Some(Ok(Replayed::Notice(text)));
            }
            let entry = match self.read()? {
                Ok(entry) => entry,
                Err(error) => return Some(Err(error)),
            };
            match self.take(entry) {
                Stepped::Tick { recorded, step } => {
                    return Some(Ok(judge(recorded, *step)));
                }
                Stepped::Notice(text) => return Some(Ok(Replayed::Notice(text))),
                Stepped::Nothing => {}
            }
        }
    }
}

/// The step with the decision that was recorded: another version may have decided otherwise, and what
/// the sample tells of actions is told of those that it numbered. What it wrote in a way that this one
/// cannot read is decided anew.
pub fn as_recorded(recorded: &str, mut step: Step) -> Step {
    let is_same = canonical(&step.decision).is_ok_and(|text| text == recorded);
    if !is_same && let Ok(decision) = room::from_slice(recorded.as_bytes()) {
        step.decision = decision;
    }
    step
}

fn judge(recorded: String, step: Step) -> Replayed {
    let (tick, at) = (step.decision.tick, step.decision.at);
    match canonical(&step.decision) {
        Ok(text) => Replayed::Tick(Box::new(Judged { tick, at, recorded, text, step })),
        Err(error) => Replayed::Notice(format!("tick {tick}: {error}")),
    }
}

#[cfg(test)]
mod tests;
