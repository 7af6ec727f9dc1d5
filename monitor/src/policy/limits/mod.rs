//! What the kubelet would set aside, allow and write, computed as it does.

pub mod allocatable;
pub mod capacity;
pub mod checkpoint;
pub mod cpus;
pub mod drift;
pub mod enforce;
pub mod names;
pub mod shares;
