//! What a cgroup, or the node, reads from devices and writes to them.
//! In: two readings of `io.stat`. Out: what it was per second.
//!
//! The kernel counts a request once no `io.max` above holds it up any more, for the cgroup whose
//! pages or direct IO it carries: what is written through the page cache counts when it is written
//! back. A request counts again for each device below a stacked one.

use serde::{Deserialize, Serialize};

use crate::model::cgroup::IoStat;
use crate::model::units::{Bytes, Nanos, Percent, scale};

/// Read and written, per second of the interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct IoRate {
    pub read: Bytes,
    pub written: Bytes,
    /// Requests to read and to write, per second.
    pub reads: u64,
    pub writes: u64,
}

impl IoRate {
    /// `None` if a counter fell: a device is gone, and with it what it had counted.
    pub(super) fn between(before: IoStat, after: IoStat, interval: Nanos) -> Option<Self> {
        let rate = |before: u64, after: u64| {
            Some(scale(after.checked_sub(before)?, Nanos::SECOND.0, interval.0))
        };
        Some(Self {
            read: Bytes(rate(before.read.0, after.read.0)?),
            written: Bytes(rate(before.written.0, after.written.0)?),
            reads: rate(before.reads, after.reads)?,
            writes: rate(before.writes, after.writes)?,
        })
    }

    /// Read and written.
    #[must_use]
    pub fn bytes(self) -> Bytes {
        Bytes(self.read.0.saturating_add(self.written.0))
    }

    /// Requests of both kinds.
    #[must_use]
    pub fn operations(self) -> u64 {
        self.reads.saturating_add(self.writes)
    }

    /// Of `all`: of its bytes or of its requests, whichever is more.
    #[must_use]
    pub(crate) fn share_of(self, all: Self) -> Percent {
        let bytes = Percent::share(self.bytes().0, all.bytes().0.max(1));
        bytes.max(Percent::share(self.operations(), all.operations().max(1)))
    }

    /// What is left without `part`.
    #[must_use]
    pub(crate) fn minus(self, part: Self) -> Self {
        Self {
            read: Bytes(self.read.0.saturating_sub(part.read.0)),
            written: Bytes(self.written.0.saturating_sub(part.written.0)),
            reads: self.reads.saturating_sub(part.reads),
            writes: self.writes.saturating_sub(part.writes),
        }
    }

    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        Self {
            read: Bytes(self.read.0.saturating_add(more.read.0)),
            written: Bytes(self.written.0.saturating_add(more.written.0)),
            reads: self.reads.saturating_add(more.reads),
            writes: self.writes.saturating_add(more.writes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_rate_is_of_a_second_and_unknown_after_a_device_has_gone() {
        let stat = |read, written, reads, writes| IoStat {
            read: Bytes(read),
            written: Bytes(written),
            reads,
            writes,
        };
        let before = stat(100, 10, 5, 2);
        #[rustfmt::skip]
        let table = [
            // after half a second; per second: bytes read and written, requests
            (stat(150, 10, 6, 2), Some((100, 0, 2, 0))),
            (stat(100, 15, 5, 3), Some((0, 10, 0, 2))),
            (before,              Some((0, 0, 0, 0))),
            (stat(99, 15, 5, 3),  None),
            (stat(150, 10, 4, 2), None),
        ];
        for (after, want) in table {
            let got = IoRate::between(before, after, Nanos(Nanos::SECOND.0 / 2));
            let got = got.map(|rate| (rate.read.0, rate.written.0, rate.reads, rate.writes));
            assert_eq!(got, want, "{after:?}");
        }
    }
}
