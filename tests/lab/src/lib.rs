//! isobar's laboratory: scenarios, played in virtual machines with an agent and without, judged from
//! outside and by the agent's own figures, and reported. One page on all of it: README.md.

pub mod agents;
mod alerts;
mod amount;
#[path = "../../capabilities.rs"]
mod capabilities;
pub mod cgroup;
pub mod clock;
mod facts;
mod figures;
mod form;
pub mod guest;
pub mod host;
mod judge;
mod latency;
pub mod load;
pub mod machine;

pub mod report;
pub mod shell;
pub mod signals;
pub mod table;

pub use facts::Play;
pub use form::{Scenario, scenarios};
