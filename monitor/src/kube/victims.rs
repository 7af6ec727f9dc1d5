//! Pods that the kubelet of this node begins to evict, by its events: until a pod's containers have
//! ended, no status says so. Source: kubelet `pkg/kubelet/status/status_manager.go`, `mergePodStatus`.
//! Such a watch has the API server look at the events of the whole cluster, so it is open only while
//! the kubelet may evict. One that has ended goes on where it was: such an event comes once.

use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use k8s_openapi::api::core::v1;
use kube::api::{ApiResource, DynamicObject, ListParams, WatchEvent, WatchParams};
use kube::{Api, Client};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use tokio_stream::StreamExt as _;

use super::board::{Board, Report};
use super::client::{Failure, answered};
use super::jitter::about;

/// The name of this part in capabilities.
const NAME: &str = "kubelet evictions";
const PERMISSION: &str = "allow it to list and watch events";
/// Those of rejected pods are among them: they have no cgroup.
const SELECTED: &str = "involvedObject.kind=Pod,reason=Evicted,source=kubelet";
/// How long the watch stays open after the kubelet last had reason to evict.
const LINGER: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_secs(5);
/// After a watch that has ended well, as the server ends each after minutes.
const ENDED: Duration = Duration::from_secs(1);
/// kube asks the server to end a watch after 290 s: who says nothing for longer is away.
const SILENT: Duration = Duration::from_secs(295);
/// The code of a watch from a version that the server has forgotten.
const EXPIRED: u16 = 410;

/// Watches while it is `wanted`, until the agent leaves.
pub(super) async fn watch(
    client: Client,
    node: &str,
    mut wanted: watch::Receiver<bool>,
    board: &Board,
) {
    let api: Api<DynamicObject> = Api::all_with(client, &ApiResource::erase::<v1::Event>(&()));
    while wanted.wait_for(|wanted| *wanted).await.is_ok() {
        tokio::select! {
            () = follow_all(&api, node, board) => {}
            () = unwanted(&mut wanted) => {}
        }
        let words = "the kubelet has no reason to evict: its events are not watched";
        board.report(NAME, Report::Off(words.into()));
    }
}

/// Follows one watch after another: each goes on after the last event that the one before told.
async fn follow_all(api: &Api<DynamicObject>, node: &str, board: &Board) {
    let mut from = None;
    loop {
        let pause = match follow(api, node, &mut from, board).await {
            Ok(()) => ENDED,
            Err(why) => {
                if why.code == Some(EXPIRED) {
                    from = None;
                }
                board.report(NAME, why.report(PERMISSION));
                AGAIN
            }
        };
        sleep(about(pause)).await;
    }
}

async fn unwanted(wanted: &mut watch::Receiver<bool>) {
    loop {
        if wanted.wait_for(|wanted| !*wanted).await.is_err() {
            return pending().await;
        }
        sleep(LINGER).await;
        if !*wanted.borrow() {
            return;
        }
    }
}

/// Follows one watch to its end, after the version `from` or from now on.
async fn follow(
    api: &Api<DynamicObject>,
    node: &str,
    from: &mut Option<String>,
    board: &Board,
) -> Result<(), Failure> {
    let version = match from {
        Some(version) => version,
        empty => {
            // The version alone: to find the events that are meant, the server would have to read
            // all.
            let now = answered(api.list(&ListParams::default().limit(1))).await?;
            empty.insert(now.metadata.resource_version.unwrap_or_default())
        }
    };
    let params = WatchParams::default().fields(SELECTED);
    let mut events = pin!(answered(api.watch(&params, version)).await?);
    board.report(NAME, Report::Works("the kubelet's events tell whom it evicts".into()));
    loop {
        let Ok(event) = timeout(SILENT, events.next()).await else {
            let words = format!("the watch has said nothing for {} s", SILENT.as_secs());
            return Err(Failure::of_answer(words));
        };
        let seen = match event {
            None => return Ok(()),
            Some(Err(why)) => return Err(Failure::from(&why)),
            Some(Ok(WatchEvent::Error(status))) => return Err(Failure::of_watch(&status)),
            Some(Ok(WatchEvent::Added(event) | WatchEvent::Modified(event))) => {
                if let Some((uid, namespace, name)) = victim(&event, node) {
                    board.set_evicted(uid, namespace, name);
                }
                event.metadata.resource_version
            }
            Some(Ok(WatchEvent::Deleted(event))) => event.metadata.resource_version,
            Some(Ok(WatchEvent::Bookmark(mark))) => Some(mark.metadata.resource_version),
        };
        if let Some(seen) = seen {
            *version = seen;
        }
    }
}

/// Uid, namespace and name of the pod, if the kubelet of this node evicts it.
fn victim<'a>(event: &'a DynamicObject, node: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let text = |at: &str| event.data.pointer(at).and_then(Value::as_str);
    let is_evicted = text("/reason") == Some("Evicted")
        && text("/source/component") == Some("kubelet")
        && text("/source/host") == Some(node);
    let [uid, namespace, name] = ["uid", "namespace", "name"]
        .map(|part| text(&format!("/involvedObject/{part}")).unwrap_or_default());
    // Who may write events in a namespace may write what he likes in them.
    let is_of_its_namespace = event.metadata.namespace.as_deref() == Some(namespace);
    (is_evicted && is_of_its_namespace && !uid.is_empty()).then_some((uid, namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn victim_is_one_of_this_nodes_kubelet() {
        #[rustfmt::skip]
        let table = [
            // the event's namespace, reason, component, host, uid, victim
            ("shop", "Evicted", "kubelet", "n1", "u1", Some(("u1", "shop", "web"))),
            ("shop", "Evicted", "kubelet", "n2", "u1", None),
            ("shop", "Evicted", "isobar",  "n1", "u1", None),
            ("shop", "Killing", "kubelet", "n1", "u1", None),
            ("shop", "Evicted", "kubelet", "n1", "",   None),
            ("evil", "Evicted", "kubelet", "n1", "u1", None), // forged
        ];
        for (namespace, reason, component, host, uid, want) in table {
            let event = json!({
                "metadata": {"namespace": namespace}, "reason": reason, "source": {"component": component, "host": host},
                "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "web", "uid": uid},
            });
            let read = serde_json::from_value(event.clone()).unwrap();
            assert_eq!(victim(&read, "n1"), want, "{event}");
        }
        let odd = serde_json::from_value(json!({"metadata": {}, "reason": 1, "source": []}));
        assert_eq!(victim(&odd.unwrap(), "n1"), None);
    }
}
