//! The pods of this node, by a watch. What the API server sends is not trusted: pods of other nodes
//! and pods without a uid are left out and counted, and one that cannot be read costs no other.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Api, Client, Resource};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tokio::time::sleep;

use tokio_stream::{Stream, StreamExt as _};

use super::board::{Board, Namer, Report};
use super::client::{Failure, PROBED, Trouble, answers};
use super::jitter::about;
use crate::config::pods::read;
use isobar_core::model::workload::{MIRROR, Pod};
use isobar_core::policy::assess::critical::SOURCE;

/// The name of this part in capabilities.
pub(super) const NAME: &str = "pods";
const PERMISSION: &str = "allow it to get, list and watch pods";
/// Pods of one node that are known at most, and pods that are left out by name: a kubelet runs some
/// hundred, and a server that goes on telling of more would take all memory.
const MOST: usize = 5_000;

/// Watches until the agent leaves. `is_answering` tells whether the API server answers.
pub(super) async fn watch(client: Client, node: &str, is_answering: &AtomicBool, board: &Board) {
    let api: Api<Told> = Api::all(client.clone());
    // As a kubelet lists them, from the server's cache and without pages: before Kubernetes 1.34 each
    // page is read from etcd, and for that pods of the whole cluster.
    let config = Config { page_size: None, ..Config::default() };
    let config = config.any_semantic().fields(&format!("spec.nodeName={node}"));
    let server = Server { client, is_answering, board };
    let mut seen = Seen::default();
    loop {
        let events = watcher(api.clone(), config.clone()).default_backoff();
        follow(pin!(events), node, &server, &mut seen).await;
    }
}

/// Follows one watch until it has to be begun anew.
async fn follow<E>(mut events: E, node: &str, server: &Server<'_>, seen: &mut Seen)
where
    E: Stream<Item = Result<Event<Told>, watcher::Error>> + Unpin,
{
    let mut listing = Some(Seen::default());
    let mut trouble: Option<Trouble> = None;
    let mut wait = PROBED.0;
    loop {
        let next = tokio::select! {
            next = events.next() => next,
            () = sleep(about(wait)), if trouble.is_some() => {
                let ends = |trouble: &mut Trouble| trouble.ends_within(wait);
                let is_over = server.probe().await && trouble.take_if(ends).is_some();
                wait = if is_over { PROBED.0 } else { PROBED.1.min(wait * 2) };
                if is_over && listing.is_none() {
                    server.tell(seen);
                }
                continue;
            }
        };
        let is_complete = match next {
            None => return,
            Some(Err(why)) => {
                trouble = Some(Trouble::of(&why));
                server.fails(Failure::from(&why), &listing).await;
                continue;
            }
            Some(Ok(event)) => take(event, node, seen, &mut listing),
        };
        if is_complete {
            (trouble, wait) = (None, PROBED.0);
            server.is_answering.store(true, Ordering::Relaxed);
            server.tell(seen);
        }
    }
}

/// The API server, as far as it is asked whether it answers.
struct Server<'a> {
    client: Client,
    is_answering: &'a AtomicBool,
    board: &'a Board,
}

impl Server<'_> {
    fn tell(&self, seen: &Seen) {
        self.board.set_pods(Arc::new(seen.pods.clone()), Namer::ApiServer);
        self.board.set_is_followed(true);
        self.board.report(NAME, seen.report());
    }

    /// A list, or the watch after it, has failed. A watch that was cut goes on where it was.
    async fn fails(&self, why: Failure, listing: &Option<Seen>) {
        if listing.is_some() || matches!(why.code, Some(401 | 403)) {
            self.board.set_is_followed(false);
        }
        self.board.report(NAME, why.report(PERMISSION));
        self.probe().await;
    }

    /// A watch that was cut says nothing of the server: a load balancer resets idle connections, and
    /// without evictions the next step would be one after which the kubelet starts the leak again.
    async fn probe(&self) -> bool {
        let is_answering = answers(&self.client).await;
        self.is_answering.store(is_answering, Ordering::Relaxed);
        is_answering
    }
}

/// Takes note of an event; true if all pods are known after it.
fn take(event: Event<Told>, node: &str, seen: &mut Seen, listing: &mut Option<Seen>) -> bool {
    match event {
        Event::Init => *listing = Some(Seen::default()),
        Event::InitApply(told) => listing.get_or_insert_default().put(told.of_api(), node),
        Event::InitDone => *seen = listing.take().unwrap_or_default(),
        Event::Apply(told) => seen.put(told.of_api(), node),
        Event::Delete(told) => seen.remove(&told),
    }
    listing.is_none()
}

