//! The nouns: what was read, what it means, in integers with units. No clock, no file, no socket.

pub mod average;
pub mod capability;
pub mod cgroup;
pub mod condition;
pub mod cost;
pub mod cpuset;
pub mod decision;
pub mod duration;
pub mod fraction;
pub mod limit;
pub mod machine;
pub mod node;
pub mod pattern;
pub mod pod;
pub mod psi;
pub mod quantity;
pub mod sample;
pub mod settings;
pub mod snapshot;
pub mod stall;
pub mod threshold;
pub mod topology;
pub mod units;
pub mod unseen;
pub mod workload;
