//! Recordings on disk: written tick by tick, readable after a crash, replayed through the engine.
//! The format is in docs/recording.md.

pub mod advice;
mod ahead;
pub mod boot;
pub mod incident;
mod index;
pub mod journal;
pub(crate) mod known;
mod lines;
pub mod moment;
pub mod reader;
pub mod replay;
mod segments;
mod thin;
pub mod what_if;
