//! Where isobar's settings are not those that the kubelet runs with.

use isobar_core::model::settings::Settings;

/// The kubelet's keys whose values differ. isobar's own pressure thresholds and limits are no
/// matter of the kubelet.
#[must_use]
pub fn differences(ours: &Settings, kubelet: &Settings) -> Vec<&'static str> {
    type Same = fn(&Settings, &Settings) -> bool;
    #[rustfmt::skip]
    let table: [(&str, Same); 12] = [
        ("evictionHard, evictionSoft",          |a, b| a.eviction.thresholds == b.eviction.thresholds),
        ("evictionPressureTransitionPeriod",    |a, b| a.eviction.transition_period == b.eviction.transition_period),
        ("evictionMaxPodGracePeriod",           |a, b| a.eviction.max_pod_grace == b.eviction.max_pod_grace),
        ("kubeReserved",                        |a, b| a.node.kube_reserved == b.node.kube_reserved),
        ("systemReserved",                      |a, b| a.node.system_reserved == b.node.system_reserved),
        ("reservedSystemCPUs",                  |a, b| a.node.reserved_cpus == b.node.reserved_cpus),
        ("enforceNodeAllocatable",              |a, b| a.node.enforce == b.node.enforce),
        ("cpuManagerPolicy",                    |a, b| (a.node.static_cpus, a.node.strict_cpu_reservation)
                                                    == (b.node.static_cpus, b.node.strict_cpu_reservation)),
        ("cgroupDriver",                        |a, b| a.node.cgroup_driver == b.node.cgroup_driver),
        ("cgroupRoot",                          |a, b| a.node.cgroup_root == b.node.cgroup_root),
        ("podPidsLimit",                        |a, b| a.node.pod_pids_limit == b.node.pod_pids_limit),
        ("maxPods, podsPerCore",                |a, b| (a.node.max_pods, a.node.pods_per_core)
                                                    == (b.node.max_pods, b.node.pods_per_core)),
    ];
    let differ = table.into_iter().filter(|(_, same)| !same(ours, kubelet));
    differ.map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::kubelet_of;

    #[test]
    fn differences_name_the_kubelets_keys() {
        let base = r#"{"kubeletconfig": {"cgroupDriver": "systemd", "maxPods": 110}}"#;
        let ours = kubelet_of(base).unwrap();
        #[rustfmt::skip]
        let table = [
            // what the kubelet runs with, differences
            (r#""cgroupDriver": "systemd""#,                                         vec![]),
            (r#""cgroupDriver": "cgroupfs""#,                                        vec!["cgroupDriver"]),
            (r#""cgroupDriver": "systemd", "evictionHard": {"memory.available": "1Gi"}"#, vec!["evictionHard, evictionSoft"]),
            (r#""cgroupDriver": "systemd", "kubeReserved": {"cpu": "1"}, "maxPods": 30"#, vec!["kubeReserved", "maxPods, podsPerCore"]),
        ];
        for (fields, want) in table {
            let kubelet = kubelet_of(&format!(r#"{{"kubeletconfig": {{{fields}}}}}"#)).unwrap();
            assert_eq!(differences(&ours, &kubelet), want, "{fields}");
        }
    }
}
