//! The actuator on a thread of its own: a step may take seconds, and the agent's loop must not wait.
//! In: what was decided. Out: outcomes and what is in force, for the next sample. Both ways are
//! bounded; an order that finds no room is an outcome that says so.

mod capability;
mod standing;
mod thread;

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::time::Duration;

use self::standing::StandingOrders;
use crate::act::{Actuator, AvailableSteps};
use crate::clock;
use isobar_core::model::decision::{
    Action, InForce, Outcome, OutcomeResult, Phase, Release, Relief, StepKind, Target,
};
use isobar_core::model::units::Nanos;

/// Orders that may wait. One decision has one action and few releases.
const ROOM: usize = 8;
/// A thread that exits sooner is not begun anew before: it may exit again.
const LASTS: Nanos = Nanos(10 * Nanos::SECOND.0);

#[derive(Debug)]
enum Order {
    /// With the moment at which it was decided.
    Take(Box<Action>, Nanos),
    Release(Box<Release>),
    Prepare(Vec<Target>),
    /// Take every squeeze back, and tell a [`Farewell`]: the agent leaves.
    Leave(Option<SyncSender<Vec<Outcome>>>),
    /// Do nothing, once `halted` was received, until `go_on` says more; exit where that is dropped.
    Halt {
        halted: SyncSender<()>,
        go_on: Receiver<()>,
    },
}

/// An order that was given and not yet carried out.
#[derive(Debug)]
struct Given {
    text: String,
    /// Of a step: its action and deadline, until it is told that it was not begun by then.
    step: Option<(u64, Nanos)>,
}

/// A thread that does nothing. It ends with this value.
#[derive(Debug)]
pub(super) struct Halted(SyncSender<()>);

/// What the thread knows after an order, or after looking at what is under way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Answer {
    outcomes: Vec<Outcome>,
    in_force: Vec<InForce>,
    available_steps: AvailableSteps,
    /// Something is under way, for which SIGKILL may have to follow.
    is_busy: bool,
    /// Why the ledger is not on disk.
    trouble: Option<String>,
}

#[derive(Debug)]
struct Message {
    answer: Answer,
    /// The oldest order was carried out; else it is only news.
    is_done: bool,
    /// From the decision until the step was begun.
    handover: Option<Nanos>,
}

/// What the actuator has reported since the last tick.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) outcomes: Vec<Outcome>,
    pub(super) in_force: Vec<InForce>,
    pub(super) available_steps: BTreeSet<StepKind>,
}

/// The loop's end of the actuator.
#[derive(Debug)]
pub(super) struct Handle {
    orders: SyncSender<Order>,
    messages: Receiver<Message>,
    /// Orders that the thread has not carried out, oldest first.
    given: VecDeque<Given>,
    /// The last answer.
    known: Answer,
    /// Outcomes of orders that were never begun.
    failed: Vec<Outcome>,
    standing: Arc<StandingOrders>,
    prepared: Vec<Target>,
    /// When the thread was begun, or could last not be begun anew.
    begun: Nanos,
    has_exited: bool,
    handover: Option<Nanos>,
}

impl Handle {
    /// Gives the actuator its thread.
    ///
    /// # Errors
    /// If no thread can be made.
    pub(super) fn begin(mut actuator: Actuator) -> io::Result<Self> {
        let answer = |actuator: &Actuator, outcomes| Answer {
            outcomes,
            in_force: actuator.in_force().to_vec(),
            available_steps: actuator.available_steps(),
            is_busy: actuator.is_busy(),
            trouble: actuator.trouble().map(Into::into),
        };
        let first = answer(&actuator, Vec::new());
        Self::spawn(first, move |order, standing| {
            let mut outcomes = actuator.call_off(|step| standing.enforces(step));
            outcomes.extend(match order {
                Some(Order::Take(action, _)) => vec![actuator.take(&action)],
                Some(Order::Release(release)) => actuator.release(&release).into_iter().collect(),
                Some(Order::Prepare(targets)) => {
                    actuator.prepare(&targets);
                    Vec::new()
                }
                Some(Order::Leave(_)) => actuator.release_all(),
                Some(Order::Halt { .. }) | None => actuator.poll(),
            });
            answer(&actuator, outcomes)
        })
    }

