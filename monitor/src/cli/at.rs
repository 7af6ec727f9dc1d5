//! `--at`, `--begin`, `--end` and `-f`: an earlier moment or a range of a recording, shown by the code
//! that shows the present.

use std::path::{Path, PathBuf};

use anyhow::{Error, Result, bail};
use isobar::agent::RECORDING_DIR;
use isobar::clock;
use isobar::clock::written::{MOMENT, When};
use isobar::record::boot;
use isobar::record::incident::words::clock as clock_words;
use isobar::record::journal::Ring;
use isobar::record::moment::{self, Tick};
use isobar::record::reader::{Entry, Recording};
use isobar::serve::film::reel::Reel;
use isobar::serve::publish::{Publisher, channel};
use isobar_core::model::capability::Capability;
use isobar_core::model::cost::Cost;
use isobar_core::model::decision::Ranking;
use isobar_core::model::sample::Moment;
use isobar_core::model::units::Nanos;
use isobar_core::policy::engine::Step;
use isobar_core::policy::rank::Purpose;
use isobar_core::view::View;
use jiff::tz::TimeZone;

use super::afar::{self, Course, Views};
use super::ask::{AgentArgs, Place};
use super::exit::{Misused, Refused};
use super::output::say;
use super::range::{Range, RangeArgs, Ticks};

/// Stands for the last tick of a recording.
pub(crate) const LAST: Nanos = Nanos(u64::MAX);
/// A tick that is so much older than the moment that was asked for does not show that moment.
const NEAR: Nanos = Nanos(5 * Nanos::SECOND.0);
/// The recording in a recording directory.
pub(crate) const IN_DIR: &str = "recording";

#[derive(Debug, clap::Args)]
pub(crate) struct AtArgs {
    /// Show this moment from the recording: "10 min ago", -10m, now (with -f they count from its end,
    /// of an agent by its clock), today's or yesterday's 02:40, a time in RFC 3339, or seconds since
    /// 1970 [default with -f: the last tick].
    #[arg(long, value_name = "TIME", value_parser = when, allow_hyphen_values = true, conflicts_with_all = ["begin", "end"])]
    at: Option<When>,
    #[command(flatten)]
    range: RangeArgs,
    /// The recording, its directory, or the file of an incident [default: /var/lib/isobar/recording,
    /// or $ISOBAR_RECORD].
    #[arg(id = "recording", short = 'f', long = "file", value_name = "FILE")]
    file: Option<PathBuf>,
}

impl AtArgs {
    /// The view of the last tick that is no later, of the agent that is named, or of a file; `None` if
    /// the present or a range is asked for.
    pub(crate) fn view(&self, ask: &AgentArgs) -> Result<Option<View>> {
        if let (Some(at), Some(place)) = (self.at, self.afar(ask)?) {
            let view = afar::view_at(&place, at)?;
            // How old a moment is that counts from the agent's clock, is not known here.
            if let When::Wall(at) = at {
                warn_if_old(at, view.snapshot.at);
            }
            return Ok(Some(view));
        }
        Past::open(self.at, self.file.as_deref())?.map(Past::view).transpose()
    }

    /// The agent whose past is asked for, and not that of a file.
    fn afar(&self, ask: &AgentArgs) -> Result<Option<Place>> {
        if self.file.is_some() { Ok(None) } else { ask.named() }
    }

    /// True if a moment of a recording is asked for.
    pub(crate) fn is_past(&self) -> bool {
        self.at.is_some() || self.file.is_some()
    }

    /// The line above what is shown of the past: when that was. A server may show a recording, and an agent
    /// that is held up its last tick. The clock of another machine is not known here.
    pub(crate) fn moment(&self, view: &View, ask: &AgentArgs) -> String {
        let at = view.snapshot.at.wall;
        let is_old = ask.is_here() && clock::now().wall.since(at) > NEAR;
        let told = || format!("{}, tick {}\n", clock_words(at), view.snapshot.tick);
        if self.is_past() || is_old { told() } else { String::new() }
    }

    /// True if a range of a recording is asked for.
    pub(crate) fn is_range(&self) -> bool {
        self.range.is_asked()
    }

    /// `None` if no range is asked for.
    pub(crate) fn ticks(&self, ask: &AgentArgs) -> Result<Option<Course>> {
        if !self.is_range() {
            return Ok(None);
        }
        Ok(Some(match self.afar(ask)? {
            Some(place) => Course::Afar(Views::open(place, self.range)?),
            None => Course::Here(Ticks::open(self.file.as_deref(), self.range)?.into()),
        }))
    }

    /// The recording, and the moment or the range in it; `None` if the present is asked for.
    pub(crate) fn recording(&self, ask: &AgentArgs) -> Result<Option<(PathBuf, Scene)>> {
        let is_past = self.at.is_some() || self.is_range();
        if is_past && let Some(place) = self.afar(ask)? {
            let text = format!(
                "the screen plays a recording from its file, and not that of the agent on {place}: add \
                 --once, or use its page"
            );
            bail!(Misused(text));
        }
        if self.is_range() {
            let range = self.range.range(|| present(self.file.as_deref()))?;
            return Ok(Some((source(self.file.as_deref())?, Scene::Range(range))));
        }
        let asked = asked(self.at, self.file.as_deref())?;
        Ok(asked.map(|(file, at)| (file, Scene::Moment(at))))
    }
}

