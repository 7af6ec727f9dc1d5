//! How much a recording may hold: what the operator set, and less on a disk that has little left.

use isobar_core::model::units::{Bytes, Nanos};

/// Maximum size and age. Segments beyond the age are deleted; for want of room the oldest ones are
/// thinned, as long as thinned ones hold little, and else deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Of all segments together.
    pub size: Bytes,
    /// Of the first tick, in time in which the node was up.
    pub age: Nanos,
}

impl Default for Bounds {
    /// One day, and the maximum that a node of 500 cgroups writes in a day.
    fn default() -> Self {
        Self { size: Bytes(512 << 20), age: Nanos(24 * 3_600 * Nanos::SECOND.0) }
    }
}

impl Bounds {
    /// A smaller recording would be little more than headers.
    pub const LEAST_SIZE: Bytes = Bytes(1 << 20);
    pub const LEAST_AGE: Nanos = Nanos(60 * Nanos::SECOND.0);
    /// Of a recording in memory: ten minutes, and what a node of 500 cgroups writes in them.
    pub const IN_MEMORY: Self = Self { size: Bytes(12 << 20), age: Nanos(600 * Nanos::SECOND.0) };
    /// Deletion is by segment: an eighth of the maximum at a time.
    pub(super) const SEGMENTS: u64 = 8;
    /// Thinned segments are added while they hold less than this part of all: most of the room is for
    /// the last hours with every tick.
    pub(super) const THINNED: u64 = 4;
    /// The part of a disk's free space that a recording takes at most.
    const SHARE: u64 = 10;
    /// On a full disk it keeps the smaller of these parts of its own maximum and of the disk: that is
    /// where the ticks are in which the disk was filled.
    const KEPT: u64 = 8;
    const KEPT_OF_DISK: u64 = 50;

    /// These bounds, if they are no smaller than the least.
    ///
    /// # Errors
    /// Else, with the words for the operator.
    pub fn checked(self) -> Result<Self, TooSmall> {
        match self.size < Self::LEAST_SIZE || self.age < Self::LEAST_AGE {
            true => Err(TooSmall),
            false => Ok(self),
        }
    }

    /// Maximum size now, where the recording holds `held` bytes. A node evicts pods for want of disk
    /// space, and isobar's files would be in the way of theirs.
    pub(super) fn most(self, held: u64, disk: Option<Disk>) -> u64 {
        let Some(Disk { left, capacity }) = disk else { return self.size.0 };
        let share = held.saturating_add(left) / Self::SHARE;
        let kept = (self.size.0 / Self::KEPT).min(capacity / Self::KEPT_OF_DISK);
        self.size.0.min(share.max(kept).max(Self::LEAST_SIZE.0))
    }

    pub(in crate::record) fn segment_age(self) -> Nanos {
        Nanos(self.age.0 / Self::SEGMENTS)
    }
}

/// Bounds that would leave little more than headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a recording needs at least {} MiB and {} s", Bounds::LEAST_SIZE.0 >> 20, Bounds::LEAST_AGE.0 / 1_000_000_000)]
pub struct TooSmall;

/// The disk of a recording, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Disk {
    /// What a program without privileges may still write.
    pub(super) left: u64,
    pub(super) capacity: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_leaves_a_full_disk_to_others() {
        const MIB: u64 = 1 << 20;
        #[rustfmt::skip]
        let table = [
            // asked for, held, left on the disk and its size, maximum; in MiB
            (512, 0,   None,                    512),
            (512, 0,   Some((20_000, 100_000)), 512),
            (512, 0,   Some((5_120,  100_000)), 512),
            (512, 0,   Some((3_000,  100_000)), 300),
            (512, 300, Some((2_700,  100_000)), 300), // what it holds itself changes nothing
            (512, 300, Some((200,    100_000)), 64),  // an eighth of what was asked for
            (512, 64,  Some((0,      100_000)), 64),  // and no less after that
            (512, 300, Some((200,    1_000)),   50),
            (512, 50,  Some((0,      1_000)),   20),  // a fiftieth of a small disk
            (512, 20,  Some((0,      1_000)),   20),
            (512, 0,   Some((0,      10)),      1),
            (8,   0,   Some((60,     100_000)), 6),
            (8,   0,   Some((0,      100_000)), 1),
        ];
        for (size, held, disk, want) in table {
            let bounds = Bounds { size: Bytes(size * MIB), ..Bounds::default() };
            let of = |(left, capacity)| Disk { left: left * MIB, capacity: capacity * MIB };
            let got = bounds.most(held * MIB, disk.map(of));
            assert_eq!(got, want * MIB, "{size} {held} {disk:?}");
        }
    }
}
