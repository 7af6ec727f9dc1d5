//! Differences of counters. Impossible ones are clamped and counted as doubts.

use super::averages::{STALE_AFTER, Stretch};
use super::{Doubts, Waited};
use crate::model::psi::{Pressure, Pressures};
use crate::model::units::{MilliCpu, Nanos, Percent};

/// Reading a sample takes time, so a counter's interval may differ from the sample's. An agent
/// short of CPU was seen to need a tenth of a second for one counter; only a counter that is ahead
/// by more is impossible.
const READ_WITHIN: Nanos = Nanos(100_000_000);
/// A pressure file is not read again sooner: a reading that is the same may be the same one.
const REREAD: Nanos = Nanos(900_000_000);

/// Differences of counters over one interval.
pub(super) struct Deltas<'a> {
    /// Boot clock at its end.
    pub(super) until: Nanos,
    /// From sample to sample, by the boot clock.
    pub(super) interval: Nanos,
    /// From one reading of the eBPF maps to the next.
    pub(super) window: Nanos,
    /// From one reading of the pressure files to the next; `None` if they were not read again.
    pub(super) reread: Option<Nanos>,
    pub(super) doubts: &'a mut Doubts,
}

impl Deltas<'_> {
    /// 0 if the counter decreased.
    pub(super) fn count(&mut self, before: u64, after: u64) -> u64 {
        after.checked_sub(before).unwrap_or_else(|| {
            self.doubts.backwards += 1;
            0
        })
    }

    /// Growth of task time, which may exceed wall time.
    pub(super) fn waited(&mut self, before: Nanos, after: Nanos) -> Waited {
        Waited { now: Nanos(self.count(before.0, after.0)), total: after }
    }

    /// Growth of a union, which may not exceed wall time.
    pub(super) fn union(&mut self, before: Nanos, after: Nanos) -> Nanos {
        let grown = Nanos(self.count(before.0, after.0));
        self.within(grown, self.window, 1)
    }

    /// The same, with the counter itself.
    pub(super) fn union_waited(&mut self, before: Nanos, after: Nanos) -> Waited {
        Waited { now: self.union(before, after), total: after }
    }

    /// Share of the window between the two readings of the maps.
    pub(super) fn share(&self, union: Nanos) -> Percent {
        Percent::share(union.0, self.window.0)
    }

    /// A union's growth for its averages. While a machine sleeps the boot clock goes on and the kernel's
    /// counters do not: that time was not measured.
    pub(super) fn stretch(&self, grown: Nanos) -> Stretch {
        let has_slept = self.interval.since(self.window) > STALE_AFTER;
        let interval = if has_slept { self.window } else { self.interval };
        Stretch { until: self.until, interval, grown, share: self.share(grown) }
    }

    /// CPU use, at most `n_cpus`; 0 CPUs sets no bound.
    pub(super) fn cpu_usage(&mut self, before: Nanos, after: Nanos, n_cpus: u64) -> MilliCpu {
        let used = Nanos(self.count(before.0, after.0));
        if n_cpus == 0 {
            return MilliCpu::rate(used, self.interval);
        }
        let believed = self.within(used, self.interval, n_cpus);
        MilliCpu(MilliCpu::rate(believed, self.interval).0.min(n_cpus.saturating_mul(1_000)))
    }

    /// Counts impossible totals of pressure files, which are passed on as read. Returns the share of
    /// the time between two readings in which the disk stalled every task; `None` if that is not known, as
    /// in a tick that comes sooner than they are read again.
    pub(super) fn pressures(&mut self, before: &Pressures, after: &Pressures) -> Option<Percent> {
        self.pressure(before.cpu, after.cpu);
        self.pressure(before.memory, after.memory);
        self.pressure(before.irq, after.irq);
        let [_, full] = self.pressure(before.io, after.io);
        let passed = self.reread.filter(|passed| before.io != after.io || *passed >= REREAD)?;
        full.map(|stalled| Percent::share(stalled.0, passed.0))
    }

    /// By how much the lines `some` and `full` of a pressure file grew.
    fn pressure(
        &mut self,
        before: Option<Pressure>,
        after: Option<Pressure>,
    ) -> [Option<Nanos>; 2] {
        let passed = self.interval.max(self.reread.unwrap_or_default());
        let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
        [(before.some, after.some), (before.full, after.full)].map(|(before, after)| {
            let (before, after) = (Nanos::from(before?.total), Nanos::from(after?.total));
            let grown = Nanos(self.count(before.0, after.0));
            Some(self.within(grown, passed, 1))
        })
    }

    /// `time`, or the most that `n` clocks can run within `length`.
    fn within(&mut self, time: Nanos, length: Nanos, n: u64) -> Nanos {
        if time.0 <= length.plus(READ_WITHIN).0.saturating_mul(n) {
            return time;
        }
        self.doubts.too_fast += 1;
        Nanos(length.0.saturating_mul(n))
    }
}