/// The pods as the watch has told of them, or the kubelet.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) pods: BTreeMap<String, Pod>,
    /// Pods that are left out: their names, and why.
    left_out: BTreeMap<String, String>,
}

impl Seen {
    /// All that a list tells, one after the other. One that was left out before is not told again.
    pub(super) fn list(&mut self, all: Vec<Told>, node: &str) {
        self.pods.clear();
        let names: BTreeSet<String> = all.iter().map(Told::full_name).collect();
        for told in all {
            self.put(told, node);
        }
        self.left_out.retain(|name, _| names.contains(name));
    }

    fn put(&mut self, told: Told, node: &str) {
        let name = told.full_name();
        match told.pod_of(node).and_then(|pod| self.with_room(pod)) {
            Ok(pod) => {
                self.left_out.remove(&name);
                self.pods.insert(pod.uid.clone(), pod);
            }
            Err(_) if self.left_out.len() >= MOST => {}
            Err(why) => {
                if self.left_out.insert(name.clone(), why.clone()).as_ref() != Some(&why) {
                    tracing::warn!(pod = name, "leaving out the pod {name}: {why}");
                }
            }
        }
    }

    fn with_room(&self, pod: Pod) -> Result<Pod, String> {
        match self.pods.len() < MOST || self.pods.contains_key(&pod.uid) {
            true => Ok(pod),
            false => Err(format!("{MOST} pods of this node are known already")),
        }
    }

    fn remove(&mut self, told: &Told) {
        self.left_out.remove(&told.full_name());
        if let Some(uid) = &told.metadata.uid {
            self.pods.remove(uid);
        }
    }

    fn report(&self) -> Report {
        let n = self.pods.len();
        Report::Works(format!("{n} pods by the API server{}", self.omission()))
    }

    /// How many are left out, in words.
    pub(super) fn omission(&self) -> String {
        match self.left_out.len() {
            0 => String::new(),
            MOST => format!("; {MOST} or more are left out, see the log"),
            n => format!("; {n} are left out, see the log"),
        }
    }
}

/// A pod as a server tells of it. It is read as it comes in: a list is in memory as a whole, and an
/// object as JSON values takes ten times its text.
#[derive(Debug, Clone)]
pub(super) struct Told {
    /// Its names and its version.
    metadata: ObjectMeta,
    /// The node that it is on.
    node: String,
    pod: Result<Box<Pod>, String>,
}

impl Told {
    fn full_name(&self) -> String {
        let part = |text: &Option<String>| text.clone().unwrap_or_default();
        format!("{}/{}", part(&self.metadata.namespace), part(&self.metadata.name))
    }

    /// As the API server tells of it. A static pod has a mirror there; where any other pod is from, only
    /// the kubelet says: in the API its owner may write what he likes.
    fn of_api(mut self) -> Self {
        if let Ok(pod) = &mut self.pod
            && !pod.annotations.contains_key(MIRROR)
        {
            pod.annotations.remove(SOURCE);
        }
        self
    }

    /// The pod as the policy sees it, if it is one of `node`.
    fn pod_of(self, node: &str) -> Result<Pod, String> {
        match () {
            () if self.node != node => Err(format!("it is on node {}, not on {node}", self.node)),
            () if self.metadata.uid.is_none() => Err("it has no uid".into()),
            () => self.pod.map(|pod| *pod),
        }
    }
}

impl<'de> Deserialize<'de> for Told {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut object = Value::deserialize(from)?;
        let text = |path| {
            let text = object.pointer(path).and_then(Value::as_str).filter(|text| !text.is_empty());
            text.map(ToOwned::to_owned)
        };
        let metadata = ObjectMeta {
            name: text("/metadata/name"),
            namespace: text("/metadata/namespace"),
            uid: text("/metadata/uid"),
            resource_version: text("/metadata/resourceVersion"),
            ..ObjectMeta::default()
        };
        let node = text("/spec/nodeName").unwrap_or_default();
        // Most of an object's text, and of no use here.
        if let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        // The items of a list have no kind of their own.
        if let Some(object) = object.as_object_mut() {
            object.insert("kind".into(), Self::kind(&()).into());
        }
        let manifest = read("pod", object.to_string().as_bytes()).map_err(|why| why.to_string());
        let pod = manifest.and_then(|mut manifest| {
            manifest.pods.pop().map(Box::new).ok_or_else(|| "it cannot be read as a pod".into())
        });
        Ok(Self { metadata, node, pod })
    }
}

