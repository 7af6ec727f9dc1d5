//! Whether something is so nearly short that it is worth finding out more: what each pod has on a
//! disk, and whom the kubelet evicts.
//! In: thresholds and readings. Out: yes or no. No decision depends on it.

use super::signals::observe;
use crate::model::decision::Observation;
use crate::model::sample::Sample;
use crate::model::settings::Eviction;
use crate::model::threshold::{Resource, Threshold};

/// A walk takes minutes: it begins while so much of the disk more is left, as a fraction of it.
const AHEAD: u64 = 10;
/// The same of memory, which is lost within seconds, and the kubelet evicts at once.
const AHEAD_OF_MEMORY: u64 = 20;

/// How near a disk is to its threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    Near,
    /// The threshold is met.
    Short,
}

/// The nearest of the thresholds on disk space and inodes; `None` if none is near.
pub fn nearness_of_disks(settings: &Eviction, sample: &Sample) -> Option<Nearness> {
    let is_disk = |threshold: &&Threshold| {
        matches!(threshold.signal.resource(), Resource::Storage | Resource::Inodes)
    };
    let each = settings.thresholds.iter().filter(is_disk).filter_map(|threshold| {
        let seen = observe(threshold.signal, sample, None).ok()?;
        let line = threshold.value.of(seen.capacity);
        let is_near = seen.available <= line.saturating_add(seen.capacity / AHEAD);
        let nearness = if seen.available < line { Nearness::Short } else { Nearness::Near };
        is_near.then_some(nearness)
    });
    each.max()
}

/// True if a threshold of the kubelet's is met, or one on memory nearly. Disks are often nearly full
/// for weeks, and the kubelet cleans up before it evicts.
pub fn may_kubelet_evict(settings: &Eviction, observations: &[Observation]) -> bool {
    settings.thresholds.iter().any(|threshold| {
        let mut its = observations.iter().filter(|seen| seen.signal == threshold.signal);
        its.any(|seen| {
            let ahead = match threshold.signal.resource() {
                Resource::Memory => seen.capacity / AHEAD_OF_MEMORY,
                _ => 0,
            };
            seen.available < threshold.value.of(seen.capacity).saturating_add(ahead)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::node::Filesystem;
    use crate::model::quantity::Quantity;
    use crate::model::threshold::{Amount, Signal};
    use crate::model::units::{Bytes, Nanos};

    #[test]
    fn disks_are_near_within_a_tenth_of_the_threshold() {
        use Nearness::{Near, Short};
        use Signal::{ImagefsAvailable, MemoryAvailable, NodefsAvailable, NodefsInodesFree};
        let threshold = |signal, n: u64| Threshold {
            signal,
            value: Amount::Quantity(Quantity::bytes(n)),
            grace: Nanos(0),
            min_reclaim: None,
        };
        #[rustfmt::skip]
        let table = [
            // signal and amount, bytes and inodes left on a nodefs with 1,000 of each, near
            (Some((NodefsAvailable,  125)), 226, 999, None),
            (Some((NodefsAvailable,  125)), 225, 999, Some(Near)),
            (Some((NodefsAvailable,  125)), 125, 999, Some(Near)),
            (Some((NodefsAvailable,  125)), 124, 999, Some(Short)),
            (Some((NodefsInodesFree, 125)),   5, 999, None),
            (Some((NodefsInodesFree, 125)), 999, 225, Some(Near)),
            (Some((ImagefsAvailable, 125)),   5,   5, None), // there is none
            (Some((MemoryAvailable,  500)),   5,   5, None),
            (None,                             0,   0, None), // nothing would be done about it
        ];
        for (row, bytes, inodes, want) in table {
            let thresholds = row.map(|(signal, n)| threshold(signal, n));
            let settings =
                Eviction { thresholds: thresholds.into_iter().collect(), ..Eviction::default() };
            let mut sample = Sample::default();
            sample.node.filesystems.nodefs = Some(Filesystem {
                available: Bytes(bytes),
                capacity: Bytes(1_000),
                inodes_free: inodes,
                inodes: 1_000,
                ..Filesystem::default()
            });
            assert_eq!(nearness_of_disks(&settings, &sample), want, "{row:?} {bytes} {inodes}");
        }
    }

    #[test]
    fn may_kubelet_evict_when_it_is_about_to() {
        use Signal::{MemoryAvailable, NodefsAvailable, PidAvailable};
        #[rustfmt::skip]
        let table = [
            // signal, amount of 1,000 below which it evicts, left, it may
            (MemoryAvailable, 100, 150, false),
            (MemoryAvailable, 100, 149, true),
            (MemoryAvailable, 100,   5, true),
            (NodefsAvailable, 100, 100, false),
            (NodefsAvailable, 100,  99, true),
            (PidAvailable,    100,  99, true),
        ];
        for (signal, line, available, want) in table {
            let value = Amount::Quantity(Quantity::bytes(line));
            let threshold = Threshold { signal, value, grace: Nanos(0), min_reclaim: None };
            let settings = Eviction { thresholds: vec![threshold], ..Eviction::default() };
            let (capacity, at) = (1_000, Nanos(0));
            let seen = Observation { signal, available, capacity, at };
            assert_eq!(may_kubelet_evict(&settings, &[seen]), want, "{signal} {available}");
            assert!(!may_kubelet_evict(&settings, &[]), "{signal}");
        }
    }
}
