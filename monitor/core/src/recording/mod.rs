//! The recording format: from ticks to lines and back. Files and compression are in
//! `isobar::record`; the format is described in docs/recording.md.

pub mod apply;
pub mod change;
pub mod difference;
pub mod format;
pub mod mark;
pub mod pairs;
pub mod parts;
mod row;
mod values;
