//! Whoever acts, on a thread of its own: a step may take seconds, and the loop must not wait.
//! In: what was decided. Out: outcomes, for the sample that comes next. Both ways are bounded;
//! what finds no room is an outcome that says so.

mod valid;

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use self::valid::Valid;
use crate::act::Actor;
use crate::clock;
use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::decision::{
    Action, Decision, Outcome, OutcomeResult, Release, StepKind, Target,
};
use isobar_core::model::units::Nanos;

/// Orders that may wait. One decision has one action and few releases.
const ROOM: usize = 8;
/// How often news is looked for while some may come.
const LISTEN: Duration = Duration::from_millis(100);
/// And while none is expected.
const DOZE: Duration = Duration::from_secs(1);

/// What is asked of whoever acts.
#[derive(Debug)]
enum Order {
    /// With when it was decided.
    Take(Box<Action>, Nanos),
    Release(Box<Release>),
    Prepare(Vec<Target>),
    /// Takes back all that would be nobody's once the agent is gone.
    Leave,
}

/// What comes of an order, or of looking for news.
#[derive(Debug, Default)]
struct Answer {
    outcomes: Vec<Outcome>,
    means: BTreeSet<StepKind>,
    /// There is more to come.
    is_waiting: bool,
    /// Something is in force, or somebody's end is awaited.
    holds: bool,
}

