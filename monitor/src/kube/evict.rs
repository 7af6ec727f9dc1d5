//! Evictions through the API server, one after the other, and deletions in their place. Source: kubernetes
//! `pkg/registry/core/pod/storage/eviction.go`.

mod group;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    DeleteOptions, ObjectMeta, Preconditions, Status,
};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{sleep, timeout};

use super::board::{Board, Report};
use super::client::{API_SERVER, Failure, Pods, answered};
use super::delete::delete;
use super::jitter::about;
use crate::act::evict::{Answer, Refusal, Request};
use crate::clock;
use isobar_core::model::settings::Deletion;
use isobar_core::model::units::Nanos;

/// The name of this part in capabilities.
pub(super) const NAME: &str = "evictions";
const PERMISSION: &str = "allow it to create pods/eviction";
const OBSERVED: &str =
    "relief.enforce does not name evict: the agent only tells which pod it would evict";
/// Between two attempts, where the server could not be reached or has too much to do; where it names a
/// longer time, that, as far as the step has it.
const RETRIED: Duration = Duration::from_secs(1);
/// How often it is asked whether evictions are allowed, once there was an answer: where they are not,
/// each node asks for as long as it runs. A request that is refused has it asked at once.
const ASKED: Duration = Duration::from_secs(300);
/// The same while there is no answer.
const ASKED_AGAIN: Duration = Duration::from_secs(15);
/// The policies in deploy/ that limit what isobar may do to pods.
const OWN_POLICIES: [&str; 2] = ["isobar-evictions", "isobar-deletions"];

/// What is looked into once an eviction has failed.
#[derive(Debug, Clone, Copy)]
struct Doubts<'a> {
    is_allowed: &'a Notify,
    is_answering: &'a Notify,
}

/// Evicts what is asked for until the agent leaves. One that is not answered has the server `doubted`.
pub(super) async fn answer(
    client: Client,
    mut requests: mpsc::Receiver<Request>,
    enforced: watch::Receiver<Option<Deletion>>,
    (is_allowed, doubted): (&AtomicBool, &Notify),
    board: &Board,
) {
    let refused = Notify::new();
    let doubts = Doubts { is_allowed: &refused, is_answering: doubted };
    let asking = ask_whether_allowed(&client, enforced, &refused, is_allowed, board);
    let evicting = async {
        while let Some(request) = requests.recv().await {
            let result = match request.members.is_empty() {
                true => in_time(&client, &request, doubts).await,
                false => group::in_time(&client, &request, doubts, board).await,
            };
            // An actuator that was opened anew no longer waits for it.
            let _ = request.reply.send(Answer { action: request.action, result }).await;
        }
    };
    tokio::join!(asking, evicting);
}

/// A step that the server forbids costs its deadline, so it is asked before. While evictions are only
/// observed they need no right: what the agent would do does not depend on one.
async fn ask_whether_allowed(
    client: &Client,
    mut enforced: watch::Receiver<Option<Deletion>>,
    refused: &Notify,
    is_allowed: &AtomicBool,
    board: &Board,
) {
    loop {
        let Some(deletion) = *enforced.borrow_and_update() else {
            is_allowed.store(true, Ordering::Relaxed);
            board.report(NAME, Report::Off(OBSERVED.into()));
            if enforced.changed().await.is_err() {
                return;
            }
            is_allowed.store(false, Ordering::Relaxed);
            continue;
        };
        let is_configured = deletion != Deletion::Never;
        let evicts = may(client, "create", Some("eviction")).await;
        let deletes = match is_configured {
            true => may(client, "delete", None).await,
            false => Ok(false),
        };
        let is_open = [&evicts, &deletes].iter().any(|may| **may == Ok(true));
        // A question without an answer takes nothing back.
        if is_open || (evicts.is_ok() && deletes.is_ok()) {
            is_allowed.store(is_open, Ordering::Relaxed);
        }
        let wait = if evicts.is_ok() && deletes.is_ok() { ASKED } else { ASKED_AGAIN };
        let works = |words: &str| Report::Works(words.into());
        let report = match (evicts, deletes) {
            (Ok(true), Ok(true)) => works("the API server allows them, and to delete pods"),
            (Ok(true), Ok(false)) if is_configured => {
                works("the API server allows them, but not to delete pods")
            }
            (Ok(true), Err(why)) => works(&format!(
                "the API server allows them; whether it allows to delete pods is not known: {}",
                why.words
            )),
            (Ok(true), _) => works("the API server allows them"),
            (_, Ok(true)) => works("the API server does not allow them, but to delete pods"),
            (Ok(false), Ok(false)) => {
                Report::Fails("the API server does not allow them".into(), Some(PERMISSION))
            }
            (Err(why), _) | (_, Err(why)) => why.report(PERMISSION),
        };
        board.report(NAME, report);
        tokio::select! {
            () = sleep(about(wait)) => {}
            () = refused.notified() => {}
            Ok(()) = enforced.changed() => {}
        }
    }
}

