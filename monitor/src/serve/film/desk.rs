//! One longer computation at a time, on a thread of its own that ends with it. It is bounded by ticks
//! and by time, and ends early if its reader has gone.

use std::sync::Arc;
use std::thread;

use tokio::sync::oneshot;

use super::FilmError;
use crate::clock;
use crate::clock::pace::Pace;
use crate::serve::turns::Turn;
use isobar_core::model::units::Nanos;

const TICKS: u64 = 90_000;
const LASTS: Nanos = Nanos(20 * Nanos::SECOND.0);

/// What a computation may take.
pub(in crate::serve) struct Shift {
    pace: Pace,
    until: Nanos,
    n_left: u64,
    is_off: Box<dyn Fn() -> bool>,
}

impl Shift {
    /// Called after each tick; false if the computation has to end.
    pub(in crate::serve) fn goes_on(&mut self) -> bool {
        self.pace.between();
        self.n_left = self.n_left.saturating_sub(1);
        self.n_left > 0 && clock::now().boot < self.until && !(self.is_off)()
    }
}

/// One whose reader has gone ends with its next tick, and so does its turn.
pub(super) async fn run<T: Send + 'static>(
    turn: Turn,
    pace: fn() -> Pace,
    work: impl FnOnce(&mut Shift) -> T + Send + 'static,
) -> Result<T, FilmError> {
    let (reply, answer) = oneshot::channel();
    let run = move || {
        let reply = Arc::new(reply);
        let own = Arc::downgrade(&reply);
        let is_off = Box::new(move || own.upgrade().is_none_or(|reply| reply.is_closed()));
        let until = clock::now().boot.plus(LASTS);
        let mut shift = Shift { pace: pace(), until, n_left: TICKS, is_off };
        shift.pace.begin();
        let done = work(&mut shift);
        // A panic passes it on as well.
        drop(turn);
        // A reader that has gone hears nothing.
        if let Some(reply) = Arc::into_inner(reply) {
            let _ = reply.send(done);
        }
    };
    thread::Builder::new().name("what-if".into()).spawn(run).map_err(FilmError::Thread)?;
    answer.await.map_err(|_| FilmError::Panicked)
}
