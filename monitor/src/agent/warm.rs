//! What spares the next agent its warm-up, in the state directory: `averages.json`.
//! Written every ten seconds and at the end. Whatever is wrong with it costs a warm-up, no more.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::act::state;
use isobar_core::model::snapshot::Snapshot;
use isobar_core::model::units::Nanos;
use isobar_core::policy::engine::{Standing, WarmStart};

const FILE: &str = "averages.json";
/// A killed agent loses so much, and averages bridge a pause of ten seconds.
const EVERY: Nanos = Nanos(5 * Nanos::SECOND.0);

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    boot_id: String,
    #[serde(flatten)]
    warm: WarmStart,
}

/// Keeps the file.
#[derive(Debug)]
pub(super) struct Warm {
    path: PathBuf,
    boot_id: String,
    saved: Option<Nanos>,
    /// The last that was not saved yet.
    next: Option<WarmStart>,
    has_warned: bool,
}

impl Warm {
    /// Also reads what an agent before this one left in the same boot, if it can be read.
    pub(super) fn open(state_dir: &Path, boot_id: &str) -> (Self, WarmStart) {
        let path = state_dir.join(FILE);
        let read = match fs::read(&path) {
            Ok(text) => serde_json::from_slice::<Document>(&text).map_err(io::Error::from),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(Document::default()),
            Err(why) => Err(why),
        };
        let read = read.unwrap_or_else(|why| {
            tracing::warn!("cannot read {}; averages start anew: {why}", path.display());
            Document::default()
        });
        let warm = if read.boot_id == boot_id { read.warm } else { WarmStart::default() };
        let boot_id = boot_id.to_owned();
        (Self { path, boot_id, saved: None, next: None, has_warned: false }, warm)
    }

    /// Keeps what a tick left, once in a while.
    pub(super) fn tick(&mut self, now: Nanos, standing: &Standing, snapshot: &Snapshot) {
        self.next = Some(standing.warm_start(snapshot));
        if self.saved.is_none_or(|saved| now.since(saved) >= EVERY) {
            self.saved = Some(now);
            self.save();
        }
    }

    /// Keeps what the last tick left.
    pub(super) fn save(&mut self) {
        let Some(warm) = self.next.take() else { return };
        let document = Document { boot_id: self.boot_id.clone(), warm };
        let text = serde_json::to_vec(&document).expect("numbers and texts");
        if let Err(why) = state::replace(&self.path, &text)
            && !self.has_warned
        {
            self.has_warned = true;
            let path = self.path.display();
            tracing::warn!("cannot write {path}; a restarted agent has to warm up: {why}");
        }
    }
}
