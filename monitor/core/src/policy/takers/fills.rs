//! Who fills the node's disks: what pods had on them a minute or two ago, or before a disk ran short, and
//! how much was left then.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Lost;
use crate::model::decision::{Met, Observation};
use crate::model::disk::{DiskReading, DiskSource};
use crate::model::pod::Place;
use crate::model::sample::Sample;
use crate::model::snapshot::Snapshot;
use crate::model::threshold::{Resource, Signal};
use crate::model::units::Nanos;
use crate::model::workload::by_cgroup_uid;
use crate::policy::assess::signals::observe;
use crate::policy::rank::{Purpose, REAL_PART};
use crate::policy::workload::Parties;

/// Growth is looked at over this time and up to twice as much: a kubelet looks at volumes once a minute.
const WINDOW: Nanos = Nanos(60 * Nanos::SECOND.0);
/// In less time one write would be the whole of it.
const SHORTEST: Nanos = Nanos(5 * Nanos::SECOND.0);
/// A reading that is late is waited for so long; then what was read before is forgotten.
const KEPT: Nanos = Nanos(120 * Nanos::SECOND.0);
/// Less growth says nothing: logs and layers of other pods grow as much.
const LEAST_BYTES: u64 = 16 << 20;
const LEAST_INODES: u64 = 1_000;
/// Nor does less than this part of the disk.
const LEAST_PART: u64 = 10_000;

/// What was read of pods' disks. A walk and a kubelet count in other ways, so each is compared with
/// itself alone: a kubelet that answers only now and then does not undo what the walks told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Fills {
    #[serde(skip_serializing_if = "Readings::is_empty")]
    kubelet: Readings,
    #[serde(skip_serializing_if = "Readings::is_empty")]
    walk: Readings,
}

/// The last reading of what pods have on the disks, one of a minute or two ago, the one that will take
/// its place, and for each disk that is short the one of a minute or two before, with when it was last short.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Readings {
    #[serde(skip_serializing_if = "Option::is_none")]
    earlier: Option<Reading>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Reading>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<Reading>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    short: BTreeMap<Signal, (Nanos, Reading)>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Reading {
    at: Nanos,
    disks: BTreeMap<Signal, Disk>,
}

/// What one signal looks at, in bytes or inodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Disk {
    left: u64,
    capacity: u64,
    /// By uid, each pod that had a cgroup then.
    pods: BTreeMap<String, Has>,
}

/// How much a pod had, in bytes or inodes, and of how many layers, logs and volumes that is the sum: of
/// none where nothing was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Has(u64, usize);

impl Fills {
    pub(super) fn is_empty(&self) -> bool {
        self.kubelet.is_empty() && self.walk.is_empty()
    }

    /// Takes in what pods have on disk, if it was read anew.
    pub(super) fn update(&mut self, sample: &Sample, parties: &Parties<'_>) {
        let disks = sample.pod_disks.as_ref();
        let all = [(DiskSource::Kubelet, &mut self.kubelet), (DiskSource::Walk, &mut self.walk)];
        for (source, readings) in all {
            let last = readings.last.as_ref().map(|last| last.at);
            match disks.filter(|disks| disks.source == source) {
                Some(disks) if last == Some(disks.at) => {}
                Some(disks) => readings.add(Reading::of(disks, sample, parties)),
                None if last.is_some_and(|last| sample.at.boot.since(last) > KEPT) => {
                    let short = std::mem::take(&mut readings.short);
                    *readings = Readings { short, ..Readings::default() };
                }
                None => {}
            }
        }
    }

    /// Takes note of which disks are short at the last sample.
    pub(super) fn note_short(&mut self, met: &[Met], now: Nanos) {
        let is_met = |signal: Signal| {
            met.iter().any(|one| Purpose::of(&one.threshold).signal == Some(signal))
        };
        for readings in [&mut self.kubelet, &mut self.walk] {
            // A disk that is not short for a moment, or not measured, is as full as before.
            readings.short.retain(|signal, (last, _)| {
                *last = if is_met(*signal) { now } else { *last };
                now.since(*last) <= KEPT
            });
            let Some(earlier) = &readings.earlier else { continue };
            for (signal, disk) in earlier.disks.iter().filter(|(signal, _)| is_met(**signal)) {
                let disks = || [(*signal, disk.clone())].into();
                let reading = || (now, Reading { at: earlier.at, disks: disks() });
                readings.short.entry(*signal).or_insert_with(reading);
            }
        }
    }

