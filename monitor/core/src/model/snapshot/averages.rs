//! State that `Snapshot::between` keeps: totals and averages of each scope's unions, and doubts.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::along::Along;
use super::{Doubts, Union};
use crate::model::average::{Average, PERIOD, Reading, unseen};
use crate::model::cgroup::{Cgroup, CgroupId, CgroupPath};
use crate::model::pod::Place;
use crate::model::units::{Nanos, Percent, scale};

/// After a longer pause the averages start again from 0: the engine would act on the past. After a
/// shorter one, up to the shortest window, the old values are nearer the truth than calm.
pub(super) const STALE_AFTER: Nanos = Nanos(10_000_000_000);

/// From here on an average over five minutes is taken for known.
const SEEN: Nanos = Nanos(300 * Nanos::SECOND.0);

/// Averages of the node and of every cgroup, containers included: unions of a hundred bytes each
/// cost less than a rule for which cgroups need them.
///
/// Serialised at the head of a recording, so that a replay can start in mid-life.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Averages {
    /// The most CPUs that were online, at the start or since; 0 if unknown.
    pub(super) n_cpus: u32,
    pub(super) doubts: Doubts,
    node: Meters,
    groups: BTreeMap<CgroupId, Meters>,
    #[serde(skip)]
    places: Known,
}

/// What the cgroup at each path is, as it was found in earlier ticks: it follows from the path alone,
/// so that it is no part of what the averages are.
#[derive(Debug, Default)]
struct Known(BTreeMap<CgroupId, (CgroupPath, Place)>);

/// Copies are kept for recordings, which do not need it.
impl Clone for Known {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Known {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Known {}

impl Averages {
    /// Nothing measured yet. CPU use above `n_cpus` is impossible; 0 sets no bound.
    pub fn new(n_cpus: u32) -> Self {
        Self { n_cpus, ..Self::default() }
    }

    /// Those of the node and of one cgroup.
    pub fn of_scopes(&self, group: Option<CgroupId>) -> Self {
        let groups = group.and_then(|id| Some((id, *self.groups.get(&id)?)));
        Self {
            n_cpus: self.n_cpus,
            doubts: self.doubts,
            node: self.node,
            groups: groups.into_iter().collect(),
            places: Known::default(),
        }
    }

    /// The same for an agent that begins with `n_cpus` and without doubts.
    #[must_use]
    pub fn again(self, n_cpus: u32) -> Self {
        Self { n_cpus, doubts: Doubts::default(), ..self }
    }

    /// What belongs to no cgroup, and the cgroups' meters: a recording writes them apart.
    pub fn split(mut self) -> (Self, BTreeMap<CgroupId, Meters>) {
        let groups = std::mem::take(&mut self.groups);
        (self, groups)
    }

    /// The counterpart of [`Averages::split`].
    #[must_use]
    pub fn with_groups(self, groups: BTreeMap<CgroupId, Meters>) -> Self {
        Self { groups, ..self }
    }

    /// The node's meters.
    pub(super) fn node(&mut self) -> (&mut Doubts, &mut Meters) {
        (&mut self.doubts, &mut self.node)
    }

    /// A cgroup's meters.
    pub(super) fn group(&mut self, id: CgroupId) -> (&mut Doubts, &mut Meters) {
        (&mut self.doubts, self.groups.entry(id).or_default())
    }

    /// What the path of a cgroup says that it is.
    pub(super) fn place_of(&mut self, id: CgroupId, path: &CgroupPath) -> Place {
        match self.places.0.get(&id) {
            Some((known, place)) if known == path => place.clone(),
            _ => {
                let place = Place::of(path);
                self.places.0.insert(id, (path.clone(), place.clone()));
                place
            }
        }
    }

    /// Drops cgroups that are gone: the kernel never reuses an id.
    pub(super) fn keep_only(&mut self, cgroups: &BTreeMap<CgroupId, Arc<Cgroup>>) {
        let (mut metered, mut placed) = (Along::of(cgroups), Along::of(cgroups));
        self.groups.retain(|id, _| metered.get(id).is_some());
        self.places.0.retain(|id, _| placed.get(id).is_some());
    }

