//! The terminal: taken, drawn on after each event, and given back however `top` ends.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;
use std::{io, iter};

use anyhow::{Context as _, Result, bail};
use isobar::clock;
use ratatui::crossterm::event::{self, Event as Input};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{self, Clear, ClearType, EnterAlternateScreen};
use ratatui::layout::Rect;
use ratatui::{DefaultTerminal, TerminalOptions, Viewport};
use tokio::signal::unix::{SignalKind, signal};

use super::super::exit::Code;
use super::super::log;
use super::draw::draw;
use super::feed::Feed;
use super::state::{Event, Order, State, Wish};

/// The clock in the verdict goes on without events.
const TICK: Duration = Duration::from_millis(500);
const CANNOT_DRAW: &str = "cannot draw on the terminal";

enum Message {
    Event(Event),
    /// A signal asks to leave.
    Leave,
    /// A signal asks to stop, as Ctrl-Z does elsewhere.
    Stop,
    /// This process goes on after it was stopped.
    GoOn,
    Failed(anyhow::Error),
}

impl From<Event> for Message {
    fn from(event: Event) -> Self {
        Self::Event(event)
    }
}

impl From<anyhow::Error> for Message {
    fn from(why: anyhow::Error) -> Self {
        Self::Failed(why)
    }
}

/// Shows `state` until the operator or a signal ends it.
pub(super) fn run(state: State, feed: Feed) -> Result<Code> {
    let (to, from) = channel();
    let (orders, ordered) = channel();
    catch_signals(to.clone()).context("cannot catch signals")?;
    log::hold();
    // It also has a panic give the terminal back before its message is printed.
    let taken = take().context(CANNOT_DRAW);
    let ended = taken.and_then(|mut terminal| {
        start("top-feed", &to, move |to| feed.run(ordered, to))?;
        start("top-keys", &to, read_keys)?;
        show(&mut terminal, state, &from, &orders)
    });
    ratatui::restore();
    log::release();
    ended
}

/// All of the terminal, or what is assumed of one that does not know its size, as a serial line.
fn take() -> io::Result<DefaultTerminal> {
    let Some(area) = assumed(terminal::size()?, |name| std::env::var(name).ok()) else {
        return ratatui::try_init();
    };
    let options = TerminalOptions { viewport: Viewport::Fixed(area) };
    let terminal = ratatui::try_init_with_options(options)?;
    execute!(io::stdout(), EnterAlternateScreen, Clear(ClearType::All))?;
    Ok(terminal)
}

/// `None` of a terminal that knows its size.
fn assumed(size: (u16, u16), variable: impl Fn(&str) -> Option<String>) -> Option<Rect> {
    let told = |name, usual| {
        let told = variable(name).and_then(|text| text.parse().ok());
        told.filter(|n| *n > 0).unwrap_or(usual)
    };
    let is_known = size.0 > 0 && size.1 > 0;
    (!is_known).then(|| Rect::new(0, 0, told("COLUMNS", 80), told("LINES", 24)))
}

fn show(
    terminal: &mut DefaultTerminal,
    state: State,
    from: &Receiver<Message>,
    orders: &Sender<Order>,
) -> Result<Code> {
    let size = terminal.get_frame().area();
    let mut state = state.after(Event::Size(size.width, size.height));
    loop {
        terminal.draw(|frame| draw(&state, frame)).context(CANNOT_DRAW)?;
        let first = match from.recv_timeout(TICK) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => bail!("all threads of the screen have ended"),
        };
        let clock = Message::Event(Event::Clock(clock::now()));
        for message in [clock].into_iter().chain(first).chain(from.try_iter()) {
            let event = match message {
                Message::Event(event) => event,
                Message::Leave => return Ok(Code::Ok),
                Message::Stop => {
                    stop();
                    retake(terminal)?
                }
                Message::GoOn => {
                    // SIGSTOP gave nothing back, and a shell may have changed the terminal since.
                    ratatui::restore();
                    retake(terminal)?
                }
                Message::Failed(why) => return Err(why),
            };
            if let Event::Size(columns, lines) = event {
                // One of an assumed size does not learn it by itself.
                terminal.resize(Rect::new(0, 0, columns, lines)).context(CANNOT_DRAW)?;
            }
            state = state.after(event);
            match state.wish.take() {
                Some(Wish::Quit) => return Ok(Code::Ok),
                Some(Wish::Stop) => {
                    stop();
                    state = state.after(retake(terminal)?);
                }
                // A feed that has ended has said why.
                Some(Wish::Show(order)) => drop(orders.send(order)),
                None => {}
            }
        }
    }
}

