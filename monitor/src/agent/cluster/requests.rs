//! What pods request together, beside what the node has to give. A scheduler keeps to that; one that
//! knows no allocatable, a static pod or a node that has shrunk does not.

use std::collections::BTreeSet;
use std::sync::Arc;

use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::quantity::{Quantity, ResourceList};
use isobar_core::model::workload::Pods;
use isobar_kubelet::fit::requested;

const RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// The last sum, and of what.
#[derive(Debug, Default)]
pub(super) struct Requests {
    of: Option<(Pods, ResourceList)>,
    sums: Vec<Sum>,
    /// Resources that are requested beyond what there is, as was told.
    told: BTreeSet<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sum {
    resource: &'static str,
    requested: Quantity,
    allocatable: Quantity,
}

impl Requests {
    /// Adds up if either has changed. The words for each resource that is now requested beyond what
    /// there is, and was not before.
    pub(super) fn update(&mut self, pods: &Pods, allocatable: &ResourceList) -> Vec<String> {
        let is_same =
            |(before, of): &(Pods, ResourceList)| Arc::ptr_eq(before, pods) && of == allocatable;
        if self.of.as_ref().is_some_and(is_same) {
            return Vec::new();
        }
        self.of = Some((pods.clone(), allocatable.clone()));
        let sum = |resource| {
            let requested = requested(pods.values(), resource);
            Some(Sum { resource, requested, allocatable: *allocatable.get(resource)? })
        };
        self.sums = RESOURCES.into_iter().filter_map(sum).collect();
        let over: Vec<_> = self.sums.iter().filter(|sum| sum.is_over()).copied().collect();
        let new = over.iter().filter(|sum| !self.told.contains(sum.resource)).map(Sum::words);
        let new = new.collect();
        self.told = over.iter().map(|sum| sum.resource).collect();
        new
    }

    /// `None` before the node's object was read.
    pub(super) fn capability(&self) -> Option<Capability> {
        let words: Vec<_> = self.sums.iter().map(Sum::words).collect();
        (!words.is_empty()).then(|| {
            Capability::new("requests of pods", CapabilityState::Attached, words.join("; "))
        })
    }
}

impl Sum {
    fn is_over(&self) -> bool {
        self.requested > self.allocatable
    }

    fn words(&self) -> String {
        let Self { resource, requested, allocatable } = self;
        let more = if self.is_over() { ", more than there is" } else { "" };
        format!("{resource}: pods request {requested} of {allocatable}{more}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isobar_core::model::workload::{Container, Pod, Resources};

    fn pod(uid: &str, cpu: &str, is_over: bool) -> (String, Pod) {
        let requests = ResourceList::from([("cpu".into(), cpu.parse().unwrap())]);
        let resources = Resources { requests, ..Resources::default() };
        let containers = vec![Container { resources, ..Container::default() }];
        (uid.into(), Pod { uid: uid.into(), containers, is_over, ..Pod::default() })
    }

    #[test]
    fn update_tells_once_of_what_is_requested_beyond_allocatable() {
        let allocatable = ResourceList::from([("cpu".into(), "4".parse().unwrap())]);
        let mut requests = Requests::default();
        assert_eq!(requests.capability(), None);
        #[rustfmt::skip]
        let table = [
            // pods, told, detail
            (vec![pod("a", "3", false)],                          vec![], "cpu: pods request 3 of 4"),
            (vec![pod("a", "3", false), pod("b", "1", false)],    vec![], "cpu: pods request 4 of 4"),
            (vec![pod("a", "3", false), pod("b", "1500m", false)],
                vec!["cpu: pods request 4500m of 4, more than there is"], "cpu: pods request 4500m of 4, more than there is"),
            (vec![pod("a", "3", false), pod("b", "2", false)],    vec![], "cpu: pods request 5 of 4, more than there is"),
            (vec![pod("a", "3", false), pod("b", "2", true)],     vec![], "cpu: pods request 3 of 4"),
            (vec![pod("a", "5", false)],
                vec!["cpu: pods request 5 of 4, more than there is"], "cpu: pods request 5 of 4, more than there is"),
        ];
        let whole = |cpu: &str, limit: &str| {
            let (uid, mut pod) = pod("a", cpu, false);
            let limits = ResourceList::from([("memory".into(), limit.parse().unwrap())]);
            pod.resources = Some(Resources { limits, ..Resources::default() });
            (uid, pod)
        };
        // As the scheduler counts: what the pod itself leaves open its containers request.
        let of_whole = (vec![whole("3", "1Gi")], vec![], "cpu: pods request 3 of 4");
        for (pods, told, detail) in table.into_iter().chain([of_whole]) {
            let pods: Pods = Arc::new(pods.into_iter().collect());
            assert_eq!(requests.update(&pods, &allocatable), told, "{detail}");
            assert_eq!(requests.capability().unwrap().detail, detail);
            assert!(requests.update(&pods, &allocatable).is_empty(), "nothing has changed");
        }
    }
}
