//! Looks keys up in the order in which a map has them, faster than one by one from its root.

use std::collections::btree_map::Iter;
use std::iter::Peekable;

/// A map that is walked once, beside another one with keys in the same order.
#[derive(Debug)]
pub(crate) struct Along<'a, K, V>(Peekable<Iter<'a, K, V>>);

impl<'a, K: Ord, V> Along<'a, K, V> {
    pub(crate) fn of(all: impl IntoIterator<IntoIter = Iter<'a, K, V>>) -> Self {
        Self(all.into_iter().peekable())
    }

    /// The value at `key`, which is greater than the key before.
    pub(crate) fn get(&mut self, key: &K) -> Option<&'a V> {
        while self.0.next_if(|(passed, _)| *passed < key).is_some() {}
        self.0.next_if(|(there, _)| *there == key).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn get_finds_what_a_look_from_the_root_finds() {
        let all: BTreeMap<u32, u32> = [2, 3, 5, 8, 13].map(|n| (n, n * 10)).into();
        for step in 1..9 {
            let mut along = Along::of(&all);
            for key in (0..20).step_by(step) {
                assert_eq!(along.get(&key), all.get(&key), "{key}, each {step}");
            }
        }
    }
}
