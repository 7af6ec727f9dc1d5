//! What is needed of a victim: how much is missing, and from how much taken on a candidate is a
//! cause of that.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::contender::Contender;
use crate::model::cgroup::CgroupId;
use crate::model::snapshot::Snapshot;
use crate::model::threshold::Resource;
use crate::model::units::{Nanos, scale};
use crate::policy::takers::{self, Counts, Lost};

/// What is known of a shortage.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shortfall {
    /// How much more must be left, in bytes, inodes or threads; 0 if it is no amount, or not known.
    pub missing: u64,
    /// Pages are read back as fast as they are dropped, so page cache is in use.
    pub is_thrashing: bool,
}

/// What the order `cause` compares candidates with.
#[derive(Debug, Clone, Default)]
pub struct Need {
    pub shortfall: Shortfall,
    /// A candidate that took this much is a cause; `None`: a quarter of what the largest took.
    pub taker_from: Option<u64>,
    /// Who took this much is named, and may be marked; `None`: who is a cause.
    pub named_from: Option<u64>,
    /// A candidate that frees this much of what it uses above its request, without what it took, is the
    /// cause instead: it holds all that takers were promised or, of several, what is missing and a real part
    /// of that, which is an eighth.
    pub promised: Option<u64>,
    /// Pods grew within what they request alone, and what belongs to no party is more.
    pub is_of_others: bool,
    /// Pages are read back while so much is lost that a candidate which took less than this reads back what
    /// others took from it.
    pub reads_back_below: Option<u64>,
    /// The most that a party took all along that is not a candidate.
    pub lasting_outside: u64,
    /// The most harm that a cgroup does that is not a candidate, per second.
    pub outside_harm: Option<Nanos>,
    /// The largest part of all waiting for disks that a party has, by what disks did for it.
    pub largest_part: Nanos,
}

/// Of what is missing or was taken, the part that is worth ending a candidate for; of what is missing
/// also the one that makes it a cause.
pub(crate) const REAL_PART: u64 = 8;

/// So many may pay together for what others were promised: fewer than `relief.budget` allows by default,
/// which is 5.
const HOLDERS: usize = 3;

/// Of its request, the part that a pod may hold beyond it where another one holds far more beyond its own.
const TOLERATED: u64 = 4;

/// Of what was lost, the part that growth above requests must be to be the cause.
const OF_LOST: u64 = 32;

impl Shortfall {
    pub(super) fn real_part(self) -> u64 {
        self.missing / REAL_PART
    }

    /// What counts as taken, and as freed.
    pub(super) fn counts(self) -> Counts {
        if self.is_thrashing { Counts::WithCache } else { Counts::Held }
    }
}

/// What each contender took, and what makes it a cause.
///
/// Growth above the request counts, because growth within it was promised. Where that makes no
/// contender a cause, one that holds what was promised does; only where none does, all growth. Who is
/// [`excused`] counts only where otherwise no contender would be a cause but by all growth.
pub(super) fn causes(
    contenders: Vec<Contender>,
    (shortfall, resource): (Shortfall, Resource),
    lost: &Lost,
    snapshot: &Snapshot,
) -> (Vec<Contender>, Need) {
    if !lost.is_established {
        return (contenders, Need::of_none(shortfall));
    }
    let excused = excused(&contenders, resource);
    if !excused.is_empty() {
        let (judged, need) =
            judged(contenders.clone(), &excused, (shortfall, resource), lost, snapshot);
        if need.named_from.is_some() || need.promised.is_some() {
            return (judged, need);
        }
    }
    judged(contenders, &BTreeSet::new(), (shortfall, resource), lost, snapshot)
}

/// The uids of those that hold a little more than they request, which is as good as promised: requests are
/// estimates. One that holds far more above its own, and whose end would free more than all of these took so,
/// comes before them.
fn excused(contenders: &[Contender], resource: Resource) -> BTreeSet<String> {
    if resource != Resource::Memory {
        return BTreeSet::new();
    }
    let above = |one: &Contender| held_above_request(one, resource);
    let is_little = |one: &&Contender| {
        one.request.is_some_and(|request| above(one) < request.to_u64() / TOLERATED)
    };
    let open = contenders.iter().filter(|one| one.spared.is_none() && !is_little(one));
    let open = open.filter(|one| above(one) < u64::MAX);
    let most = open.filter_map(|one| Some(above(one).min(one.frees?))).max().unwrap_or_default();
    let excused =
        || contenders.iter().filter(|one| is_little(one) && (1..most).contains(&above(one)));
    let took = excused().filter_map(|one| Some(one.taken?.min(above(one))));
    if took.fold(0, u64::saturating_add) > most {
        return BTreeSet::new();
    }
    excused().map(|one| one.uid.clone()).collect()
}

