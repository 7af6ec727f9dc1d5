//! Says what is being done and how much time is left.

use isobar_lab::clock::Since;

/// How far we are.
pub(super) struct Progress {
    since: Since,
    /// Seconds that everything should take.
    expected: f64,
    /// Seconds that what is done should have taken.
    done: f64,
    /// Seconds that what is being done should take.
    current: f64,
}

impl Progress {
    pub(super) fn new(expected: f64) -> Self {
        Self { since: Since::now(), expected, done: 0.0, current: 0.0 }
    }

    /// Begins the next step, which should take so many seconds.
    pub(super) fn step(&mut self, what: &str, expected: f64) {
        self.done += self.current;
        self.current = expected;
        let left = left(self.expected, self.done, self.since.elapsed().as_secs_f64());
        eprintln!("[{:2}:{:02} left] {what}", left / 60, left % 60);
    }
}

/// Seconds left, at the pace so far.
fn left(expected: f64, done: f64, taken: f64) -> u64 {
    let pace = if done > 0.0 { taken / done } else { 1.0 };
    ((expected - done) * pace).max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_the_pace_so_far() {
        #[rustfmt::skip]
        let table = [
            // expected, done, taken, left
            (100.0,  0.0,  0.1, 100), // nothing known yet
            (100.0, 50.0, 50.0,  50),
            (100.0, 50.0, 75.0,  75), // a slow machine
            (100.0, 100.0, 80.0,  0),
            (100.0, 120.0, 99.0,  0),
        ];
        for (expected, done, taken, want) in table {
            assert_eq!(left(expected, done, taken), want, "{done} of {expected} in {taken}");
        }
    }
}
