//! Evictions through the API server, as far as the actuator has to do with them: it asks, and the
//! answer comes later. Who answers knows the API; the actuator knows only these channels.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::error::ActError;
use isobar_core::model::decision::Action;
use isobar_core::model::settings::Deletion;
use isobar_core::model::units::Nanos;

/// Requests and answers that may wait. One victim is ended at a time.
const ROOM: usize = 8;

/// A pod, or a group of pods, that is to be evicted.
#[derive(Debug, Clone)]
pub struct Request {
    pub action: u64,
    pub namespace: String,
    pub name: String,
    /// The pod of this uid and no other of the same name.
    pub uid: String,
    /// The uids of a group's pods, which has no name that the API knows.
    pub members: Vec<String>,
    /// How long the pod is given to end.
    pub grace: Nanos,
    /// Whether it is deleted if it is not evicted.
    pub deletion: Deletion,
    /// Why, in the kubelet's words.
    pub message: String,
    /// When an answer comes too late, on the boot clock.
    pub deadline: Nanos,
    pub reply: Sender<Answer>,
}

/// What the API server answered, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub action: u64,
    pub result: Result<String, Refusal>,
}

/// Why a pod is not evicted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A disruption budget or an admission webhook forbids it: another candidate may be evicted.
    Forbidden(String),
    /// It forbids it for some pods of a group; the others end.
    Partly(String),
    /// The API server cannot be reached, or answers with an error.
    Failed(String),
}

/// The way to the API server.
#[derive(Debug, Clone)]
pub struct Way {
    pub requests: Sender<Request>,
    pub is_answering: Arc<AtomicBool>,
    /// The API server lets this agent evict, or delete where that is configured.
    pub is_allowed: Arc<AtomicBool>,
}

/// The actuator's end of it.
#[derive(Debug)]
pub(super) struct Evictions {
    way: Way,
    reply: Sender<Answer>,
    answers: Receiver<Answer>,
}

impl Evictions {
    pub(super) fn new(way: Way) -> Self {
        let (reply, answers) = channel(ROOM);
        Self { way, reply, answers }
    }

    pub(super) fn are_possible(&self) -> bool {
        [&self.way.is_answering, &self.way.is_allowed].iter().all(|is| is.load(Ordering::Relaxed))
    }

    /// Asks for the eviction that `action` names.
    pub(super) fn ask(&self, action: &Action) -> Result<(), ActError> {
        let target = &action.target;
        let request = Request {
            action: action.id,
            namespace: target.namespace.clone(),
            name: target.name.clone(),
            uid: target.uid.clone(),
            members: target.members.clone(),
            grace: action.grace.unwrap_or_default(),
            deletion: action.deletion,
            message: action.message.clone(),
            deadline: action.deadline,
            reply: self.reply.clone(),
        };
        let sent = self.way.requests.try_send(request);
        sent.map_err(|_| ActError::Other("the API server still has earlier evictions to do".into()))
    }

    /// The answers that have come since the last call.
    pub(super) fn answers(&mut self) -> Vec<Answer> {
        std::iter::from_fn(|| self.answers.try_recv().ok()).collect()
    }
}
