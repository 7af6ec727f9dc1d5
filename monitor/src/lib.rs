//! isobar: who waits on this node, for what, and because of whom.

pub mod agent;
pub mod clock;
pub mod config;
pub mod model;
pub mod policy;
pub mod record;
pub mod serve;
pub mod source;