/// Growth above the request of those that are `excused` does not count.
fn judged(
    contenders: Vec<Contender>,
    excused: &BTreeSet<String>,
    (shortfall, resource): (Shortfall, Resource),
    lost: &Lost,
    snapshot: &Snapshot,
) -> (Vec<Contender>, Need) {
    let uids: BTreeSet<&str> = contenders.iter().map(|one| one.uid.as_str()).collect();
    let is_contender =
        |id: CgroupId| snapshot.scopes.get(&id).is_some_and(|scope| uids.contains(scope.party()));
    let outside = lost.outside(is_contender);
    let need = |from, promised| {
        let taker_from = Some(from);
        let lasting_outside = outside.lasting;
        Need { taker_from, promised, lasting_outside, ..Need::of_none(shortfall) }
    };
    // How much a disk or pids lack tells nothing of what was taken in the last minute or two.
    let least_taken = if resource == Resource::Memory { shortfall.real_part() } else { 0 };
    let from = |largest: Option<u64>| {
        let largest = largest.unwrap_or_default().max(outside.largest).max(outside.unattributed);
        takers::taker_from(largest, resource).max(least_taken)
    };
    let beyond = |one: &Contender| {
        if excused.contains(&one.uid) { 0 } else { held_above_request(one, resource) }
    };
    let part = |one: &Contender, taken: Option<u64>| match (one.lasting?, one.taken?) {
        // It stands still because it is squeezed.
        (lasting, 0) => Some(lasting.min(beyond(one))),
        (lasting, own) => Some(scale(lasting, taken?, own)),
    };
    let above = |one: &Contender| {
        let taken = one.taken.map(|taken| taken.min(beyond(one)));
        (taken, part(one, taken))
    };
    let above: Vec<_> = contenders.iter().map(above).collect();
    let from_above = from(above.iter().filter_map(|(taken, _)| *taken).max());
    let least = lost.lost / OF_LOST;
    let took = |from: u64| {
        let from = Some(from);
        above.iter().filter(move |(taken, lasting)| *taken.max(lasting) >= from)
    };
    // Many that grow alike are a cause together, unless requests promised most of what was taken.
    let are_many = || {
        let all = contenders.iter().filter_map(|one| one.taken).fold(0, u64::saturating_add);
        let above = took(from_above).filter_map(|(taken, _)| *taken);
        let above = above.fold(0, u64::saturating_add);
        above >= least && above > all / 2
    };
    let named_from = Some(from_above);
    let from_above = if are_many() { from_above } else { from_above.max(least) };
    // Beside many others that grow alike one is a cause that took a real part of what they took.
    let from_above = from_above.max(outside.alike / REAL_PART);
    let largest = contenders.iter().filter_map(|one| one.taken).max();
    let from_all = from(largest);
    // What a party took that is no candidate was promised to it by no request, either.
    let is_outside = outside.alike > 0 && outside.alike >= from_all;
    // What belongs to no party is not known as well of memory.
    let is_of_others = largest < Some(outside.unattributed);
    let is_outside = is_outside || is_of_others && resource == Resource::Storage;
    if took(from_above).next().is_some() || is_outside {
        let own = contenders.into_iter().zip(above);
        let own = own.map(|(one, (taken, lasting))| Contender { taken, lasting, ..one });
        let reads_back_below = Some(from_above).filter(|_| lost.is_large && shortfall.is_thrashing);
        return (own.collect(), Need { named_from, reads_back_below, ..need(from_above, None) });
    }
    let promised = promised(&contenders, from_all).filter(|_| !is_of_others);
    let promised = promised.and_then(|left| {
        let left = left.saturating_add(shortfall.missing);
        let held_by = |least: u64| {
            let holders = contenders.iter().filter(|one| one.holds_promised(least));
            let mut frees: Vec<u64> = holders.filter_map(Contender::frees_promised).collect();
            frees.sort_unstable_by_key(|frees| Reverse(*frees));
            let most = frees.into_iter().take(HOLDERS).reduce(u64::saturating_add)?;
            (most >= left).then_some(least)
        };
        held_by(left).or_else(|| held_by(shortfall.missing.max(left / REAL_PART)))
    });
    (contenders, Need { is_of_others, ..need(from_all, promised) })
}

/// Whether pods that have a real part of what is missing have less together: then it is in no pod, and to
/// end them would be in vain.
pub(super) fn is_in_no_pod(contenders: &[Contender], shortfall: Shortfall) -> bool {
    let frees = contenders.iter().filter_map(|one| one.frees);
    let real = frees.filter(|frees| *frees > 0 && *frees >= shortfall.real_part());
    real.reduce(u64::saturating_add).is_some_and(|all| all < shortfall.missing)
}

/// What takers may still take of what they request; `None` if there are none.
fn promised(contenders: &[Contender], from: u64) -> Option<u64> {
    let takers = contenders.iter().filter(|one| one.took().is_some_and(|took| took >= from));
    let left = takers
        .map(|one| one.used().zip(one.request).map_or(0, |(used, request)| request.beyond(used)));
    left.reduce(u64::saturating_add)
}

/// What it holds beyond its request; no bound where the request is not known, and of inodes.
fn held_above_request(contender: &Contender, resource: Resource) -> u64 {
    let request = contender.request.filter(|_| resource != Resource::Inodes);
    contender.used().zip(request).map_or(u64::MAX, |(used, request)| used.beyond(request))
}

impl Need {
    /// Where no candidate is a cause.
    pub(super) fn of_none(shortfall: Shortfall) -> Self {
        Self { shortfall, taker_from: Some(u64::MAX), ..Self::default() }
    }

    pub(super) fn taker_from(contenders: &[Contender]) -> u64 {
        let largest = contenders.iter().filter_map(|one| one.taken).max();
        takers::taker_from(largest.unwrap_or_default(), Resource::Memory)
    }
}
