//! Diagnostics on stderr: text on a terminal, JSON lines, or lines with a priority for the journal.

mod queue;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt;
use std::io::{self, Write as _};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;
use std::{env, panic};

use anstream::{AutoStream, ColorChoice};
use clap::ValueEnum;
use rustix::fs::fstat;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::{self, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use self::queue::Queue;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One line for each event; with syslog priorities where stderr is the systemd journal.
    Text,
    /// One JSON object for each event.
    Json,
}

pub(crate) fn init(format: Format) {
    // What these libraries would log at each attempt, a capability says once.
    const DEFAULT: &str = "info,kube_client=off,kube_runtime=off";
    let filter = match env::var("ISOBAR_LOG") {
        Ok(text) => text.parse::<Targets>().map_err(Some),
        Err(_) => Err(None),
    };
    let (filter, problem) = match filter {
        Ok(filter) => (filter, None),
        Err(problem) => (DEFAULT.parse().unwrap_or_default(), problem),
    };
    let log = tracing_subscriber::fmt().with_writer(|| Stderr).with_max_level(LevelFilter::TRACE);
    // It would panic where stderr fails.
    let log = log.log_internal_errors(false);
    match format {
        Format::Json => log.json().flatten_event(true).finish().with(filter).init(),
        Format::Text if stderr_is_journal() => {
            log.with_ansi(false).event_format(Journal).finish().with(filter).init();
        }
        Format::Text => {
            let has_colour = AutoStream::choice(&io::stderr()) != ColorChoice::Never;
            log.with_ansi(has_colour).finish().with(filter).init();
        }
    }
    if let Some(problem) = problem {
        tracing::warn!("ISOBAR_LOG is not a filter, using {DEFAULT:?}: {problem}");
    }
}

/// Lines that wait until the screen is free; `None` while it is.
static HELD: Mutex<Option<Vec<u8>>> = Mutex::new(None);
/// Of more lines, the first are kept: they tell the cause.
const MOST_HELD: usize = 64 << 10;

/// Keeps lines from the terminal while a program draws on all of it.
pub(crate) fn hold() {
    HELD.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default();
}

/// Prints what was held, and all lines from now on.
pub(crate) fn release() {
    let held = HELD.lock().unwrap_or_else(PoisonError::into_inner).take();
    // Without a reader of stderr there is no place for a diagnostic.
    let _ = io::stderr().write_all(&held.unwrap_or_default());
}

/// What an agent says, if [`WRITER`] is there.
static QUEUE: Queue = Queue::new();
/// The thread that writes what is in the queue.
static WRITER: OnceLock<ThreadId> = OnceLock::new();
/// How long an exit or a panic waits for the reader of stderr.
const FLUSHED_WITHIN: Duration = Duration::from_secs(1);

/// From now on no line waits for the reader of stderr; an exit and a panic wait for [`FLUSHED_WITHIN`].
///
/// # Errors
/// If no thread can be made.
pub(crate) fn queue() -> io::Result<()> {
    let writer = thread::Builder::new().name("log".into()).spawn(|| {
        QUEUE.write(io::stderr(), |n| {
            tracing::warn!(n, "{n} lines of this log were left out: stderr was not read");
        })
    })?;
    WRITER.get_or_init(|| writer.thread().id());
    panic::set_hook(Box::new(|why| {
        let this = thread::current();
        let mut text = format!("thread '{}' {why}\n", this.name().unwrap_or("<unnamed>"));
        let trace = Backtrace::capture();
        if trace.status() == BacktraceStatus::Captured {
            text.push_str(&format!("{trace}\n"));
        }
        say(&text);
        // Where the panic ends the process, no exit will do it.
        flush();
    }));
    Ok(())
}

/// Has `text` written as a line of the log is.
pub(crate) fn say(text: &str) {
    // Without a reader of stderr there is no place for a diagnostic.
    let _ = Stderr.write_all(text.as_bytes());
}

/// Waits until all that was said is written, where there is a queue, but not for long.
pub(crate) fn flush() {
    QUEUE.flush(FLUSHED_WITHIN);
}

/// stderr, the way to it, or what is held.
struct Stderr;

impl io::Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if WRITER.get().is_some_and(|writer| *writer != thread::current().id()) {
            QUEUE.put(bytes);
            return Ok(bytes.len());
        }
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(kept) = held.as_mut() else {
            drop(held);
            return io::stderr().write(bytes);
        };
        if kept.len() < MOST_HELD {
            kept.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// `JOURNAL_STREAM` holds device and inode of the journal's socket. They are compared because stderr
/// may have been redirected after the variable was set.
fn stderr_is_journal() -> bool {
    let Ok(stream) = env::var("JOURNAL_STREAM") else { return false };
    fstat(io::stderr()).is_ok_and(|stat| stream == format!("{}:{}", stat.st_dev, stat.st_ino))
}

/// `<PRIORITY>TEXT`, see sd-daemon(3). The journal adds time and level itself.
struct Journal;

impl<S, N> FormatEvent<S, N> for Journal
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut to: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        write!(to, "<{}>", priority(*event.metadata().level()))?;
        let format = format::Format::default().without_time().with_level(false).with_target(false);
        format.format_event(context, to, event)
    }
}

fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn hold_keeps_lines_until_release() {
        hold();
        io::Write::write_all(&mut Stderr, b"held back by a test\n").unwrap();
        assert_eq!(HELD.lock().unwrap().as_deref(), Some(&b"held back by a test\n"[..]));
        release();
        assert_eq!(*HELD.lock().unwrap(), None);
    }

    #[test]
    fn journal_lines_begin_with_priority() {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let log = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_max_level(Level::TRACE)
            .with_ansi(false)
            .event_format(Journal);
        tracing::subscriber::with_default(log.finish(), || {
            tracing::error!("a");
            tracing::warn!(pod = "web", "b");
            tracing::info!("c");
            tracing::debug!("d");
        });
        let text = String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text, "<3>a\n<4>b pod=\"web\"\n<6>c\n<7>d\n");
    }
}
