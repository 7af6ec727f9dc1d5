//! What the node has in use more than before, and no party holds.

use super::Slot;

/// What all parties that are there held at a first reading, at the last but one, and at the last.
#[derive(Debug, Default)]
pub(super) struct Sums {
    held: [i128; 3],
    /// Given back between the last two, by those who then held less.
    given_back: i128,
}

impl Sums {
    pub(super) fn add(&mut self, held: [u64; 3]) {
        let held = held.map(i128::from);
        self.held.iter_mut().zip(held).for_each(|(sum, held)| *sum += held);
        self.given_back += (held[1] - held[2]).max(0);
    }

    /// The growth that belongs to no party; 0 where the node's is not known. While a party ends, the
    /// node's figure may be of before that and the party's of after it: what all gave back since the last
    /// but one reading may be what the node seems to have in use more since then.
    pub(super) fn unattributed(&self, slots: &[Slot; 3]) -> u64 {
        // Those that ended since held something, too.
        let ended = |n: usize| i128::from(slots[n].ended.0);
        let rest = |n: usize| Some(i128::from(slots[n].node?.0) - self.held[n] - ended(n));
        let grown = |from| Some(rest(2)? - rest(from)?);
        let Some(all) = grown(0) else { return 0 };
        let late = grown(1).unwrap_or_default().clamp(0, self.given_back + ended(1));
        u64::try_from(all - late).unwrap_or_default()
    }
}
