//! Runs a recording through the engine again: with its own settings, which gives the same bytes, or
//! with others, which gives the difference.
//! In: a recording. Out: for each tick the recorded decision, and the one that this code makes.

use super::reader::{Entry, ReadError, Recorded, Recording};
use isobar_core::model::decision::Decision;
use isobar_core::model::sample::Moment;
use isobar_core::model::settings::Settings;
use isobar_core::policy::engine::Engine;

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
    /// The decision of this code.
    pub decision: Decision,
}

/// A decision in the bytes in which it is recorded and compared: JSON, fields in their order.
pub fn canonical(decision: &Decision) -> serde_json::Result<String> {
    serde_json::to_string(decision)
}

pub struct Replay {
    recording: Recording,
    other: Option<Settings>,
    engine: Option<Engine>,
}

impl Replay {
    /// With the recorded settings, or with `other` ones. The samples are the recorded ones: they do
    /// not show what actions under the other settings would have changed on the node.
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
                    // Decisions name the generation of the configuration, and do not depend on it.
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
                        return Some(Ok(Replayed::Notice(format!("another run begins: {who}"))));
                    }
                }
                Entry::Frame(recorded) => {
                    if let Some(judged) = self.judge(*recorded) {
                        return Some(Ok(judged));
                    }
                }
                Entry::Lost(why) => {
                    // The engine's standing is from before the loss; the next header has the right one.
                    self.engine = None;
                    return Some(Ok(Replayed::Notice(why)));
                }
                Entry::Notice(text) => return Some(Ok(Replayed::Notice(text))),
            }
        }
    }
}
