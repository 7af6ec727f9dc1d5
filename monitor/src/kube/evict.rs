//! Evictions through the API server, one after the other. Source: kubernetes
//! `pkg/registry/core/pod/storage/eviction.go`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    DeleteOptions, ObjectMeta, Preconditions, Status,
};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::board::{Board, Report};
use super::client::{Failure, answered};
use super::jitter::about;
use crate::act::evict::{Answer, Refusal, Request};
use crate::clock;
use isobar_core::model::units::Nanos;

/// The name of this part in capabilities.
const NAME: &str = "evictions";
const PERMISSION: &str = "allow it to create pods/eviction";
/// Between two attempts, where the server could not be reached.
const RETRIED: Duration = Duration::from_secs(1);
/// How often it is asked whether evictions are allowed, once there was an answer: where they are not,
/// each node asks for as long as it runs.
const ASKED: Duration = Duration::from_secs(300);
/// The same while there is no answer.
const ASKED_AGAIN: Duration = Duration::from_secs(15);

/// Evicts what is asked for until the agent leaves.
pub(super) async fn answer(
    client: Client,
    mut requests: mpsc::Receiver<Request>,
    is_allowed: &AtomicBool,
    board: &Board,
) {
    let asking = ask_whether_allowed(&client, is_allowed, board);
    let evicting = async {
        while let Some(request) = requests.recv().await {
            let result = evict(&client, &request).await;
            // An actuator that was opened anew no longer waits for it.
            let _ = request.reply.send(Answer { action: request.action, result }).await;
        }
    };
    tokio::join!(asking, evicting);
}

/// A step that the server forbids costs its deadline, so it is asked before.
async fn ask_whether_allowed(client: &Client, is_allowed: &AtomicBool, board: &Board) {
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let attributes = ResourceAttributes {
        verb: Some("create".into()),
        group: Some(String::new()),
        resource: Some("pods".into()),
        subresource: Some("eviction".into()),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec {
        resource_attributes: Some(attributes),
        ..SelfSubjectAccessReviewSpec::default()
    };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    loop {
        let answer = answered(api.create(&PostParams::default(), &review)).await;
        let allowed = answer.map(|review| review.status.is_some_and(|status| status.allowed));
        is_allowed.store(allowed == Ok(true), Ordering::Relaxed);
        let wait = if allowed.is_ok() { ASKED } else { ASKED_AGAIN };
        let report = match allowed {
            Ok(true) => Report::Works("the API server allows them".into()),
            Ok(false) => {
                Report::Fails("the API server does not allow them".into(), Some(PERMISSION))
            }
            Err(why) => why.report(PERMISSION),
        };
        board.report(NAME, report);
        sleep(about(wait)).await;
    }
}

async fn evict(client: &Client, request: &Request) -> Result<String, Refusal> {
    let Request { namespace, name, deadline, .. } = request;
    let began = clock::now().boot;
    // An answer that comes later leaves no time for the next step.
    let until = began.plus(Nanos(deadline.since(began).0 / 2));
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let body = body(request);
    let params = PostParams::default();
    loop {
        let posted = api.create_subresource::<Eviction, Status>("eviction", name, &params, &body);
        match answered(posted).await {
            Ok(_) => return Ok(format!("the API server evicts {namespace}/{name}")),
            Err(why) => match verdict(why, request) {
                Some(result) => return result,
                None if clock::now().boot < until => sleep(about(RETRIED)).await,
                None => {
                    let words = "the API server could not be asked in time";
                    return Err(Refusal::Failed(format!("{words} to evict {namespace}/{name}")));
                }
            },
        }
    }
}

/// kube's own `evict` writes the options under a name that the server ignores.
fn body(request: &Request) -> Eviction {
    // 0 would take the pod off the API while its processes still run.
    let seconds = request.grace.0.div_ceil(Nanos::SECOND.0).max(1);
    let preconditions =
        Preconditions { uid: Some(request.uid.clone()), ..Preconditions::default() };
    Eviction {
        metadata: ObjectMeta {
            name: Some(request.name.clone()),
            namespace: Some(request.namespace.clone()),
            ..ObjectMeta::default()
        },
        delete_options: Some(DeleteOptions {
            grace_period_seconds: Some(i64::try_from(seconds).unwrap_or(i64::MAX)),
            preconditions: Some(preconditions),
            ..DeleteOptions::default()
        }),
    }
}

/// What an answer other than yes means; `None` if asking again may help.
fn verdict(why: Failure, request: &Request) -> Option<Result<String, Refusal>> {
    let who = format!("{}/{}", request.namespace, request.name);
    // Source: `eviction.go`, where a pod has several budgets.
    let is_ambiguous = why.words.contains("more than one PodDisruptionBudget");
    match why.code {
        Some(404) => Some(Ok(format!("{who} is gone already"))),
        Some(429) => Some(Err(Refusal::Forbidden(format!("{who} is not evicted: {}", why.words)))),
        Some(500) if is_ambiguous => {
            Some(Err(Refusal::Forbidden(format!("{who} is not evicted: {}", why.words))))
        }
        Some(400..500) => {
            Some(Err(Refusal::Failed(format!("{who} is not evicted: {}", why.words))))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(grace: u64) -> Request {
        Request {
            action: 7,
            namespace: "shop".into(),
            name: "web".into(),
            uid: "u1".into(),
            grace: Nanos(grace),
            deadline: Nanos(0),
            reply: mpsc::channel(1).0,
        }
    }

    #[test]
    fn body_exactly() {
        #[rustfmt::skip]
        let table = [
            // grace in nanoseconds, seconds
            (0,                 1), // 0 would be a forced deletion
            (1,                 1),
            (1_000_000_000,     1),
            (30_500_000_000,   31),
        ];
        for (grace, want) in table {
            let got = serde_json::to_value(body(&request(grace))).unwrap();
            let want = serde_json::json!({
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": "web", "namespace": "shop"},
                "deleteOptions": {
                    "gracePeriodSeconds": want,
                    "preconditions": {"uid": "u1"},
                },
            });
            assert_eq!(got, want, "{grace} ns");
        }
    }

    #[test]
    fn verdict_by_code() {
        let (done, forbidden, failed) = (Some("done"), Some("forbidden"), Some("failed"));
        #[rustfmt::skip]
        let table = [
            // code, message, verdict
            (Some(404), "pods \"web\" not found",                               done),
            (Some(429), "Cannot evict pod as it would violate the pod's disruption budget.", forbidden),
            (Some(500), "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.", forbidden),
            (Some(500), "etcd is away",                                          None),
            (Some(503), "",                                                      None),
            (None,      "connection refused",                                    None),
            (Some(401), "Unauthorized",                                          failed),
            (Some(403), "forbidden",                                             failed),
            (Some(409), "the UID in the precondition does not match",            failed),
            (Some(422), "",                                                      failed),
        ];
        for (code, words, want) in table {
            let got = verdict(Failure { code, words: words.into() }, &request(1));
            let got = got.map(|result| match result {
                Ok(_) => "done",
                Err(Refusal::Forbidden(_)) => "forbidden",
                Err(Refusal::Failed(_)) => "failed",
            });
            assert_eq!(got, want, "{code:?} {words}");
        }
    }
}
