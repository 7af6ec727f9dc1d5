//! How often and for how long a limit of all pods would have been reached, and by which pods.
//! In: at each tick what was used and the limit. Out: [`Met`].

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use isobar_core::model::cgroup::{Cgroup, CgroupId, CgroupPath};
use isobar_core::model::places::Places;
use isobar_core::model::pod::Place;
use isobar_core::model::quantity::Quantity;
use isobar_core::model::snapshot::working_set;
use isobar_core::model::units::{MilliCpu, Moment, Nanos};
use isobar_core::model::workload::{Pods, by_cgroup_uid, name_at};
use serde::Serialize;

/// Use is close to a limit from this share of it on, in percent.
const CLOSE: u64 = 95;
/// Pods that are named.
const NAMED: usize = 3;

/// The cgroups of one tick, shared with the record.
pub(super) type Tree = Arc<BTreeMap<CgroupId, Arc<Cgroup>>>;

/// What a limit would have met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "LimitMet"))]
#[serde(rename_all = "camelCase")]
pub struct Met {
    /// Ticks in which it is known what was used.
    pub ticks: u64,
    /// The most that was used, and when.
    pub most: Quantity,
    pub at: Moment,
    /// By how much the limit was exceeded at most; `None` if it was not.
    pub excess: Option<Quantity>,
    pub above: Tally,
    /// The first tick above the limit; `None` if there was none.
    pub first: Option<Moment>,
    /// At 95 % of the limit, or above.
    pub close: Tally,
    /// The longest time in which use was close without a break; `None` if it never was.
    pub longest: Option<Span>,
    /// The pods that used most when use was highest; empty if it was never close.
    pub largest: Vec<Share>,
    /// The pods whose memory grew most since the tick before use was close; of CPU always empty.
    pub grew: Vec<Share>,
}

/// How often, and for how long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "LimitTally"))]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    pub ticks: u64,
    /// From the tick before the first of each time on.
    pub lasted: Nanos,
    /// How often it began.
    pub times: u64,
    #[serde(skip)]
    is_on: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "LimitSpan"))]
#[serde(rename_all = "camelCase")]
pub struct Span {
    /// The tick before the first that was close, unless the record begins with that.
    pub from: Moment,
    /// The last that was.
    pub to: Moment,
}

/// A pod by its name, or by its cgroup where no name is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "PodShare"))]
#[serde(rename_all = "camelCase")]
pub struct Share {
    pub pod: String,
    pub amount: Quantity,
}

/// What was used in one tick.
pub(super) struct Seen<'a> {
    pub(super) at: Moment,
    /// Since the tick before; `None` after a pause.
    pub(super) passed: Option<Nanos>,
    pub(super) used: u64,
    pub(super) limit: u64,
    pub(super) tree: &'a Tree,
    /// Of the tick before.
    pub(super) before: Option<&'a Tree>,
    /// Where the cgroup of all pods is.
    pub(super) kubepods: Option<&'a CgroupPath>,
    pub(super) pods: Option<&'a Pods>,
}

#[derive(Debug, Default)]
pub(super) struct Reach {
    ticks: u64,
    /// Also where it was never close.
    most: Option<(u64, Moment)>,
    excess: Option<u64>,
    above: Tally,
    first: Option<Moment>,
    close: Tally,
    /// While use is close: since when, and the cgroups before.
    open: Option<(Span, Option<Tree>)>,
    longest: Option<Span>,
    peak: Option<Peak>,
}

/// The tick of the most that was used while it was close to the limit.
#[derive(Debug)]
struct Peak {
    used: u64,
    tree: Tree,
    /// Of the tick before, and how long that was ago.
    before: Option<(Tree, Nanos)>,
    /// Of the tick before use was close.
    start: Option<Tree>,
    /// Where the cgroup of all pods was.
    kubepods: Option<CgroupPath>,
    pods: Option<Pods>,
}

/// Whose use is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Memory,
    Cpu,
}

impl Of {
    pub(super) fn quantity(self, amount: u64) -> Quantity {
        match self {
            Self::Memory => Quantity::bytes(amount),
            Self::Cpu => Quantity::milli(amount),
        }
    }
}