    fn spawn(
        first: Answer,
        carry_out: impl FnMut(Option<Order>, &StandingOrders) -> Answer + Send + 'static,
    ) -> io::Result<Self> {
        let standing = Arc::new(StandingOrders::default());
        let orders_now = Arc::clone(&standing);
        let (orders, inbox) = sync_channel(ROOM);
        // So many that the thread waits for the loop only if the loop has stopped.
        let (outbox, messages) = sync_channel(8 * ROOM);
        let before = first.clone();
        let act = move || thread::run(&inbox, &outbox, &orders_now, before, carry_out);
        std::thread::Builder::new().name("act".into()).spawn(act)?;
        Ok(Self {
            orders,
            messages,
            given: VecDeque::with_capacity(ROOM + 1),
            known: first,
            failed: Vec::new(),
            standing,
            prepared: Vec::new(),
            begun: clock::now().boot,
            has_exited: false,
            handover: None,
        })
    }

    /// What is in force or under way, as the actuator last reported it.
    pub(super) fn in_force(&self) -> &[InForce] {
        &self.known.in_force
    }

    /// Whether it can take such a step on this node.
    pub(super) fn can(&self, step: StepKind) -> bool {
        self.known.available_steps.allowed.contains(&step)
    }

    /// True if no order waits and nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.given.is_empty() && !self.known.is_busy
    }

    /// True if nothing is under way or in force.
    pub(super) fn is_free(&self) -> bool {
        let is_over = |entry: &InForce| matches!(entry.phase, Phase::Ended { .. });
        self.is_idle() && self.known.in_force.iter().all(is_over)
    }

    /// From now on only these steps are taken: orders that have not begun are refused, and no
    /// SIGKILL follows on what other steps began.
    pub(super) fn enforce_only(&self, steps: &BTreeSet<StepKind>) {
        self.standing.enforce_only(steps);
    }

    /// Waits for earlier orders, then takes squeezes back and waits for that, but not longer than
    /// `within` in all. What came of it.
    pub(super) fn leave(mut self, within: Duration) -> Vec<Outcome> {
        let end = clock::now().boot.plus(within.into());
        let mut outcomes = self.finish(end);
        let stands = |entry: &InForce| entry.can_be_undone() && entry.action.is_enforced;
        if self.given.is_empty() && self.known.in_force.iter().any(stands) {
            // An actuator that has exited gives no answer, and that is reported.
            let _ = self.give("taking squeezes back".into(), Order::Leave(None));
            outcomes.extend(self.finish(end));
        }
        if !self.given.is_empty() {
            tracing::error!("squeezes may stay in force: {} has not finished in time", self.busy());
        }
        outcomes
    }

    /// A way to leave beside a tick that may not return.
    pub(super) fn farewell(&self) -> Farewell {
        Farewell(self.orders.clone())
    }

    /// Outcomes of the orders that were given, until all are carried out or it is `end`.
    fn finish(&mut self, end: Nanos) -> Vec<Outcome> {
        let left = || Duration::from_nanos(end.since(clock::now().boot).0);
        let mut outcomes = Vec::new();
        while !self.given.is_empty()
            && let Ok(message) = self.messages.recv_timeout(left())
        {
            outcomes.extend(self.note(message));
        }
        outcomes
    }

    /// What the actuator has reported since the last call.
    pub(super) fn report(&mut self) -> Report {
        let mut outcomes = std::mem::take(&mut self.failed);
        loop {
            match self.messages.try_recv() {
                Ok(message) => outcomes.extend(self.note(message)),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => break self.has_ended(),
            }
        }
        let Answer { in_force, available_steps, .. } = self.known.clone();
        let AvailableSteps { known, mut allowed } = available_steps;
        allowed.extend(known.into_iter().filter(|step| !self.standing.enforces(*step)));
        Report { outcomes, in_force, available_steps: allowed }
    }

    fn note(&mut self, Message { answer, is_done, handover }: Message) -> Vec<Outcome> {
        let done = if is_done { self.given.pop_front() } else { None };
        self.handover = handover.or(self.handover);
        let mut outcomes = answer.outcomes.clone();
        // Of a step that was late this was told then.
        outcomes.retain(|outcome| {
            !outcome.never_begun || done.as_ref().is_some_and(|given| given.step.is_some())
        });
        self.known = Answer { outcomes: Vec::new(), ..answer };
        outcomes
    }

    /// Steps that the actuator has not begun by their deadline, and will not begin: `now` is the time by
    /// which the policy judges them.
    pub(super) fn late(&mut self, now: Nanos) -> Vec<Outcome> {
        let standing = &self.standing;
        let is_late =
            |(id, deadline): &mut (u64, Nanos)| now >= *deadline && !standing.has_begun(*id);
        let late = self.given.iter_mut().filter_map(|given| given.step.take_if(is_late));
        late.map(|(id, _)| never_begun(id, standing::LATE.into())).collect()
    }

    /// Has the thread do nothing, so that it does not write the ledger that another one reads; `None` if it
    /// does not halt within this time.
    pub(super) fn halt(&self, within: Duration) -> Option<Halted> {
        // Without room: a thread that comes to it too late finds that.
        let (halted, has_halted) = sync_channel(0);
        let (halt, go_on) = sync_channel(1);
        match self.orders.try_send(Order::Halt { halted, go_on }) {
            Ok(()) => has_halted.recv_timeout(within).ok()?,
            Err(TrySendError::Full(_)) => return None,
            // It has exited.
            Err(TrySendError::Disconnected(_)) => {}
        }
        Some(Halted(halt))
    }

    /// From the last decision to take a step until the actuator began with it.
    pub(super) fn handover(&self) -> Option<Nanos> {
        self.handover
    }

    /// Hands over what was decided at `decided`, on the boot clock. Never waits.
    pub(super) fn hand_over(&mut self, relief: &Relief, decided: Nanos) {
        for action in &relief.actions {
            let text = format!("{} of {}", action.step.name(), action.target.full_name());
            match self.give(text, Order::Take(Box::new(action.clone()), decided)) {
                Ok(()) => self.standing.note(action),
                // Those that wait still hold.
                Err(why) => self.failed.push(never_begun(action.id, why)),
            }
        }
        for release in &relief.releases {
            let text = format!("release {} of {}", release.action, release.target.full_name());
            // A squeeze stays in the ledger until it is released, and so is decided upon again.
            if self.given.iter().all(|given| given.text != text) {
                let _ = self.give(text, Order::Release(Box::new(release.clone())));
            }
        }
    }

    fn busy(&self) -> &str {
        self.given.front().map_or("earlier orders", |given| &given.text)
    }

    /// Names targets that may be acted upon next. The same targets are not named again, and no
    /// order waits for it.
    pub(super) fn prepare(&mut self, targets: Vec<Target>) {
        if targets == self.prepared || !self.given.is_empty() {
            return;
        }
        if self.orders.try_send(Order::Prepare(targets.clone())).is_ok() {
            self.given.push_back(Given { text: "preparing".into(), step: None });
            self.prepared = targets;
        }
    }

    /// Hands one order over, or tells why it cannot be.
    fn give(&mut self, text: String, order: Order) -> Result<(), String> {
        let step = match &order {
            Order::Take(action, _) => Some((action.id, action.deadline)),
            _ => None,
        };
        match self.orders.try_send(order) {
            Ok(()) => {
                self.given.push_back(Given { text, step });
                Ok(())
            }
            Err(TrySendError::Full(_)) => {
                Err(format!("not begun: the actuator is busy with {}", self.busy()))
            }
            Err(TrySendError::Disconnected(_)) => {
                self.has_ended();
                Err("not begun: the actuator thread exited".into())
            }
        }
    }

    /// The thread exited: nothing that was given is carried out any more. What was in force still is.
    fn has_ended(&mut self) {
        if !self.has_exited {
            tracing::error!("actuator thread exited; it is begun anew from its ledger");
        }
        let in_force = std::mem::take(&mut self.known.in_force);
        self.known = Answer { in_force, ..Answer::default() };
        self.has_exited = true;
        let left = self.given.drain(..).filter_map(|given| given.step);
        let left = left.filter(|(id, _)| !self.standing.has_begun(*id));
        let why = "not begun: the actuator thread exited";
        self.failed.extend(left.map(|(id, _)| never_begun(id, why.into())));
    }

    /// Whether its thread exited and another one may take its place: at once, but if it did not last.
    pub(super) fn is_lost(&self) -> bool {
        self.has_exited && clock::now().boot.since(self.begun) >= LASTS
    }

    /// Another one could not take its place.
    pub(super) fn try_later(&mut self) {
        self.begun = clock::now().boot;
    }
}

impl Halted {
    /// The thread goes on.
    pub(super) fn go_on(self) {
        // One that has exited does not.
        let _ = self.0.send(());
    }
}

/// Has squeezes taken back without the tick that holds the [`Handle`].
#[derive(Debug)]
pub(super) struct Farewell(SyncSender<Order>);

impl Farewell {
    /// Waits for that, but not longer than `within`; `None` if it was not done in time.
    pub(super) fn leave(self, within: Duration) -> Option<Vec<Outcome>> {
        let (farewell, done) = sync_channel(1);
        self.0.try_send(Order::Leave(Some(farewell))).ok()?;
        done.recv_timeout(within).ok()
    }
}

fn never_begun(action: u64, why: String) -> Outcome {
    let result = OutcomeResult::Failed;
    let (took, freed, ended, never_begun) = (Nanos(0), None, None, true);
    Outcome { action, result, detail: why, took, freed, ended, never_begun }
}

#[cfg(test)]
pub(super) mod tests;
