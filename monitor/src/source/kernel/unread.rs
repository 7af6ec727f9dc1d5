//! A map that cannot be read. What it counted is then unknown: empty, it would look like calm.

use std::fmt::Display;
use std::io;

use isobar_core::model::sample::{Gap, GapReason};

/// A map of the kernel side that could be read in no way. The counters of this tick are not to be
/// had; those of the next may be, and nothing is lost between.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read the map {map}: {why}")]
pub struct Unread {
    map: &'static str,
    why: String,
}

impl Unread {
    /// The map, and why.
    #[must_use]
    pub fn of(map: &'static str, why: impl Display) -> Self {
        Self { map, why: why.to_string() }
    }

    /// As an operator is told.
    #[must_use]
    pub fn gap(&self) -> Gap {
        Gap { object: "kernel side".into(), why: GapReason::Failed, detail: self.to_string() }
    }
}

/// What was read in batches or, where that failed, what `singly` reads entry by entry.
pub(super) fn either<T, E: Display>(
    map: &'static str,
    batch: io::Result<T>,
    singly: impl FnOnce() -> Result<T, E>,
) -> Result<T, Unread> {
    batch.or_else(|batch| {
        singly().map_err(|single| Unread::of(map, format_args!("{single} (in batches: {batch})")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_that_can_be_read_in_no_way_is_told_and_not_taken_for_empty() {
        let refused = || Err::<Vec<u64>, _>(io::Error::from_raw_os_error(libc::EPERM));
        #[rustfmt::skip]
        let table = [
            // in batches, entry by entry, read
            (Ok(vec![1]), Err("gone"),   Some(vec![1])),
            (refused(),   Ok(vec![2]),   Some(vec![2])), // Linux before 5.6
            (refused(),   Ok(vec![]),    Some(vec![])),
            (refused(),   Err("gone"),   None),
        ];
        for (batch, singly, want) in table {
            let row = format!("{batch:?} {singly:?}");
            assert_eq!(either("MEMORY", batch, || singly).ok(), want, "{row}");
        }
        let unread = either("MEMORY", refused(), || Err("gone")).unwrap_err();
        assert_eq!(unread.gap().why, GapReason::Failed);
        let detail = "cannot read the map MEMORY: gone (in batches: Operation not permitted";
        assert!(unread.gap().detail.starts_with(detail), "{unread}");
    }
}
