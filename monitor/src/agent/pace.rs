//! When the next tick comes: after a second, sooner while memory is being exhausted or something
//! is under way, and at once when the kernel says that work has begun to wait.

use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until};

use isobar_core::model::decision::{Decision, Hold, Met};
use isobar_core::model::sample::Cause;

/// Between two ticks when nothing is the matter.
pub(super) const TICK: Duration = Duration::from_secs(1);
/// Between two ticks while seconds count.
const URGENT: Duration = Duration::from_millis(250);
/// Between two ticks, at the least.
const CLOSEST: Duration = Duration::from_millis(100);
/// Not every alarm is an emergency: a cgroup at its own limit waits, or is killed in, all the time. An
/// alarm that came to nothing doubles the distance of the next, up to this many times.
const DOUBLINGS: u32 = 3;

/// Descriptors that become readable when the next tick should come sooner.
#[derive(Debug, Default)]
pub struct Alarms {
    /// Work waits for memory.
    pub pressure: Option<OwnedFd>,
    /// The kernel side has something urgent to tell.
    pub event: Option<OwnedFd>,
}

/// Waits for what is due.
#[derive(Debug)]
pub(super) struct Pace {
    pressure: Option<AsyncFd<OwnedFd>>,
    event: Option<AsyncFd<OwnedFd>>,
    /// When the last tick began.
    last: Option<Instant>,
    is_urgent: bool,
    /// Alarms in a row that came to nothing.
    n_false: u32,
}

impl Pace {
    /// The first tick is due at once.
    ///
    /// # Errors
    /// If the alarms cannot be waited for.
    pub(super) fn new(alarms: Alarms) -> io::Result<Self> {
        Ok(Self {
            pressure: alarms.pressure.map(readable).transpose()?,
            event: alarms.event.map(readable).transpose()?,
            last: None,
            is_urgent: false,
            n_false: 0,
        })
    }

    /// Waits until the next tick is due, and says why it is. Nothing is lost if it is dropped
    /// before.
    pub(super) async fn due(&mut self) -> Cause {
        let cause = match self.last {
            None => Cause::Timer,
            // After a stall (or a suspended laptop) it goes on from now: a burst of ticks would
            // see nothing new.
            Some(last) => {
                let due = last + if self.is_urgent { URGENT } else { TICK };
                let cause = tokio::select! {
                    () = sleep_until(due) => Cause::Timer,
                    () = rings(self.event.as_ref()) => Cause::Event,
                    () = rings(self.pressure.as_ref()) => Cause::Pressure,
                };
                sleep_until((last + self.spacing(cause)).min(due)).await;
                cause
            }
        };
        self.last = Some(Instant::now());
        cause
    }

    /// The next tick is due as soon as may be.
    pub(super) fn at_once(&mut self) {
        self.is_urgent = true;
    }

    /// The alarm was none of those that come to nothing: the node, or all pods, had no memory left.
    pub(super) fn was_right(&mut self) {
        self.n_false = 0;
    }

    /// From the last tick, at the least.
    fn spacing(&self, cause: Cause) -> Duration {
        match cause {
            Cause::Timer => Duration::ZERO,
            Cause::Event | Cause::Pressure => CLOSEST * 2_u32.pow(self.n_false),
        }
    }

    /// Goes by what a tick came to.
    pub(super) fn saw(&mut self, cause: Cause, decision: &Decision) {
        self.is_urgent = is_urgent(decision);
        self.n_false = match cause {
            _ if self.is_urgent => 0,
            Cause::Timer => 0,
            Cause::Event | Cause::Pressure => (self.n_false + 1).min(DOUBLINGS),
        };
    }
}

fn readable(alarm: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is owned, so it stays open and the same until it is dropped with what
    // it is registered with.
    Ok(unsafe { AsyncFd::register_with_interest(alarm, Interest::READABLE) }?)
}

/// Waits until the alarm rings, for ever if there is none. What it rings for is read in the tick.
async fn rings(alarm: Option<&AsyncFd<OwnedFd>>) {
    let Some(alarm) = alarm else { return pending().await };
    match alarm.readable().await {
        Ok(mut guard) => guard.clear_ready(),
        // The runtime is ending.
        Err(_) => pending().await,
    }
}

/// Memory is running out or something is under way, and the next tick may go on with it.
fn is_urgent(decision: &Decision) -> bool {
    match &decision.relief.held {
        Some(Hold::Settling { .. } | Hold::KernelKilled { .. } | Hold::Ending { .. }) => true,
        None => {
            !decision.relief.actions.is_empty()
                || decision.assessment.met.iter().any(Met::presses_for_memory)
        }
        Some(
            Hold::CoolingDown { .. }
            | Hold::InGrace
            | Hold::StaleReadings
            | Hold::Easing
            | Hold::CleaningUp { .. }
            | Hold::Marked
            | Hold::NotYetKnown
            | Hold::TakenByOther { .. },
        ) => decision.assessment.met.iter().any(Met::presses_for_memory),
        Some(
            Hold::BudgetSpent { .. }
            | Hold::Observed { .. }
            | Hold::NobodyLeft
            | Hold::BelowHarmBudget
            | Hold::HarmedByOther { .. }
            | Hold::HarmUnknown
            | Hold::UseUnknown
            | Hold::NothingHelps,
        ) => false,
    }
}

#[cfg(test)]
mod tests;