/// What is shown of a recording.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scene {
    /// The last tick that is no later, and all others from there.
    Moment(Nanos),
    Range(Range),
}

fn asked(at: Option<When>, file: Option<&Path>) -> Result<Option<(PathBuf, Nanos)>> {
    let is_asked = at.is_some() || file.is_some();
    let at = || at.map_or(Ok(LAST), |at| wall(at, || present(file)));
    is_asked.then(|| Ok((source(file)?, at()?))).transpose()
}

/// The wall clock at a moment; one that is relative counts from `present`.
pub(crate) fn wall(when: When, present: impl FnOnce() -> Result<Moment>) -> Result<Nanos> {
    match when {
        When::Wall(wall) => Ok(wall),
        When::Ago(_) => Ok(when.wall(present()?)),
    }
}

/// What relative moments count from: the end of a file that was named, else this machine's clock.
pub(crate) fn present(file: Option<&Path>) -> Result<Moment> {
    if file.is_none() {
        return Ok(clock::now());
    }
    Ok(Past { file: source(file)?, at: LAST }.found()?.snapshot.at)
}

/// The recording that was named, or the agent's own.
pub(crate) fn source(file: Option<&Path>) -> Result<PathBuf> {
    if file == Some(Path::new("-")) {
        let text = "a recording cannot be read from standard input: name its file with -f";
        bail!(Misused(text.into()));
    }
    let own = || std::env::var_os("ISOBAR_RECORD").map_or(RECORDING_DIR.into(), PathBuf::from);
    Ok(recording_at(&file.map_or_else(own, Path::to_owned)))
}

/// One moment of a recording.
pub(crate) struct Past {
    file: PathBuf,
    at: Nanos,
}

impl Past {
    pub(crate) fn open(at: Option<When>, file: Option<&Path>) -> Result<Option<Self>> {
        Ok(asked(at, file)?.map(|(file, at)| Self { file, at }))
    }

    /// The view of the last tick that is no later.
    pub(crate) fn view(self) -> Result<View> {
        let at = self.at;
        let view = self.found()?;
        warn_if_old(at, view.snapshot.at);
        Ok(view)
    }

    fn found(self) -> Result<View> {
        if let Some(tick) = moment::at(&self.file, self.at)? {
            let Tick { facts, settings, oom_kills, snapshot, decision } = tick;
            let ring = Ring::Files(self.file);
            let begun = boot::begun(&ring, &facts.boot_id, snapshot.at);
            let mode = vec![Capability::relief(&settings.relief)];
            let step = Step { snapshot, decision, ..Step::default() };
            let mut publisher = Publisher::new(facts, begun, channel().0);
            publisher.add_kills(oom_kills);
            publisher.set_settings(&settings);
            return Ok(publisher.view(step, mode, Cost::default())());
        }
        let mut reel = Reel::open_at(&self.file, self.at)?;
        reel.run_to(self.at)?;
        reel.view().ok_or_else(|| no_tick(&self.file))
    }

    /// That tick, and its ranking: see [`Reel::rank`].
    pub(crate) fn rank(self, purpose: Option<Purpose>) -> Result<(Step, Ranking)> {
        let mut reel = Reel::open_at(&self.file, self.at)?;
        reel.run_to(self.at)?;
        let (step, ranking) = reel.rank(purpose).ok_or_else(|| no_tick(&self.file))?;
        warn_if_old(self.at, step.snapshot.at);
        Ok((step, ranking))
    }
}

/// Whether the recording has nothing of the moment that was asked for.
pub(crate) fn is_old(asked: Nanos, found: Moment) -> bool {
    asked != LAST && asked.since(found.wall) > NEAR
}

/// Says that the recording has nothing of that moment.
pub(crate) fn warn_if_old(asked: Nanos, found: Moment) {
    if is_old(asked, found) {
        let (found, asked) = (clock_words(found.wall), clock_words(asked));
        say(format_args!(
            "nothing is recorded from {found} until {asked}: this is the tick before"
        ));
    }
}

/// What it means that a recording has nothing of this time, nor before it.
pub(crate) fn no_tick(file: &Path) -> Error {
    no_tick_of(file, "this time or before it")
}

/// What it means that a recording has nothing of this time; it names where the recording begins.
pub(crate) fn no_tick_of(file: &Path, time: &str) -> Error {
    let wall = |entry| match entry {
        Entry::Frame(recorded) => Some(recorded.sample.at.wall),
        _ => None,
    };
    let mut all = Recording::open(file).into_iter().flatten().map_while(Result::ok);
    let begin = all.find_map(wall).map(|begin| format!(": it begins at {}", clock_words(begin)));
    let (file, begin) = (file.display(), begin.unwrap_or_default());
    Refused(format!("{file} has no tick of {time}{begin}")).into()
}

/// A recording directory stands for the recording in it.
pub(crate) fn recording_at(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(IN_DIR) } else { path.into() }
}

/// A moment as it was written.
pub(crate) fn when(text: &str) -> Result<When, String> {
    let when = When::parse(text, clock::now(), &TimeZone::system());
    when.ok_or_else(|| format!("expected {MOMENT}"))
}
