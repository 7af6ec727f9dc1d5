//! Reads the machine: fake trees kept in git, and trees made on the spot.

mod asleep;
mod fake;
mod recorded;
