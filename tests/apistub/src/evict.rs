//! Eviction: a deletion that a PodDisruptionBudget may refuse. Follows `eviction.go` of 1.36.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::call::Call;
use crate::cluster::Cluster;
use crate::delete::{Options, end};
use crate::kind::Kind;
use crate::select::Labels;
use crate::status::{Failure, success};
use crate::store::{Key, Store, now};
use crate::write::key;

const VIOLATES: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
const TWO_BUDGETS: &str = "This pod has more than one PodDisruptionBudget, which the eviction \
                           subresource does not support.";
const REASON: &str = "EvictionByEvictionAPI";
/// Pods that a budget may know of as disrupted.
const MOST_DISRUPTED: usize = 2000;

pub(crate) fn evict(cluster: &Arc<Cluster>, call: &Call, kind: &Kind) -> Result<Answer, Failure> {
    let options = read(call)?;
    let key = key(call, kind);
    cluster.change(|store| {
        let pod = store.get(&key).ok_or_else(|| Failure::not_found(kind, &key.name))?;
        if !ignores_budgets(&pod) {
            ask_budget(store, &key, &pod)?;
        }
        let mut options = options.clone();
        options.check(kind, &pod)?;
        if let Some(marked) = marked(&pod) {
            options.follow(&store.put(key.clone(), marked));
        }
        end(cluster, store, kind, &key, &options)
    })?;
    Ok(Answer::Object(201, success(201, None)))
}

/// The options of a body that is an Eviction of the pod in the path. Both API versions are
/// accepted; keys that an Eviction does not have are ignored.
fn read(call: &Call) -> Result<Options, Failure> {
    let body = &call.body;
    if !body.is_object() {
        let message = "the object provided is unrecognized (must be of type Eviction)";
        return Err(Failure::bad_request(message));
    }
    let said = |name: &str| body[name].as_str().unwrap_or("");
    if !["", "policy/v1", "policy/v1beta1"].contains(&said("apiVersion"))
        || !["", "Eviction"].contains(&said("kind"))
    {
        let (version, kind) = (said("apiVersion"), said("kind"));
        let message =
            format!("no kind {kind:?} is registered for version {version:?}: not an Eviction");
        return Err(Failure::bad_request(message));
    }
    let metadata = |name: &str| body["metadata"][name].as_str().unwrap_or("");
    if !["", call.namespace.as_str()].contains(&metadata("namespace")) {
        let message =
            "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Failure::bad_request(message));
    }
    if metadata("name") != call.name {
        let message = "name in URL does not match name in Eviction object";
        return Err(Failure::bad_request(message));
    }
    Ok(Options::read(&body["deleteOptions"]))
}

/// Pods that are over, have not begun or end already disrupt nothing.
fn ignores_budgets(pod: &Value) -> bool {
    let phase = pod["status"]["phase"].as_str().unwrap_or("");
    ["Succeeded", "Failed", "Pending"].contains(&phase)
        || !pod["metadata"]["deletionTimestamp"].is_null()
}

/// Takes one disruption from the budget that covers the pod, if one does.
fn ask_budget(store: &mut Store, pod_key: &Key, pod: &Value) -> Result<(), Failure> {
    let covers = |key: &Key, budget: &Value| {
        let labels = Labels::of_object(&budget["spec"]["selector"]);
        key.namespace == pod_key.namespace && labels.is_some_and(|labels| labels.matches(pod))
    };
    let budgets = store.all("poddisruptionbudgets").filter(|(key, budget)| covers(key, budget));
    let budgets: Vec<_> = budgets.map(|(key, budget)| (key.clone(), budget.clone())).collect();
    let (key, budget) = match budgets.as_slice() {
        [] => return Ok(()),
        [one] => one,
        _ => return Err(Failure::new(500, "", TWO_BUDGETS)),
    };
    if !is_ready(pod) && spares_unready(budget) {
        return Ok(());
    }
    let allowed = allowed(budget, &key.name)?;
    let mut budget = Value::clone(budget);
    budget["status"]["disruptionsAllowed"] = (allowed - 1).into();
    budget["status"]["disruptedPods"][&pod_key.name] = now().into();
    store.put(key.clone(), budget);
    Ok(())
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let ready = |c: &Value| c["type"] == "Ready" && c["status"] == "True";
    conditions.is_some_and(|all| all.iter().any(ready))
}

/// Whether the budget lets pods go that are not ready, by its `unhealthyPodEvictionPolicy`.
fn spares_unready(budget: &Value) -> bool {
    let count = |name: &str| budget["status"][name].as_i64().unwrap_or(0);
    let (healthy, desired) = (count("currentHealthy"), count("desiredHealthy"));
    budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
        || (healthy >= desired && desired > 0)
}

/// How many disruptions the budget allows: at least one.
fn allowed(budget: &Value, name: &str) -> Result<i64, Failure> {
    let status = |name: &str| budget["status"][name].as_i64().unwrap_or(0);
    let refuse = |message: String, retry_after: u64| {
        let mut failure = Failure::too_many_requests(VIOLATES, retry_after);
        failure.detail("causes", json!([{"reason": "DisruptionBudget", "message": message}]));
        Err(failure)
    };
    let forbid = |why: &str| {
        let on = "poddisruptionbudget.policy";
        let message = format!("{on} {name:?} is forbidden: {why}");
        let mut failure = Failure::new(403, "Forbidden", message);
        for (key, value) in [("name", name), ("group", "policy"), ("kind", "poddisruptionbudget")] {
            failure.detail(key, value.into());
        }
        Err(failure)
    };
    let generation = budget["metadata"]["generation"].as_i64().unwrap_or(0);
    if status("observedGeneration") < generation {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return refuse(why, 10);
    }
    let n_disrupted = budget["status"]["disruptedPods"].as_object().map_or(0, Map::len);
    match status("disruptionsAllowed") {
        ..0 => forbid("pdb disruptions allowed is negative"),
        _ if n_disrupted > MOST_DISRUPTED => {
            forbid("DisruptedPods map too big - too many evictions not confirmed by PDB controller")
        }
        0 => {
            let (desired, healthy) = (status("desiredHealthy"), status("currentHealthy"));
            let why = format!(
                "The disruption budget {name} needs {desired} healthy pods and has {healthy} \
                 currently"
            );
            refuse(why, 0)
        }
        n => Ok(n),
    }
}

/// The pod with the condition that says why it ends; None if it has it.
fn marked(pod: &Value) -> Option<Value> {
    let has = |c: &Value| c["type"] == "DisruptionTarget" && c["reason"] == REASON;
    if pod["status"]["conditions"].as_array().is_some_and(|all| all.iter().any(has)) {
        return None;
    }
    let mut pod = pod.clone();
    let condition = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "lastTransitionTime": now(),
        "reason": REASON,
        "message": "Eviction API: evicting",
    });
    if !pod["status"]["conditions"].is_array() {
        pod["status"]["conditions"] = json!([]);
    }
    if let Some(conditions) = pod["status"]["conditions"].as_array_mut() {
        conditions.retain(|c| c["type"] != "DisruptionTarget");
        conditions.push(condition);
    }
    Some(pod)
}
