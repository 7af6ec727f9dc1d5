//! Which ticks of a long incident have a place in its file: all of them while it is small; then those of
//! its beginning, around kills and of its end.

use super::Incident;
use super::watch::BEFORE;
use isobar_core::model::units::{Bytes, Nanos};

/// How much of the beginning, after a kill and of the end is kept of an incident that takes much.
const BEGINNING: Nanos = Nanos(600 * Nanos::SECOND.0);
const AFTER: Nanos = Nanos(60 * Nanos::SECOND.0);
const END: Nanos = Nanos(300 * Nanos::SECOND.0);

#[derive(Debug)]
pub(super) struct Room {
    /// Every tick is kept up to so many bytes.
    all: u64,
    /// None is kept beyond so many.
    most: u64,
    /// Which are kept in between, by the clock of the kernel.
    first: Vec<(Nanos, Nanos)>,
}

impl Room {
    /// In a file of `most` bytes. A quarter of it is for every tick, a sixteenth for the last header and
    /// the line that tells of the incident.
    pub(super) fn of(incident: &Incident, Bytes(most): Bytes) -> Self {
        let begin = incident.begin.boot;
        let kills = incident.triggers.iter().filter(|one| one.kind.is_kill());
        let kills = kills.map(|one| (one.at.boot.since(BEFORE), one.at.boot.plus(AFTER)));
        let end = incident.end.map(|end| (end.boot.since(END), end.boot));
        let beginning = (begin.since(BEFORE), begin.plus(BEGINNING));
        let first = kills.chain(end).chain([beginning]).collect();
        Self { all: most / 4, most: most - most / 16, first }
    }

    /// Whether the tick of this moment has a place in a file that has `size` bytes.
    pub(super) fn is_for(&self, at: Nanos, size: u64) -> bool {
        let is_first = || self.first.iter().any(|(from, to)| (*from..=*to).contains(&at));
        size < self.all || (size < self.most && is_first())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::incident::{Kind, Trigger};
    use isobar_core::model::sample::Moment;

    #[test]
    fn room_is_for_kills_and_both_ends_of_a_long_incident() {
        let second = |n: u64| Nanos(n * Nanos::SECOND.0);
        let moment = |n| Moment { boot: second(n), wall: Nanos(0) };
        let trigger = |at, kind| {
            let (who, text) = Default::default();
            Trigger { at: moment(at), kind, who, text, at_own_limit: false }
        };
        let triggers = vec![
            trigger(1_000, Kind::Condition),
            trigger(2_500, Kind::OomKill),
            trigger(3_500, Kind::Condition),
        ];
        let (begin, end) = (moment(1_000), Some(moment(4_600)));
        let incident = Incident { begin, end, triggers, ..Incident::default() };
        let room = Room::of(&incident, Bytes(64 << 20));
        #[rustfmt::skip]
        let table = [
            // second, MiB that the file has, is it kept?
            (2_000, 15, true),  // while it is small
            (2_000, 16, false),
            (1_600, 16, true),  // the beginning
            (1_601, 16, false),
            (2_379, 16, false),
            (2_380, 16, true),  // before the kill, and after it
            (2_560, 59, true),
            (2_561, 59, false),
            (3_500, 16, false), // a gentler trigger
            (4_299, 16, false),
            (4_300, 59, true),  // the end
            (4_600, 60, false), // the file is full
        ];
        for (at, size, want) in table {
            assert_eq!(room.is_for(second(at), size << 20), want, "second {at}, {size} MiB");
        }
    }
}