    /// What was lost for `signal`, and which pods took it; `None` if that is not known, or not yet.
    /// The newest readings tell, or those of the other source where they cannot yet.
    pub(super) fn lost(&self, signal: Signal, snapshot: &Snapshot) -> Option<Lost> {
        let mut both = [&self.kubelet, &self.walk];
        both.sort_by_key(|readings| Reverse(readings.last.as_ref().map(|last| last.at)));
        both.into_iter().find_map(|readings| readings.lost(signal, snapshot))
    }
}

impl Readings {
    fn is_empty(&self) -> bool {
        self.last.is_none() && self.short.is_empty()
    }

    fn add(&mut self, reading: Reading) {
        let Some(last) = self.last.replace(reading) else { return };
        let is_far = |other: &Reading| last.at.since(other.at) >= WINDOW;
        match (&self.earlier, &self.next) {
            (None, _) => self.earlier = Some(last),
            (Some(earlier), None) if is_far(earlier) => self.next = Some(last),
            (_, Some(next)) if is_far(next) => {
                self.earlier = self.next.replace(last);
            }
            _ => {}
        }
    }

    /// In the last minute or two; or since before the disk ran short, if it lost a real part of that
    /// before: who filled it stays the cause once it is full.
    fn lost(&self, signal: Signal, snapshot: &Snapshot) -> Option<Lost> {
        let lately = self.lost_since(self.earlier.as_ref()?, signal, snapshot)?;
        let before = self.short.get(&signal);
        let all = before.and_then(|(_, before)| self.lost_since(before, signal, snapshot));
        let is_little = |all: &Lost| !lately.is_established || lately.lost < all.lost / REAL_PART;
        let is_more = |all: &Lost| all.is_established && is_little(all);
        Some(all.filter(is_more).unwrap_or(lately))
    }

    fn lost_since(&self, earlier: &Reading, signal: Signal, snapshot: &Snapshot) -> Option<Lost> {
        let last = self.last.as_ref()?;
        let over = last.at.since(earlier.at);
        let (then, now) = (earlier.disks.get(&signal)?, last.disks.get(&signal)?);
        let (mut taken, mut is_assumed) = (BTreeMap::new(), false);
        for (id, scope) in &snapshot.scopes {
            let Place::Pod { uid, .. } = &scope.place else { continue };
            if let Some((grown @ 1.., is_measured)) = now.grown_since(then, uid) {
                is_assumed |= !is_measured;
                taken.insert(*id, grown);
            }
        }
        let sum = taken.values().fold(0, |sum: u64, grown| sum.saturating_add(*grown));
        // What pods gave back was taken by others, as far as it is not left.
        let given = now.given_back_since(then);
        let filled = then.left.saturating_add(given).saturating_sub(now.left);
        let least = if signal.resource() == Resource::Inodes { LEAST_INODES } else { LEAST_BYTES };
        let least = least.max(now.capacity / LEAST_PART);
        // What was not measured then was there, if pods grew by more than the disk lost.
        if is_assumed && sum > filled.saturating_add(filled / 8).saturating_add(least) {
            return None;
        }
        let lost = filled.max(sum);
        let unattributed = lost - sum;
        let is_established = over >= SHORTEST && lost >= least;
        // What no pod took may be in a volume that is not measured anew yet.
        let is_open = taken.values().all(|grown| *grown < unattributed);
        if over < WINDOW && (is_open || !is_established) {
            return None;
        }
        let lasting = taken.clone();
        Some(Lost { lost, over, taken, lasting, unattributed, is_established, ..Lost::default() })
    }
}

impl Reading {
    fn of(disks: &DiskReading, sample: &Sample, parties: &Parties<'_>) -> Self {
        let told = sample.pods.as_ref().map(by_cgroup_uid).unwrap_or_default();
        let layout = sample.node.filesystems.layout();
        let uids: Vec<&str> = parties.values().filter_map(|scope| scope.pod_uid()).collect();
        let disk = |signal: Signal| {
            let resource = signal.resource();
            let Observation { available, capacity, .. } = observe(signal, sample, None).ok()?;
            let has = |uid: &str| {
                let pod = told.get(uid).copied();
                let parts = disks.pods.get(uid).map(|disk| disk.parts(signal, layout, pod));
                let parts = parts.into_iter().flatten().filter_map(|part| part.of(resource));
                parts.fold(Has::default(), |Has(sum, n), part| {
                    Has(sum.saturating_add(part.to_u64()), n + 1)
                })
            };
            let pods = uids.iter().map(|uid| ((*uid).to_owned(), has(uid))).collect();
            Some((signal, Disk { left: available, capacity, pods }))
        };
        let is_disk =
            |signal: &Signal| matches!(signal.resource(), Resource::Storage | Resource::Inodes);
        Self {
            at: disks.at,
            disks: Signal::ALL.into_iter().filter(is_disk).filter_map(disk).collect(),
        }
    }
}

