//! What following every context switch may cost the node: above that it is left off for a time.
//!
//! Only that: the other programs run when something rare happens, or while a task stalls anyway.
//! Pure, but for what it remembers.

use isobar_core::model::units::{Nanos, Percent};

/// How long it is left off the first time; twice as long each time that it went wrong again.
const FIRST_REST: Nanos = Nanos(600_000_000_000);
/// It is never left off for longer.
const LONGEST_REST: Nanos = Nanos(4 * 3_600_000_000_000);

/// A share of the node's CPU time, and how it was kept so far.
#[derive(Debug)]
pub(super) struct Budget {
    /// The share that may be taken.
    allowed: Percent,
    /// The last metering was above it.
    was_over: bool,
    /// The last rest, and when it ended.
    last: Option<(Nanos, Nanos)>,
    rest: Option<Rest>,
}

/// It is left off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rest {
    /// The share that it had taken.
    pub(super) took: Percent,
    /// How long it is left off, and until when.
    pub(super) length: Nanos,
    until: Nanos,
}

/// What a metering calls for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All is well.
    GoOn,
    /// Meter once more, now: a moment is no trend.
    LookAgain,
    /// Leave it off.
    LeaveOff,
}

impl Budget {
    pub(super) fn new(allowed: Percent) -> Self {
        Self { allowed, was_over: false, last: None, rest: None }
    }

    /// The share that may be taken.
    pub(super) fn allowed(&self) -> Percent {
        self.allowed
    }

    /// Whether it is left off now.
    pub(super) fn rest(&self) -> Option<Rest> {
        self.rest
    }

    /// Judges what was metered: time in the programs for each second, over all CPUs.
    pub(super) fn metered(&mut self, per_second: Nanos, n_cpus: usize, now: Nanos) -> Verdict {
        let all = Nanos::SECOND.0.saturating_mul(u64::try_from(n_cpus.max(1)).unwrap_or(u64::MAX));
        let took = Percent::share(per_second.0, all);
        let was_over = std::mem::replace(&mut self.was_over, took > self.allowed);
        match (was_over, self.was_over) {
            (_, false) => return Verdict::GoOn,
            (false, true) => return Verdict::LookAgain,
            (true, true) => self.was_over = false,
        }
        // What goes wrong within the time that it had rested for was tried too early.
        let too_early = self.last.filter(|(length, ended)| now.since(*ended) < *length);
        let length = too_early.map_or(FIRST_REST, |(length, _)| length.plus(length));
        let length = length.min(LONGEST_REST);
        self.rest = Some(Rest { took, length, until: now.plus(length) });
        Verdict::LeaveOff
    }

    /// True once, when it has been left off for long enough.
    pub(super) fn is_over(&mut self, now: Nanos) -> bool {
        let Some(rest) = self.rest.take_if(|rest| rest.until <= now) else { return false };
        self.last = Some((rest.length, now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60;

    #[test]
    fn what_costs_too_much_twice_is_left_off_for_longer_each_time_that_it_was_tried_too_early() {
        use Verdict::{GoOn, LeaveOff, LookAgain};
        #[rustfmt::skip]
        let table = [
            // at s, µs a second on two CPUs, it says, so long in min, its rest is over, why
            (0,            39_000, GoOn,      None,      "2 % of two CPUs are 40 ms"),
            (20,           41_000, LookAgain, None,      "above, once"),
            (21,           40_000, GoOn,      None,      "a moment's: at the line is within"),
            (40,           90_000, LookAgain, None,      "above"),
            (41,           90_000, LeaveOff,  Some(10),  "and again"),
            (700,          50_000, LookAgain, None,      "tried after ten minutes"),
            (701,          50_000, LeaveOff,  Some(20),  "too early: twice as long"),
            (2_000,        50_000, LookAgain, None,      "tried after twenty"),
            (2_001,        50_000, LeaveOff,  Some(40),  "too early"),
            (4_500,         1_000, GoOn,      None,      "tried after forty, and it went well"),
            (120 * MINUTE, 50_000, LookAgain, None,      "for longer than it had rested"),
            (120 * MINUTE, 50_000, LeaveOff,  Some(10),  "from the beginning"),
        ];
        let mut budget = Budget::new(Percent(2_00));
        for (at, micros, verdict, length, why) in table {
            let now = Nanos(at * 1_000_000_000);
            if budget.rest().is_some() {
                assert!(budget.is_over(now), "{why}");
            }
            assert!(!budget.is_over(now), "only once: {why}");
            assert_eq!(budget.metered(Nanos(micros * 1_000), 2, now), verdict, "{why}");
            let rest = budget.rest().map(|rest| rest.length.0 / (60 * 1_000_000_000));
            assert_eq!(rest, length, "{why}");
        }
    }

    #[test]
    fn a_rest_is_never_longer_than_four_hours_and_never_over_before_its_time() {
        let (mut budget, mut now) = (Budget::new(Percent(0)), Nanos(1));
        for _ in 0..20 {
            budget.metered(Nanos::SECOND, 1, now);
            budget.metered(Nanos::SECOND, 1, now);
            let rest = budget.rest().expect("all of a CPU is more than nothing");
            assert!(rest.length <= LONGEST_REST && rest.took == Percent::FULL, "{rest:?}");
            assert!(!budget.is_over(Nanos(now.0 + rest.length.0 - 1)));
            now = now.plus(rest.length);
            assert!(budget.is_over(now));
        }
    }
}
