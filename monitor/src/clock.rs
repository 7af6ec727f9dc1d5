//! The only reader of time. All other code gets a [`Moment`] as an argument.

pub(crate) mod pace;
pub mod written;

use rustix::time::{ClockId, Timespec, clock_gettime};

use isobar_core::model::sample::Moment;
use isobar_core::model::units::Nanos;

/// The current time on both clocks. Costs are measured as differences of `boot`.
pub fn now() -> Moment {
    Moment {
        boot: nanos(clock_gettime(ClockId::Boottime)),
        wall: nanos(clock_gettime(ClockId::Realtime)),
    }
}

/// `CLOCK_MONOTONIC`, the clock of `bpf_ktime_get_ns`: for intervals that the eBPF programs began.
pub fn monotonic() -> Nanos {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// CPU time that this process has used since it began.
pub fn used_by_this_process() -> Nanos {
    nanos(clock_gettime(ClockId::ProcessCPUTime))
}

/// CPU time that this thread has used since it began.
pub fn used_by_this_thread() -> Nanos {
    nanos(clock_gettime(ClockId::ThreadCPUTime))
}

/// A clock set before 1970 reads as 1970: the wall clock is for people, no decision depends on it.
fn nanos(time: Timespec) -> Nanos {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let rest = u64::try_from(time.tv_nsec).unwrap_or(0);
    Nanos(seconds.saturating_mul(Nanos::SECOND.0).saturating_add(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanos_before_1970_is_zero() {
        #[rustfmt::skip]
        let table = [
            // seconds, nanoseconds, want
            (0,        0,            0),
            (1,        5,            1_000_000_005),
            (-7,       0,            0),
            (i64::MAX, 999_999_999,  u64::MAX),
        ];
        for (tv_sec, tv_nsec, want) in table {
            assert_eq!(nanos(Timespec { tv_sec, tv_nsec }), Nanos(want), "{tv_sec} s {tv_nsec} ns");
        }
    }

    #[test]
    fn now_has_monotonic_boot_and_current_wall_time() {
        let (earlier, later) = (now(), now());
        assert!(earlier.boot <= later.boot, "{earlier:?} {later:?}");
        assert!(earlier.wall.0 / Nanos::SECOND.0 > 946_684_800, "{earlier:?}");
    }
}
