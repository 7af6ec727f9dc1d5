//! One pod as the ranking sees it: what it asked for and uses of what is short, and whom it harms.

use serde::{Deserialize, Serialize};

use crate::model::cgroup::Preference;
use crate::model::decision::SparedReason;
use crate::model::pod::QosClass;
use crate::model::quantity::Quantity;
use crate::model::settings;
use crate::model::units::Nanos;
use crate::model::workload::{Owner, Pod};
use crate::policy::assess::critical;

/// Waiting that somebody causes, per second: task time, so it may outrun the clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Harm {
    /// Of others.
    pub others: Nanos,
    /// Of itself.
    pub own: Nanos,
}

impl Harm {
    /// [`Harm::others`] in whole milliseconds a second, by which pods are compared. On a node at
    /// work everybody keeps somebody waiting for microseconds: that must not decide before how
    /// much a pod uses.
    #[must_use]
    pub fn millis(self) -> u64 {
        self.others.0 / 1_000_000
    }

    /// Nobody waits for it but itself.
    #[must_use]
    pub fn is_own_alone(self) -> bool {
        self.millis() == 0 && self.own.0 >= 1_000_000
    }
}

/// One pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contender {
    /// `metadata.name`, or what is known in its place.
    pub name: String,
    /// `metadata.namespace`; empty if not known.
    pub namespace: String,
    /// `metadata.uid`; no two have the same.
    pub uid: String,
    /// Its class of service.
    pub class: QosClass,
    /// `spec.priority`; none is 0.
    pub priority: i32,
    /// What it asked for of what is short: of memory, CPU or (for inodes as well, as the kubelet
    /// has it) ephemeral storage. `None` if not known. Of pids and IO there is no request.
    pub request: Option<Quantity>,
    /// What it uses of what is short; `None` if there are no statistics of it.
    pub usage: Option<Quantity>,
    /// Who waits because of it; `None` if not measured.
    pub harm: Option<Harm>,
    /// When it started, in seconds since 1970; `None` if not known.
    pub started: Option<i64>,
    /// Pods of one owner may be one candidate together; `None` for a pod on its own.
    pub owner: Option<Owner>,
    /// What an extended attribute of its cgroup says; never that it be left out, which spares it.
    pub preference: Option<Preference>,
    /// Why it may not be chosen, whatever is short.
    pub spared: Option<SparedReason>,
}

/// Labels by which a controller tells the pods of one template; for pods whose owner is not given.
const TEMPLATE_LABELS: [&str; 3] =
    ["pod-template-hash", "controller-revision-hash", "pod-template-generation"];
/// The label by which our own pods are known, and its value.
const OWN_LABEL: (&str, &str) = ("app.kubernetes.io/name", "isobar");

impl Contender {
    /// What the API says of a pod; use, request and harm are still to be told.
    #[must_use]
    pub fn of(pod: &Pod, class: QosClass, rules: &settings::Ranking) -> Self {
        Self {
            name: pod.name.clone(),
            namespace: pod.namespace.clone(),
            uid: pod.uid.clone(),
            class,
            priority: pod.priority.unwrap_or(0),
            request: None,
            usage: None,
            harm: None,
            started: pod.started,
            owner: pod.owner.clone().or_else(|| template(pod)),
            preference: None,
            spared: spared(pod, rules),
        }
    }

    /// With what its cgroup's extended attributes say: to be left out spares it.
    #[must_use]
    pub fn preferred(self, preference: Option<Preference>) -> Self {
        match preference {
            Some(Preference::Omit) => {
                Self { spared: self.spared.or(Some(SparedReason::OptedOut)), ..self }
            }
            preference => Self { preference, ..self },
        }
    }

    /// A pod of which only its cgroup is known.
    #[must_use]
    pub fn unknown(uid: &str, class: QosClass) -> Self {
        Self {
            name: uid.into(),
            namespace: String::new(),
            uid: uid.into(),
            class,
            priority: 0,
            request: None,
            usage: None,
            harm: None,
            started: None,
            owner: None,
            preference: None,
            spared: is_static(uid).then_some(SparedReason::Static),
        }
    }
}

/// A static pod's uid is a bare hash: 32 hex digits without dashes, where the API gives UUIDs.
/// Source: kubelet `pkg/kubelet/config/common.go`, `applyDefaults`.
fn is_static(uid: &str) -> bool {
    uid.len() == 32 && uid.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn template(pod: &Pod) -> Option<Owner> {
    let hash = TEMPLATE_LABELS.iter().find_map(|label| pod.labels.get(*label))?;
    Some(Owner { kind: "Template".into(), name: hash.clone(), uid: String::new() })
}

fn spared(pod: &Pod, rules: &settings::Ranking) -> Option<SparedReason> {
    let is = |label: &str, value: &str| pod.labels.get(label).is_some_and(|v| v == value);
    critical::spared_as(pod)
        .or_else(|| is(OWN_LABEL.0, OWN_LABEL.1).then_some(SparedReason::Isobar))
        .or_else(|| is(&rules.opt_out_label, "true").then_some(SparedReason::OptedOut))
}
