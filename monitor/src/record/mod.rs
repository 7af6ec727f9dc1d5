//! Frames on disk: written tick by tick, read back after a crash, judged again.
//! The format is in docs/recording.md. In: frames. Out: the same frames, and what other settings
//! would have made of them.

pub mod journal;
mod lines;
pub mod reader;
pub mod replay;
mod segments;
