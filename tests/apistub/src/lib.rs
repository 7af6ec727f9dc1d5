//! A stand-in Kubernetes API server for tests: a store of objects behind the paths,
//! answers and errors of the real one, with faults by script and a journal of every request.
//! What it does as the real server does, and what it does not, is in `README.md`.

mod access;
mod answer;
mod call;
mod check;
mod cluster;
mod delete;
mod event;
mod evict;
mod fault;
pub mod generate;
mod journal;
mod kind;
mod list;
mod listen;
mod managed;
mod patch;
mod rbac;
mod review;
mod select;
mod status;
mod store;
#[cfg(test)]
mod tests;
mod tls;
mod watch;
mod write;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

pub use call::Call;
pub use cluster::Kubelet;
pub use fault::{Effect, Fault};
pub use journal::Seen;
pub use rbac::{Findings, Rules};
pub use tls::Authority;

use cluster::{Cluster, Signal};
use kind::{Kind, Scope};
use listen::Server;
use store::{Key, Store, namespace};

/// How a server begins.
#[derive(Debug, Clone)]
pub struct Options {
    pub listen: SocketAddr,
    pub kubelet: Kubelet,
}

impl Default for Options {
    /// On a free port of loopback; pods are gone as soon as they are told to end.
    fn default() -> Self {
        Self { listen: ([127, 0, 0, 1], 0).into(), kubelet: Kubelet::AtOnce }
    }
}

/// A server, running on a thread of its own until it is dropped.
#[derive(Debug)]
pub struct Stub {
    address: SocketAddr,
    cluster: Arc<Cluster>,
    _server: Server,
}