    /// After a reboot the same id is another cgroup.
    pub(super) fn forget_scopes(&mut self) {
        self.node = Meters::default();
        self.groups.clear();
    }
}

/// The unions of one scope; `None` before the first measurement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meters {
    pub(super) contention: Option<Meter>,
    pub(super) shortage: Option<Meter>,
    #[serde(default, rename = "belowRequest", skip_serializing_if = "Option::is_none")]
    pub(super) below_request: Option<Meter>,
}

/// Total and averages of one union. Its clock runs only while the union is measured, so that
/// unmeasured time does not count as calm.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Meter {
    /// Measured time, and the union's total in it.
    reading: Reading,
    /// Boot clock at the end of the last interval.
    until: Nanos,
    /// How far the total is ahead of the measured time.
    ahead: Nanos,
    average: Average,
    /// Measured time at which the averages began.
    #[serde(default)]
    begun: Nanos,
}

/// One interval of a union.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch {
    /// Boot clock at its end.
    pub(super) until: Nanos,
    /// By the boot clock.
    pub(super) interval: Nanos,
    /// By how much the union grew.
    pub(super) grown: Nanos,
    pub(super) share: Percent,
}

impl Stretch {
    /// The same interval in which the union did not grow.
    pub(super) fn calm(self) -> Self {
        Self { grown: Nanos(0), share: Percent(0), ..self }
    }
}

impl Meter {
    /// Adds one interval; creates the meter in the first.
    pub(super) fn add(slot: &mut Option<Self>, stretch: Stretch) -> Union {
        let begun = stretch.until.since(stretch.interval);
        let fresh =
            Self { average: Average::new(Nanos(0), Nanos(0)), until: begun, ..Self::default() };
        let meter = slot.get_or_insert(fresh);
        if begun.since(meter.until) > STALE_AFTER {
            meter.average = Average::new(meter.reading.at, meter.reading.total);
            meter.begun = meter.reading.at;
            meter.ahead = Nanos(0);
        }
        meter.until = stretch.until;
        meter.run(stretch.interval, stretch.grown);
        meter.show(stretch.share)
    }

    /// Advances total and averages.
    fn run(&mut self, interval: Nanos, grown: Nanos) {
        // The eBPF counters use the scheduler's clock, which is not synchronised: in a day of full
        // contention it may gain seconds on the boot clock. The average would carry them over and
        // report contention for seconds after it has ended.
        let ahead = self.ahead.plus(grown).since(interval);
        let grown = grown.since(ahead.since(PERIOD));
        self.ahead = ahead.min(PERIOD);

        let before = self.reading;
        self.reading = Reading { at: before.at.plus(interval), total: before.total.plus(grown) };
        self.average.catch_up(before, self.reading);
    }

    /// Averages that start at 0 are too low by the weight of what they have not seen; what is shown
    /// is the average of what was measured.
    fn show(&self, now: Percent) -> Union {
        let seen = self.reading.at.since(self.begun);
        let [ten, minute, five] = if seen < SEEN { unseen(seen) } else { Default::default() };
        let of_measured = |average: Percent, unseen: Percent| match Percent::FULL.0 - unseen.0 {
            0 => now,
            seen => Percent(of_part(average.0, seen)),
        };
        Union {
            now,
            avg10: of_measured(self.average.avg10(), ten),
            avg60: of_measured(self.average.avg60(), minute),
            avg300: of_measured(self.average.avg300(), five),
            total: self.reading.total,
            seen: (seen < SEEN).then_some(seen),
        }
    }
}

/// `average` counted the time that it has not `seen` as 0.
fn of_part(average: u16, seen: u16) -> u16 {
    let full = u64::from(Percent::FULL.0);
    let whole = scale(average.into(), full, seen.into()).min(full);
    u16::try_from(whole).expect("at most 100 %")
}
