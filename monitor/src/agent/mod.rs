//! The agent: everything joined, and the only place that knows every part.
//!
//! `run` opens the parts, waits for what is due and leaves in good order. `tick` is one tick from
//! the sample to what readers see. `plan` is the configuration, `sampler` makes the sample,
//! `actuator` takes the steps on a thread of its own, `authority` says which may be taken, `pace`
//! when the next tick comes, `recorder` writes recording and
//! incidents on threads of their own, `log` writes down what happened, `cluster` tells it to the API server.

mod actuator;
mod agreement;
mod authority;
mod cluster;
mod disk_walks;
pub mod limits;
mod live;
mod log;
mod meter;
mod observer;
mod pace;
mod plan;
mod recorder;
mod run;
mod sampler;
mod survive;
mod tick;
mod warm;

pub use self::authority::{LockError, Mode};
pub use self::live::{Live, OpenError, SourceOptions};
pub use self::observer::Observer;
pub use self::pace::Alarms;
pub use self::plan::{Orders, Plan};
pub use self::recorder::Record;
pub use self::run::{AgentError, Options, listen, run};
pub use self::sampler::{Reading, Source};
pub use self::survive::Survival;

/// The state directory: the lock, the actuator's ledger, the averages. It is gone when the node
/// restarts, and so is what it is about.
pub const STATE_DIR: &str = "/run/isobar";
/// The directory of the recording and of its incidents: it outlives the node's restart.
pub const RECORDING_DIR: &str = "/var/lib/isobar/recording";
/// Where the agent listens, and where `top` and `status` look for it.
pub const LISTEN: &str = "127.0.0.1:9797";
