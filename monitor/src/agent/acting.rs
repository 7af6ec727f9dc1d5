//! Whoever acts, on a thread of its own: a step may take seconds, and the loop must not wait.
//! In: what was decided. Out: outcomes, for the sample that comes next. Both ways are bounded;
//! what finds no room is an outcome that says so.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use crate::act::Actor;
use crate::model::capability::{Capability, CapabilityState};
use crate::model::decision::{Action, Decision, Outcome, OutcomeResult, Release, StepKind, Target};
use crate::model::units::Nanos;

/// Orders that may wait. One decision has one action and few releases.
const ROOM: usize = 8;
/// How often news is looked for while some may come.
const LISTEN: Duration = Duration::from_millis(100);
/// For so many times after an order: effects are looked at until half a minute after it.
const TIMES: u32 = 400;

/// What is asked of whoever acts.
#[derive(Debug)]
enum Order {
    Take(Box<Action>),
    Release(Box<Release>),
    Prepare(Vec<Target>),
}

/// What comes back.
#[derive(Debug)]
struct Report {
    outcomes: Vec<Outcome>,
    /// An order was carried out, the oldest of those that were given; else it is only news.
    is_done: bool,
    means: BTreeSet<StepKind>,
}

/// The loop's end of it.
#[derive(Debug)]
pub(super) struct Acting {
    orders: SyncSender<Order>,
    reports: Receiver<Report>,
    /// Orders that were given and not reported on, in words, oldest first.
    given: VecDeque<String>,
    means: BTreeSet<StepKind>,
    /// Outcomes of what was never begun.
    failed: Vec<Outcome>,
    prepared: Vec<Target>,
    has_ended: bool,
}

/// What was heard since the tick before.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) outcomes: Vec<Outcome>,
    /// `None` if there is nobody to ask.
    pub(super) means: Option<BTreeSet<StepKind>>,
}

impl Acting {
    /// Gives the actor its thread.
    ///
    /// # Errors
    /// If no thread can be made.
    pub(super) fn begin(mut actor: Actor) -> io::Result<Self> {
        let means = actor.means();
        Self::spawn(means, move |order| match order {
            Some(Order::Take(action)) => (vec![actor.take(&action)], actor.means()),
            Some(Order::Release(release)) => (vec![actor.release(&release)], actor.means()),
            Some(Order::Prepare(likely)) => {
                actor.prepare(&likely);
                (Vec::new(), actor.means())
            }
            None => (actor.news(), actor.means()),
        })
    }

    fn spawn(
        means: BTreeSet<StepKind>,
        mut carry_out: impl FnMut(Option<Order>) -> (Vec<Outcome>, BTreeSet<StepKind>) + Send + 'static,
    ) -> io::Result<Self> {
        let (orders, inbox) = sync_channel(ROOM);
        // So many that whoever acts waits for the loop only if the loop has stopped.
        let (outbox, reports) = sync_channel(8 * ROOM);
        thread::Builder::new().name("act".into()).spawn(move || {
            let mut times = 0;
            loop {
                let order = match times {
                    0 => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
                    _ => inbox.recv_timeout(LISTEN),
                };
                let order = match order {
                    Ok(order) => Some(order),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return,
                };
                times = match &order {
                    Some(Order::Prepare(_)) => times,
                    Some(_) => TIMES,
                    None => times - 1,
                };
                let is_done = order.is_some();
                let (outcomes, means) = carry_out(order);
                let is_told = is_done || !outcomes.is_empty();
                if is_told && outbox.send(Report { outcomes, is_done, means }).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self {
            orders,
            reports,
            given: VecDeque::with_capacity(ROOM + 1),
            means,
            failed: Vec::new(),
            prepared: Vec::new(),
            has_ended: false,
        })
    }

    /// What has come since the last call.
    pub(super) fn heard(&mut self) -> Heard {
        let mut outcomes = std::mem::take(&mut self.failed);
        while let Ok(report) = self.reports.try_recv() {
            outcomes.extend(self.note(report));
        }
        Heard { outcomes, means: Some(self.means.clone()) }
    }

    fn note(&mut self, report: Report) -> Vec<Outcome> {
        if report.is_done {
            self.given.pop_front();
        }
        self.means = report.means;
        report.outcomes
    }

    /// Hands over what was decided. Never waits.
    pub(super) fn hand_over(&mut self, decision: &Decision) {
        for action in &decision.actions {
            let text = format!("{} of {}", action.step.name(), action.target.full_name());
            self.give(action.id, text, Order::Take(Box::new(action.clone())));
        }
        for release in &decision.releases {
            let text = format!("release of {}", release.target.full_name());
            self.give(release.action, text, Order::Release(Box::new(release.clone())));
        }
    }

    /// Names who may be next. What has not changed is not said again, and nothing that matters
    /// waits for it.
    pub(super) fn prepare(&mut self, likely: Vec<Target>) {
        if likely == self.prepared || !self.given.is_empty() {
            return;
        }
        if self.orders.try_send(Order::Prepare(likely.clone())).is_ok() {
            self.given.push_back("preparing".into());
            self.prepared = likely;
        }
    }

    fn give(&mut self, id: u64, text: String, order: Order) {
        let why = match self.orders.try_send(order) {
            Ok(()) => return self.given.push_back(text),
            Err(TrySendError::Full(_)) => {
                let busy = self.given.front().map_or("earlier orders", String::as_str);
                format!("not begun: still busy with {busy}")
            }
            Err(TrySendError::Disconnected(_)) => {
                if !self.has_ended {
                    tracing::error!("whoever acts has ended: nothing more is done on this node");
                }
                (self.has_ended, self.means) = (true, BTreeSet::new());
                "not begun: whoever acts has ended; restart the agent".into()
            }
        };
        self.failed.push(Outcome {
            action: id,
            result: OutcomeResult::Failed,
            detail: why,
            took: Nanos(0),
            freed: None,
            ended: None,
        });
    }

    /// Whether there is somebody, and which steps it can take.
    pub(super) fn capability(&self) -> Capability {
        let steps: Vec<&str> = self.means.iter().map(|step| step.name()).collect();
        let (state, detail, remedy) = match (self.has_ended, steps.is_empty()) {
            (true, _) => (
                CapabilityState::Absent,
                "it has ended".into(),
                Some("restart the agent, and report this to isobar".into()),
            ),
            (false, true) => (
                CapabilityState::Absent,
                "no step can be taken".into(),
                Some("run as root, in the node's own namespaces".into()),
            ),
            (false, false) => {
                (CapabilityState::Attached, format!("able to: {}", steps.join(", ")), None)
            }
        };
        Capability { name: "actor".into(), state, detail, remedy }
    }
}

#[cfg(test)]
mod tests;
