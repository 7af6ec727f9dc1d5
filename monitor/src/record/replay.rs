//! Judges a recording again: by its own settings, which gives the same bytes, or by others, which
//! gives the difference.
//! In: a recording. Out: for each tick what was decided, and what this code decides.

use super::reader::{Entry, ReadError, Recorded, Recording};
use isobar_core::model::decision::Decision;
use isobar_core::model::sample::Moment;
use isobar_core::model::settings::Settings;
use isobar_core::policy::engine::Engine;

/// What comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replayed {
    /// One tick.
    Tick(Box<Judged>),
    /// Something to know, in words: what is missing here, or who recorded from here on.
    Notice(String),
}

/// One tick, judged again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judged {
    /// Which.
    pub tick: u64,
    /// When.
    pub at: Moment,
    /// What was decided, as it was written.
    pub recorded: String,
    /// What this code decides, written the same way.
    pub text: String,
    /// The same, to be looked into.
    pub decision: Decision,
}

/// A decision in the bytes in which it is recorded and compared: JSON, fields in their order.
///
/// # Errors
/// None that a decision is known to cause.
pub fn canonical(decision: &Decision) -> serde_json::Result<String> {
    serde_json::to_string(decision)
}

/// Judges tick after tick.
#[derive(Debug)]
pub struct Replay {
    recording: Recording,
    other: Option<Settings>,
    engine: Option<Engine>,
}

impl Replay {
    /// By the recorded settings, or by `other` ones.
    ///
    /// Samples are as they were: what the other settings would have done to the node is not in
    /// them, only what they would have decided at that moment.
    #[must_use]
    pub fn new(recording: Recording, other: Option<Settings>) -> Self {
        Self { recording, other, engine: None }
    }

    fn judge(&mut self, recorded: Recorded) -> Option<Replayed> {
        let Recorded { sample, decision: recorded } = recorded;
        let (tick, at) = (sample.tick, sample.at);
        let decision = self.engine.as_mut()?.step(sample).decision;
        Some(match canonical(&decision) {
            Ok(text) => Replayed::Tick(Box::new(Judged { tick, at, recorded, text, decision })),
            Err(error) => Replayed::Notice(format!("tick {tick}: {error}")),
        })
    }
}

impl Iterator for Replay {
    type Item = Result<Replayed, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let entry = match self.recording.next()? {
                Ok(entry) => entry,
                Err(error) => return Some(Err(error)),
            };
            match entry {
                Entry::Header(header) => {
                    let mut settings =
                        self.other.clone().unwrap_or_else(|| header.settings.clone());
                    // The number of the configuration says nothing about what it decides.
                    settings.generation = header.settings.generation;
                    let going_on = self.engine.as_mut().filter(|_| header.continues);
                    if let Some(engine) = going_on {
                        *engine = engine.with_settings(settings);
                        continue;
                    }
                    let is_first = self.engine.is_none();
                    self.engine = Some(Engine::new(settings, header.standing));
                    if !is_first && !header.continues {
                        let who = format!("isobar {} on {}", header.isobar, header.facts.name);
                        return Some(Ok(Replayed::Notice(format!("another run: {who}"))));
                    }
                }
                Entry::Frame(recorded) => {
                    if let Some(judged) = self.judge(*recorded) {
                        return Some(Ok(judged));
                    }
                }
                Entry::Lost(why) => {
                    // What the judge remembers is from before the loss; the next header knows.
                    self.engine = None;
                    return Some(Ok(Replayed::Notice(why)));
                }
                Entry::Notice(text) => return Some(Ok(Replayed::Notice(text))),
            }
        }
    }
}
