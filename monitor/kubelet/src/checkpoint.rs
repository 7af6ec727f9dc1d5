//! `cpu_manager_state`, the CPU manager's state file, read and checked as the kubelet of Kubernetes
//! 1.36 does at start.
//! In: the file's text. Out: its content, and what is wrong with it, in the kubelet's words.
//! Source: kubelet `pkg/kubelet/cm/cpumanager/state/` and `policy_static.go`, `validateState`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::cpus::{Plan, common};
use isobar_core::model::cpuset::CpuSet;
use isobar_core::model::quoted::quoted;

mod decode;
mod form;
mod syntax;

use form::Document;

/// Version of a state file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Containers by id.
    V1,
    /// Containers by pod and name. V3, with CPUs of whole pods, is taken for it.
    V2,
    /// Text in `data`, and V2 beside it for older kubelets.
    V4,
}

/// Exclusive CPUs of a container or a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CpuAssignment"))]
pub struct Assignment {
    /// The pod's uid; empty in V1.
    pub pod: String,
    /// The container's name, in V1 its id; empty for a whole pod.
    pub container: String,
    pub cpus: CpuSet,
}

/// The content of a state file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// `None` if the file cannot be parsed.
    pub version: Option<Version>,
    /// The policy that wrote the file.
    pub policy: Option<String>,
    /// CPUs of containers without exclusive ones, as written.
    pub default_text: Option<String>,
    /// The same, parsed; `None` if invalid.
    pub default: Option<CpuSet>,
    /// Exclusive CPUs.
    pub assignments: Vec<Assignment>,
    /// Some pod is named, be it without any container.
    pub has_entries: bool,
    /// The checksum is right.
    pub is_intact: bool,
    /// The kubelet can load it: what is said in it counts.
    pub is_loaded: bool,
    /// Why the kubelet cannot read the file, in its words.
    pub problems: Vec<String>,
}

impl State {
    pub fn read(text: &str) -> Self {
        let Document { version, policy, default, containers, pods, is_intact, refusal } =
            match form::load(text) {
                Ok(document) => document,
                Err(problem) => return Self { problems: vec![problem], ..Self::default() },
            };
        let mut state = Self {
            version: Some(version),
            is_intact,
            is_loaded: refusal.is_none(),
            has_entries: !containers.is_empty(),
            ..Self::default()
        };
        let named = format!("default cpu set {}", quoted(&default));
        state.default = state.parse(&default, &named);
        (state.policy, state.default_text) = (Some(policy), Some(default));
        containers.iter().for_each(|(pod, containers)| state.assign(pod, containers));
        for (pod, text) in pods {
            // 1.37 alone has these, whose words for it are not known.
            let named = format!("cpuset {} of pod {}", quoted(&text), quoted(&pod));
            let cpus = state.parse(&text, &named);
            let of_pod = |cpus| Assignment { pod, container: String::new(), cpus };
            state.assignments.extend(cpus.map(of_pod));
        }
        // What cannot be loaded is not looked at any further.
        if let Some(refusal) = refusal {
            state.problems = vec![refusal];
        }
        state
    }

    fn assign(&mut self, pod: &str, containers: &BTreeMap<String, String>) {
        for (container, text) in containers {
            let [set, name, uid] = [text, container, pod].map(quoted);
            let cpus = self.parse(text, &format!("cpuset {set} for container {name} in pod {uid}"));
            let (pod, container) = (pod.into(), container.into());
            self.assignments.extend(cpus.map(|cpus| Assignment { pod, container, cpus }));
        }
    }

    /// The set, or a problem with what is `named`.
    fn parse(&mut self, text: &str, named: &str) -> Option<CpuSet> {
        let parsed = text.parse::<CpuSet>();
        if let Err(error) = &parsed {
            self.problems.push(format!("could not parse {named}: {}", error.in_go()));
        }
        parsed.ok()
    }

    /// All exclusive CPUs, as `cpu_manager_exclusive_cpu_allocation_count` counts them; none if
    /// the kubelet could not read the file.
    pub fn exclusive(&self) -> CpuSet {
        if !self.problems.is_empty() {
            return CpuSet::default();
        }
        CpuSet(self.assignments.iter().flat_map(|assigned| &assigned.cpus.0).copied().collect())
    }

    /// All reasons for which the kubelet would not start, in its words and order. What depends on
    /// the configuration is checked only if the `configured` policy is known.
    pub fn refusals(&self, configured: Option<&str>, plan: &Plan) -> Vec<String> {
        let Some(policy) = self.policy.as_deref().filter(|_| self.is_loaded) else {
            return self.problems.clone();
        };
        let mut refusals = Vec::new();
        if let Some(configured) = configured.filter(|configured| *configured != policy) {
            refusals.push(format!(
                "configured policy {} differs from state checkpoint policy {}",
                quoted(configured),
                quoted(policy)
            ));
        }
        refusals.extend(self.problems.iter().cloned());
        if let Some(default) = self.default.as_ref().filter(|_| refusals.is_empty())
            && policy == "static"
        {
            self.check_static(default, configured.map(|_| plan), &mut refusals);
        }
        refusals
    }

    /// The static policy's checks at start.
    fn check_static(&self, default: &CpuSet, plan: Option<&Plan>, refusals: &mut Vec<String>) {
        if default.0.is_empty() {
            // The kubelet fills in an empty default set, unless CPUs are assigned already.
            if self.has_entries {
                refusals.push("default cpuset cannot be empty".into());
            }
            return;
        }
        refusals.extend(plan.and_then(|plan| reserved_refusal(plan, default)));
        for Assignment { pod, container, cpus } in &self.assignments {
            if !common(cpus, default).0.is_empty() {
                refusals.push(format!(
                    "pod: {pod}, container: {container} cpuset: \"{cpus}\" overlaps with default \
                     cpuset \"{default}\""
                ));
            }
        }
        let Some(managed) = plan.map(Plan::managed) else { return };
        let known = CpuSet(default.0.union(&self.exclusive().0).copied().collect());
        if known != managed {
            refusals.push(format!(
                "current set of available CPUs \"{managed}\" doesn't match with CPUs in state \
                 \"{known}\""
            ));
        }
    }
}

fn reserved_refusal(plan: &Plan, default: &CpuSet) -> Option<String> {
    let reserved = &plan.reserved;
    let shared = common(reserved, default);
    if plan.strict {
        return (!shared.0.is_empty()).then(|| {
            format!(
                "some of strictly reserved cpus: \"{shared}\" are present in defaultCpuSet: \
                 \"{default}\""
            )
        });
    }
    (shared != *reserved).then(|| {
        format!("not all reserved cpus: \"{reserved}\" are present in defaultCpuSet: \"{default}\"")
    })
}

#[cfg(test)]
mod tests;
