//! The deletion of a pod that the API server does not evict, in the steps of an eviction: first the
//! condition by which its controller knows that it was no failure of the pod's, then the deletion of
//! this very pod, with a grace. Source: kubernetes `pkg/registry/core/pod/storage/eviction.go`,
//! `addConditionAndDeletePod`.

use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};

use super::client::{Failure, Pods, answered};
use super::evict::grace_seconds;
use super::managed::MANAGER;
use super::writer::now;
use crate::act::evict::Request;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Deletes the pod; in words, what was done.
pub(super) async fn delete(api: &Pods, request: &Request) -> Result<String, Failure> {
    let Request { namespace, name, uid, .. } = request;
    let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
    let patch = condition(request, &Time(now()));
    let told = answered(api.patch_status(name, &params, &Patch::Strategic(patch))).await;
    let preconditions = Preconditions { uid: Some(uid.clone()), ..Preconditions::default() };
    let params = DeleteParams {
        grace_period_seconds: Some(grace_seconds(request)),
        preconditions: Some(preconditions),
        ..DeleteParams::default()
    };
    answered(api.delete(name, &params)).await?;
    let untold = match told {
        Ok(_) => String::new(),
        Err(why) => format!(" (without the condition DisruptionTarget: {})", why.words),
    };
    Ok(format!("the API server deletes {namespace}/{name}{untold}"))
}

/// A pod of another uid is not changed.
fn condition(Request { uid, message, .. }: &Request, at: &Time) -> Value {
    let message = if message.is_empty() { "isobar: deleting" } else { message.trim_end() };
    let condition = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByIsobar",
        "message": message,
        "lastTransitionTime": at,
    });
    json!({"metadata": {"uid": uid}, "status": {"conditions": [condition]}})
}
