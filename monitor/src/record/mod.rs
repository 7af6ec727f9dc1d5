//! Frames on disk: written tick by tick, read back after a crash, judged again.
//! The format is in docs/recording.md. In: frames. Out: the same frames, and what other settings
//! would have made of them.

mod apply;
mod change;
pub mod difference;
pub mod format;
pub mod journal;
mod lines;
mod parts;
pub mod reader;
pub mod replay;
mod segments;
