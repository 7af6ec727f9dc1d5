//! Mistakes in a scenario that one field alone cannot tell.

use isobar_core::model::pod::QosClass;

use super::Scenario;
use super::group::Pod;
use crate::alerts;
use crate::capabilities;
use crate::guest::pods;

/// Where a mistake stands, and what it is.
type Mistake = (usize, String);

impl Scenario {
    /// What one field alone cannot tell.
    pub(super) fn check(&self) -> Result<(), Mistake> {
        let form = &self.form;
        form.pod.iter().enumerate().try_for_each(|(i, pod)| check_pod(&form.pod[..i], pod))?;
        for file in &form.file {
            if !file.path.get_ref().starts_with("/disk/") {
                return Err((file.path.span().start, "expected a path below /disk/".into()));
            }
        }
        for cgroup in &form.cgroup {
            if !cgroup.path.get_ref().starts_with('/') {
                return Err((cgroup.path.span().start, "expected a path with a leading /".into()));
            }
        }
        for name in form.api.iter().flat_map(|api| &api.budgets) {
            if !form.pod.iter().any(|pod| pod.name.get_ref() == name.get_ref()) {
                let why = format!("no pod is called {}", name.get_ref());
                return Err((name.span().start, why));
            }
        }
        if capabilities::added(&form.components).is_none() {
            return Err((0, format!("{:?}: no such component adds capabilities", form.components)));
        }
        let expect = &form.expect;
        for name in expect.allowed() {
            let pods = form.pod.iter().map(|pod| pod.name.get_ref());
            let services = form.service.iter().map(|service| service.name.get_ref());
            let cgroups = form.cgroup.iter().map(|cgroup| cgroup.path.get_ref());
            let mut known = pods.chain(services).chain(cgroups);
            if !known.any(|known| known == name.get_ref()) {
                let why = format!("no pod, service or cgroup is called {}", name.get_ref());
                return Err((name.span().start, why));
            }
            if expect.no_kill {
                let why = "`no_kill` and victims contradict each other".into();
                return Err((name.span().start, why));
            }
        }
        if let Some(unknown) = expect.alerts.iter().flatten().find(|name| !alerts::is_known(name)) {
            return Err((0, format!("no alert is called {unknown}")));
        }
        if !expect.judges_something() && form.skip.is_none() {
            return Err((0, "`expect` judges nothing: such a scenario cannot fail".into()));
        }
        Ok(())
    }
}

fn check_pod(others: &[Pod], pod: &Pod) -> Result<(), Mistake> {
    let (at, name) = (pod.name.span().start, pod.name.get_ref());
    if others.iter().any(|other| other.name.get_ref() == name) {
        return Err((at, format!("there are two pods called {name}")));
    }
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c == '-') {
        return Err((at, format!("{name:?}: expected a pod's name in lower case")));
    }
    if pod.containers != 1 && (pod.containers == 0 || *pod.class.get_ref() != QosClass::BestEffort)
    {
        let why = format!("{name}: expected one container, or, of BestEffort alone, several");
        return Err((at, why));
    }
    let (said, made) = (*pod.class.get_ref(), pods::class(pod));
    if said == made {
        return Ok(());
    }
    let why = format!("{name} is {said:?}, but requests and limits make it {made:?}");
    Err((pod.class.span().start, why))
}