impl Reach {
    pub(super) fn add(&mut self, seen: &Seen<'_>) {
        let Seen { at, passed, used, limit, .. } = *seen;
        if passed.is_none() {
            self.pause();
        }
        let lasted = passed.unwrap_or_default();
        let is_above = used > limit;
        let is_close = u128::from(used) * 100 >= u128::from(limit) * u128::from(CLOSE);
        self.ticks += 1;
        self.above.turn(is_above, lasted);
        self.close.turn(is_close, lasted);
        if self.most.is_none_or(|(most, _)| used > most) {
            self.most = Some((used, at));
        }
        if is_above {
            self.excess = self.excess.max(Some(used - limit));
            self.first.get_or_insert(at);
        }
        if !is_close {
            self.open = None;
            return;
        }
        let begun = Moment { boot: at.boot.since(lasted), wall: at.wall.since(lasted) };
        let start = || (Span { from: begun, to: at }, seen.before.cloned());
        let (span, start) = self.open.get_or_insert_with(start);
        span.to = at;
        let length = |span: &Span| span.to.boot.since(span.from.boot);
        if self.longest.is_none_or(|longest| length(span) > length(&longest)) {
            self.longest = Some(*span);
        }
        if self.peak.as_ref().is_none_or(|peak| used > peak.used) {
            let before = seen.before.cloned().zip(passed);
            let (start, tree) = (start.clone(), Arc::clone(seen.tree));
            let (kubepods, pods) = (seen.kubepods.cloned(), seen.pods.cloned());
            self.peak = Some(Peak { used, tree, before, start, kubepods, pods });
        }
    }

    /// What was used is not known for a while.
    pub(super) fn pause(&mut self) {
        self.open = None;
        (self.above.is_on, self.close.is_on) = (false, false);
    }

    /// `None` if it was never known what was used.
    pub(super) fn close(self, of: Of) -> Option<Met> {
        let (most, at) = self.most?;
        let (largest, grew) = self.peak.map(|peak| peak.shares(of)).unwrap_or_default();
        Some(Met {
            ticks: self.ticks,
            most: of.quantity(most),
            at,
            excess: self.excess.map(|excess| of.quantity(excess)),
            above: Tally { is_on: false, ..self.above },
            first: self.first,
            close: Tally { is_on: false, ..self.close },
            longest: self.longest,
            largest,
            grew,
        })
    }
}

impl Tally {
    fn turn(&mut self, is_on: bool, lasted: Nanos) {
        if is_on {
            self.ticks += 1;
            self.lasted = self.lasted.plus(lasted);
            self.times += u64::from(!self.is_on);
        }
        self.is_on = is_on;
    }
}

impl Peak {
    /// The pods that used most, and whose memory grew most.
    fn shares(&self, of: Of) -> (Vec<Share>, Vec<Share>) {
        let (places, pods) = (Places::of(&self.tree, self.kubepods.as_ref()), self.pods.as_ref());
        let names = pods.map(by_cgroup_uid).unwrap_or_default();
        let (mut largest, mut grew) = (Vec::new(), Vec::new());
        for (id, cgroup) in self.tree.iter() {
            let place = places.place(&cgroup.path);
            let Place::Pod { .. } = place else { continue };
            let name = name_at(&place, &names).unwrap_or_else(|| cgroup.path.to_string());
            let used = match of {
                Of::Memory => working_set(cgroup).map(|bytes| bytes.0),
                Of::Cpu => self.cpu(*id, cgroup),
            };
            let Some(used) = used else { continue };
            if of == Of::Memory
                && let Some(start) = &self.start
            {
                // One that was not there before had nothing; one that was not read is not known.
                let had = start.get(id).map_or(Some(0), |one| Some(working_set(one)?.0));
                grew.extend(had.map(|had| (used.saturating_sub(had), name.clone())));
            }
            largest.push((used, name));
        }
        let most = |mut all: Vec<(u64, String)>| {
            all.retain(|(amount, _)| *amount > 0);
            all.sort_by_cached_key(|(amount, name)| (Reverse(*amount), name.clone()));
            all.truncate(NAMED);
            let share = |(amount, pod)| Share { pod, amount: of.quantity(amount) };
            all.into_iter().map(share).collect()
        };
        (most(largest), most(grew))
    }

    fn cpu(&self, id: CgroupId, cgroup: &Cgroup) -> Option<u64> {
        let (before, passed) = self.before.as_ref()?;
        let used = Nanos::from(cgroup.cpu.usage?).since(before.get(&id)?.cpu.usage?.into());
        Some(MilliCpu::rate(used, *passed).0)
    }
}
