//! The only reader of time. Everybody else is handed a [`Moment`].

use rustix::time::{ClockId, Timespec, clock_gettime};

use isobar_core::model::sample::Moment;
use isobar_core::model::units::Nanos;

/// This moment, on both clocks. Costs are measured as differences of `boot`.
#[must_use]
pub fn now() -> Moment {
    Moment {
        boot: nanos(clock_gettime(ClockId::Boottime)),
        wall: nanos(clock_gettime(ClockId::Realtime)),
    }
}

/// `CLOCK_MONOTONIC`: what `bpf_ktime_get_ns` reads, for times that the kernel side left open.
#[must_use]
pub fn monotonic() -> Nanos {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// CPU time that this process has used since it began: what the agent meters itself by.
#[must_use]
pub fn used_by_this_process() -> Nanos {
    nanos(clock_gettime(ClockId::ProcessCPUTime))
}

/// A clock set before 1970 reads as 1970: the wall clock is for people, nothing is judged by it.
fn nanos(time: Timespec) -> Nanos {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let rest = u64::try_from(time.tv_nsec).unwrap_or(0);
    Nanos(seconds.saturating_mul(Nanos::SECOND.0).saturating_add(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_before_1970_reads_as_1970() {
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
    fn the_boot_clock_never_runs_backwards_and_the_wall_clock_knows_the_century() {
        let (earlier, later) = (now(), now());
        assert!(earlier.boot <= later.boot, "{earlier:?} {later:?}");
        assert!(earlier.wall.0 / Nanos::SECOND.0 > 946_684_800, "{earlier:?}");
    }
}
