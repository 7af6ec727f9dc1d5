//! The kubelet's arithmetic: what it would reserve, allow and write.

pub mod admitted;
pub mod advice;
pub mod allocatable;
pub mod capacity;
pub mod checkpoint;
pub mod cpus;
pub mod daemons;
pub mod drift;
pub mod enforce;
pub mod expected;
pub mod fit;
pub mod layout;
pub mod oom;
pub mod qos;
pub mod swap;
pub mod writes;

#[cfg(test)]
mod pod_notation;
#[cfg(test)]
mod request_tests;
