//! The terminal: taken, drawn on after each event, and given back however `top` ends.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use isobar::clock;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event as Input};
use tokio::signal::unix::{SignalKind, signal};

use super::super::exit::Code;
use super::super::log;
use super::draw::draw;
use super::feed::Feed;
use super::state::{Event, Order, State, Wish};

/// The clock in the verdict goes on without events.
const TICK: Duration = Duration::from_millis(500);

enum Message {
    Event(Event),
    /// A signal asks to leave.
    Leave,
    Failed(anyhow::Error),
}

impl From<Event> for Message {
    fn from(event: Event) -> Self {
        Self::Event(event)
    }
}

/// Shows `state` until the operator or a signal ends it.
pub(super) fn run(state: State, feed: Feed) -> Result<Code> {
    let (to, from) = channel();
    let (orders, ordered) = channel();
    catch_signals(to.clone()).context("cannot catch signals")?;
    log::hold();
    // It also has a panic give the terminal back before its message is printed.
    let taken = ratatui::try_init().context("cannot draw on the terminal");
    let ended = taken.and_then(|mut terminal| {
        start("top-feed", &to, move |to| feed.run(ordered, to))?;
        start("top-keys", &to, read_keys)?;
        show(&mut terminal, state, &from, &orders)
    });
    ratatui::restore();
    log::release();
    ended
}

fn show(
    terminal: &mut DefaultTerminal,
    state: State,
    from: &Receiver<Message>,
    orders: &Sender<Order>,
) -> Result<Code> {
    let size = terminal.size().context("cannot ask for the terminal's size")?;
    let mut state = state.after(Event::Size(size.width, size.height));
    loop {
        terminal.draw(|frame| draw(&state, frame)).context("cannot draw on the terminal")?;
        let first = match from.recv_timeout(TICK) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => bail!("all threads of the screen have ended"),
        };
        let clock = Message::Event(Event::Clock(clock::now()));
        for message in [clock].into_iter().chain(first).chain(from.try_iter()) {
            state = match message {
                Message::Event(event) => state.after(event),
                Message::Leave => return Ok(Code::Ok),
                Message::Failed(why) => return Err(why),
            };
            match state.wish.take() {
                Some(Wish::Quit) => return Ok(Code::Ok),
                // A feed that has ended has said why.
                Some(Wish::Show(order)) => drop(orders.send(order)),
                None => {}
            }
        }
    }
}

/// Runs `work` on a thread. If it panics, the screen ends too.
fn start(
    name: &str,
    to: &Sender<Message>,
    work: impl FnOnce(&Sender<Message>) + Send + 'static,
) -> Result<()> {
    let guard = Guard(to.clone());
    let run = move || work(&guard.0);
    thread::Builder::new().name(name.into()).spawn(run).context("cannot start a thread")?;
    Ok(())
}

struct Guard(Sender<Message>);

impl Drop for Guard {
    fn drop(&mut self) {
        if thread::panicking() {
            // Without a receiver the screen has ended already.
            let _ =
                self.0.send(Message::Failed(anyhow::anyhow!("a thread of the screen panicked")));
        }
    }
}

fn read_keys(to: &Sender<Message>) {
    loop {
        let message = match event::read() {
            Ok(Input::Key(key)) => Event::Key(key).into(),
            Ok(Input::Resize(columns, lines)) => Event::Size(columns, lines).into(),
            Ok(_) => continue,
            Err(why) => {
                let why = anyhow::Error::new(why).context("cannot read from the terminal");
                Message::Failed(why)
            }
        };
        let is_last = matches!(message, Message::Failed(_));
        if to.send(message).is_err() || is_last {
            return;
        }
    }
}

/// From here on the signals that end a program end the screen first.
fn catch_signals(to: Sender<Message>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let inside = runtime.enter();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    drop(inside);
    let wait = move || {
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                _ = hangup.recv() => {}
            }
        });
        // Without a receiver the screen has ended already.
        let _ = to.send(Message::Leave);
    };
    thread::Builder::new().name("top-signals".into()).spawn(wait)?;
    Ok(())
}
