//! One tick of a recording, and where it stands to the moment that was looked for.

use isobar_core::model::sample::{Moment, Sample};
use isobar_core::model::units::Nanos;

/// One tick as it was recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recorded {
    pub sample: Sample,
    /// The decision, in the bytes in which it was written.
    pub decision: String,
    /// It stands before the moment that was looked for, also if the wall clock stood later.
    is_before: bool,
    /// It stands after this moment, also if the wall clock was set back since.
    after: Nanos,
}

impl Recorded {
    /// Whether it ends a search for the last tick that is no later than `wall`.
    pub fn is_later(&self, wall: Nanos) -> bool {
        !self.is_before && (self.sample.at.wall > wall || wall <= self.after)
    }
}

/// The moment that was looked for.
#[derive(Default)]
pub(super) struct Sought {
    /// By the wall clock; 0 if there is none.
    pub(super) wall: Nanos,
    /// In the chapter that was found: see [`Place`](crate::record::index::Place).
    pub(super) until: Nanos,
    /// The moment, once the wall clock was set back after it.
    after: Nanos,
}

impl Sought {
    /// The tick that follows the one at `before`.
    pub(super) fn recorded(
        &mut self,
        sample: Sample,
        decision: String,
        before: Moment,
    ) -> Recorded {
        let is_before = sample.at.boot <= self.until;
        if !is_before && sample.at.wall.plus(Nanos::SECOND) < before.wall {
            self.after = self.wall;
        }
        Recorded { sample, decision, is_before, after: self.after }
    }
}
