//! What is needed of a victim: how much is missing, and from how much taken on a candidate is a
//! cause of that.

use std::collections::BTreeSet;

use super::contender::Contender;
use crate::model::cgroup::CgroupId;
use crate::model::pod::Place;
use crate::model::snapshot::Snapshot;
use crate::model::units::{Bytes, Nanos};
use crate::policy::takers::{self, Counts, Lost};

/// What is known of a shortage of memory.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shortfall {
    /// How much more must be left; 0 if it is no amount, or not known.
    pub missing: Bytes,
    /// Pages are read back as fast as they are dropped, so page cache is in use.
    pub is_thrashing: bool,
}

/// What the order `cause` compares candidates with.
#[derive(Debug, Clone, Default)]
pub struct Need {
    pub shortfall: Shortfall,
    /// A candidate that took this much is a cause; `None`: a quarter of what the largest took.
    pub taker_from: Option<Bytes>,
    /// The most harm that a cgroup does that is not a candidate, per second.
    pub outside_harm: Option<Nanos>,
}

/// Of what is missing, the part that is worth ending a candidate for, and that makes it a cause.
const REAL_PART: u64 = 8;

/// Of what was lost, the part that growth above a request must be to be the cause.
const OF_LOST: u64 = 32;

impl Shortfall {
    pub(super) fn real_part(self) -> Bytes {
        Bytes(self.missing.0 / REAL_PART)
    }

    /// What counts as taken, and as freed.
    pub(super) fn counts(self) -> Counts {
        if self.is_thrashing { Counts::WithCache } else { Counts::Held }
    }
}

/// What each contender took, and from how much on it is a cause.
///
/// Growth above the request counts, because growth within it was promised. Only where that makes
/// no contender a cause does all growth count.
pub(super) fn takers(
    contenders: Vec<Contender>,
    lost: &Lost,
    snapshot: &Snapshot,
    real_part: Bytes,
) -> (Vec<Contender>, Bytes) {
    if !lost.is_established() {
        return (contenders, Bytes(u64::MAX));
    }
    let uids: BTreeSet<&str> = contenders.iter().map(|one| one.uid.as_str()).collect();
    let is_contender = |id: CgroupId| {
        snapshot.scopes.get(&id).is_some_and(|scope| match &scope.place {
            Place::Pod { uid, .. } => uids.contains(uid.as_str()),
            _ => uids.contains(&*scope.path.0),
        })
    };
    let outside = lost.largest_but(is_contender);
    let from = |largest: Option<Bytes>| {
        let largest = largest.unwrap_or_default().max(outside);
        takers::taker_from(largest).max(real_part)
    };
    let above: Vec<Option<Bytes>> = contenders.iter().map(taken_above_request).collect();
    let least = Bytes(lost.lost().0 / OF_LOST);
    let from_above = from(above.iter().copied().flatten().max()).max(least);
    if above.iter().flatten().any(|taken| *taken >= from_above) {
        let own = contenders.into_iter().zip(above);
        return (own.map(|(one, taken)| Contender { taken, ..one }).collect(), from_above);
    }
    let largest = contenders.iter().filter_map(|one| one.taken).max();
    (contenders, from(largest))
}

/// What it took beyond its request; all of it where the request is not known.
fn taken_above_request(contender: &Contender) -> Option<Bytes> {
    let taken = contender.taken?;
    let Some((usage, request)) = contender.usage.zip(contender.request) else {
        return Some(taken);
    };
    let above = if usage > request { usage.minus(request).to_u64() } else { 0 };
    Some(taken.min(Bytes(above)))
}

impl Need {
    pub(super) fn taker_from(contenders: &[Contender]) -> Bytes {
        let largest = contenders.iter().filter_map(|one| one.taken).max();
        takers::taker_from(largest.unwrap_or_default())
    }
}
