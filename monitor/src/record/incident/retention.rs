//! How much is kept of incidents. The oldest are removed first, by the time in which the node was up.

use std::cmp::Reverse;

use super::boots::Boots;
use super::{Incident, State, Trigger};
use isobar_core::model::sample::Moment;
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

    /// Frozen incidents that are too much, too old or too many, the oldest first. Those without a kill, or
    /// with kills at pods' own limits alone, have a half: what comes and goes for days hides no other kill.
    pub(super) fn beyond(self, all: Vec<Incident>, ages: &Ages) -> Vec<Incident> {
        let is_grave = |one: &Trigger| one.kind.is_kill() && !one.at_own_limit;
        let is_gentle = |one: &Incident| match one.triggers.is_empty() {
            true => !one.kinds.iter().any(|kind| kind.is_kill()),
            false => !one.triggers.iter().any(is_grave),
        };
        let half = Self { size: Bytes(self.size.0 / 2), n: self.n / 2, ..self };
        let gentle = all.iter().filter(|one| is_gentle(one)).cloned().collect();
        let mut beyond = half.oldest_of(gentle, ages);
        let left = all.into_iter().filter(|one| !beyond.contains(one)).collect();
        beyond.extend(self.oldest_of(left, ages));
        beyond
    }

    fn oldest_of(self, all: Vec<Incident>, ages: &Ages) -> Vec<Incident> {
        let all = all.into_iter().filter(|one| one.state == State::Frozen);
        let is_old = |one: &Incident| ages.up(one).is_some_and(|age| age > self.age);
        let (mut beyond, mut left): (Vec<_>, Vec<_>) = all.partition(is_old);
        left.sort_by_key(|one| (Reverse(ages.of(one)), over(one).wall));
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

/// What incidents are as old as.
#[derive(Debug, Default)]
pub(super) struct Ages {
    pub(super) boots: Boots,
    pub(super) wall: Nanos,
}

impl Ages {
    /// In time in which the node was up. `None` where it is not known: of another node's, which was
    /// imported, of one of which only the name is known, and of what an older isobar kept. None of
    /// them is ever too old.
    fn up(&self, one: &Incident) -> Option<Nanos> {
        let is_known = one.imported.is_none() && !one.boot_id.is_empty();
        is_known.then(|| self.boots.since(&one.boot_id, over(one).boot))
    }

    /// Which one is older than another, where there is no room for both.
    fn of(&self, one: &Incident) -> Nanos {
        let by_wall = || self.wall.since(one.imported.unwrap_or(over(one).wall));
        self.up(one).unwrap_or_else(by_wall)
    }
}

fn over(one: &Incident) -> Moment {
    one.end.unwrap_or(one.begin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::incident::Kind;

    const USUAL: Retention = Retention::USUAL;
    const TWO: Retention = Retention { n: 2, ..USUAL };

    /// The name is the wall clock's day.
    fn one(boot_id: &str, up: u64, wall: u64) -> Incident {
        let at = Moment { boot: Nanos(up * DAY), wall: Nanos(wall * DAY) };
        let (name, boot_id, state) = (wall.to_string(), boot_id.into(), State::Frozen);
        Incident { name, boot_id, state, begin: at, end: Some(at), ..Incident::default() }
    }

    #[test]
    fn beyond_keeps_a_kill_of_the_node_among_kills_at_limits_of_pods() {
        let kill = |day, at_own_limit| {
            let trigger = Trigger {
                at: Moment::default(),
                kind: Kind::OomKill,
                who: String::new(),
                text: String::new(),
                at_own_limit,
            };
            let kinds = vec![Kind::OomKill];
            Incident { kinds, triggers: vec![trigger], ..one("", 0, day) }
        };
        let old = Incident { triggers: Vec::new(), ..kill(1, true) };
        #[rustfmt::skip]
        let table = [
            // incidents; days of those that go
            (vec![kill(1, false), kill(2, true), kill(3, true)],  vec!["2"]),
            (vec![kill(1, true), kill(2, true), kill(3, true)],   vec!["1", "2"]),
            (vec![kill(1, false), kill(2, false), kill(3, true)], vec!["1"]),
            (vec![old, kill(2, true), kill(3, true)],             vec!["2"]),
        ];
        for (all, want) in table {
            let beyond = TWO.beyond(all, &Ages::default());
            let names: Vec<_> = beyond.iter().map(|one| one.name.as_str()).collect();
            assert_eq!(names, want);
        }
    }

    #[test]
    fn oldest_of_goes_by_the_time_in_which_the_node_was_up() {
        // The boot `a` lasted for 20 days, and `b` has lasted for 15.
        let boots = Boots::default().at("a", Nanos(20 * DAY)).at("b", Nanos(15 * DAY));
        let imported = Incident { imported: Some(Nanos(4_000 * DAY)), ..one("", 0, 4_000) };
        #[rustfmt::skip]
        let table = [
            // the wall clock's day, what is kept, incidents, days of those that go
            (5_365, USUAL, vec![one("b", 1, 5_000)],                     vec![]), // a year ahead
            (5_365, USUAL, vec![one("a", 6, 5_000)],                     vec![]),
            (5_000, USUAL, vec![one("a", 6, 0), one("b", 1, 0)],         vec![]), // both were at 1970
            (5_000, USUAL, vec![one("a", 4, 4_965), one("a", 6, 4_967)], vec!["4965"]),
            (0,     USUAL, vec![one("a", 4, 4_965)],                     vec!["4965"]), // set back
            (5_000, USUAL, vec![one("older", 9, 9_000)],                 vec!["9000"]),
            (5_000, USUAL, vec![one("", 0, 10), imported.clone()],       vec![]), // nothing is known of them
            (5_000, TWO,   vec![one("", 0, 4_990), imported, one("b", 1, 4_900)], vec!["4000"]),
            (5_000, TWO,   vec![one("a", 6, 6_000), one("b", 1, 10), one("b", 2, 9)], vec!["6000"]),
        ];
        for (today, retention, all, want) in table {
            let ages = Ages { boots: boots.clone(), wall: Nanos(today * DAY) };
            let beyond = retention.oldest_of(all.clone(), &ages);
            let names: Vec<_> = beyond.iter().map(|one| one.name.as_str()).collect();
            assert_eq!(names, want, "{today} {all:?}");
        }
    }
}
