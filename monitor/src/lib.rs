//! isobar: who waits on this node, for what, and because of whom.

pub mod act;
pub mod agent;
mod causes;
pub mod clock;
pub mod config;
pub mod heap;
pub mod kube;
mod lock;
#[cfg(all(target_arch = "x86_64", any(test, all(target_env = "musl", not(debug_assertions)))))]
mod musl;
pub mod record;
pub mod scenario;
pub mod serve;
pub mod source;
pub mod state;
