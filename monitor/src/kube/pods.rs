//! The pods of this node, by a watch. What the API server sends is not trusted: pods of other nodes
//! and pods without a uid are left out and counted, and one that cannot be read costs no other.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::replace;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Api, Client, Resource};
use serde::{Deserialize, Deserializer};
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval, sleep};

use tokio_stream::{Stream, StreamExt as _};

use super::board::{Board, Namer, Report};
use super::bound::Excess;
use super::client::{Failure, PROBED, Trouble, answers, is_too_old, watch_of};
use super::jitter::about;
use crate::clock;
use crate::config::pods::told;
use isobar_core::model::units::Nanos;
use isobar_core::model::workload::{MIRROR, Pod, Pods};
use isobar_core::policy::assess::critical::SOURCE;

/// The name of this part in capabilities.
pub(super) const NAME: &str = "pods";
const PERMISSION: &str = "allow it to get, list and watch pods";
const UNANSWERED: &str = "the API server has answered neither an eviction nor GET /version";
/// Pods of one node that are known at most, and pods that are left out by name: a kubelet runs some
/// hundred, and a server that goes on telling of more would take all memory.
const MOST: usize = 5_000;
/// Bytes of memory for all of them: a usual pod takes some ten thousand.
const ROOM: usize = 32 << 20;
/// How many come at once where all together are more than is read of an answer.
const PAGE: u32 = 16;
/// After a watch that ended sooner the pages stay.
const LASTED: Nanos = Nanos(10 * Nanos::SECOND.0);
/// What changes is told so often at most: a pod's owner may change it many times a second.
const TOLD_EVERY: Duration = Duration::from_millis(100);

/// Watches until the agent leaves. `is_answering` tells whether the API server answers, which is looked into
/// once it is `doubted`.
pub(super) async fn watch(
    client: Client,
    node: &str,
    (is_answering, doubted): (&AtomicBool, &Notify),
    board: &Board,
) {
    let api: Api<Told> = Api::all(client.clone());
    let server = Server { client, is_answering, doubted, board };
    let mut seen = Seen::default();
    let mut page = None;
    loop {
        let config = Config { page_size: page, ..watch_of(&format!("spec.nodeName={node}")) };
        // As a kubelet lists them, from the server's cache: it would answer with all at once, and
        // before Kubernetes 1.34 each page is read from etcd, and for that pods of the whole cluster.
        let config = if page.is_none() { config.any_semantic() } else { config };
        let events = watcher(api.clone(), config).default_backoff();
        page = follow(pin!(events), (node, page), &server, &mut seen).await;
    }
}

/// Follows one watch until it has to be begun anew; how many pods a page has then.
async fn follow<E>(
    mut events: E,
    (node, page): (&str, Option<u32>),
    server: &Server<'_>,
    seen: &mut Seen,
) -> Option<u32>
where
    E: Stream<Item = Result<Event<Told>, watcher::Error>> + Unpin,
{
    let mut listing = Some(Seen::default());
    let mut trouble: Option<Trouble> = None;
    let mut wait = PROBED.0;
    let mut is_new = false;
    // Since when all are known.
    let mut listed = None;
    let has_lasted = |since| clock::now().boot.since(since) >= LASTED;
    let mut telling = interval(TOLD_EVERY);
    telling.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let next = tokio::select! {
            next = events.next() => next,
            _ = telling.tick(), if is_new => {
                is_new = false;
                server.tell(seen);
                continue;
            }
            () = server.doubted.notified() => {
                if !server.probe().await {
                    // A watch that says nothing has not noticed.
                    if trouble.is_none() {
                        server.board.report(NAME, Report::Fails(UNANSWERED.into(), None));
                    }
                    (trouble, wait) = (trouble.or(Some(Trouble::Cut)), PROBED.0);
                }
                continue;
            }
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
            None => return page,
            // All are listed anew: they may come at once by now.
            Some(Ok(Event::Init)) if page.is_some() && listed.is_some_and(has_lasted) => {
                return None;
            }
            Some(Err(why)) => {
                if replace(&mut is_new, false) {
                    server.tell(seen);
                }
                let kind = Trouble::of(&why);
                trouble = Some(kind);
                server.fails(Failure::from(&why), kind, &listing).await;
                if is_too_old(&why) {
                    sleep(about(PROBED.0)).await;
                    return page;
                }
                match smaller(&why, page) {
                    None => continue,
                    smaller => return smaller,
                }
            }
            Some(Ok(event)) => {
                let is_complete = take(event, node, seen, &mut listing);
                listed = listed.filter(|_| is_complete);
                is_complete
            }
        };
        if is_complete {
            (trouble, wait) = (None, PROBED.0);
            listed = listed.or_else(|| Some(clock::now().boot));
            server.is_answering.store(true, Ordering::Relaxed);
            is_new = true;
        }
    }
}

/// The page after one that was too large; `None` if that is not what failed, or it was one pod.
fn smaller(why: &watcher::Error, page: Option<u32>) -> Option<u32> {
    let watcher::Error::InitialListFailed(why) = why else { return None };
    let is_too_large = matches!(Excess::among(why), Some(Excess::Size { .. }));
    let smaller = page.map_or(PAGE, |page| page / 4);
    Some(smaller).filter(|smaller| is_too_large && *smaller > 0)
}

