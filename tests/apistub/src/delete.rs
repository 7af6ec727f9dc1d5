//! Deletion: preconditions, and for pods the grace in which the kubelet stops them.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::call::Call;
use crate::cluster::{Cluster, Kubelet};
use crate::kind::Kind;
use crate::status::{Failure, success};
use crate::store::{Key, Store, time};
use crate::write::key;

/// Of a pod that does not say, in seconds.
const GRACE: i64 = 30;

/// `DeleteOptions`, as far as they matter here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// In seconds.
    pub(crate) grace: Option<i64>,
    uid: Option<String>,
    version: Option<String>,
}

impl Options {
    /// Keys that the server does not know, such as `grace_period_seconds`, are ignored.
    pub(crate) fn read(options: &Value) -> Self {
        let text = |pointer| options.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        Self {
            // A negative grace counts as one second.
            grace: options["gracePeriodSeconds"].as_i64().map(|n| if n < 0 { 1 } else { n }),
            uid: text("/preconditions/uid"),
            version: text("/preconditions/resourceVersion"),
        }
    }

    /// A version that was required is that of `changed` from now on: the server itself changed it.
    pub(crate) fn follow(&mut self, changed: &Value) {
        let version = changed["metadata"]["resourceVersion"].as_str().unwrap_or("");
        self.version = self.version.take().map(|_| version.to_owned());
    }

    /// What `BeforeDelete` checks.
    pub(crate) fn check(&self, kind: &Kind, object: &Value) -> Result<(), Failure> {
        let found = |name: &str| object["metadata"][name].as_str().unwrap_or("");
        let name = found("name");
        for (wanted, found, what, why) in [
            (&self.uid, found("uid"), "UID", "deleted and then recreated"),
            (&self.version, found("resourceVersion"), "ResourceVersion", "modified"),
        ] {
            let Some(wanted) = wanted.as_ref().filter(|wanted| *wanted != found) else { continue };
            let why = format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record \
                 ({found}). The object might have been {why}"
            );
            return Err(Failure::precondition(kind, name, &why));
        }
        Ok(())
    }
}

pub(crate) fn delete(cluster: &Arc<Cluster>, call: &Call, kind: &Kind) -> Result<Answer, Failure> {
    let mut options = Options::read(&call.body);
    if let Some(grace) = call.option("gracePeriodSeconds").and_then(|text| text.parse().ok()) {
        options.grace = Some(grace);
    }
    let key = key(call, kind);
    let object = cluster.change(|store| end(cluster, store, kind, &key, &options))?;
    let answer = match kind.name {
        "Pod" => kind.shown(&object),
        _ => {
            let uid = &object["metadata"]["uid"];
            let mut details = json!({"name": key.name, "kind": kind.plural, "uid": uid});
            if !kind.group.is_empty() {
                details["group"] = kind.group.into();
            }
            success(200, Some(details))
        }
    };
    Ok(Answer::Object(200, answer))
}

/// Removes an object, or lets the grace period of a pod begin. The object as it is after that, or
/// was before.
pub(crate) fn end(
    cluster: &Arc<Cluster>,
    store: &mut Store,
    kind: &Kind,
    key: &Key,
    options: &Options,
) -> Result<Arc<Value>, Failure> {
    let object = store.get(key).ok_or_else(|| Failure::not_found(kind, &key.name))?;
    options.check(kind, &object)?;
    match next(kind, &object, options.grace) {
        Next::Unchanged => Ok(object),
        Next::Gone => {
            store.remove(key);
            Ok(object)
        }
        Next::Ending(ending) => {
            let ending = store.put(key.clone(), ending);
            match cluster.kubelet {
                Kubelet::AtOnce => drop(store.remove(key)),
                Kubelet::WhenConfirmed => {}
            }
            Ok(ending)
        }
    }
}

/// What a deletion makes of an object.
enum Next {
    Gone,
    /// With a deletion timestamp.
    Ending(Value),
    /// It ends already, and not later than asked.
    Unchanged,
}

fn next(kind: &Kind, object: &Value, grace: Option<i64>) -> Next {
    if kind.name != "Pod" {
        return Next::Gone;
    }
    let metadata = &object["metadata"];
    let running = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    let begun = metadata["deletionTimestamp"].as_str().and_then(|t| t.parse::<Timestamp>().ok());
    let (from, grace) = match begun {
        Some(_) if running == 0 => return Next::Gone,
        Some(ends) => match grace {
            Some(grace) if grace < running => (ends - SignedDuration::from_secs(running), grace),
            _ => return Next::Unchanged,
        },
        None => (Timestamp::now(), first_grace(object, grace)),
    };
    if grace == 0 {
        return Next::Gone;
    }
    let mut ending = object.clone();
    ending["metadata"]["deletionTimestamp"] = time(from + SignedDuration::from_secs(grace)).into();
    ending["metadata"]["deletionGracePeriodSeconds"] = grace.into();
    Next::Ending(ending)
}

/// What `CheckGracefulDelete` gives a pod: none if it has no node, or has ended by itself.
fn first_grace(pod: &Value, asked: Option<i64>) -> i64 {
    let is_placed = !pod["spec"]["nodeName"].as_str().unwrap_or("").is_empty();
    let has_ended =
        ["Succeeded", "Failed"].contains(&pod["status"]["phase"].as_str().unwrap_or(""));
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(GRACE);
    match is_placed && !has_ended {
        true => asked.unwrap_or(own),
        false => 0,
    }
}
