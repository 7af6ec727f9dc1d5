//! The thread that shows moments: begun by the first request, ended when none has come for a minute,
//! and with it all that it held. It shows one moment at a time.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::projector::{Footage, Projector};
use super::{Asked, FilmError, Shown};
use crate::clock;
use crate::clock::pace::Pace;
use crate::lock::lock;
use crate::serve::turns::Turn;
use isobar_core::model::sample::Moment;
use isobar_core::model::units::Nanos;

/// Orders that wait: the one whose turn it is, and those that ask for the first tick alone.
const WAITING: usize = 16;
/// How long a request waits for its moment once it is its turn.
const WITHIN: Duration = Duration::from_secs(30);
/// After the last moment that was shown.
const IDLE: Nanos = Nanos(60 * Nanos::SECOND.0);

type Reply<T> = oneshot::Sender<Result<Option<T>, FilmError>>;

/// With the turn of the request, which ends once this thread has let go of it: a client that leaves does not
/// end it before.
enum Order {
    Show(Asked, Footage, Reply<Shown>, Option<Turn>),
    Begin(Footage, Reply<Moment>, Option<Turn>),
}

pub(super) struct Booth {
    orders: Mutex<Option<SyncSender<Order>>>,
    pace: fn() -> Pace,
}

impl Booth {
    /// Nothing runs yet.
    pub(super) fn new(pace: fn() -> Pace) -> Self {
        Self { orders: Mutex::default(), pace }
    }

    /// The tick that is asked for; `None` if the recording begins later.
    pub(super) async fn show(
        &self,
        asked: Asked,
        of: &Footage,
        turn: Turn,
    ) -> Result<Option<Shown>, FilmError> {
        self.ask(Some(turn), |reply, turn| Order::Show(asked, of.clone(), reply, turn)).await
    }

    /// The first tick; `None` if there is none.
    pub(super) async fn begin(
        &self,
        of: &Footage,
        turn: Option<Turn>,
    ) -> Result<Option<Moment>, FilmError> {
        self.ask(turn, |reply, turn| Order::Begin(of.clone(), reply, turn)).await
    }

    async fn ask<T>(
        &self,
        mut turn: Option<Turn>,
        order: impl Fn(Reply<T>, Option<Turn>) -> Order,
    ) -> Result<Option<T>, FilmError> {
        let mut failed = FilmError::Panicked;
        // A thread that ends because it was idle may have taken the order with it.
        for _ in 0..2 {
            let (reply, answer) = oneshot::channel();
            self.send(order(reply, turn.take()))?;
            match timeout(WITHIN, answer).await {
                Ok(Ok(answer)) => return answer,
                Ok(Err(_)) => failed = FilmError::Panicked,
                Err(_) => return Err(FilmError::Busy),
            }
        }
        Err(failed)
    }

    fn send(&self, order: Order) -> Result<(), FilmError> {
        let mut orders = lock(&self.orders);
        let order = match orders.as_ref() {
            None => order,
            Some(to) => match to.try_send(order) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(_)) => return Err(FilmError::Busy),
                Err(TrySendError::Disconnected(order)) => order,
            },
        };
        let (to, inbox) = sync_channel(WAITING);
        let pace = self.pace;
        let run = move || show(&inbox, Projector::new(pace()));
        thread::Builder::new().name("film".into()).spawn(run).map_err(FilmError::Thread)?;
        // There is room for the first.
        let _ = to.try_send(order);
        *orders = Some(to);
        Ok(())
    }
}

/// Ends with the booth, after a while without orders, or in a panic: the next order then finds a
/// projector that has not begun.
fn show(orders: &Receiver<Order>, mut projector: Projector) {
    let mut until = clock::now().boot.plus(IDLE);
    loop {
        let left = until.since(clock::now().boot);
        match orders.recv_timeout(Duration::from_nanos(left.0)) {
            Ok(Order::Show(asked, of, reply, _turn)) if !reply.is_closed() => {
                let shown = projector.show(asked, &of, || reply.is_closed());
                until = clock::now().boot.plus(IDLE);
                // A reader that has gone hears nothing.
                let _ = reply.send(shown);
            }
            Ok(Order::Begin(of, reply, _turn)) if !reply.is_closed() => {
                let _ = reply.send(projector.begin(&of));
            }
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
        }
    }
}
