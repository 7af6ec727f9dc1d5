//! What a cgroup, or the node, reads from devices and writes to them.
//! In: two readings of `io.stat`. Out: what it was per second.
//!
//! The kernel counts a request once no `io.max` above holds it up any more, for the cgroup whose
//! pages or direct IO it carries: what is written through the page cache counts when it is written
//! back. A request counts again for each device below a stacked one.

use serde::{Deserialize, Serialize};

use crate::model::cgroup::{Cgroup, IoLimit, IoStat};
use crate::model::units::{Bytes, Nanos, Percent, scale};

/// A limit is reached where less than this part of it is left: the kernel counts in slices of time.
const NEARLY: u64 = 10;

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

    /// Whether a cgroup got from a device what its own `io.max` allows, or would have with one request more:
    /// then it waits for its limit, and for no other cgroup.
    pub(super) fn is_at_limit(before: &Cgroup, after: &Cgroup, interval: Nanos) -> bool {
        let at_limit = |limit: &IoLimit| {
            let earlier = before.io_limits.iter().find(|earlier| earlier.device == limit.device)?;
            let (earlier, done) = (earlier.done?, limit.done?);
            let bytes = |limit: Option<Bytes>| limit.map(|limit| limit.0);
            let mean = |bytes: Bytes, requests: u64| bytes.0 / requests.max(1);
            let all = [
                (bytes(limit.read), earlier.read.0, done.read.0, mean(done.read, done.reads)),
                (
                    bytes(limit.written),
                    earlier.written.0,
                    done.written.0,
                    mean(done.written, done.writes),
                ),
                (limit.reads, earlier.reads, done.reads, 1),
                (limit.writes, earlier.writes, done.writes, 1),
            ];
            let is_reached = |(limit, before, after, one): (Option<u64>, u64, u64, u64)| {
                let all = limit.map(|limit| scale(limit, interval.0, Nanos::SECOND.0));
                let done = after.checked_sub(before).filter(|done| *done > 0);
                let done = done.map(|done| done.saturating_add(one));
                all.zip(done).is_some_and(|(all, done)| done >= all - all / NEARLY)
            };
            let is_any = all.into_iter().any(is_reached);
            let moved = |from: IoStat, to: IoStat| to.bytes().checked_sub(from.bytes());
            // It waits for other devices, too; one below a stacked one counts what that counts again.
            let most = moved(before.io?, after.io?)? / 2;
            Some(is_any && moved(earlier, done)? >= most)
        };
        after.io_limits.iter().any(|limit| at_limit(limit).unwrap_or_default())
    }

    /// Read and written.
    pub fn bytes(self) -> Bytes {
        Bytes(self.read.0.saturating_add(self.written.0))
    }

    /// Requests of both kinds.
    pub fn operations(self) -> u64 {
        self.reads.saturating_add(self.writes)
    }

    /// Of `all`: of its bytes or of its requests, whichever is more.
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

    #[test]
    fn at_limit_is_who_gets_what_its_own_limit_allows() {
        let stat = |mib: u64, reads| IoStat { read: Bytes(mib << 20), reads, ..IoStat::default() };
        let limit = |mib: u64, reads: Option<u64>, done| IoLimit {
            device: (8, 0),
            read: (mib > 0).then_some(Bytes(mib << 20)),
            reads,
            done,
            ..IoLimit::default()
        };
        #[rustfmt::skip]
        let table = [
            // MiB and requests per second that are allowed; read before, and half a second later; at it
            ((10, None),      Some((100, 800)), Some((105, 840)), true),
            ((10, None),      Some((100, 800)), Some((104, 832)), false), // the disk gives no more
            ((10, None),      Some((100, 100)), Some((104, 104)), true), // a request is of 1 MiB
            ((0, Some(100)),  Some((100, 800)), Some((101, 850)), true),
            ((0, Some(100)),  Some((100, 800)), Some((101, 840)), false),
            ((10, Some(100)), Some((100, 800)), Some((101, 850)), true), // at one of both
            ((0, None),       Some((100, 800)), Some((900, 900)), false),
            ((10, None),      None,             Some((105, 840)), false), // not known
            ((10, None),      Some((100, 800)), None,             false),
            ((10, None),      Some((100, 800)), Some((99, 840)),  false), // counted anew
        ];
        for ((mib, requests), before, after, want) in table {
            let group = |done: Option<(u64, u64)>| Cgroup {
                io: Some(IoStat::default()),
                io_limits: vec![limit(mib, requests, done.map(|(mib, reads)| stat(mib, reads)))],
                ..Cgroup::default()
            };
            let (before, after) = (group(before), group(after));
            let half = Nanos(Nanos::SECOND.0 / 2);
            assert_eq!(IoRate::is_at_limit(&before, &after, half), want, "{before:?} {after:?}");
            let unlimited = Cgroup { io: after.io, ..Cgroup::default() };
            assert!(!IoRate::is_at_limit(&unlimited, &after, half), "its limit is new");
            assert!(!IoRate::is_at_limit(&before, &unlimited, half), "it has none any more");
            // On another device, which has no limit, it does a hundred times as much.
            let elsewhere = Cgroup { io: Some(stat(1_000, 8_000)), ..after.clone() };
            assert!(!IoRate::is_at_limit(&before, &elsewhere, half), "{elsewhere:?}");
        }
    }
}
