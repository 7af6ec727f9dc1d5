//! isobar: who waits on this node, for what, and because of whom.

pub mod clock;
pub mod model;
pub mod source;
