//! Which ticks of a recording belong to an incident.

use super::Incident;
use super::watch::{BEFORE, LONGEST};
use isobar_core::model::sample::Moment;
use isobar_core::model::units::Nanos;

/// Which ticks belong to an incident, by both clocks: the wall clock may pass a time twice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Within {
    from: Moment,
    to: Moment,
    /// The wall clock was set back in between: by the clock since the boot alone, which cannot be set.
    by_boot: bool,
}

impl Within {
    pub(super) const EVERYTHING: Self = Self {
        from: Moment { boot: Nanos(0), wall: Nanos(0) },
        to: Moment { boot: Nanos(u64::MAX), wall: Nanos(u64::MAX) },
        by_boot: false,
    };

    pub(super) fn of(Incident { begin, end, .. }: &Incident) -> Self {
        let from = Moment { boot: begin.boot.since(BEFORE), wall: begin.wall.since(BEFORE) };
        let longest = Moment { boot: begin.boot.plus(LONGEST), wall: begin.wall.plus(LONGEST) };
        let to = end.unwrap_or(longest);
        let by_boot = begin.wall.plus(to.boot.since(begin.boot)) > to.wall.plus(Nanos::SECOND);
        Self { from, to, by_boot }
    }

    /// Whether a chapter of the boot `boot_id` has none of its ticks: by the clock since the boot, a tick of
    /// another boot may be taken for one.
    pub(super) fn is_foreign(self, boot_id: &str, incident: &Incident) -> bool {
        self.by_boot && !incident.boot_id.is_empty() && incident.boot_id != boot_id
    }

    /// By the wall clock, no tick of it is earlier than the one, or later than the other.
    pub(super) fn wall(self) -> [Nanos; 2] {
        let Self { from, to, .. } = self;
        let lasts = to.boot.since(from.boot);
        [from.wall.min(to.wall.since(lasts)), to.wall.max(from.wall.plus(lasts))]
    }

    pub(super) fn has(self, at: Moment) -> bool {
        let Self { from, to, by_boot } = self;
        (from.boot..=to.boot).contains(&at.boot)
            && (by_boot || (from.wall..=to.wall).contains(&at.wall))
    }

    /// `has_begun` says that a tick of the incident was there: it lies within one boot, and the wall clock
    /// may go back to what it was.
    pub(super) fn is_over(self, at: Moment, has_begun: bool) -> bool {
        at.boot > self.to.boot && (self.by_boot || has_begun)
    }
}