/// Whether the server lets this agent do this to pods.
async fn may(client: &Client, verb: &str, subresource: Option<&str>) -> Result<bool, Failure> {
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let attributes = ResourceAttributes {
        verb: Some(verb.into()),
        group: Some(String::new()),
        resource: Some("pods".into()),
        subresource: subresource.map(Into::into),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec {
        resource_attributes: Some(attributes),
        ..SelfSubjectAccessReviewSpec::default()
    };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    let review = answered(api.create(&PostParams::default(), &review)).await?;
    Ok(review.status.is_some_and(|status| status.allowed))
}

/// Evicts the pod if the deadline of its step leaves time for it, and gives up at that deadline: then
/// another step follows, and a late eviction would end a second pod for the same memory.
async fn in_time(
    client: &Client,
    request: &Request,
    doubts: Doubts<'_>,
) -> Result<String, Refusal> {
    let Request { namespace, name, deadline, .. } = request;
    let left = Duration::from_nanos(deadline.since(clock::now().boot).0);
    if left.is_zero() {
        let why = "the requests before it took all of its time";
        return Err(Refusal::Failed(format!("{namespace}/{name} is not evicted: {why}")));
    }
    timeout(left, evict(client, request, doubts)).await.unwrap_or_else(|_| {
        doubts.is_answering.notify_one();
        let what = "the API server has not answered in time whether it evicts";
        Err(Refusal::Failed(format!("{what} {namespace}/{name}")))
    })
}

/// Evicts the pod; where that is refused for good and the configuration says so, deletes it.
async fn evict(client: &Client, request: &Request, doubts: Doubts<'_>) -> Result<String, Refusal> {
    let Request { namespace, name, deadline, .. } = request;
    let who = format!("{namespace}/{name}");
    let began = clock::now().boot;
    // An answer that comes later leaves no time for the next step.
    let until = began.plus(Nanos(deadline.since(began).0 / 2));
    let api: Pods = Api::namespaced(client.clone(), namespace);
    let body = body(request);
    let params = PostParams::default();
    // Why it is not evicted and has to be deleted.
    let mut because = None;
    loop {
        let why = match &because {
            None => {
                let post =
                    api.create_subresource::<Eviction, Status>("eviction", name, &params, &body);
                match answered(post).await {
                    Ok(_) => return Ok(format!("the API server evicts {who}")),
                    Err(why) => why,
                }
            }
            // Its condition comes first, which takes as long as an answer may.
            Some(_) if clock::now().boot >= until => {
                let words = "there is no time left to delete";
                return Err(Refusal::Failed(format!("{words} {who}, which is not evicted")));
            }
            Some(because) => match delete(&api, request).await {
                Ok(story) => return Ok(format!("{story}, not evicted: {because}")),
                Err(why) => why,
            },
        };
        let verdict = verdict(&why, name);
        match (&verdict, why.code) {
            (Verdict::Away, _) => doubts.is_answering.notify_one(),
            (_, Some(403)) => doubts.is_allowed.notify_one(),
            _ => {}
        }
        if because.is_none() && verdict.is_mended_by(request.deletion) {
            because = Some(why.words);
            continue;
        }
        let refusal = format!("{who} is not evicted: {}", why.words);
        match verdict {
            Verdict::Gone => return Ok(format!("{who} is gone already")),
            Verdict::Replaced => {
                return Ok(format!("{who} is gone already; another pod has its name"));
            }
            Verdict::NoEviction | Verdict::Refused => return Err(Refusal::Failed(refusal)),
            Verdict::Busy | Verdict::Uncounted | Verdict::Away if clock::now().boot < until => {
                let left = Duration::from_nanos(until.since(clock::now().boot).0);
                sleep(about(RETRIED.max(why.retry_after)).min(left)).await;
            }
            Verdict::OverBudget | Verdict::Uncounted | Verdict::Protected => {
                return Err(Refusal::Forbidden(refusal));
            }
            Verdict::Busy => return Err(Refusal::Failed(refusal)),
            Verdict::Away => {
                let words = "the API server could not be asked in time";
                return Err(Refusal::Failed(format!("{words} to evict {who}")));
            }
        }
    }
}

/// 0 would take the pod off the API while its processes still run.
pub(super) fn grace_seconds(request: &Request) -> u32 {
    let seconds = request.grace.0.div_ceil(Nanos::SECOND.0).max(1);
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

/// kube's own `evict` writes the options under a name that the server ignores.
fn body(request: &Request) -> Eviction {
    let preconditions =
        Preconditions { uid: Some(request.uid.clone()), ..Preconditions::default() };
    Eviction {
        metadata: ObjectMeta {
            name: Some(request.name.clone()),
            namespace: Some(request.namespace.clone()),
            ..ObjectMeta::default()
        },
        delete_options: Some(DeleteOptions {
            grace_period_seconds: Some(grace_seconds(request).into()),
            preconditions: Some(preconditions),
            ..DeleteOptions::default()
        }),
    }
}

/// What an answer other than yes means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The pod is there no longer.
    Gone,
    /// Another pod has its name.
    Replaced,
    /// A disruption budget forbids it.
    OverBudget,
    /// The server does not know yet what a disruption budget says: it has not counted its pods.
    Uncounted,
    /// An admission webhook or an admission policy of the cluster's forbids it.
    Protected,
    /// The server has too much to do.
    Busy,
    /// The server knows no evictions, or this agent may not evict.
    NoEviction,
    /// For another reason, which asking again does not mend.
    Refused,
    /// Asking again may help.
    Away,
}

impl Verdict {
    fn is_mended_by(self, deletion: Deletion) -> bool {
        match deletion {
            Deletion::Never => false,
            Deletion::NoEviction => self == Self::NoEviction,
            Deletion::OverBudgets => matches!(self, Self::NoEviction | Self::OverBudget),
        }
    }
}

fn verdict(why: &Failure, name: &str) -> Verdict {
    let says = |text: &str| why.words.contains(text);
    match why.code {
        // The code is what the webhook or the policy names.
        Some(_) if is_denied(&why.words) => Verdict::Protected,
        // Without the subresource it is the path that is not found.
        Some(404) if says(&format!("{name:?}")) => Verdict::Gone,
        Some(404 | 405) => Verdict::NoEviction,
        // One older than policy/v1, which came with 1.22.
        Some(400) if says(r#"no kind "Eviction" is registered"#) => Verdict::NoEviction,
        Some(403) if says(r#"cannot create resource "pods/eviction""#) => Verdict::NoEviction,
        // Source: `checkAndDecrement`: less than none is allowed, or too many evictions are under way.
        Some(403) if message(why).starts_with("poddisruptionbudget.policy") => Verdict::OverBudget,
        // Source: apiserver `rest.BeforeDelete` and `storage.Preconditions.Check`.
        Some(409) if says("UID in the precondition") || says("UID in precondition") => {
            Verdict::Replaced
        }
        // Source: `checkAndDecrement`, `eviction.go`.
        Some(429) if says("is still being processed by the server") => Verdict::Uncounted,
        Some(429) if says("disruption budget") => Verdict::OverBudget,
        Some(429) => Verdict::Busy,
        // Source: `eviction.go`, where a pod has several budgets.
        Some(500) if says("more than one PodDisruptionBudget") => Verdict::OverBudget,
        Some(400..500) => Verdict::Refused,
        _ => Verdict::Away,
    }
}

/// Whether admission protects the pod: a webhook has denied the request, or a policy of the cluster's. One of
/// isobar's own denies only what isobar does wrong, and a webhook that could not be called denies nothing.
/// Source: apiserver `webhook/errors.ToStatusErr`, `policy/validating/dispatcher.go`.
fn is_denied(words: &str) -> bool {
    let by = |denies: &str| words.split_once(denies).map_or("", |(by, _)| by);
    let (webhook, policy) = (by("denied the request"), by("denied request"));
    let is_own = |name: &&str| policy.contains(&format!("ValidatingAdmissionPolicy '{name}'"));
    let is_by_webhook =
        webhook.contains("admission webhook \"") && !webhook.contains("failed calling webhook");
    is_by_webhook
        || policy.contains("ValidatingAdmissionPolicy '") && !OWN_POLICIES.iter().any(is_own)
}

/// What the server itself says, without what isobar says of it.
fn message(why: &Failure) -> &str {
    let said = why
        .code
        .and_then(|code| why.words.strip_prefix(&format!("{API_SERVER} answered {code}: ")));
    said.unwrap_or(&why.words)
}
