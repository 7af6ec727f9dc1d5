//! Types of what was read and what follows from it, as integers with units. No clock, file or
//! socket.

/// Types that JSON has as text: written by `Display`, read by `FromStr`.
macro_rules! serde_as_text {
    ($($type:ty),*) => {$(
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

serde_as_text!(cpuset::CpuSet, duration::GoDuration, pattern::PathPattern, quantity::Quantity);

pub mod average;
pub mod capability;
pub mod cgroup;
pub mod condition;
pub mod cost;
pub mod cpuset;
pub mod decision;
pub mod disk;
pub mod duration;
pub mod fraction;
pub mod limit;
pub mod machine;
pub mod names;
pub mod node;
pub mod pattern;
pub mod places;
pub mod pod;
pub mod psi;
pub mod quantity;
pub mod quoted;
pub mod request;
pub mod sample;
pub mod settings;
pub mod shares;
pub mod snapshot;
pub mod stall;
pub mod threshold;
pub mod topology;
pub mod units;
pub mod unsampled;
pub mod workload;
