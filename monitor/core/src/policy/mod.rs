//! The verbs of judgement: pure, in integers, without a clock. Nothing here can fail.
//! In: samples, snapshots and settings. Out: a `Decision`.
//! Rules and their sources: docs/policy.md.

pub mod assess;
pub mod decide;
pub mod engine;
pub(crate) mod entitled;
pub mod explain;
pub mod known;
pub mod rank;
pub mod scope;
pub mod takers;
pub mod workload;

#[cfg(test)]
mod tests;
