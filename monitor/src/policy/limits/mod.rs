//! What the kubelet would set aside, allow and write, computed as it does.

pub mod admitted;
pub mod oom;
pub mod qos;
pub mod request;

#[cfg(test)]
mod sketch;
