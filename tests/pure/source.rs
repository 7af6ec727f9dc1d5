//! Reads the machine: fake trees kept in git, and trees made on the spot.

mod fake;
mod recorded;
