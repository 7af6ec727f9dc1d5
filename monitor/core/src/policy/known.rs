//! Names that decisions depend on, whoever bears them: words of Kubernetes, of systemd and of isobar
//! itself. What else is called what changes no decision, as long as the same has the same name.

use crate::model::condition::{ConditionName, ScopeName};
use crate::model::decision::NodePressure;
use crate::model::quantity::Quantity;
use crate::model::settings::Ranking;
use crate::model::threshold::{PressureSignal, Signal};
use crate::model::workload::{HASH, MIRROR};
use crate::policy::assess::admission::MEMORY_PRESSURE;
use crate::policy::assess::critical::{NODE_CRITICAL, SOURCE};
use crate::policy::rank::{TEMPLATE_LABELS, VITAL};

/// Resources, values of tolerations and labels, sources of pods, and what the kubelet calls the
/// cgroups of pods.
#[rustfmt::skip]
const WORDS: [&str; 18] = [
    "cpu", "memory", "ephemeral-storage", "pid", "pids", "Exists", "Equal", "NoSchedule",
    "PreferNoSchedule", "NoExecute", "true", "api", "file", "http", "kubepods", "burstable",
    "besteffort", "init.scope",
];
const HUGE_PAGES: &str = "hugepages-";

/// True for such a name.
pub fn is_known(name: &str) -> bool {
    let of_policy = [MIRROR, HASH, SOURCE, NODE_CRITICAL, MEMORY_PRESSURE];
    WORDS.contains(&name)
        || of_policy.contains(&name)
        || VITAL.contains(&name)
        || TEMPLATE_LABELS.contains(&name)
        || name == Ranking::default().opt_out_label
        || name.strip_prefix(HUGE_PAGES).is_some_and(|size| size.parse::<Quantity>().is_ok())
        || Signal::ALL.iter().any(|one| one.name() == name)
        || ConditionName::ALL.iter().any(|one| one.name() == name)
        || NodePressure::ALL.iter().any(|one| one.name() == name)
        || is_pressure(name)
}

fn is_pressure(name: &str) -> bool {
    let scopes = [ScopeName::System, ScopeName::Kubepods];
    scopes.iter().any(|scope| PressureSignal::ALL.iter().any(|one| one.name(*scope) == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_known_tells_words_from_names() {
        #[rustfmt::skip]
        let table = [
            // name, known
            ("memory.available",              true),
            ("kubepods.memory.exhaustion",    true),
            ("SystemCPUContentionPressure",   true),
            ("PIDPressure",                   true),
            ("kubernetes.io/config.mirror",   true),
            ("isobar/never-evict",            true),
            ("pod-template-hash",             true),
            ("containerd",                    true),
            ("hugepages-2Mi",                 true),
            ("hugepages-acme",                false),
            ("acme.example/gpu",              false),
            ("web",                           false),
            ("",                              false),
        ];
        for (name, want) in table {
            assert_eq!(is_known(name), want, "{name}");
        }
    }
}
