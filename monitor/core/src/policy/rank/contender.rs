//! A pod or service as the ranking sees it: request and usage of what is short, and harm.

use serde::{Deserialize, Serialize};

use super::need::REAL_PART;
use super::purpose::Purpose;
use crate::model::cgroup::Preference;
use crate::model::decision::{SparedReason, full_name};
use crate::model::pod::QosClass;
use crate::model::quantity::Quantity;
use crate::model::settings;
use crate::model::units::Nanos;
use crate::model::workload::{Owner, Pod, is_static_uid};
use crate::policy::assess::critical;

/// Waiting that a candidate causes, per second of wall time; task time, so it may exceed a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Harm {
    pub others: Nanos,
    pub own: Nanos,
}

impl Harm {
    /// [`Harm::others`] in whole milliseconds per second, by which candidates are compared. On a
    /// busy node every pod makes others wait for microseconds, which must not outweigh its usage.
    pub fn millis(self) -> u64 {
        self.others.0 / 1_000_000
    }

    /// True if only the candidate itself waits.
    pub fn is_own_alone(self) -> bool {
        self.millis() == 0 && self.own.0 >= 1_000_000
    }
}

/// A pod or service as the ranking sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contender {
    /// `metadata.name`, else the uid; of a service the last part of its path.
    pub name: String,
    /// Empty if unknown.
    pub namespace: String,
    /// `metadata.uid`, unique; of a service its path.
    pub uid: String,
    pub class: QosClass,
    /// `spec.priority`, else 0.
    pub priority: i32,
    /// Request of what is short: memory, CPU, or ephemeral storage (for inodes too, as in the
    /// kubelet). `None` if unknown, and for pids and IO.
    pub request: Option<Quantity>,
    /// Usage of what is short; `None` if unknown.
    pub usage: Option<Quantity>,
    /// What of memory it holds as far as that counts as taken: its request is compared with that, where
    /// it is asked what it took beyond it. Usage has no swap in it, and cache that can be dropped.
    pub holds: Option<u64>,
    /// `None` if not measured.
    pub harm: Option<Harm>,
    /// Its part of all waiting for disks, of its own too, by what disks did for it; `None` for others.
    pub part: Option<Nanos>,
    /// What it took of the memory or the disk that was lost, in bytes, or of pids or inodes, as a number;
    /// `None` if unknown.
    pub taken: Option<u64>,
    /// What its share of all that was taken all along would be of that; `None` if unknown.
    pub lasting: Option<u64>,
    /// What of that its end would give back; `None` if unknown.
    pub frees: Option<u64>,
    /// Seconds since 1970; `None` if unknown.
    pub started: Option<i64>,
    /// Small pods of one owner may form a group; `None` for a pod without an owner.
    pub owner: Option<Owner>,
    /// Prefer or avoid, from an extended attribute of the cgroup; omit sets `spared`.
    pub preference: Option<Preference>,
    /// Why it is never evicted.
    pub spared: Option<SparedReason>,
}

/// Labels that identify a controller's template, for pods without an owner reference.
pub(crate) const TEMPLATE_LABELS: [&str; 3] =
    ["pod-template-hash", "controller-revision-hash", "pod-template-generation"];

impl Contender {
    /// From the API; usage, request and harm are added later.
    pub fn of(pod: &Pod, class: QosClass, rules: &settings::Ranking) -> Self {
        Self {
            name: pod.name.clone(),
            namespace: pod.namespace.clone(),
            uid: pod.uid.clone(),
            class,
            priority: pod.priority.unwrap_or(0),
            request: None,
            usage: None,
            holds: None,
            harm: None,
            part: None,
            taken: None,
            lasting: None,
            frees: None,
            started: pod.started,
            owner: pod.owner.clone().or_else(|| template(pod)),
            preference: None,
            spared: spared(pod, rules),
        }
    }

    /// By what causes of disk time are compared: its part of all waiting, in whole milliseconds per second,
    /// but no more than twice what others wait. Of two parties that wait for each other's requests each harms
    /// the other equally, and the larger goes first; one that only waits for itself does not.
    pub(super) fn disk_share(&self) -> Option<u64> {
        let (part, harm) = self.part.zip(self.harm)?;
        Some((part.0 / 1_000_000).min(harm.millis().saturating_mul(2)))
    }

