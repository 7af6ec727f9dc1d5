//! The API server and the kubelet: the pods of this node, what they have on disk, the node object,
//! and what isobar tells the cluster.
//! On a thread of its own with its own event loop, so no tick waits for it. In: what is to be
//! published (the newest replaces what was not yet written), events and evictions (bounded queues).
//! Out: the pods as they are known, what works and what does not, and answers to evictions.

mod board;
mod bound;
mod client;
mod conditions;
mod delete;
mod events;
mod evict;
mod jitter;
mod kubelet;
mod managed;
mod node;
mod pace;
mod pods;
mod proxy;
mod renewed;
mod taints;
mod victims;
mod writer;

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tokio::runtime;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::timeout;

pub use self::board::Configz;
use self::board::{Board, Known};
use self::client::connect;
use self::events::Notes;
pub use self::events::{About, Note};
pub use self::kubelet::CONFIGURATION;
pub use self::node::NAME as NODE_OBJECT;
pub use self::proxy::{Proxy, ProxyError};
use crate::act::evict::Way;
use crate::config::kubernetes::{Access, Publish};
use crate::lock::lock;
use isobar_core::model::capability::Capability;
use isobar_core::model::condition::Condition;
use isobar_core::model::decision::Taint;
use isobar_core::model::disk::PodDisks;
use isobar_core::model::quantity::ResourceList;
use isobar_core::model::settings::Deletion;
use isobar_core::model::workload::Pods;

/// Requests for evictions that may wait.
const EVICTIONS: usize = 8;

/// What the node's object should say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// `None` before the first tick.
    pub publish: Option<Publish>,
    pub conditions: Vec<Condition>,
    pub taints: Vec<Taint>,
    /// Keys of taints that are isobar's, whether they are wanted or not.
    pub taint_keys: BTreeSet<String>,
    /// Those of settings before these: a taint that is left is taken back, once.
    pub former_keys: BTreeSet<String>,
    /// The agent leaves: the last word.
    pub is_last: bool,
}

/// The agent's end.
#[derive(Debug)]
pub struct ApiServer {
    known: watch::Receiver<Known>,
    wanted: watch::Sender<Wanted>,
    evictions: watch::Sender<Option<Deletion>>,
    may_kubelet_evict: watch::Sender<bool>,
    notes: Notes,
    way: Way,
    /// Closed once the thread has ended.
    ended: Arc<Mutex<Receiver<()>>>,
}

impl ApiServer {
    /// Begins to talk to the API server. That it cannot be reached is no error: a capability says so,
    /// and it is tried again. `evictions` are as [`Self::set_evictions`] has them.
    ///
    /// # Errors
    /// If no thread or event loop can be made.
    pub fn begin(access: Access, evictions: Option<Deletion>) -> io::Result<Self> {
        let (to_known, known) = watch::channel(Known::default());
        let (wanted, from_wanted) = watch::channel(Wanted::default());
        let (evictions, from_evictions) = watch::channel(evictions);
        let (may_kubelet_evict, from_may) = watch::channel(false);
        let (notes, from_notes) = events::queue();
        let (requests, from_requests) = mpsc::channel(EVICTIONS);
        let (is_answering, is_allowed) = Default::default();
        let way = Way { requests, is_answering, is_allowed };
        let (alive, ended) = sync_channel(0);
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = Thread { board: Board::new(to_known), is_answering: way.is_answering.clone() };
        let is_allowed = way.is_allowed.clone();
        thread::Builder::new().name("kube".into()).spawn(move || {
            let Thread { board, is_answering } = &thread;
            runtime.block_on(async {
                let mut wanted = from_wanted.clone();
                let last = wanted.wait_for(|wanted| wanted.is_last);
                // Before there is a connection nothing was written that would have to be undone.
                let client = tokio::select! {
                    client = connect(&access.connection, board) => client,
                    _ = last => return,
                };
                let doubted = Notify::new();
                let rest = async {
                    tokio::join!(
                        pods::watch(client.clone(), &access.node, (is_answering, &doubted), board),
                        events::post(client.clone(), &access, from_notes, board),
                        evict::answer(
                            client.clone(),
                            from_requests,
                            from_evictions,
                            (&is_allowed, &doubted),
                            board
                        ),
                        kubelet::ask(&access, is_answering, board),
                        victims::watch(client.clone(), &access.node, from_may, board),
                    )
                };
                tokio::select! {
                    () = writer::keep(client.clone(), &access, from_wanted, board) => {}
                    _ = rest => {}
                }
            });
            drop(thread);
            drop(alive);
        })?;
        let ended = Arc::new(Mutex::new(ended));
        Ok(Self { known, wanted, evictions, may_kubelet_evict, notes, way, ended })
    }

