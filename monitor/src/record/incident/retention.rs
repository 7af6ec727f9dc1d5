//! How much is kept of incidents. The oldest are removed first.

use super::{Incident, State};
use isobar_core::model::units::{Bytes, Nanos};

const DAY: u64 = 86_400 * Nanos::SECOND.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    pub size: Bytes,
    pub age: Nanos,
    pub n: usize,
    /// One incident takes no more. Twelve minutes of 2,000 cgroups that all wait for each other take
    /// 47 MiB.
    pub one: Bytes,
}

impl Retention {
    pub const USUAL: Self =
        Self { size: Bytes(256 << 20), age: Nanos(30 * DAY), n: 200, one: Bytes(64 << 20) };
    pub const IN_MEMORY: Self =
        Self { size: Bytes(8 << 20), age: Nanos(DAY), n: 20, one: Bytes(4 << 20) };

    /// Frozen incidents that are too much, too old or too many, the oldest first. Those without a kill
    /// have a half: a condition that comes and goes for days hides no kill.
    pub(super) fn beyond(self, all: Vec<Incident>, now: Nanos) -> Vec<Incident> {
        let is_gentle = |one: &Incident| !one.kinds.iter().any(|kind| kind.is_kill());
        let half = Self { size: Bytes(self.size.0 / 2), n: self.n / 2, ..self };
        let gentle = all.iter().filter(|one| is_gentle(one)).cloned().collect();
        let mut beyond = half.oldest_of(gentle, now);
        let left = all.into_iter().filter(|one| !beyond.contains(one)).collect();
        beyond.extend(self.oldest_of(left, now));
        beyond
    }

    fn oldest_of(self, all: Vec<Incident>, now: Nanos) -> Vec<Incident> {
        // The clock of a node that has just booted may be set in an incident.
        let over = |one: &Incident| one.end.unwrap_or(one.begin).wall.max(one.begin.wall);
        let since = |one: &Incident| one.imported.unwrap_or(over(one));
        let all = all.into_iter().filter(|one| one.state == State::Frozen);
        let is_old = |one: &Incident| now.since(since(one)) > self.age;
        let (mut beyond, mut left): (Vec<_>, Vec<_>) = all.partition(is_old);
        // What ended in the future ended before the clock was set back.
        left.sort_by_key(|one| (since(one) <= now, since(one)));
        let mut bytes: u64 = left.iter().map(|one| one.size).sum();
        let mut n = left.len();
        let is_beyond = |oldest: &Incident| {
            let is = n > self.n || bytes > self.size.0;
            (n, bytes) = (n - 1, bytes.saturating_sub(oldest.size));
            is
        };
        beyond.extend(left.into_iter().take_while(is_beyond));
        beyond
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isobar_core::model::sample::Moment;

    #[test]
    fn oldest_of_goes_by_a_clock_that_was_set_back() {
        let one = |day: u64| {
            let wall = Nanos(day * DAY);
            let at = Moment { wall, ..Moment::default() };
            let (name, state) = (day.to_string(), State::Frozen);
            Incident { name, state, begin: at, end: Some(at), ..Incident::default() }
        };
        let beyond = Retention::USUAL.oldest_of([1, 100].map(one).into(), Nanos(60 * DAY));
        assert_eq!(beyond, [one(1)], "one of the future keeps no old one");
        let two = Retention { n: 2, ..Retention::USUAL };
        #[rustfmt::skip]
        let table = [
            // today, days of the incidents, which one goes
            (20, [10, 11, 19], "10"),
            (20, [19, 21, 22], "21"), // the clock was at 22 before
            (5,  [10, 11, 5],  "10"),
        ];
        for (today, days, want) in table {
            let beyond = two.oldest_of(days.map(one).into(), Nanos(today * DAY));
            let names: Vec<_> = beyond.iter().map(|one| one.name.as_str()).collect();
            assert_eq!(names, [want], "{today} {days:?}");
        }
    }
}
