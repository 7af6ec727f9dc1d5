//! The recording format: how a tick becomes a line, and a line a tick again.
//! In: samples and decisions. Out: text, and the same samples and decisions. No file, no
//! compression: `isobar::record` does that. The format is in docs/recording.md.

pub mod apply;
pub mod change;
pub mod difference;
pub mod format;
pub mod parts;
