//! Time that nobody watched: the node was suspended, or the agent got no CPU for long.
//!
//! What was met before and is met after it was not seen to be met in between, and a step that
//! waits for its effect was not seen to have none. The boot clock runs through it all the same.

use super::units::Nanos;

/// Intervals up to this are watched, a late tick or two included.
const LONGEST: Nanos = Nanos(5 * Nanos::SECOND.0);
/// What an interval lasts as a rule.
const USUAL: Nanos = Nanos::SECOND;

/// The part of an interval between two samples that nobody watched; 0 as a rule.
#[must_use]
pub fn unseen(interval: Nanos) -> Nanos {
    if interval > LONGEST { interval.since(USUAL) } else { Nanos(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unseen_hole_and_late_tick() {
        #[rustfmt::skip]
        let table = [
            // interval, of which unseen, in milliseconds
            (0,         0),
            (1_000,     0),
            (5_000,     0),
            (5_001,     4_001),
            (3_600_000, 3_599_000),
        ];
        for (interval, want) in table {
            let ms = |n: u64| Nanos(n * 1_000_000);
            assert_eq!(unseen(ms(interval)), ms(want), "{interval}");
        }
    }
}
