//! Files of an operator and of the kubelet, and what is computed from them.

use std::fmt::Debug;
use std::num::NonZeroU64;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use isobar::config::{self, pods as manifest};
use isobar::scenario as described;
use isobar_core::model::cpuset::CpuSet;
use isobar_core::model::decision::Order;
use isobar_core::model::quantity::{Quantity, ResourceList};
use isobar_core::model::settings::Settings;
use isobar_core::model::topology::Topology;
use isobar_core::policy::rank::{self, Purpose};
use isobar_kubelet::admitted::admitted;
use isobar_kubelet::checkpoint::State;
use isobar_kubelet::cpus::{Plan, take};
use isobar_kubelet::{fit, oom, qos};

/// Where a file that another file names is looked for, and not found.
const NOWHERE: &str = "/nonexistent";
/// Memory of the node that OOM scores are computed for.
const MEMORY: NonZeroU64 = NonZeroU64::new(32 << 30).expect("not 0");

/// A `MonitorConfiguration`. Its effective values, written out, must mean the same.
pub(crate) fn config(bytes: &[u8]) -> bool {
    let Ok(read) = config::effective(bytes, "config", Path::new(NOWHERE)) else { return false };
    let again = config::effective(read.yaml.as_bytes(), "again", Path::new(NOWHERE));
    let again = again.unwrap_or_else(|invalid| panic!("not read again: {invalid}\n{}", read.yaml));
    // Where the kubelet's fields come from is another file's business.
    let again = config::Effective { kubelet: read.kubelet, ..again };
    assert_eq!(read, again, "{}", read.yaml);
    true
}

/// The kubelet's configuration, without its `apiVersion` and `kind`.
pub(crate) fn kubelet(bytes: &[u8]) -> bool {
    let kind = b"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    config(&[kind, bytes].concat())
}

/// Manifests, with QoS classes and OOM scores.
pub(crate) fn pods(bytes: &[u8]) -> bool {
    let Ok(read) = manifest::read("pods", bytes) else { return false };
    for pod in read.pods.iter().flat_map(|pod| [pod.clone(), admitted(pod)]) {
        let _ = qos::class(&pod);
        for container in &pod.containers {
            let score = oom::score(&pod, container, MEMORY);
            assert!((-1_000..=1_000).contains(&score), "oom_score_adj {score}");
        }
        same_as_json(&pod);
    }
    let memory = Quantity::bytes(MEMORY.get());
    let _ = fit::fit(&read.pods, &ResourceList::from([("memory".into(), memory)]));
    !read.pods.is_empty()
}

/// `cpu_manager_state`.
pub(crate) fn checkpoint(bytes: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(bytes) else { return false };
    let state = State::read(text);
    let cpus = CpuSet((0..8).collect());
    let plan = Plan { online: cpus.clone(), default: cpus, ..Plan::default() };
    let refusals = [None, Some("none"), Some("static")].map(|of| state.refusals(of, &plan).len());
    assert!(refusals.iter().all(|n| *n >= state.problems.len()), "{state:?}");
    let _ = state.exclusive();
    state.problems.is_empty()
}

/// `lscpu -p=CPU,Core,Socket,Node`. CPUs that are taken from it must be in it.
pub(crate) fn lscpu(bytes: &[u8]) -> bool {
    let Some(topology) = str::from_utf8(bytes).ok().and_then(|text| text.parse::<Topology>().ok())
    else {
        return false;
    };
    let all = topology.all();
    for n in 0..=all.0.len().min(8) {
        let taken = take(&topology, n);
        assert!(taken.0.len() == n && taken.0.is_subset(&all.0), "{n} of {all}: {taken}");
        assert_eq!(topology.only(&taken).all(), taken);
    }
    true
}

/// A scenario, ranked for every signal and order.
pub(crate) fn scenario(bytes: &[u8]) -> bool {
    let Ok(scenario) = described::parse("scenario", bytes) else { return false };
    let rules = Settings::default().ranking;
    for purpose in Purpose::all() {
        let contenders = scenario.contenders(purpose, &rules);
        for order in [Order::Qos, Order::Kubelet] {
            let ranking = rank::rank_all(&contenders, purpose, order, &rules);
            same_as_json(&ranking.candidates);
        }
    }
    true
}

/// A recorded or served value must be read as it was written.
pub(crate) fn same_as_json<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let text = serde_json::to_string(value).unwrap_or_else(|why| panic!("{value:?}: {why}"));
    let again = serde_json::from_str(&text).unwrap_or_else(|why| panic!("{text}: {why}"));
    assert_eq!(*value, again, "{text}");
}
