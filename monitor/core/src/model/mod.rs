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

/// Gives an enum without fields `ALL`, its variants as they are declared, and their names: the words
/// of JSON, unless the enum says other.
macro_rules! named {
    ($type:ident { $($variant:ident => $name:literal,)+ }) => {
        impl $type {
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The names of all, in the same order.
            pub const NAMES: [&str; Self::ALL.len()] = [$($name),+];

            /// All of them, each with its name.
            pub const NAMED: [(&str, Self); Self::ALL.len()] = [$(($name, Self::$variant)),+];

            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }
        }
    };
}
pub(crate) use named;

/// True for what serde leaves out.
pub(crate) fn is_default<T: Default + PartialEq>(field: &T) -> bool {
    *field == T::default()
}

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
pub mod kills;
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

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use serde::Serialize;

    use crate::model::capability::CapabilityState;
    use crate::model::condition::{ScopeName, Status};
    use crate::model::decision::{NodePressure, OutcomeResult, StepKind};
    use crate::model::limit::LimitResult;
    use crate::model::pod::QosClass;
    use crate::model::sample::{Cause, GapReason};
    use crate::model::settings::WrittenLimit;
    use crate::model::stall::MemoryCause;
    use crate::model::threshold::Signal;
    use crate::model::workload::RestartPolicy;

    fn check<T: Serialize + Debug>(all: &[T], names: &[&str]) {
        for (one, name) in all.iter().zip(names) {
            assert_eq!(serde_json::to_value(one).unwrap(), *name, "{one:?}");
        }
    }

    #[test]
    fn names_are_those_of_json() {
        check(&CapabilityState::ALL, &CapabilityState::NAMES);
        check(&Cause::ALL, &Cause::NAMES);
        check(&GapReason::ALL, &GapReason::NAMES);
        check(&LimitResult::ALL, &LimitResult::NAMES);
        check(&MemoryCause::ALL, &MemoryCause::NAMES);
        check(&NodePressure::ALL, &NodePressure::NAMES);
        check(&OutcomeResult::ALL, &OutcomeResult::NAMES);
        check(&QosClass::ALL, &QosClass::NAMES);
        check(&RestartPolicy::ALL, &RestartPolicy::NAMES);
        check(&ScopeName::ALL, &ScopeName::NAMES);
        check(&Signal::ALL, &Signal::NAMES);
        check(&Status::ALL, &Status::NAMES);
        check(&StepKind::ALL, &StepKind::NAMES);
        check(&WrittenLimit::ALL, &WrittenLimit::NAMES);
    }
}
