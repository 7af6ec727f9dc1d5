//! What isobar judges by: nouns, rules, and the recording format. Pure: no clock, no file, no
//! socket, no thread, and no crate that would bring one in.

pub mod model;
pub mod policy;
pub mod recording;
pub mod room;
pub mod view;