/// The API server, as far as it is asked whether it answers.
struct Server<'a> {
    client: Client,
    is_answering: &'a AtomicBool,
    doubted: &'a Notify,
    board: &'a Board,
}

impl Server<'_> {
    fn tell(&self, seen: &Seen) {
        self.board.set_pods(seen.pods(), Namer::ApiServer);
        self.board.set_is_followed(true);
        self.board.report(NAME, seen.report());
    }

    /// A list, or the watch after it, has failed. A watch that was cut goes on where it was.
    async fn fails(&self, why: Failure, trouble: Trouble, listing: &Option<Seen>) {
        if listing.is_some() || trouble == Trouble::Lasting {
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
    /// By uid, and how much memory each takes.
    pods: BTreeMap<String, (Pod, usize)>,
    bytes: usize,
    /// Pods that are left out: their names, and why.
    left_out: BTreeMap<String, String>,
    /// Pods that are known in part: their names, and what could not be read.
    in_part: BTreeMap<String, String>,
}

impl Seen {
    /// All that a list tells, one after the other. What was said of one before is not said again.
    pub(super) fn list(&mut self, all: Vec<Told>, node: &str) {
        (self.pods, self.bytes) = Default::default();
        let names: BTreeSet<String> = all.iter().map(|told| told.pod.full_name()).collect();
        for told in all {
            self.put(told, node);
        }
        for said in [&mut self.left_out, &mut self.in_part] {
            said.retain(|name, _| names.contains(name));
        }
    }

    pub(super) fn pods(&self) -> Pods {
        Arc::new(self.pods.iter().map(|(uid, (pod, _))| (uid.clone(), pod.clone())).collect())
    }

    fn put(&mut self, told: Told, node: &str) {
        let name = told.pod.full_name();
        let Told { faults, pod, bytes, .. } = match told.of_node(node) {
            Ok(told) => told,
            Err(why) => return self.leave_out(&name, &why),
        };
        if faults.is_empty() {
            self.in_part.remove(&name);
        } else if is_news(&mut self.in_part, &name, &faults) {
            tracing::warn!(pod = name, "the pod {name} is known in part: {faults}");
        }
        let uid = pod.uid.clone();
        self.take_out(&uid);
        self.bytes += bytes;
        self.pods.insert(uid.clone(), (pod, bytes));
        self.make_room();
        if self.pods.contains_key(&uid) {
            self.left_out.remove(&name);
        }
    }

    /// A pod that is over takes no place of one that runs; then large ones go first.
    fn make_room(&mut self) {
        while self.pods.len() > MOST || self.bytes > ROOM {
            let first = self.pods.iter().max_by_key(|(_, (pod, bytes))| (pod.is_over, *bytes));
            let Some(uid) = first.map(|(uid, _)| uid.clone()) else { return };
            let Some(pod) = self.take_out(&uid) else { return };
            let why = "there is no room for so many pods, or so large ones";
            self.leave_out(&pod.full_name(), why);
        }
    }

    fn take_out(&mut self, uid: &str) -> Option<Pod> {
        let (pod, bytes) = self.pods.remove(uid)?;
        self.bytes -= bytes;
        Some(pod)
    }

    fn leave_out(&mut self, name: &str, why: &str) {
        if is_news(&mut self.left_out, name, why) {
            tracing::warn!(pod = name, "leaving out the pod {name}: {why}");
        }
    }

    fn remove(&mut self, told: &Told) {
        for said in [&mut self.left_out, &mut self.in_part] {
            said.remove(&told.pod.full_name());
        }
        self.take_out(&told.pod.uid);
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

/// Takes note of what is to be said of a pod, unless it was said already or there is too much of it.
fn is_news(said: &mut BTreeMap<String, String>, name: &str, why: &str) -> bool {
    let has_room = said.len() < MOST || said.contains_key(name);
    has_room && said.insert(name.into(), why.into()).is_none_or(|before| before != why)
}

/// A pod as a server tells of it. It is read as it comes in: a list is in memory as a whole, and an
/// object as JSON values takes ten times its text.
#[derive(Debug, Clone)]
pub(super) struct Told {
    /// Its names and its version.
    metadata: ObjectMeta,
    /// The node that it is on.
    node: String,
    pod: Pod,
    bytes: usize,
    faults: String,
}

impl Told {
    /// As the API server tells of it. A static pod has a mirror there; where any other pod is from, only
    /// the kubelet says: in the API its owner may write what he likes.
    fn of_api(mut self) -> Self {
        if !self.pod.annotations.contains_key(MIRROR) {
            self.pod.annotations.remove(SOURCE);
        }
        self
    }

    /// If it is a pod of `node`.
    fn of_node(self, node: &str) -> Result<Self, String> {
        match () {
            () if self.node != node => Err(format!("it is on node {}, not on {node}", self.node)),
            () if self.pod.uid.is_empty() => Err("it has no uid".into()),
            () => Ok(self),
        }
    }
}

impl<'de> Deserialize<'de> for Told {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let told::Told { version, node, pod, bytes, faults } = told::told(from)?;
        let text = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let metadata = ObjectMeta {
            name: text(&pod.name),
            namespace: text(&pod.namespace),
            uid: text(&pod.uid),
            resource_version: version,
            ..ObjectMeta::default()
        };
        Ok(Self { metadata, node, pod, bytes, faults })
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
