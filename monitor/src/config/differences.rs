//! Where two settings differ in what is the kubelet's: isobar's and those that the kubelet runs with,
//! or isobar's before and after.

use isobar_core::model::duration::GoDuration;
use isobar_core::model::settings::Settings;
use isobar_core::model::threshold::Threshold;
use isobar_core::model::units::Nanos;
use serde_json::{Value, json};

/// One of the kubelet's keys, or a few that belong together, with both values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub keys: &'static str,
    pub before: Value,
    pub after: Value,
}

/// The kubelet's keys whose values differ. isobar's own pressure thresholds and limits are no
/// matter of the kubelet.
pub fn differences(before: &Settings, after: &Settings) -> Vec<Difference> {
    type Values = fn(&Settings) -> Value;
    #[rustfmt::skip]
    let table: [(&'static str, Values); 17] = [
        ("evictionHard, evictionSoft",       |one| json!(one.eviction.thresholds.iter().map(words).collect::<Vec<_>>())),
        ("evictionPressureTransitionPeriod", |one| json!(GoDuration::from(one.eviction.transition_period).to_string())),
        ("evictionMaxPodGracePeriod",        |one| json!(one.eviction.max_pod_grace)),
        ("kubeReserved",                     |one| json!(one.node.kube_reserved)),
        ("systemReserved",                   |one| json!(one.node.system_reserved)),
        ("kubeReservedCgroup",               |one| json!(one.node.kube_reserved_cgroup)),
        ("systemReservedCgroup",             |one| json!(one.node.system_reserved_cgroup)),
        ("kubeletCgroups",                   |one| json!(one.node.kubelet_cgroups)),
        ("systemCgroups",                    |one| json!(one.node.system_cgroups)),
        ("cgroupsPerQOS",                    |one| json!(one.node.cgroups_per_qos)),
        ("reservedSystemCPUs",               |one| json!(one.node.reserved_cpus)),
        ("enforceNodeAllocatable",           |one| json!(one.node.enforce)),
        ("cpuManagerPolicy",                 |one| json!({
            "static": one.node.static_cpus, "strict-cpu-reservation": one.node.strict_cpu_reservation,
        })),
        ("cgroupDriver",                     |one| json!(one.node.cgroup_driver)),
        ("cgroupRoot",                       |one| json!(one.node.cgroup_root)),
        ("podPidsLimit",                     |one| json!(one.node.pod_pids_limit)),
        ("maxPods, podsPerCore",             |one| json!([one.node.max_pods, one.node.pods_per_core])),
    ];
    let pairs = table.into_iter().map(|(keys, of)| (keys, of(before), of(after)));
    let differ = pairs.filter(|(_, before, after)| before != after);
    differ.map(|(keys, before, after)| Difference { keys, before, after }).collect()
}

/// A threshold as the kubelet's flags have it, such as `nodefs.available<10%`.
fn words(Threshold { signal, value, grace, min_reclaim }: &Threshold) -> String {
    let grace = match grace {
        Nanos(0) => String::new(),
        grace => format!(" for {}", GoDuration::from(*grace)),
    };
    let more = min_reclaim.map_or_else(String::new, |more| format!(", reclaiming {more}"));
    format!("{signal}<{value}{grace}{more}")
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
            (r#""cgroupDriver": "systemd", "kubeReservedCgroup": "/kube.slice", "systemReservedCgroup": "/system.slice""#, vec!["kubeReservedCgroup", "systemReservedCgroup"]),
            (r#""cgroupDriver": "systemd", "kubeletCgroups": "/kube.slice""#,         vec!["kubeletCgroups"]),
        ];
        for (fields, want) in table {
            let kubelet = kubelet_of(&format!(r#"{{"kubeletconfig": {{{fields}}}}}"#)).unwrap();
            let got: Vec<_> = differences(&ours, &kubelet).iter().map(|one| one.keys).collect();
            assert_eq!(got, want, "{fields}");
        }
    }

    #[test]
    fn differences_are_told_in_the_kubelets_words() {
        let told = |fields: &str| {
            let other = kubelet_of(&format!(r#"{{"kubeletconfig": {{{fields}}}}}"#)).unwrap();
            differences(&Settings::default(), &other).remove(0).after.to_string()
        };
        #[rustfmt::skip]
        let table = [
            // what the kubelet runs with, as it is told
            (r#""evictionHard": {"memory.available": "7%", "nodefs.available": "1Gi"}, "evictionMinimumReclaim": {"nodefs.available": "500Mi"}"#,
                r#"["memory.available<7%","nodefs.available<1Gi, reclaiming 500Mi","allocatableMemory.available<7%"]"#),
            (r#""evictionHard": {}, "evictionSoft": {"pid.available": "10%"}, "evictionSoftGracePeriod": {"pid.available": "90s"}"#,
                r#"["pid.available<10% for 1m30s"]"#),
            (r#""evictionPressureTransitionPeriod": "30s""#, r#""30s""#),
        ];
        for (fields, want) in table {
            assert_eq!(told(fields), want, "{fields}");
        }
    }
}
