//! What is kept of the way to the first tick of a recording.

use std::collections::VecDeque;

use super::Entry;

/// As many reasons of damage are told before the first tick.
const REASONS: usize = 64;

/// Entries that were read in search of a header or of a tick, as far as they are needed: a file may
/// have any number of lines before it.
#[derive(Default)]
pub(super) struct Passed(pub(super) VecDeque<Entry>);

impl Passed {
    pub(super) fn push(&mut self, entry: Entry) {
        match entry {
            // The next one repeats everything.
            Entry::Header(_) => self.0.retain(|entry| !matches!(entry, Entry::Header(_))),
            Entry::Lost(_) | Entry::Notice(_) if self.0.len() > REASONS => return,
            Entry::Lost(_) | Entry::Notice(_) | Entry::Frame(_) => {}
            Entry::Other(_) => return,
        }
        self.0.push_back(entry);
    }
}
