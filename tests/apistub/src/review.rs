//! Whether a client may do what it asks about: SelfSubjectAccessReview. Nothing is stored.

use serde_json::json;

use crate::answer::Answer;
use crate::call::Call;
use crate::cluster::Cluster;

const GROUP: &str = "authorization.k8s.io";

/// Every authenticated client may ask: the role `system:basic-user`.
pub(crate) fn is_review(call: &Call) -> bool {
    let asked = (call.group.as_str(), call.resource.as_str(), call.verb.as_str());
    asked == (GROUP, "selfsubjectaccessreviews", "create")
}

pub(crate) fn answer(cluster: &Cluster, call: &Call) -> Answer {
    let mut review = call.body.clone();
    let attributes = &call.body["spec"]["resourceAttributes"];
    let text = |name: &str| attributes[name].as_str().unwrap_or_default().to_owned();
    let would = Call {
        verb: text("verb"),
        group: text("group"),
        resource: text("resource"),
        subresource: text("subresource"),
        namespace: text("namespace"),
        name: text("name"),
        ..call.clone()
    };
    let allowed = cluster.access().rules.as_ref().is_none_or(|rules| rules.allow(&would));
    review["status"] = json!({"allowed": allowed});
    Answer::Object(201, review)
}