impl Disk {
    /// How much less pods have than they had `then`: of those of which as much is measured.
    fn given_back_since(&self, then: &Self) -> u64 {
        let each = then.pods.iter().filter_map(|(uid, Has(then, n_then))| {
            let Has(now, _) = self.pods.get(uid).filter(|Has(_, n)| n >= n_then && *n > 0)?;
            Some(then.saturating_sub(*now))
        });
        each.fold(0, u64::saturating_add)
    }

    /// How much more a pod has than it had `then`, and whether all of that was measured then: a volume
    /// that was not is assumed to have been empty. `None` if it is not known now.
    fn grown_since(&self, then: &Self, uid: &str) -> Option<(u64, bool)> {
        let Has(now, n) = *self.pods.get(uid).filter(|Has(_, n)| *n > 0)?;
        // Without a cgroup it was not there.
        let Has(then, n_then) = then.pods.get(uid).copied().unwrap_or(Has(0, n));
        Some((now.saturating_sub(then), n_then >= n))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::cgroup::{CgroupId, CgroupPath};
    use crate::model::disk::{DiskUse, PodDisk};
    use crate::model::node::Filesystem;
    use crate::model::pod::QosClass;
    use crate::model::snapshot::Scope;
    use crate::model::units::Bytes;

    const MIB: u64 = 1 << 20;

    /// A node with the pod `u1`.
    fn node() -> Snapshot {
        let place = Place::Pod { uid: "u1".into(), class: QosClass::Burstable };
        let path = CgroupPath("/kubepods/podu1".into());
        let scope = Scope { place, path, ..Scope::default() };
        Snapshot { scopes: [(CgroupId(1), scope)].into(), ..Snapshot::default() }
    }

    /// A disk of 1,000 MiB at a second: how many are left, and what each volume of `u1` has of it.
    fn sample(second: u64, left: u64, volumes: &[u64], source: DiskSource) -> Sample {
        let mut sample = Sample::default();
        let nodefs = Filesystem {
            available: Bytes(left * MIB),
            capacity: Bytes(1_000 * MIB),
            ..Filesystem::default()
        };
        sample.node.filesystems.nodefs = Some(nodefs);
        let used = |n: &u64| DiskUse { bytes: Some(Bytes(n * MIB)), inodes: None };
        let names = (0..).map(|i: u32| i.to_string());
        let volumes = names.zip(volumes.iter().map(used)).collect();
        let pods = [("u1".into(), PodDisk { volumes, ..PodDisk::default() })].into();
        let at = Nanos(second * Nanos::SECOND.0);
        sample.at.boot = at;
        sample.pod_disks = Some(Arc::new(DiskReading { at, pods, source }));
        sample
    }

    #[test]
    fn lost_is_told_once_it_is_known() {
        use DiskSource::{Kubelet, Walk};
        let snapshot = node();
        let parties: Parties<'_> = snapshot.scopes.iter().map(|(id, scope)| (*id, scope)).collect();
        type Row<'a> = &'a [(u64, u64, &'a [u64], DiskSource)];
        #[rustfmt::skip]
        let table: [(Row<'_>, Option<(u64, u64)>); 20] = [
            // readings: second, MiB left, MiB of each volume, source; MiB taken by the pod, and by no pod
            (&[(0, 500, &[10], Kubelet)],                                                   None),
            (&[(0, 500, &[10], Kubelet), (10, 400, &[110], Kubelet)],                       Some((100, 0))),
            // Of another volume that fills it nothing may have been measured since.
            (&[(0, 500, &[10], Kubelet), (10, 400, &[10], Kubelet)],                        None),
            (&[(0, 500, &[10], Kubelet), (10, 400, &[40], Kubelet)],                        None),
            (&[(0, 500, &[10], Kubelet), (60, 400, &[10], Kubelet)],                        Some((0, 100))),
            (&[(0, 500, &[10], Kubelet), (60, 400, &[40], Kubelet)],                        Some((30, 70))),
            // Too little for ten seconds; after a minute it is known that none fills the disk.
            (&[(0, 500, &[10], Kubelet), (10, 490, &[20], Kubelet)],                        None),
            (&[(0, 500, &[10], Kubelet), (60, 490, &[20], Kubelet)],                        Some((0, 0))),
            // A volume that was not measured before is new if the disk lost as much.
            (&[(0, 500, &[], Kubelet), (10, 400, &[100], Kubelet)],                         Some((100, 0))),
            (&[(0, 500, &[10], Kubelet), (10, 400, &[10, 300], Kubelet)],                   None),
            (&[(0, 500, &[], Kubelet), (60, 400, &[300], Kubelet)],                         None),
            // Of a pod of which nothing is measured for a minute nothing will be.
            (&[(0, 500, &[], Kubelet), (10, 400, &[], Kubelet)],                            None),
            (&[(0, 500, &[], Kubelet), (60, 400, &[], Kubelet)],                            Some((0, 100))),
            // What the pod gave back, and is not left, another party took.
            (&[(0, 500, &[300], Kubelet), (60, 480, &[100], Kubelet)],                      Some((0, 220))),
            (&[(0, 500, &[300], Kubelet), (60, 700, &[100], Kubelet)],                      Some((0, 0))),
            // A kubelet counts in another way than a walk.
            (&[(0, 500, &[10], Walk), (10, 400, &[110], Kubelet)],                          None),
            (&[(0, 500, &[10], Kubelet), (10, 490, &[90], Walk), (20, 400, &[110], Kubelet)], Some((100, 0))),
            (&[(0, 500, &[10], Kubelet), (10, 400, &[110], Kubelet), (20, 300, &[290], Walk)], Some((100, 0))),
            (&[(0, 500, &[10], Kubelet), (121, 490, &[90], Walk), (131, 400, &[110], Kubelet)], None),
            // The reading before the last one is too near.
            (&[(0, 500, &[10], Walk), (50, 480, &[30], Walk), (65, 475, &[35], Walk), (70, 474, &[36], Walk)], Some((26, 0))),
        ];
        for (readings, want) in table {
            let mut fills = Fills::default();
            for (second, left, volumes, source) in readings {
                fills.update(&sample(*second, *left, volumes, *source), &parties);
            }
            let lost = fills.lost(Signal::NodefsAvailable, &snapshot);
            let got = lost.map(|lost| match lost.is_established {
                true => (lost.taken_by(CgroupId(1)) / MIB, lost.unattributed / MIB),
                false => (0, 0),
            });
            assert_eq!(got, want, "{readings:?}");
        }
    }

    #[test]
    fn lost_is_a_part_of_the_disk() {
        let snapshot = node();
        let parties: Parties<'_> = snapshot.scopes.iter().map(|(id, scope)| (*id, scope)).collect();
        // GiB of the disk of which the pod took 20 MiB in ten seconds; that says who fills it
        for (gib, want) in [(1, true), (190, true), (200, false)] {
            let mut fills = Fills::default();
            for (second, has) in [(0, 10), (10, 30)] {
                let mut sample = sample(second, 500 - has, &[has], DiskSource::Kubelet);
                let nodefs = sample.node.filesystems.nodefs.as_mut().unwrap();
                nodefs.capacity = Bytes(gib << 30);
                fills.update(&sample, &parties);
            }
            let lost = fills.lost(Signal::NodefsAvailable, &snapshot);
            assert_eq!(lost.is_some(), want, "{gib}");
        }
    }

    #[test]
    fn update_looks_back_a_minute_or_two() {
        let snapshot = node();
        let parties: Parties<'_> = snapshot.scopes.iter().map(|(id, scope)| (*id, scope)).collect();
        let mut fills = Fills::default();
        let seconds = |one: &Option<Reading>| one.as_ref().map(|one| one.at.0 / Nanos::SECOND.0);
        for second in (0..=400).step_by(10) {
            fills.update(&sample(second, 500, &[10], DiskSource::Kubelet), &parties);
            let over = seconds(&fills.kubelet.last)
                .zip(seconds(&fills.kubelet.earlier))
                .map(|(a, b)| a - b);
            assert!(second < 60 || over.is_some_and(|over| (60..=130).contains(&over)), "{over:?}");
        }
        let text = serde_json::to_string(&fills).unwrap();
        assert_eq!(serde_json::from_str::<Fills>(&text).unwrap(), fills, "{text}");
        // One answer that does not come is waited for; what is older is forgotten.
        let without = |second: u64| {
            let mut sample = sample(second, 500, &[10], DiskSource::Kubelet);
            sample.pod_disks = None;
            sample
        };
        fills.update(&without(410), &parties);
        assert!(!fills.is_empty());
        fills.update(&without(521), &parties);
        assert!(fills.is_empty());
    }
}
