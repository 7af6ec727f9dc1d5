//! The actuator's thread: it carries orders out, and looks between them at what is under way.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use super::standing::StandingOrders;
use super::{Answer, Message, Order};
use crate::clock;

/// How often the thread looks after what is under way.
pub(super) const BUSY: Duration = Duration::from_millis(100);
/// And while nothing is.
const IDLE: Duration = Duration::from_secs(1);

/// Carries orders out until the handle is dropped, or halts the thread for good.
pub(super) fn run(
    inbox: &Receiver<Order>,
    outbox: &SyncSender<Message>,
    orders_now: &StandingOrders,
    first: Answer,
    mut carry_out: impl FnMut(Option<Order>, &StandingOrders) -> Answer,
) {
    let (mut last, mut looked) = (first, clock::now().boot);
    loop {
        let interval = if last.is_busy { BUSY } else { IDLE };
        let since = Duration::from_nanos(clock::now().boot.since(looked).0);
        let wait = interval.saturating_sub(since);
        // Orders in a row, waiting or not, do not put off the look at what is under way.
        let next =
            if wait.is_zero() { Err(RecvTimeoutError::Timeout) } else { inbox.recv_timeout(wait) };
        let order = match next {
            // A handle that waits no longer hears nothing, and the thread goes on.
            Ok(Order::Halt { halted, go_on }) => match halted.send(()) {
                Ok(()) if go_on.recv().is_err() => return,
                _ => continue,
            },
            Ok(order) => Some(order),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let is_done = order.is_some();
        // After a step that took long, orders may wait that hold no longer.
        let (refused, now) = match &order {
            Some(Order::Take(action, _)) => {
                // Before the time is read: what is told to be late meanwhile is refused.
                orders_now.take_up(action.id);
                let now = clock::now().boot;
                (orders_now.refusal(action, now), now)
            }
            _ => (None, clock::now().boot),
        };
        let order = order.filter(|_| refused.is_none());
        let handover = match &order {
            Some(Order::Take(_, decided)) => Some(now.since(*decided)),
            _ => None,
        };
        let farewell = match &order {
            Some(Order::Leave(farewell)) => farewell.clone(),
            _ => None,
        };
        let mut answer = carry_out(order, orders_now);
        if !is_done {
            // A look that takes long leaves time for orders.
            looked = clock::now().boot;
        }
        answer.outcomes.extend(refused);
        // One that waits no longer is told nothing.
        farewell.map(|farewell| farewell.try_send(answer.outcomes.clone()));
        let is_news = is_done || !answer.outcomes.is_empty() || answer != last;
        last = Answer { outcomes: Vec::new(), ..answer.clone() };
        if is_news {
            // A tick that has panicked hears nothing. Its farewell may still come.
            let _ = outbox.send(Message { answer, is_done, handover });
        }
    }
}