/// What comes back.
#[derive(Debug)]
struct Report {
    outcomes: Vec<Outcome>,
    /// An order was carried out, the oldest of those that were given; else it is only news.
    is_done: bool,
    means: BTreeSet<StepKind>,
    is_waiting: bool,
    holds: bool,
    /// From the decision until a step was begun.
    handover: Option<Nanos>,
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
    /// Releases that found no room.
    unreleased: Vec<Release>,
    /// What still holds of the orders that wait.
    valid: Arc<Valid>,
    /// Somebody's end is awaited, and for it may have to be seen to.
    is_waiting: bool,
    holds: bool,
    prepared: Vec<Target>,
    has_ended: bool,
    /// What an agent before this one left in force.
    left_over: Vec<Release>,
    /// Something may be in force that is this agent's.
    has_hold: bool,
    handover: Option<Nanos>,
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
        let (means, left_over) = (actor.means(), actor.left_over());
        let acting = Self::spawn(means, move |order, valid| {
            let mut outcomes = actor.call_off(|step| valid.enforces(step));
            outcomes.extend(match order {
                Some(Order::Take(action, _)) => vec![actor.take(&action)],
                Some(Order::Release(release)) => vec![actor.release(&release)],
                Some(Order::Prepare(likely)) => {
                    actor.prepare(&likely);
                    Vec::new()
                }
                Some(Order::Leave) => {
                    actor.in_force().iter().map(|squeeze| actor.release(squeeze)).collect()
                }
                None => actor.news(),
            });
            let holds = actor.is_waiting() || !actor.in_force().is_empty();
            Answer { outcomes, means: actor.means(), is_waiting: actor.is_waiting(), holds }
        });
        acting.map(|acting| Self { left_over, ..acting })
    }

    fn spawn(
        means: BTreeSet<StepKind>,
        mut carry_out: impl FnMut(Option<Order>, &Valid) -> Answer + Send + 'static,
    ) -> io::Result<Self> {
        let valid = Arc::new(Valid::default());
        let orders_now = Arc::clone(&valid);
        let (orders, inbox) = sync_channel(ROOM);
        // So many that whoever acts waits for the loop only if the loop has stopped.
        let (outbox, reports) = sync_channel(8 * ROOM);
        thread::Builder::new().name("act".into()).spawn(move || {
            let (mut wait, mut told) = (DOZE, (false, false));
            loop {
                let order = match inbox.recv_timeout(wait) {
                    Ok(order) => Some(order),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return,
                };
                let is_done = order.is_some();
                // Who was stuck with one order must not go on with those that nobody means any more.
                let now = clock::now().boot;
                let refused = match &order {
                    Some(Order::Take(action, _)) => orders_now.refusal(action, now),
                    _ => None,
                };
                let order = order.filter(|_| refused.is_none());
                let handover = match &order {
                    Some(Order::Take(_, decided)) => Some(now.since(*decided)),
                    _ => None,
                };
                let Answer { mut outcomes, means, is_waiting, holds } =
                    carry_out(order, &orders_now);
                outcomes.extend(refused);
                wait = if is_waiting { LISTEN } else { DOZE };
                let is_told = is_done || !outcomes.is_empty() || told != (is_waiting, holds);
                told = (is_waiting, holds);
                let report = Report { outcomes, is_done, means, is_waiting, holds, handover };
                if is_told && outbox.send(report).is_err() {
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
            unreleased: Vec::new(),
            valid,
            is_waiting: false,
            holds: false,
            prepared: Vec::new(),
            has_ended: false,
            left_over: Vec::new(),
            has_hold: false,
            handover: None,
        })
    }

    /// Makes what an agent before this one left this agent's own: what `known` names stays in
    /// force, the rest is taken back. Returns what it left.
    pub(super) fn take_over(&mut self, known: &BTreeSet<u64>) -> BTreeSet<u64> {
        let left_over = std::mem::take(&mut self.left_over);
        let in_force: BTreeSet<u64> = left_over.iter().map(|release| release.action).collect();
        self.holds |= !in_force.is_empty();
        for release in left_over {
            self.has_hold = true;
            if !known.contains(&release.action) {
                tracing::info!("taking back what an earlier agent held: {}", release.target.name);
                self.release(&release);
            }
        }
        in_force
    }

    /// What an agent before this one left and nobody has taken over.
    pub(super) fn left_over(&self) -> &[Release] {
        &self.left_over
    }

    /// True if nothing is under way: no order, and nobody's end that is awaited, on which SIGKILL
    /// may have to follow.
    pub(super) fn is_idle(&self) -> bool {
        self.given.is_empty() && self.unreleased.is_empty() && !self.is_waiting
    }

    /// True if nothing is under way or in force.
    pub(super) fn is_free(&self) -> bool {
        self.is_idle() && !self.holds && self.left_over.is_empty()
    }

    /// From now on only these steps are really taken: those that were ordered before and have not
    /// begun are refused, and no SIGKILL follows on what other steps began.
    pub(super) fn enforce_only(&self, steps: &BTreeSet<StepKind>) {
        self.valid.enforce_only(steps);
    }

    /// Takes back what is in force, and waits for that and for what was ordered before, but not
    /// for longer than `within`.
    pub(super) fn leave(mut self, within: Duration) {
        let end = clock::now().boot.plus(nanos(within));
        let left = || Duration::from_nanos(end.since(clock::now().boot).0);
        let mut order = self.has_hold.then_some(Order::Leave);
        while let Some(asked) = order.take() {
            match self.orders.try_send(asked) {
                Err(TrySendError::Full(back)) if !left().is_zero() => {
                    thread::sleep(Duration::from_millis(10));
                    order = Some(back);
                }
                Err(TrySendError::Full(_)) => {
                    return tracing::error!("squeezes stay in force: busy with {}", self.busy());
                }
                // Who has ended gives no answer, and that is told below.
                Ok(()) | Err(TrySendError::Disconnected(_)) => {
                    self.given.push_back("leaving".into());
                }
            }
        }
        while !self.given.is_empty() {
            let Ok(report) = self.reports.recv_timeout(left()) else {
                let busy = self.busy();
                return tracing::error!("squeezes may stay in force: {busy} is not over yet");
            };
            for Outcome { result, detail, .. } in self.note(report) {
                tracing::info!(?result, "{detail}");
            }
        }
    }

    /// What has come since the last call.
    pub(super) fn heard(&mut self) -> Heard {
        for release in std::mem::take(&mut self.unreleased) {
            self.release(&release);
        }
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
        (self.means, self.holds, self.is_waiting) = (report.means, report.holds, report.is_waiting);
        self.handover = report.handover.or(self.handover);
        report.outcomes
    }

    /// From the last decision to take a step until it was begun.
    pub(super) fn handover(&self) -> Option<Nanos> {
        self.handover
    }

    /// Hands over what was decided at `decided`, on the boot clock. Never waits.
    pub(super) fn hand_over(&mut self, decision: &Decision, decided: Nanos) {
        for action in &decision.actions {
            self.has_hold |= action.is_enforced && action.step == StepKind::Squeeze;
            self.valid.note(action);
            let text = format!("{} of {}", action.step.name(), action.target.full_name());
            let given = self.give(text, Order::Take(Box::new(action.clone()), decided));
            self.failed.extend(given.err().map(|why| never_begun(action.id, why)));
        }
        decision.releases.iter().for_each(|release| self.release(release));
    }

    /// What finds no room is asked for again at the next tick: nobody else remembers it.
    fn release(&mut self, release: &Release) {
        let text = format!("release of {}", release.target.full_name());
        let given = self.give(text, Order::Release(Box::new(release.clone())));
        let Err(why) = given else { return };
        match self.has_ended {
            true => self.failed.push(never_begun(release.action, why)),
            false => self.unreleased.push(release.clone()),
        }
    }

    fn busy(&self) -> &str {
        self.given.front().map_or("earlier orders", String::as_str)
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

    /// Hands one order over, or tells why it cannot be.
    fn give(&mut self, text: String, order: Order) -> Result<(), String> {
        match self.orders.try_send(order) {
            Ok(()) => {
                self.given.push_back(text);
                Ok(())
            }
            Err(TrySendError::Full(_)) => {
                Err(format!("not begun: still busy with {}", self.busy()))
            }
            Err(TrySendError::Disconnected(_)) => {
                if !self.has_ended {
                    tracing::error!("whoever acts has ended: nothing more is done on this node");
                }
                (self.has_ended, self.means) = (true, BTreeSet::new());
                Err("not begun: whoever acts has ended; restart the agent".into())
            }
        }
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

fn never_begun(action: u64, why: String) -> Outcome {
    let result = OutcomeResult::Failed;
    Outcome { action, result, detail: why, took: Nanos(0), freed: None, ended: None }
}

fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
