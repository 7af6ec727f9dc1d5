//! `isobar top`: the pods and services that wait most, and their aggressors. On a terminal a screen
//! that answers to keys, of the present or of a recording; elsewhere tables.

mod draw;
mod feed;
pub(super) mod figures;
mod film;
mod paint;
mod panes;
mod plain;
mod rows;
mod screen;
mod state;
#[cfg(test)]
mod tests;
mod trail;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use anyhow::{Result, bail};

use super::ask;
use super::at::AtArgs;
use super::duration::duration;
use super::exit::{Code, Misused};
use super::output::Format;

use feed::Feed;
use state::{Showing, State};

/// A node is sampled so often.
const SAMPLED: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
#[command(mut_arg("recording", |file| file.visible_alias("replay")))]
pub(crate) struct Args {
    /// Print once and exit.
    #[arg(long, conflicts_with = "interval")]
    once: bool,
    /// Time from one look to the next, at least a second [default: 1s].
    #[arg(short = 'd', long, value_name = "TIME", value_parser = interval, allow_hyphen_values = true)]
    interval: Option<Duration>,
    /// Maximum number of rows, also of pairs of sufferer and aggressor [default: as many as a screen
    /// has; in tables 15, and 8 pairs].
    #[arg(short = 'n', long, value_name = "N")]
    rows: Option<usize>,
    /// Include slices and containers.
    #[arg(long)]
    all: bool,
    /// Output format. Only `table` on a terminal is a screen that answers to keys.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    #[command(flatten)]
    at: AtArgs,
    #[command(flatten)]
    ask: ask::AgentArgs,
}

impl Args {
    fn interval(&self) -> Duration {
        self.interval.unwrap_or(SAMPLED)
    }
}

pub(crate) fn run(args: &Args, sampling: &[String]) -> Result<Code> {
    if let Some(why) = ignored(args) {
        bail!(Misused(why));
    }
    match !args.once && args.output == Format::Table && can_draw() {
        true => show(args, sampling),
        false => print(args, sampling),
    }
}

/// Options that a document has no use for.
fn ignored(args: &Args) -> Option<String> {
    let is_document = matches!(args.output, Format::Json | Format::Yaml | Format::Ndjson);
    let option = match (args.rows, args.all) {
        (Some(_), _) => "--rows",
        (None, true) => "--all",
        (None, false) => return None,
    };
    is_document.then(|| {
        format!(
            "{option} is for tables: JSON and YAML have the whole snapshot; leave it out, or use -o \
             table or wide"
        )
    })
}

/// A moment of a recording is printed once, a range tick by tick.
fn print(args: &Args, sampling: &[String]) -> Result<Code> {
    if args.interval.is_some() && (args.at.is_past() || args.at.is_range()) {
        let text = "--interval is for a screen or an agent: a recording is printed without pauses; \
                    leave it out";
        bail!(Misused(text.into()));
    }
    if let Some(ticks) = args.at.ticks(&args.ask)? {
        return plain::past(args, ticks);
    }
    if let Some(view) = args.at.view(&args.ask)? {
        plain::print(args, &view, false)?;
        return Ok(Code::Ok);
    }
    let mut eye = ask::Eye::open(&args.ask, sampling)?;
    if args.once {
        plain::print(args, &eye.look()?, false)?;
        return Ok(Code::Ok);
    }
    match plain::watch(args, eye)? {}
}

fn show(args: &Args, sampling: &[String]) -> Result<Code> {
    let interval = args.interval();
    let (feed, showing) = match args.at.recording(&args.ask)? {
        Some((file, scene)) => (Feed::film(file, scene)?, Showing::Recording),
        None => (Feed::live(ask::Eye::open(&args.ask, sampling)?, interval), Showing::Present),
    };
    let has_colour = AutoStream::choice(&io::stdout()) != ColorChoice::Never;
    let mut state = State::new(showing, interval, has_colour);
    state.list.shows_all = args.all;
    state.list.most = args.rows;
    screen::run(state, feed)
}

/// Whether stdout is a terminal that can place text.
fn can_draw() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    io::stdout().is_terminal() && !is_dumb
}

fn interval(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        time if time < SAMPLED => {
            Err("must be at least 1s: that is how often the node is sampled".into())
        }
        time => Ok(time),
    }
}
