//! What one aggressor does, as averages.

use serde::{Deserialize, Serialize};

use crate::model::is_default;
use crate::model::quantity::Quantity;
use crate::model::threshold::Resource;
use crate::model::units::Nanos;
use crate::policy::rank::contender::Harm;

/// Time constant of the average of harm that was done lately: 13 % of an old value is left after five
/// intervals of a second.
const LATELY: Nanos = Nanos(2 * Nanos::SECOND.0);
/// A rate below a millionth of a CPU is dropped.
const NOTHING: Nanos = Nanos(1_000);

/// Rates of one aggressor, per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Entry {
    /// Waiting that it causes.
    #[serde(flatten)]
    pub harm: Harm,
    /// CPU time of a pod or workload, bytes of memory charged, or bytes read and written.
    pub taken: u64,
    /// What disks did for it: bytes, and so many for each request.
    #[serde(skip_serializing_if = "is_default")]
    pub cost: u64,
    /// Memory stall, or waits for a disk, at limits of its own.
    #[serde(skip_serializing_if = "is_default")]
    pub limited: Nanos,
    /// Memory stall because the node or its allocatable was short.
    #[serde(skip_serializing_if = "is_default")]
    pub short: Nanos,
    /// Waiting of others that it causes, of the last seconds; for a CPU of its siblings alone, because its
    /// own weight decides how long these wait.
    #[serde(skip_serializing_if = "is_default")]
    pub late: Nanos,
}

/// `(rate * memory + now) / (memory + interval)`: a first-order filter in integers. A longer
/// interval weighs more, so a late tick makes no difference.
pub(super) fn blend_over(memory: Nanos, interval: Nanos, rate: u64, now: u64) -> u64 {
    let now = u128::from(now) * u128::from(Nanos::SECOND.0);
    let sum = u128::from(rate) * u128::from(memory.0) + now;
    let length = u128::from(memory.0) + u128::from(interval.0);
    u64::try_from(sum / length.max(1)).unwrap_or(u64::MAX)
}

impl Entry {
    /// The average after an interval with the totals `now`.
    pub(super) fn blend(self, now: Self, interval: Nanos, memory: Nanos) -> Self {
        let blend = |rate, now| blend_over(memory, interval, rate, now);
        let time = |rate: Nanos, now: Nanos| Nanos(blend(rate.0, now.0));
        Self {
            late: Nanos(blend_over(memory.min(LATELY), interval, self.late.0, now.late.0)),
            harm: Harm {
                others: time(self.harm.others, now.harm.others),
                own: time(self.harm.own, now.harm.own),
            },
            taken: blend(self.taken, now.taken),
            // It is an average already.
            cost: now.cost,
            limited: time(self.limited, now.limited),
            short: time(self.short, now.short),
        }
    }

    /// Harm that goes on. Of a disk that of the last seconds at most: those that waited may have ended.
    pub(in crate::policy::rank) fn harm_of(self, resource: Resource) -> Harm {
        let others = match resource {
            Resource::Io => self.harm.others.min(self.late),
            _ => self.harm.others,
        };
        Harm { others, ..self.harm }
    }

    /// Its part of all waiting, its own included, but for that at limits of its own.
    pub(in crate::policy::rank) fn part(self) -> Nanos {
        self.harm.others.plus(self.harm.own).since(self.limited)
    }

    /// CPU time used, on an average.
    pub(in crate::policy::rank) fn cpu_usage(self) -> Quantity {
        Quantity::milli(self.taken / 1_000_000)
    }

    /// Whether only limits of its own hold it up.
    pub(in crate::policy::rank) fn is_limited(self) -> bool {
        let is_real = |time: Nanos| time.0 >= 1_000_000;
        is_real(self.limited) && !is_real(self.short)
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.harm.others < NOTHING && self.harm.own < NOTHING && self.taken == 0 && self.cost == 0
    }
}
