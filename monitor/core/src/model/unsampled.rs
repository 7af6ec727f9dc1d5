//! Time without samples: the node was suspended, or the agent got no CPU.
//!
//! The boot clock runs on, but nothing was observed: a threshold met before and after was not seen
//! to be met in between, and a step was not seen to have no effect.

use super::units::Nanos;

/// Longest interval that counts as watched: a late tick or two.
const LONGEST: Nanos = Nanos(5 * Nanos::SECOND.0);
/// The normal interval.
const USUAL: Nanos = Nanos::SECOND;

/// The unwatched part of an interval between two samples; normally 0.
pub fn unsampled(interval: Nanos) -> Nanos {
    if interval > LONGEST { interval.since(USUAL) } else { Nanos(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unseen_hole_and_late_tick() {
        #[rustfmt::skip]
        let table = [
            // interval, of which unsampled, in milliseconds
            (0,         0),
            (1_000,     0),
            (5_000,     0),
            (5_001,     4_001),
            (3_600_000, 3_599_000),
        ];
        for (interval, want) in table {
            let ms = |n: u64| Nanos(n * 1_000_000);
            assert_eq!(unsampled(ms(interval)), ms(want), "{interval}");
        }
    }
}
