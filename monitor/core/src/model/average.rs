//! Averages over ten seconds, a minute and five minutes from totals, by the kernel's own maths.
//! In: readings of a stall total. Out: three percentages, as in a pressure file.
//! Sources: `update_averages`, `calc_avgs`, `psi_show`, kernel/sched/psi.c; `calc_load`,
//! `LOAD_INT`, `LOAD_FRAC`, include/linux/sched/loadavg.h; `fixed_power_int`,
//! kernel/sched/loadavg.c.

use serde::{Deserialize, Serialize};

use super::units::{Nanos, Percent, scale};

/// How often an average is updated: the kernel's `PSI_FREQ`, two seconds and one jiffy.
///
/// User space cannot read `CONFIG_HZ`, so the jiffy is 4 ms, that of HZ=250. With HZ=100 or 1000
/// the period differs by at most 0.3 %, and an average by a tenth of a point while it moves. The
/// jiffy is necessary: readings come once a second, and with exactly two seconds the jitter of a
/// timer would decide whether the second or the third reading ends the period.
pub const PERIOD: Nanos = Nanos(2_004_000_000);

/// Decay per period over ten seconds, a minute and five, in 11-bit fixed point: `EXP_10s`,
/// `EXP_60s`, `EXP_300s`.
const DECAYS: [u64; 3] = [1677, 1981, 2034];

const SHIFT: u32 = 11;
const ONE: u64 = 1 << SHIFT;

/// The most periods that are computed one by one. After so many an old average has decayed to a
/// thousandth.
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
    /// The total at `moment`, interpolated between this reading and a `later` one.
    pub fn on_the_way_to(self, later: Self, moment: Nanos) -> Nanos {
        let (length, done) = (later.at.since(self.at), moment.since(self.at));
        if done >= length {
            return later.total;
        }
        let grown = later.total.since(self.total);
        self.total.plus(Nanos(scale(grown.0, done.0, length.0)))
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
    pub fn new(now: Nanos, total: Nanos) -> Self {
        Self { next_update: now.plus(PERIOD), last_update: now, counted: total, loads: [0; 3] }
    }

    /// Adds a reading: `update_averages`. Nothing changes before the period is over.
    ///
    /// Missed periods count as 0 and the excess is carried into the next period. In the kernel a
    /// period is only missed when nothing happens; a reader that was late must use
    /// [`Average::catch_up`].
    ///
    /// A clock that does not advance changes nothing. A total that decreases is a new start.
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

    /// Adds a reading that may be periods late, as if the total had grown evenly since `before`.
    ///
    /// An agent without CPU for five seconds missed two periods, probably of heavy contention. As
    /// zeros they would show calm, and the carry-over would show contention after it has ended.
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

    pub fn avg10(&self) -> Percent {
        printed(self.loads[0])
    }

    pub fn avg60(&self) -> Percent {
        printed(self.loads[1])
    }

    pub fn avg300(&self) -> Percent {
        printed(self.loads[2])
    }
}

/// The weight, in percent, that each average gives to time before its first reading, `seen` ago.
/// The averages start at 0, so the true one, with that time, is higher by at most as much.
pub fn unseen(seen: Nanos) -> [Percent; 3] {
    let periods = seen.0 / PERIOD.0;
    DECAYS.map(|decay| Percent::share(power(decay, periods), ONE))
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
