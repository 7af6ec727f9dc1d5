//! What the node's object says that pods have, beside what isobar works out from its configuration and
//! this machine. Schedulers go by the first, conditions and limits by the second.

use isobar_core::model::capability::Capability;
use isobar_core::model::limit::NodeResources;
use isobar_core::model::quantity::ResourceList;

use crate::kube::NODE_OBJECT;

/// Limits and conditions depend on no other.
const RESOURCES: [&str; 2] = ["cpu", "memory"];
const REMEDY: &str = "compare isobar's reservations and hard thresholds with the kubelet's (`isobar \
                      allocatable`); a kubelet publishes what it found when it was started";

/// Adds to the capability of the node's object where it has other amounts.
pub(super) fn compare(all: &mut [Capability], published: &ResourceList, own: &NodeResources) {
    let Some(told) = all.iter_mut().find(|one| one.name == NODE_OBJECT) else { return };
    let differing = RESOURCES.iter().filter_map(|name| {
        let (theirs, ours) = (published.get(*name)?, own.allocatable.get(*name)?);
        (theirs != ours).then(|| format!("{name} {theirs} for pods, isobar works out {ours}"))
    });
    let differing: Vec<String> = differing.collect();
    if differing.is_empty() {
        return;
    }
    told.detail.push_str(&format!("; it has {}", differing.join("; ")));
    told.remedy.get_or_insert_with(|| REMEDY.into());
}

#[cfg(test)]
mod tests {
    use super::*;
    use isobar_core::model::capability::CapabilityState;

    fn list(of: &[(&str, &str)]) -> ResourceList {
        of.iter().map(|(name, text)| ((*name).to_owned(), text.parse().unwrap())).collect()
    }

    #[test]
    fn compare_names_what_differs() {
        #[rustfmt::skip]
        let table = [
            // of the node's object, worked out, added
            (vec![("cpu", "7800m"), ("memory", "7Gi")],    vec![("cpu", "7.8"), ("memory", "7168Mi")], ""),
            (vec![("cpu", "8"), ("memory", "7Gi")],        vec![("cpu", "7800m"), ("memory", "7Gi")],
                "; it has cpu 8 for pods, isobar works out 7800m"),
            (vec![("cpu", "8"), ("memory", "8Gi")],        vec![("cpu", "7800m"), ("memory", "7Gi")],
                "; it has cpu 8 for pods, isobar works out 7800m; memory 8Gi for pods, isobar works out 7Gi"),
            (vec![("cpu", "8")],                           vec![("cpu", "8"), ("memory", "7Gi")],      ""),
            (vec![("ephemeral-storage", "1Gi")],           vec![("ephemeral-storage", "2Gi")],         ""),
        ];
        for (published, own, added) in table {
            let mut all =
                [Capability::new(NODE_OBJECT, CapabilityState::Attached, "watches node n1")];
            let own = NodeResources { allocatable: list(&own), ..NodeResources::default() };
            compare(&mut all, &list(&published), &own);
            assert_eq!(all[0].detail, format!("watches node n1{added}"));
            assert_eq!(all[0].remedy.is_some(), !added.is_empty(), "{added}");
        }
    }
}
