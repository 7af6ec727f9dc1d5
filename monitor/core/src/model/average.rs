//! Averages over ten seconds, a minute and five minutes from totals, by the kernel's own maths.
//! In: readings of a total that grows no faster than time. Out: three percentages, as a pressure
//! file prints them.
//!
//! Sources: `update_averages`, `calc_avgs`, `psi_show`, kernel/sched/psi.c; `calc_load`, `LOAD_INT`,
//! `LOAD_FRAC`, include/linux/sched/loadavg.h; `fixed_power_int`, kernel/sched/loadavg.c.

use serde::{Deserialize, Serialize};

use super::units::{Nanos, Percent};

/// How often an average moves: the kernel's `PSI_FREQ`, two seconds and one tick.
///
/// User space cannot ask for the tick (`CONFIG_HZ`), so it is 4 ms here, that of HZ=250. With 100
/// or 1000 instead, the period would differ by 0.3 % or less, and an average by a tenth of a point
/// while it moves. There must be a tick: readings come once a second, and with two seconds sharp
/// the jitter of a timer would decide each time whether the second or the third of them ends the
/// period.
pub const PERIOD: Nanos = Nanos(2_004_000_000);

/// Decay per period in 11-bit fixed point, `1/exp(2s/10s)`, over a minute and over five:
/// `EXP_10s`, `EXP_60s`, `EXP_300s`.
const DECAYS: [u64; 3] = [1677, 1981, 2034];

const SHIFT: u32 = 11;
const ONE: u64 = 1 << SHIFT;

/// Longest gap that is gone through period by period. What an average held before it weighs a
/// thousandth after it.
const LONGEST_GAP: u64 = 1_000;

/// A cumulative total and the time at which it was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reading {
    /// A monotonic clock.
    pub at: Nanos,
    /// Stall time so far.
    pub total: Nanos,
}

impl Reading {
    /// The total at `moment`, on the straight line to a `later` reading; neither before nor
    /// beyond the two.
    #[must_use]
    pub fn on_the_way_to(self, later: Self, moment: Nanos) -> Nanos {
        let (length, done) = (later.at.since(self.at), moment.since(self.at));
        if done >= length {
            return later.total;
        }
        let grown = u128::from(later.total.since(self.total).0);
        let part = grown * u128::from(done.0) / u128::from(length.0);
        self.total.plus(Nanos(u64::try_from(part).expect("a part of what was a u64")))
    }
}

/// Three running averages of one total.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Average {
    /// `avg_next_update`: a fixed grid, so that late readings do not make it drift.
    next_update: Nanos,
    /// `avg_last_update`.
    last_update: Nanos,
    /// `avg_total`: how much of the total the averages know of.
    counted: Nanos,
    /// `avg`: whole percents in fixed point.
    loads: [u64; 3],
}

impl Average {
    /// Averages start at 0; `total` is the counter at `now`.
    #[must_use]
    pub fn new(now: Nanos, total: Nanos) -> Self {
        Self { next_update: now.plus(PERIOD), last_update: now, counted: total, loads: [0; 3] }
    }

    /// Takes one reading; nothing moves before the period is over. `update_averages`.
    ///
    /// Periods in which nobody read are filled with zeros, and what exceeds the last period is
    /// carried into the next: both as the kernel does, whose periods go by unread only while
    /// nothing happens. A reader that was merely late wants [`Average::catch_up`].
    ///
    /// A clock that stands still or runs backwards moves nothing. A total that runs backwards
    /// counts as nothing and is the new start.
    pub fn update(&mut self, now: Nanos, total: Nanos) {
        if now < self.next_update {
            return;
        }
        let missed = now.since(self.next_update).0 / PERIOD.0;
        let skipped = Nanos(missed * PERIOD.0);
        let period = now.since(self.last_update).since(skipped);
        self.next_update = self.next_update.plus(skipped).plus(PERIOD);
        self.last_update = now;

        self.counted = self.counted.min(total);
        let sample = total.since(self.counted).min(period);
        self.counted = self.counted.plus(sample);
        let percent = u64::from(Percent::share(sample.0, period.0).0 / 100);
        for (load, decay) in self.loads.iter_mut().zip(DECAYS) {
            if missed > 0 {
                *load = calc_load(*load, power(decay, missed), 0);
            }
            *load = calc_load(*load, decay, percent * ONE);
        }
    }

    /// Takes a reading that may come periods late: the total is taken to have grown evenly since
    /// the reading before.
    ///
    /// An agent that got no CPU for five seconds has missed two periods of what is likely the
    /// worst contention of the day. Zeros there would show calm, and the carry-over would then
    /// show contention for as long after it has passed.
    pub fn catch_up(&mut self, before: Reading, now: Reading) {
        if now.at.since(self.next_update).0 / PERIOD.0 > LONGEST_GAP {
            let start = now.at.since(Nanos(LONGEST_GAP * PERIOD.0));
            *self = Self::new(start, before.on_the_way_to(now, start));
        }
        while now.at.since(self.next_update) >= PERIOD {
            let moment = self.next_update;
            self.update(moment, before.on_the_way_to(now, moment));
        }
        self.update(now.at, now.total);
    }

    #[must_use]
    pub fn avg10(&self) -> Percent {
        printed(self.loads[0])
    }

    #[must_use]
    pub fn avg60(&self) -> Percent {
        printed(self.loads[1])
    }

    #[must_use]
    pub fn avg300(&self) -> Percent {
        printed(self.loads[2])
    }
}

/// `calc_load`: rounds up on the way up, so that a full load reaches 100 %, and down on the way down.
fn calc_load(load: u64, decay: u64, active: u64) -> u64 {
    let rounding = if active >= load { ONE - 1 } else { 0 };
    (load * decay + active * (ONE - decay) + rounding) >> SHIFT
}

/// `fixed_power_int`: `base` to the power of `exponent`, in fixed point.
fn power(mut base: u64, mut exponent: u64) -> u64 {
    let product = |a: u64, b: u64| (a * b + ONE / 2) >> SHIFT;
    let mut result = ONE;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = product(result, base);
        }
        base = product(base, base);
        exponent >>= 1;
    }
    result
}

/// `LOAD_INT` and `LOAD_FRAC`: two decimals, rounded down.
fn printed(load: u64) -> Percent {
    let hundredths = (load >> SHIFT) * 100 + (((load & (ONE - 1)) * 100) >> SHIFT);
    Percent(u16::try_from(hundredths).expect("a load never exceeds 100 percent"))
}

#[cfg(test)]
mod tests;
