//! What all requests share: the store, the faults, the journal, and who wants to hear of changes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::ServerConfig;
use serde_json::Value;
use tokio::sync::{broadcast, watch};

use crate::access::Access;
use crate::fault::Faults;
use crate::journal::Journal;
use crate::store::{Store, namespace};

/// When a pod whose grace period runs is really gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kubelet {
    /// As soon as it is told to end.
    AtOnce,
    /// When the test calls [`Stub::confirm`](crate::Stub::confirm).
    WhenConfirmed,
}

/// What a test tells all connections at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Watches end with an error of code 410.
    Expire,
    /// Connections end with a reset.
    Cut,
}

/// Signals that a slow connection may be behind.
const SIGNALS: usize = 64;

/// Namespaces that each cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

#[derive(Debug)]
pub(crate) struct Cluster {
    store: Mutex<Store>,
    /// The store's version, for watches to wait on.
    changed: watch::Sender<u64>,
    signals: broadcast::Sender<Signal>,
    pub(crate) faults: Faults,
    pub(crate) journal: Journal,
    access: Mutex<Access>,
    /// None: plain HTTP.
    tls: Mutex<Option<Arc<ServerConfig>>>,
    pub(crate) kubelet: Kubelet,
    /// What the kubelet's own server answers, by path.
    kubelet_says: Mutex<BTreeMap<String, Value>>,
}

impl Cluster {
    pub(crate) fn new(kubelet: Kubelet) -> Self {
        let cluster = Self {
            store: Mutex::default(),
            changed: watch::Sender::new(0),
            signals: broadcast::Sender::new(SIGNALS),
            faults: Faults::default(),
            journal: Journal::default(),
            access: Mutex::default(),
            tls: Mutex::default(),
            kubelet,
            kubelet_says: Mutex::default(),
        };
        cluster.change(|store| {
            for name in NAMESPACES {
                let (key, object) = namespace(name);
                store.put(key, object);
            }
        });
        cluster
    }

    pub(crate) fn kubelet_says(&self) -> MutexGuard<'_, BTreeMap<String, Value>> {
        self.kubelet_says.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn read(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the store, and wakes the watches.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Store) -> T) -> T {
        let mut store = self.read();
        let result = change(&mut store);
        self.changed.send_replace(store.version());
        result
    }

    pub(crate) fn access(&self) -> MutexGuard<'_, Access> {
        self.access.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tls(&self) -> MutexGuard<'_, Option<Arc<ServerConfig>>> {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(crate) fn signals(&self) -> broadcast::Receiver<Signal> {
        self.signals.subscribe()
    }

    pub(crate) fn send(&self, signal: Signal) {
        // An error means that no connection is open.
        let _ = self.signals.send(signal);
    }
}
