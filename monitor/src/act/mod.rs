//! What isobar does to the node, and the only part that changes anything on it.
//! In: actions and releases as they were decided, and limits as they should be. Out: the outcome of
//! each, and what is in force. It never judges: it refuses what the deny list names, takes a step
//! as far as it is enforced, and reports what it saw.
//!
//! From the floor up: `error`; `cgroup` (a directory
//! that is held open); `process` and `deny`; `target`, `throttle` and `mark` with their `ledger`,
//! `reclaim` and `evict`; `actuator`. `limits` stands beside them: it keeps limits of the node written.

mod actuator;
mod available;
mod cgroup;
mod deny;
mod error;
pub mod evict;
mod ledger;
pub mod limits;
mod mark;
mod process;
mod reclaim;
mod target;
mod throttle;

pub use actuator::{Actuator, OpenError, Options, changed, n_squeezes};
pub use available::AvailableSteps;
pub use ledger::LedgerError;
