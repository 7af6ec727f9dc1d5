//! A chart before it is drawn: lines over slots of time, their thresholds, and where a condition
//! was True. A slot is a second or longer: a page stays small however long the incident lasted and
//! however often it was sampled.

use isobar::record::incident::Incident;
use isobar_core::model::condition::ScopeName;
use isobar_core::model::units::{Moment, Nanos};

/// At most so many points a line has.
const SLOTS: u64 = 300;

/// Which of several readings in one slot is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    Highest,
    Lowest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Hundredths of a percent.
    Percent,
    Bytes,
    MilliCpu,
}

#[derive(Debug)]
pub(super) struct Line {
    pub(super) name: String,
    /// One for each slot; `None` where nothing was measured.
    pub(super) points: Vec<Option<u64>>,
    /// What it is compared with.
    pub(super) threshold: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Chart {
    pub(super) title: &'static str,
    pub(super) note: String,
    pub(super) unit: Unit,
    pub(super) lines: Vec<Line>,
    /// Slots in which a condition was True.
    pub(super) held: Vec<bool>,
}

/// The time axis of all charts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    pub(super) from: Moment,
    pub(super) slot: Nanos,
    pub(super) n: usize,
}

impl Axis {
    pub(super) fn of(incident: &Incident) -> Self {
        let span = incident.to.boot.since(incident.from.boot);
        let slot = Nanos::SECOND.0 * span.0.div_ceil(SLOTS * Nanos::SECOND.0).max(1);
        let n = usize::try_from(span.0 / slot + 1).unwrap_or(1);
        Self { from: incident.from, slot: Nanos(slot), n }
    }

    pub(super) fn slot(self, at: Moment) -> usize {
        let n = at.boot.since(self.from.boot).0 / self.slot.0;
        usize::try_from(n).unwrap_or(self.n).min(self.n - 1)
    }

    /// The wall clock where a slot begins.
    pub(super) fn wall(self, slot: usize) -> Nanos {
        self.from.wall.plus(Nanos(self.slot.0 * slot as u64))
    }
}

impl Chart {
    pub(super) fn line(&mut self, scope: ScopeName, n: usize) -> &mut Line {
        let name = match scope {
            ScopeName::System => "the node",
            ScopeName::Kubepods => "all pods",
        };
        let known = self.lines.iter().position(|line| line.name == name);
        let place = known.unwrap_or_else(|| {
            self.lines.push(Line { name: name.into(), points: vec![None; n], threshold: None });
            self.lines.len() - 1
        });
        &mut self.lines[place]
    }

    /// True if there is anything to draw.
    pub(super) fn is_measured(&self) -> bool {
        self.lines.iter().any(Line::is_measured)
    }

    /// True if a condition was True, or a figure came to its threshold.
    pub(super) fn is_high(&self) -> bool {
        let is_high = |line: &Line| {
            let points = line.points.iter().flatten();
            line.threshold.is_some_and(|threshold| points.max() >= Some(&threshold))
        };
        self.held.contains(&true) || self.lines.iter().any(is_high)
    }

    /// True if nothing in it came near half of its threshold.
    pub(super) fn is_calm(&self) -> bool {
        let is_low = |line: &Line| match (line.points.iter().flatten().max(), line.threshold) {
            (Some(highest), Some(threshold)) => *highest < threshold / 2,
            (highest, _) => highest.is_none(),
        };
        self.unit == Unit::Percent && !self.held.contains(&true) && self.lines.iter().all(is_low)
    }
}

impl Line {
    pub(super) fn is_measured(&self) -> bool {
        self.points.iter().any(Option::is_some)
    }
}

pub(super) fn put(points: &mut [Option<u64>], slot: usize, value: Option<u64>, keep: Keep) {
    let kept = points[slot];
    points[slot] = match (kept, value, keep) {
        (Some(kept), Some(new), Keep::Highest) => Some(kept.max(new)),
        (Some(kept), Some(new), Keep::Lowest) => Some(kept.min(new)),
        (kept, new, _) => new.or(kept),
    };
}

/// How far it rose above where it had been before.
pub(super) fn growth(points: &[Option<u64>]) -> Option<u64> {
    let (mut lowest, mut most) = (u64::MAX, None);
    for value in points.iter().flatten() {
        lowest = lowest.min(*value);
        most = most.max(Some(value - lowest));
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_counts_from_the_lowest_before() {
        #[rustfmt::skip]
        let table: [(&[Option<u64>], Option<u64>); 5] = [
            // points, growth
            (&[Some(5), Some(9)],                   Some(4)),
            (&[Some(9), Some(5)],                   Some(0)),
            (&[Some(9), Some(2), None, Some(6)],    Some(4)),
            (&[Some(2), Some(9), Some(1), Some(3)], Some(7)),
            (&[None],                               None),
        ];
        for (points, want) in table {
            assert_eq!(growth(points), want, "{points:?}");
        }
    }

    #[test]
    fn axis_has_at_most_so_many_slots() {
        let at =
            |seconds: u64| Moment { boot: Nanos(seconds * Nanos::SECOND.0), ..Moment::default() };
        #[rustfmt::skip]
        let table = [
            // from, to, slots, slot of the end
            (100, 100,   1,   0),
            (100, 310,   211, 210),
            (100, 820,   241, 240),
            (0,   7_200, 301, 300),
        ];
        for (from, to, n, last) in table {
            let axis = Axis::of(&Incident { from: at(from), to: at(to), ..Incident::default() });
            assert_eq!((axis.n, axis.slot(at(to))), (n, last), "{from} to {to}");
            assert_eq!(axis.slot(at(to + 60)), n - 1, "past the end");
        }
    }
}