    /// Waits until the pods are listed and it is known whether evictions are allowed, but not for longer
    /// than `within`.
    pub async fn first_answers(&self, within: Duration) {
        let mut known = self.known.clone();
        let _ = timeout(within, known.wait_for(Known::is_complete)).await;
    }

    /// The pods of this node; `None` before the API server has listed them.
    pub fn pods(&self) -> Option<Pods> {
        self.known.borrow().pods.clone()
    }

    /// What pods have on disk; `None` while the kubelet does not tell.
    pub fn pod_disks(&self) -> Option<PodDisks> {
        self.known.borrow().disks.clone()
    }

    /// What the node has for pods; `None` before its object was read.
    pub fn allocatable(&self) -> Option<Arc<ResourceList>> {
        self.known.borrow().allocatable.clone()
    }

    /// What the kubelet runs with; `None` before it has told.
    pub fn configz(&self) -> Option<Arc<Configz>> {
        self.known.borrow().configz.clone()
    }

    /// What works and what does not.
    pub fn capabilities(&self) -> Vec<Capability> {
        self.known.borrow().capabilities()
    }

    /// Has the node's object say this from now on.
    pub fn publish(&self, wanted: Wanted) {
        self.wanted.send_modify(|now| {
            // A tick that hung may come back after the last word.
            let is_last = now.is_last;
            let before = std::mem::replace(now, Wanted { is_last, ..wanted });
            now.former_keys.extend(before.taint_keys.into_iter().chain(before.former_keys));
            now.former_keys.retain(|key| !now.taint_keys.contains(key));
        });
    }

    /// Whether pods are evicted from now on, and deleted where they are not evicted: the API server is
    /// asked whether it allows that. `None` for an agent that only tells which pod it would evict.
    pub fn set_evictions(&self, evictions: Option<Deletion>) {
        self.evictions.send_if_modified(|before| std::mem::replace(before, evictions) != evictions);
    }

    /// Whether the kubelet may evict: then its events are watched.
    pub fn set_may_kubelet_evict(&self, may: bool) {
        self.may_kubelet_evict.send_if_modified(|before| std::mem::replace(before, may) != may);
    }

    /// Tells the cluster what happened. What finds no room is counted and left out.
    pub fn note(&self, note: Note) {
        self.notes.put(note);
    }

    /// The way by which the actuator evicts.
    pub fn way(&self) -> Way {
        self.way.clone()
    }

    /// For the case that what holds this does not come back.
    pub fn last_word(&self) -> LastWord {
        LastWord { wanted: self.wanted.clone(), ended: self.ended.clone() }
    }
}

/// What the thread has in hand. However it ends, that is known.
struct Thread {
    board: Board,
    is_answering: Arc<AtomicBool>,
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.is_answering.store(false, Ordering::Relaxed);
        self.board.end();
    }
}

/// What the node's object says once the agent is gone.
#[derive(Debug)]
pub struct LastWord {
    wanted: watch::Sender<Wanted>,
    ended: Arc<Mutex<Receiver<()>>>,
}

impl LastWord {
    /// Has it written, and waits for that, but not longer than `within`.
    pub fn say(self, within: Duration) {
        self.wanted.send_modify(|wanted| wanted.is_last = true);
        let ended = lock(&self.ended);
        if ended.recv_timeout(within) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("leaving before the API server has confirmed the node's conditions");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::kubernetes::Connection;

    /// As after a panic in it.
    #[test]
    fn capabilities_tell_that_the_thread_has_ended() {
        let access = Access {
            connection: Connection::Kubeconfig("/nonexistent".into()),
            kubelet: None,
            node: "n1".into(),
            reporter: "isobar-x".into(),
        };
        let api = ApiServer::begin(access, None).unwrap();
        while api.capabilities().is_empty() {
            thread::yield_now();
        }
        api.way.is_answering.store(true, Ordering::Relaxed);
        let words = |api: &ApiServer| api.capabilities().remove(0).detail;
        assert!(words(&api).contains("/nonexistent"), "{}", words(&api));
        assert!(api.way.is_answering.load(Ordering::Relaxed));
        // It ends before there is a connection.
        api.last_word().say(Duration::from_secs(20));
        assert!(words(&api).contains("has ended"), "{}", words(&api));
        assert!(!api.way.is_answering.load(Ordering::Relaxed));
        // What a tick says that comes back after the last word.
        api.publish(Wanted::default());
        assert!(api.wanted.borrow().is_last);
    }
}
