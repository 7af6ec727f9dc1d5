//! Chance, so that the agents of a cluster do not all write in the same second.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// `time`, give or take a tenth.
pub(super) fn about(time: Duration) -> Duration {
    let tenth = u64::try_from(time.as_millis() / 10).unwrap_or(u64::MAX);
    let chance = RandomState::new().hash_one(0_u8) % tenth.saturating_mul(2).max(1);
    time - Duration::from_millis(tenth) + Duration::from_millis(chance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_stays_within_a_tenth() {
        for seconds in [0, 1, 300] {
            let (least, most) =
                (Duration::from_millis(seconds * 900), Duration::from_millis(seconds * 1_100));
            let many: Vec<_> = (0..100).map(|_| about(Duration::from_secs(seconds))).collect();
            assert!(many.iter().all(|time| (least..=most).contains(time)), "{seconds} s: {many:?}");
            assert!(seconds == 0 || many.iter().any(|time| *time != many[0]), "{seconds} s");
        }
    }
}
