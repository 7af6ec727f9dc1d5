//! Limits what following every context switch may cost the node: above the limit, the programs that
//! follow waits are detached for a pause.
//!
//! The other programs are never paused: they run on rare events, while a task stalls anyway, or, before
//! Linux 6.6, as often as quotas throttle.
//! Pure, except for its memory.

use isobar_core::model::units::{Nanos, Percent};

/// The first pause. The next is twice as long if it comes too early. A longer one would let a user
/// who switches all the time blind the agent for long.
const FIRST_PAUSE: Nanos = Nanos(30_000_000_000);
const LONGEST_PAUSE: Nanos = Nanos(60_000_000_000);

/// The allowed share of the node's CPU time, and the pauses so far.
#[derive(Debug)]
pub(super) struct Budget {
    pub(super) allowed: Percent,
    /// The last measurement was above the limit.
    was_over: bool,
    /// Length and end of the last pause.
    last: Option<(Nanos, Nanos)>,
    /// The current pause.
    pub(super) pause: Option<Pause>,
}

/// A time in which waits are not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pause {
    /// The share of CPU time that caused it.
    pub(super) used: Percent,
    pub(super) length: Nanos,
    until: Nanos,
}

/// What to do after a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Continue,
    /// Measure again at once: a single measurement may be a spike.
    MeasureAgain,
    Pause,
}

impl Budget {
    pub(super) fn new(allowed: Percent) -> Self {
        Self { allowed, was_over: false, last: None, pause: None }
    }

    /// Judges a measurement: time in the programs per second, summed over all CPUs.
    pub(super) fn judge(&mut self, per_second: Nanos, n_cpus: usize, now: Nanos) -> Verdict {
        let all = Nanos::SECOND.0.saturating_mul(u64::try_from(n_cpus.max(1)).unwrap_or(u64::MAX));
        let used = Percent::share(per_second.0, all);
        let was_over = std::mem::replace(&mut self.was_over, used > self.allowed);
        match (was_over, self.was_over) {
            (_, false) => return Verdict::Continue,
            (false, true) => return Verdict::MeasureAgain,
            (true, true) => self.was_over = false,
        }
        // Within a pause's length after its end: the pause was too short.
        let too_short = self.last.filter(|(length, ended)| now.since(*ended) < *length);
        let length = too_short.map_or(FIRST_PAUSE, |(length, _)| length.plus(length));
        let length = length.min(LONGEST_PAUSE);
        self.pause = Some(Pause { used, length, until: now.plus(length) });
        Verdict::Pause
    }

    /// True if the next measurement may begin a pause.
    pub(super) fn is_close(&self) -> bool {
        self.was_over
    }

    /// Ends the pause if it is over. Returns true if it ended now.
    pub(super) fn ends(&mut self, now: Nanos) -> bool {
        let Some(pause) = self.pause.take_if(|pause| pause.until <= now) else { return false };
        self.last = Some((pause.length, now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_pauses_longer_after_a_short_pause() {
        use Verdict::{Continue, MeasureAgain, Pause};
        #[rustfmt::skip]
        let table = [
            // at s, µs a second on two CPUs, verdict, pause in s, why
            (0,     39_000, Continue,     None,     "2 % of two CPUs are 40 ms"),
            (20,    41_000, MeasureAgain, None,     "above, once: measured again"),
            (21,    40_000, Continue,     None,     "a spike: at the limit is within"),
            (40,    90_000, MeasureAgain, None,     "above"),
            (41,    90_000, Pause,        Some(30), "above twice"),
            (80,    50_000, MeasureAgain, None,     "followed again after thirty seconds"),
            (81,    50_000, Pause,        Some(60), "they were too short"),
            (150,   50_000, MeasureAgain, None,     "followed again after a minute"),
            (151,   50_000, Pause,        Some(60), "never longer"),
            (220,    1_000, Continue,     None,     "within the limit"),
            (7_200, 50_000, MeasureAgain, None,     "the last pause was long enough"),
            (7_200, 50_000, Pause,        Some(30), "so the first length again"),
        ];
        let mut budget = Budget::new(Percent(2_00));
        for (at, micros, verdict, length, why) in table {
            let now = Nanos(at * 1_000_000_000);
            if budget.pause.is_some() {
                assert!(budget.ends(now), "{why}");
            }
            assert!(!budget.ends(now), "only once: {why}");
            assert_eq!(budget.judge(Nanos(micros * 1_000), 2, now), verdict, "{why}");
            let pause = budget.pause.map(|pause| pause.length.0 / 1_000_000_000);
            assert_eq!(pause, length, "{why}");
        }
    }

    #[test]
    fn budget_pause_has_a_maximum() {
        let (mut budget, mut now) = (Budget::new(Percent(0)), Nanos(1));
        for _ in 0..20 {
            budget.judge(Nanos::SECOND, 1, now);
            budget.judge(Nanos::SECOND, 1, now);
            let pause = budget.pause.expect("all of a CPU is more than nothing");
            assert!(pause.length <= LONGEST_PAUSE && pause.used == Percent::FULL, "{pause:?}");
            assert!(!budget.ends(Nanos(now.0 + pause.length.0 - 1)));
            now = now.plus(pause.length);
            assert!(budget.ends(now));
        }
    }
}