impl Stub {
    /// # Errors
    /// If the address cannot be listened on, or the thread not be made.
    pub fn start(options: &Options) -> io::Result<Self> {
        let listener = TcpListener::bind(options.listen)?;
        let address = listener.local_addr()?;
        let cluster = Arc::new(Cluster::new(options.kubelet));
        let server = Server::begin(listener, cluster.clone())?;
        Ok(Self { address, cluster, _server: server })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:PORT`, or with `https` once [`serve_as`](Self::serve_as) was called.
    pub fn url(&self) -> String {
        let scheme = if self.cluster.tls().is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// New connections speak TLS from now on, with a certificate of this authority.
    ///
    /// # Errors
    /// If no certificate can be made.
    pub fn serve_as(&self, authority: &Authority) -> Result<()> {
        *self.cluster.tls() = Some(authority.server()?);
        Ok(())
    }

    /// Stores an object as it is, its status with it, in place of one of the same name; returns it
    /// as stored. Its namespace is made if there is none.
    ///
    /// # Errors
    /// If the object is of no kind that the server knows, or has no name.
    pub fn put(&self, object: Value) -> Result<Value> {
        let kind = Kind::of_object(&object).with_context(|| {
            format!("no kind {} in version {} here", object["kind"], object["apiVersion"])
        })?;
        let own = |name: &str| object["metadata"][name].as_str().unwrap_or("").to_owned();
        let (mut home, name) = (own("namespace"), own("name"));
        ensure!(!name.is_empty(), "an object of kind {} without metadata.name", kind.name);
        match kind.scope {
            Scope::Cluster => home.clear(),
            Scope::Namespaced if home.is_empty() => "default".clone_into(&mut home),
            Scope::Namespaced => {}
        }
        let stored = self.cluster.change(|store| {
            if !home.is_empty() {
                make_namespace(store, &home);
            }
            let key = Key { resource: kind.plural, namespace: home, name };
            let mut object = kind.stored(object);
            if let Some(before) = store.get(&key) {
                keep_identity(&before, &mut object);
            }
            store.put(key, object)
        });
        Ok(kind.shown(&stored))
    }

    /// Like [`put`](Self::put), for each object of a file's JSON: an object, a list of them, or a
    /// List.
    ///
    /// # Errors
    /// As [`put`](Self::put); and if the text is not JSON.
    pub fn load(&self, text: &str) -> Result<usize> {
        let loaded: Value = serde_json::from_str(text).context("not JSON")?;
        let objects = match loaded {
            Value::Array(items) => items,
            Value::Object(ref fields) => match fields.get("items") {
                Some(Value::Array(items)) => items.clone(),
                _ => vec![loaded],
            },
            _ => bail!("expected an object, a list of objects or a List"),
        };
        let n_objects = objects.len();
        objects.into_iter().try_for_each(|object| self.put(object).map(drop))?;
        Ok(n_objects)
    }

    /// The object as it is now, by its plural; events in the form of the core API.
    pub fn get(&self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let kind = Kind::of_plural(plural)?;
        let found = self.cluster.read().get(&key(kind, namespace, name));
        found.map(|object| kind.shown(&object))
    }

    /// All objects of a plural, in the order of namespace and name.
    pub fn all(&self, plural: &str) -> Vec<Value> {
        let Some(kind) = Kind::of_plural(plural) else { return Vec::new() };
        self.cluster.read().all(plural).map(|(_, object)| kind.shown(object)).collect()
    }

    /// Removes an object at once. Whether it was there.
    pub fn remove(&self, plural: &str, namespace: &str, name: &str) -> bool {
        let Some(kind) = Kind::of_plural(plural) else { return false };
        self.cluster.change(|store| store.remove(&key(kind, namespace, name))).is_some()
    }

    /// The kubelet has stopped a pod that was told to end: it is gone. Whether there was one.
    pub fn confirm(&self, namespace: &str, name: &str) -> bool {
        let Some(pods) = Kind::of_plural("pods") else { return false };
        let key = key(pods, namespace, name);
        self.cluster.change(|store| {
            let pod = store.get(&key);
            let ends = pod.is_some_and(|pod| !pod["metadata"]["deletionTimestamp"].is_null());
            ends && store.remove(&key).is_some()
        })
    }

    /// The version of the latest change.
    pub fn version(&self) -> u64 {
        self.cluster.read().version()
    }

    /// Forgets all earlier versions: lists that go on and watches that resume from them expire.
    pub fn compact(&self) {
        self.cluster.read().compact();
    }

    /// Every watch ends with an error of code 410.
    pub fn expire_watches(&self) {
        self.cluster.send(Signal::Expire);
    }

    /// Every connection ends with a reset, as when the server is killed.
    pub fn cut_connections(&self) {
        self.cluster.send(Signal::Cut);
    }

    /// From now on the kubelet, which is at the same address, answers this on `path`.
    pub fn kubelet_says(&self, path: &str, answer: Value) {
        self.cluster.kubelet_says().insert(path.to_owned(), answer);
    }

    pub fn add_fault(&self, fault: Fault) {
        self.cluster.faults.add(fault);
    }

    pub fn clear_faults(&self) {
        self.cluster.faults.clear();
    }

    /// From now on only clients with one of these bearer tokens are let in; others get 401.
    pub fn accept_tokens(&self, tokens: &[&str]) {
        let tokens = tokens.iter().map(|&token| token.to_owned()).collect();
        self.cluster.access().tokens = Some(tokens);
    }

    /// From now on what these rules do not allow is refused with 403.
    pub fn enforce(&self, rules: Rules) {
        self.cluster.access().rules = Some(rules);
    }

    /// Every request so far, in the order in which they came.
    pub fn seen(&self) -> Vec<Seen> {
        self.cluster.journal.all()
    }

    /// Waits until `find` finds something among all requests so far; None after `limit`.
    pub fn wait<T>(&self, limit: Duration, find: impl FnMut(&[Seen]) -> Option<T>) -> Option<T> {
        self.cluster.journal.wait(limit, find)
    }

    /// Every request from now on, once it is answered.
    pub fn follow(&self) -> Receiver<Seen> {
        self.cluster.journal.follow()
    }
}

fn key(kind: &'static Kind, namespace: &str, name: &str) -> Key {
    Key { resource: kind.plural, namespace: namespace.to_owned(), name: name.to_owned() }
}

fn make_namespace(store: &mut Store, name: &str) {
    let (key, object) = namespace(name);
    if store.get(&key).is_none() {
        store.put(key, object);
    }
}

/// An object that is put again is still the same one, unless it says otherwise.
fn keep_identity(before: &Value, object: &mut Value) {
    for name in ["uid", "creationTimestamp"] {
        if object["metadata"][name].is_null() {
            object["metadata"][name] = before["metadata"][name].clone();
        }
    }
}
