//! Every request and its answer, in the order in which requests came.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

use crate::call::Call;

/// A request and its answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Seen {
    #[serde(flatten)]
    pub call: Arc<Call>,
    /// None while the answer is on its way, and for a connection that was cut instead.
    pub status: Option<u16>,
}

#[derive(Debug, Default)]
pub(crate) struct Journal {
    entries: Mutex<Entries>,
    grown: Condvar,
}

#[derive(Debug, Default)]
struct Entries {
    all: Vec<Seen>,
    /// Hear of each request once it is answered.
    followers: Vec<Sender<Seen>>,
}

/// The place of a request in the journal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket(usize);

impl Journal {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, call: Arc<Call>) -> Ticket {
        let mut entries = self.entries();
        entries.all.push(Seen { call, status: None });
        self.grown.notify_all();
        Ticket(entries.all.len() - 1)
    }

    pub(crate) fn end(&self, Ticket(place): Ticket, status: Option<u16>) {
        let mut entries = self.entries();
        // Forgotten in the meantime, if it has no place.
        let Some(seen) = entries.all.get_mut(place) else { return };
        seen.status = status;
        let seen = seen.clone();
        entries.followers.retain(|follower| follower.send(seen.clone()).is_ok());
        self.grown.notify_all();
    }

    pub(crate) fn all(&self) -> Vec<Seen> {
        self.entries().all.clone()
    }

    pub(crate) fn follow(&self) -> Receiver<Seen> {
        let (sender, receiver) = mpsc::channel();
        self.entries().followers.push(sender);
        receiver
    }

    /// Waits until `find` finds something among all requests so far.
    pub(crate) fn wait<T>(
        &self,
        limit: Duration,
        mut find: impl FnMut(&[Seen]) -> Option<T>,
    ) -> Option<T> {
        let mut found = None;
        let waiting = |entries: &mut Entries| {
            found = find(&entries.all);
            found.is_none()
        };
        let waited = self.grown.wait_timeout_while(self.entries(), limit, waiting);
        drop(waited);
        found
    }
}