    /// As [`full_name`] has it.
    pub fn full_name(&self) -> String {
        full_name(&self.namespace, &self.name, 0)
    }

    /// A real part of what it took. What was swapped out since is no memory that its end gives back.
    pub(super) fn part_taken(&self) -> Option<u64> {
        let used = self.usage.map_or(u64::MAX, Quantity::to_u64);
        Some(self.taken?.min(used) / REAL_PART)
    }

    /// For a key of which the smaller goes first.
    pub(super) fn youngest_first(&self) -> i64 {
        self.started.map_or(i64::MAX, |started| -started.max(-i64::MAX))
    }

    /// What is compared with its request, where it is asked what it took beyond it.
    pub(super) fn used(&self) -> Option<Quantity> {
        self.holds.map(Quantity::bytes).or(self.usage)
    }

    /// What it took, lately or all along.
    pub(super) fn took(&self) -> Option<u64> {
        self.taken.max(self.lasting)
    }

    /// Whether it took more or less lately than all along.
    pub(super) fn took_otherwise(&self) -> bool {
        self.lasting.is_some() && self.lasting != self.taken
    }

    /// Whether it holds more than it requests: swap counts, where that is known.
    pub(super) fn holds_more(&self) -> bool {
        self.used().zip(self.request).is_some_and(|(used, request)| used > request)
    }

    /// What its end frees of what is promised to others, without what it took itself. What it requests it
    /// takes again when it is started again.
    pub(super) fn frees_promised(&self) -> Option<u64> {
        let (used, request) = self.used().zip(self.request)?;
        let frees = Quantity::bytes(self.frees?).beyond(request).min(used.beyond(request));
        Some(frees.saturating_sub(self.took().unwrap_or_default()))
    }

    /// Whether its end frees enough of what is promised to others.
    pub(super) fn holds_promised(&self, least: u64) -> bool {
        let frees = self.frees_promised().filter(|frees| *frees > 0);
        self.spared.is_none() && frees.is_some_and(|frees| frees >= least)
    }

    /// Why it is not chosen for `purpose`; `None` if it may be.
    ///
    /// Harming only itself spares a candidate only if the signal is about waiting and harm was
    /// measured: what is unknown spares no candidate.
    pub(super) fn spared_for(&self, purpose: Purpose) -> Option<SparedReason> {
        let harms_only_itself =
            purpose.is_about_waiting && self.harm.is_some_and(Harm::is_own_alone);
        self.spared.or_else(|| harms_only_itself.then_some(SparedReason::HarmsOnlyItself))
    }

    /// Applies the preference of its cgroup's extended attributes.
    #[must_use]
    pub fn preferred(self, preference: Option<Preference>) -> Self {
        match preference {
            Some(Preference::Omit) => {
                Self { spared: self.spared.or(Some(SparedReason::OptedOut)), ..self }
            }
            preference => Self { preference, ..self },
        }
    }

    /// A pod of which only the cgroup is known.
    pub fn unknown(uid: &str, class: QosClass) -> Self {
        let pod = Pod { name: uid.into(), uid: uid.into(), ..Pod::default() };
        let spared = is_static_uid(uid).then_some(SparedReason::Static);
        Self { spared, ..Self::of(&pod, class, &settings::Ranking::default()) }
    }
}

fn template(pod: &Pod) -> Option<Owner> {
    let hash = TEMPLATE_LABELS.iter().find_map(|label| pod.labels.get(*label))?;
    Some(Owner { kind: "Template".into(), name: hash.clone(), uid: String::new() })
}

fn spared(pod: &Pod, rules: &settings::Ranking) -> Option<SparedReason> {
    critical::spared_as(pod).or_else(|| is_opted_out(pod, rules).then_some(SparedReason::OptedOut))
}

pub(super) fn is_opted_out(pod: &Pod, rules: &settings::Ranking) -> bool {
    pod.labels.get(&rules.opt_out_label).is_some_and(|value| value == "true")
}
