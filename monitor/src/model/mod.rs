//! The nouns: what was read, what it means, in integers with units. No clock, no file, no socket.

pub mod average;
pub mod capability;
pub mod cgroup;
pub mod cost;
pub mod node;
pub mod pod;
pub mod psi;
pub mod sample;
pub mod snapshot;
pub mod stall;
pub mod units;