/// Gives the terminal back and stops this process, until SIGCONT. By SIGTSTP as it is by default: where no
/// shell could let the process go on, as below `ssh -t`, the kernel ignores it, but not SIGSTOP. SIGCONT is
/// as by default, too: caught, it would have the terminal taken a second time.
fn stop() {
    ratatui::restore();
    // SAFETY: all actions are valid: `usual` is all zeros, which is `SIG_DFL` without flags, and the kernel
    // fills the others before they are read. No call can fail for these signals.
    unsafe {
        let usual: libc::sigaction = std::mem::zeroed();
        let mut caught = [(libc::SIGTSTP, usual), (libc::SIGCONT, usual)];
        for (signal, action) in &mut caught {
            libc::sigaction(*signal, &raw const usual, &raw mut *action);
        }
        libc::raise(libc::SIGTSTP);
        for (signal, action) in &caught {
            libc::sigaction(*signal, &raw const *action, std::ptr::null_mut());
        }
    }
}

/// Takes the terminal again after it was given back. Its size may be another.
fn retake(terminal: &mut DefaultTerminal) -> Result<Event> {
    *terminal = take().context(CANNOT_DRAW)?;
    let size = terminal.get_frame().area();
    Ok(Event::Size(size.width, size.height))
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
    // Of a change of the size before this first question no event tells.
    let size = event::poll(Duration::ZERO).and_then(|_| terminal::size());
    let first = size.map(|(columns, lines)| Input::Resize(columns, lines));
    for input in iter::once(first).chain(iter::repeat_with(event::read)) {
        let message = match input {
            Ok(Input::Key(key)) => Event::Key(key).into(),
            Ok(Input::Resize(columns, lines)) if columns > 0 && lines > 0 => {
                Event::Size(columns, lines).into()
            }
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

/// From here on the signals that end or stop a program give the terminal back first.
fn catch_signals(to: Sender<Message>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let inside = runtime.enter();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut quit = signal(SignalKind::quit())?;
    let mut stop = signal(SignalKind::from_raw(libc::SIGTSTP))?;
    let mut go_on = signal(SignalKind::from_raw(libc::SIGCONT))?;
    drop(inside);
    let wait = move || {
        loop {
            let message = runtime.block_on(async {
                tokio::select! {
                    _ = terminate.recv() => Message::Leave,
                    _ = interrupt.recv() => Message::Leave,
                    _ = hangup.recv() => Message::Leave,
                    _ = quit.recv() => Message::Leave,
                    _ = stop.recv() => Message::Stop,
                    _ = go_on.recv() => Message::GoOn,
                }
            });
            // Without a receiver the screen has ended already.
            if to.send(message).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("top-signals".into()).spawn(wait)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assumed_where_the_terminal_does_not_know_its_size() {
        #[rustfmt::skip]
        let table = [
            // its size, COLUMNS, LINES, what is assumed
            ((120, 40), "100", "30", None),
            ((0, 0),    "",    "",   Some((80, 24))),
            ((80, 0),   "100", "30", Some((100, 30))),
            ((0, 24),   "0",   "x",  Some((80, 24))),
        ];
        for (size, columns, lines, want) in table {
            let variable = |name: &str| match name {
                "COLUMNS" => Some(columns.to_owned()),
                _ => Some(lines.to_owned()),
            };
            let want = want.map(|(columns, lines)| Rect::new(0, 0, columns, lines));
            assert_eq!(assumed(size, variable), want, "{size:?}, {columns}, {lines}");
        }
    }
}
