//! Who fills the node's disks: what pods had on them a minute or two ago, and how much was left then.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Lost;
use crate::model::disk::DiskUse;
use crate::model::pod::Place;
use crate::model::sample::Sample;
use crate::model::snapshot::Snapshot;
use crate::model::threshold::{Resource, Signal};
use crate::model::units::{Bytes, Nanos};
use crate::policy::assess::signals::observe;

/// Growth is looked at over this time and up to twice as much: a kubelet looks at volumes once a minute.
const WINDOW: Nanos = Nanos(60 * Nanos::SECOND.0);
/// In less time one write would be the whole of it.
const SHORTEST: Nanos = Nanos(5 * Nanos::SECOND.0);
/// Less says nothing: logs and layers of other pods grow as much.
const LEAST: DiskUse = DiskUse { bytes: Some(Bytes(16 << 20)), inodes: Some(1_000) };

/// An earlier reading of what pods have on disk, and the last one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Fills {
    #[serde(skip_serializing_if = "Option::is_none")]
    earlier: Option<Reading>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<Reading>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Reading {
    at: Nanos,
    /// By pod uid.
    pods: BTreeMap<String, DiskUse>,
    /// What was left, in bytes or inodes.
    left: BTreeMap<Signal, u64>,
}

impl Fills {
    pub(super) fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// Takes in what pods have on disk, if it was read anew.
    pub(super) fn update(&mut self, sample: &Sample) {
        let Some(disks) = &sample.pod_disks else {
            *self = Self::default();
            return;
        };
        if self.last.as_ref().is_some_and(|last| last.at == disks.at) {
            return;
        }
        let is_disk =
            |signal: &Signal| matches!(signal.resource(), Resource::Storage | Resource::Inodes);
        let left = Signal::ALL.into_iter().filter(is_disk);
        let left = left.filter_map(|on| Some((on, observe(on, sample, None).ok()?.available)));
        let pods = disks.pods.iter().map(|(uid, disk)| (uid.clone(), disk.whole));
        let new = Reading { at: disks.at, pods: pods.collect(), left: left.collect() };
        let Some(last) = self.last.replace(new) else { return };
        let is_far = |earlier: &Reading| last.at.since(earlier.at) >= WINDOW;
        if self.earlier.as_ref().is_none_or(is_far) {
            self.earlier = Some(last);
        }
    }

    /// What was lost for `signal`, and which pods took it; `None` if that is not known.
    pub(super) fn lost(&self, signal: Signal, snapshot: &Snapshot) -> Option<Lost> {
        let (earlier, last) = (self.earlier.as_ref()?, self.last.as_ref()?);
        let over = last.at.since(earlier.at);
        let amount = |used: &DiskUse| match signal.resource() {
            Resource::Inodes => used.inodes,
            _ => used.bytes.map(|Bytes(n)| n),
        };
        let filled = earlier.left.get(&signal)?.saturating_sub(*last.left.get(&signal)?);
        // A pod that was not measured then had nothing, or it is not known.
        let then = |uid: &String| earlier.pods.get(uid).and_then(amount);
        let grown = |uid: &String| {
            Some(amount(last.pods.get(uid)?)?.saturating_sub(then(uid).unwrap_or(0)))
        };
        let pods = snapshot.scopes.iter().filter_map(|(id, scope)| match &scope.place {
            Place::Pod { uid, .. } => Some((*id, grown(uid).filter(|grown| *grown > 0)?)),
            _ => None,
        });
        let taken: BTreeMap<_, _> = pods.collect();
        let sum = taken.values().fold(0, |sum: u64, grown| sum.saturating_add(*grown));
        // It had something if pods took more than was lost.
        let is_unread =
            |(uid, _): (&String, &DiskUse)| earlier.pods.contains_key(uid) && then(uid).is_none();
        let noise = (filled / 8).saturating_add(amount(&LEAST)?);
        if sum > filled.saturating_add(noise) && last.pods.iter().any(is_unread) {
            return None;
        }
        let lost = filled.max(sum);
        let is_established = over >= SHORTEST && Some(lost) >= amount(&LEAST);
        let (unattributed, lasting) = (lost - sum, taken.clone());
        Some(Lost { lost, over, taken, lasting, unattributed, is_established })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::disk::{DiskReading, PodDisk};
    use crate::model::node::Filesystem;

    #[test]
    fn fills_come_back_as_they_were_written() {
        let mut fills = Fills::default();
        for second in [1, 1, 11] {
            let mut sample = Sample::default();
            let nodefs = Filesystem {
                available: Bytes(900 - second),
                capacity: Bytes(1_000),
                ..Filesystem::default()
            };
            sample.node.filesystems.nodefs = Some(nodefs);
            let whole = DiskUse { bytes: Some(Bytes(second)), inodes: None };
            let pods = [("u1".into(), PodDisk { whole, ..PodDisk::default() })].into();
            let at = Nanos(second * Nanos::SECOND.0);
            sample.pod_disks = Some(Arc::new(DiskReading { at, pods, ..DiskReading::default() }));
            fills.update(&sample);
        }
        let read = [&fills.earlier, &fills.last].map(|one| one.as_ref().unwrap().at.0);
        assert_eq!(read, [1, 11].map(|second| second * Nanos::SECOND.0));
        let text = serde_json::to_string(&fills).unwrap();
        assert_eq!(serde_json::from_str::<Fills>(&text).unwrap(), fills, "{text}");
        // Where nothing is read any more, nothing is compared with it later.
        fills.update(&Sample::default());
        assert!(fills.is_empty());
    }
}
