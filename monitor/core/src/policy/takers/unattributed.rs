//! What the node has in use and no party holds, from reading to reading.

use super::figures::Counts;
use super::{Slot, TakerStanding};
use crate::model::units::Bytes;

impl TakerStanding {
    /// Mends the last reading but one. The node's figure is read after those of the parties, so what a
    /// party gave back in between was missing in it already: then less belonged to no party than in the
    /// readings before and after, and all that is compared with that reading would seem to have more.
    pub(super) fn mend(&mut self) {
        let Some(first) = self.slots.len().checked_sub(3) else { return };
        let rests: Vec<_> = (first..first + 3).map(|slot| self.unattributed(slot)).collect();
        let [Some(before), Some(now), Some(after)] = rests[..] else { return };
        let dip = u64::try_from(before.min(after) - now).unwrap_or_default();
        let Slot { node, .. } = &mut self.slots[first + 1];
        *node = node.map(|node| Bytes(node.0.saturating_add(dip)));
    }

    /// What belonged to no party that is there, nor to one that has ended since; may be below 0.
    fn unattributed(&self, slot: usize) -> Option<i128> {
        let held = |readings| i128::from(self.at(readings, slot, Counts::Held));
        let Slot { node, ended, .. } = self.slots[slot];
        let held: i128 = self.parties.values().map(held).sum();
        Some(i128::from(node?.0) - held - i128::from(ended.0))
    }
}