/// It is a pod to the API server.
impl Resource for Told {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        v1::Pod::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        v1::Pod::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        v1::Pod::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        v1::Pod::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isobar_core::model::decision::SparedReason;
    use isobar_core::policy::assess::critical::spared_as;

    #[test]
    fn put_has_room_for_the_pods_of_a_node() {
        let told = |uid: usize, node: &str| -> Told {
            let metadata = serde_json::json!({"name": format!("p{uid}"), "uid": format!("u{uid}")});
            let spec = serde_json::json!({"nodeName": node, "containers": [{"name": "app"}]});
            let pod = serde_json::json!({"kind": "Pod", "metadata": metadata, "spec": spec});
            serde_json::from_value(pod).unwrap()
        };
        #[rustfmt::skip]
        let table = [
            // told of this node, of another, known, left out by name
            (10,       0,        10,   0),
            (MOST,     0,        MOST, 0),
            (MOST + 2, 0,        MOST, 2),
            (1,        MOST + 2, 1,    MOST),
        ];
        for (own, others, n_known, n_left_out) in table {
            let mut seen = Seen::default();
            (0..own).for_each(|uid| seen.put(told(uid, "n1"), "n1"));
            (own..own + others).for_each(|uid| seen.put(told(uid, "n2"), "n1"));
            // A change of a pod that is known is taken note of in any case.
            seen.put(told(0, "n1"), "n1");
            assert_eq!(
                (seen.pods.len(), seen.left_out.len()),
                (n_known, n_left_out),
                "{own} {others}"
            );
        }
    }

    #[test]
    fn told_by_the_api_server_no_pod_makes_itself_static() {
        #[rustfmt::skip]
        let table = [
            // annotations, by the API server; why it is spared
            (serde_json::json!({SOURCE: "file"}),                true,  None),
            (serde_json::json!({SOURCE: "file", MIRROR: "abc"}), true,  Some(SparedReason::Mirror)),
            (serde_json::json!({SOURCE: "file"}),                false, Some(SparedReason::Static)),
            (serde_json::json!({SOURCE: "api"}),                 false, None),
        ];
        for (annotations, is_by_api, want) in table {
            let metadata = serde_json::json!({"name": "p", "uid": "u", "annotations": annotations});
            let spec = serde_json::json!({"nodeName": "n1", "containers": [{"name": "app"}]});
            let pod = serde_json::json!({"kind": "Pod", "metadata": metadata, "spec": spec});
            let told: Told = serde_json::from_value(pod).unwrap();
            let mut seen = Seen::default();
            match is_by_api {
                true => _ = take(Event::Apply(told), "n1", &mut seen, &mut None),
                false => seen.list(vec![told], "n1"),
            }
            assert_eq!(spared_as(&seen.pods["u"]), want, "{annotations} {is_by_api}");
        }
    }

    #[test]
    fn told_of_this_node_with_a_uid() {
        let spec = serde_json::json!({"nodeName": "n1", "containers": [{"name": "app"}]});
        let with = |uid: &str, spec: &Value| {
            let metadata = serde_json::json!({"name": "web", "namespace": "shop", "uid": uid});
            serde_json::json!({"kind": "Pod", "metadata": metadata, "spec": spec})
        };
        let elsewhere = serde_json::json!({"nodeName": "n2", "containers": [{"name": "app"}]});
        let odd = serde_json::json!({"nodeName": "n1", "containers": "none"});
        #[rustfmt::skip]
        let table = [
            // object, error contains
            (with("u1", &spec),                         None),
            (with("", &spec),                           Some("no uid")),
            (with("u1", &elsewhere),                    Some("on node n2")),
            (with("u1", &serde_json::json!({})),        Some("on node ")),
            (with("u1", &odd),                          Some("containers")),
            (serde_json::json!(7),                      Some("on node ")),
            (serde_json::json!({"metadata": 7}),        Some("on node ")),
        ];
        for (json, want) in table {
            let got = serde_json::from_value::<Told>(json.clone()).unwrap().pod_of("n1");
            match want {
                None => assert_eq!(got.unwrap().full_name(), "shop/web"),
                Some(part) => assert!(got.as_ref().unwrap_err().contains(part), "{json}: {got:?}"),
            }
        }
    }
}
