//! What pods held that ended lately. The pod that comes in place of one takes that again, as a container
//! does that is started again: it is no growth.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ALONG;
use super::figures::Holding;
use crate::model::cgroup::CgroupId;
use crate::model::pod::Place;
use crate::model::sample::Sample;
use crate::model::units::Nanos;
use crate::model::workload::Pod;

/// The kind of owner that is another one for each version of a workload.
const REPLICA_SET: &str = "ReplicaSet";
/// The label that tells these versions, which is the end of the owner's name, too.
const VERSION: &str = "pod-template-hash";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Heirs {
    /// Of pods in whose place no other has come, in the order in which they ended.
    left: Vec<(Workload, Left)>,
    /// By the cgroup of the pod that came in place of one.
    heirs: BTreeMap<CgroupId, Left>,
}

/// What a pod held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Left {
    pub(super) ended: Nanos,
    pub(super) held: Holding,
}

/// What a pod is one of: whatever its version is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Workload {
    namespace: String,
    kind: String,
    name: String,
}

impl Workload {
    /// `None` if no controller owns the pod: nothing comes in its place by itself.
    fn of(pod: &Pod) -> Option<Self> {
        let owner = pod.owner.as_ref()?;
        let version = pod.labels.get(VERSION).filter(|_| owner.kind == REPLICA_SET);
        let of_all = version.and_then(|version| owner.name.strip_suffix(&**version));
        let name = of_all.unwrap_or(&owner.name).to_owned();
        Some(Self { namespace: pod.namespace.clone(), kind: owner.kind.clone(), name })
    }

    /// That of the pod at a place, as far as the sample names it.
    pub(super) fn at(place: &Place, sample: &Sample) -> Option<Self> {
        let Place::Pod { uid, .. } = place else { return None };
        Self::of(sample.pods.as_ref()?.get(uid)?)
    }
}

impl Heirs {
    pub(super) fn is_empty(&self) -> bool {
        self.left.is_empty() && self.heirs.is_empty()
    }

    pub(super) fn leave(&mut self, workload: Workload, left: Left) {
        self.left.push((workload, left));
    }

    /// Takes in which pods there are: each that is `young`, and has come in place of none, may be the one
    /// that comes in place of a pod that ended. It may have come before that ended.
    pub(super) fn update(
        &mut self,
        now: Nanos,
        is_there: impl Fn(CgroupId) -> bool,
        young: impl Iterator<Item = CgroupId>,
        workload: impl Fn(CgroupId) -> Option<Workload>,
    ) {
        self.heirs.retain(|id, _| is_there(*id));
        self.left.retain(|(_, left)| now.since(left.ended) <= ALONG);
        if self.left.is_empty() {
            return;
        }
        for id in young {
            if self.heirs.contains_key(&id) {
                continue;
            }
            let Some(own) = workload(id) else { continue };
            if let Some(at) = self.left.iter().position(|(of, _)| *of == own) {
                let (_, left) = self.left.remove(at);
                self.heirs.insert(id, left);
            }
        }
    }

    /// What a pod found left when it came, of which it was not yet too long ago at a time.
    pub(super) fn of(&self, id: CgroupId, at: Nanos) -> Option<Holding> {
        let left = self.heirs.get(&id).filter(|left| at.since(left.ended) <= ALONG)?;
        Some(left.held)
    }
}
