//! A segment that is complete, and its age.

use isobar_core::model::sample::Moment;
use isobar_core::model::units::Nanos;

/// A complete segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Old {
    pub(super) size: u64,
    pub(super) begun: Since,
    /// This agent has thinned it. One that another agent thinned is found to have nothing to lose.
    pub(super) is_thin: bool,
}

/// When a segment began.
#[derive(Debug, Clone, Copy)]
pub(super) enum Since {
    /// This agent wrote it. The time since the node was started is not set anew, as the wall clock may be:
    /// a node often begins with a wrong one.
    Boot(Nanos),
    /// It was found; 0 if its first line is lost.
    Wall(Nanos),
}

impl Old {
    pub(super) fn new(size: u64, begun: Since) -> Self {
        Self { size, begun, is_thin: false }
    }
}

impl Since {
    pub(super) fn until(self, now: Moment) -> Nanos {
        match self {
            Self::Boot(begun) => now.boot.since(begun),
            Self::Wall(begun) => now.wall.since(begun),
        }
    }
}
