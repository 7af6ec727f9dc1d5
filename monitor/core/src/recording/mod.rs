//! The recording format: from ticks to lines and back. Files and compression are in
//! `isobar::record`; the format is described in docs/recording.md.

pub mod apply;
pub mod change;
mod columns;
pub mod difference;
mod fields;
pub mod format;
pub mod header;
pub mod mark;
pub mod pairs;
pub mod parts;
mod row;
mod values;
