//! `--begin` and `--end`: the ticks of a range of a recording, one by one, so that memory does not
//! grow with the range.

use std::path::{Path, PathBuf};

use anyhow::{Error, Result, bail};
use isobar::clock;
use isobar::clock::written::When;
use isobar::record::boot;
use isobar::record::incident::words::clock as clock_words;
use isobar::record::journal::Ring;
use isobar::record::reader::Recording;
use isobar::record::replay::{Replay, Replayed, as_recorded};
use isobar::serve::publish::{Latest, Publisher, channel};
use isobar_core::model::capability::Capability;
use isobar_core::model::cost::Cost;
use isobar_core::model::decision::{Outcome, Ranking};
use isobar_core::model::node::NodeFacts;
use isobar_core::model::sample::Moment;
use isobar_core::model::units::Nanos;
use isobar_core::policy::engine::{Engine, Step};
use isobar_core::policy::explain::{Explanation, explain_by};
use isobar_core::policy::rank::Purpose;
use isobar_core::view::View;
use isobar_core::view::pods::name_spared;
use jiff::tz::TimeZone;

use super::at::{no_tick_of, present, source, wall, when};
use super::exit::Refused;

#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct RangeArgs {
    /// The first moment of a range of the recording, written as for --at: "10 min ago", -10m (before
    /// its end, with -f or of an agent), 02:40, a time in RFC 3339 [default: the beginning].
    #[arg(long, value_name = "TIME", value_parser = when, allow_hyphen_values = true)]
    begin: Option<When>,
    /// The last moment of the range; now, if a time of day after --begin is yet to come [default: the
    /// end].
    #[arg(long, value_name = "TIME", value_parser = until, allow_hyphen_values = true)]
    end: Option<Until>,
}

/// The last moment of a range.
#[derive(Debug, Clone, Copy)]
struct Until {
    when: When,
    /// It is a time of day, taken for yesterday's because today's is yet to come.
    is_yesterdays: bool,
}

fn until(text: &str) -> Result<Until, String> {
    when(text).map(|when| Until::of(text, when, clock::now(), &TimeZone::system()))
}

impl Until {
    /// Of `text`, which says `when`. A time of day that comes again today is yet to come.
    fn of(text: &str, when: When, now: Moment, zone: &TimeZone) -> Self {
        let comes_again = When::comes_again(text, now, zone);
        let when = if comes_again { When::Wall(now.wall) } else { when };
        Self { when, is_yesterdays: When::is_yesterdays(text, now, zone) }
    }
}

/// From when to when, on the wall clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub(crate) begin: Nanos,
    pub(crate) end: Nanos,
}

impl Range {
    pub(crate) const ALL: Self = Self { begin: Nanos(0), end: Nanos(u64::MAX) };

    /// What it means that a recording has nothing of it.
    pub(crate) fn no_tick(self, file: &Path) -> Error {
        no_tick_of(file, "these times")
    }
}

impl RangeArgs {
    pub(crate) fn is_asked(self) -> bool {
        self.begin.is_some() || self.end.is_some()
    }

    /// The range, or all of the recording; relative moments count from `present`.
    pub(crate) fn range(self, present: impl Fn() -> Result<Moment>) -> Result<Range> {
        self.range_at(clock::now().wall, present)
    }

    fn range_at(self, now: Nanos, present: impl Fn() -> Result<Moment>) -> Result<Range> {
        let of = |when: Option<When>, usual| when.map_or(Ok(usual), |when| wall(when, &present));
        let begin = of(self.begin, Range::ALL.begin)?;
        let end = of(self.end.map(|until| until.when), Range::ALL.end)?;
        if begin <= end {
            return Ok(Range { begin, end });
        }
        if begin <= now && self.end.is_some_and(|until| until.is_yesterdays) {
            return Ok(Range { begin, end: now });
        }
        let (begin, end) = (clock_words(begin), clock_words(end));
        bail!(Refused(format!("--begin is after --end: {begin} and {end}")))
    }
}

/// The ticks of a range. Those before it, of the same chapter, run through the engine too.
pub(crate) struct Ticks {
    ring: Ring,
    replay: Replay,
    range: Range,
    /// The number of the tick that was read last.
    tick: Option<u64>,
    /// Of the agent of that tick.
    publisher: Option<(Publisher, Latest)>,
    /// The recording, until a tick of the range was found in it.
    empty: Option<PathBuf>,
}

impl Ticks {
    /// Of this file or directory, or else of the agent's own recording.
    pub(crate) fn open(file: Option<&Path>, range: RangeArgs) -> Result<Self> {
        let range = range.range(|| present(file))?;
        let file = source(file)?;
        let recording = Recording::open_between(&file, range.begin, range.end)?;
        let replay = Replay::new(recording, None);
        let ring = Ring::Files(file.clone());
        Ok(Self { ring, replay, range, tick: None, publisher: None, empty: Some(file) })
    }

    /// The next tick of the range, with the decision that was recorded.
    ///
    /// # Errors
    /// Also if the range has no tick at all.
    pub(crate) fn step(&mut self) -> Result<Option<Step>> {
        while let Some(replayed) = self.replay.next().transpose()? {
            let judged = match replayed {
                Replayed::Notice(text) => {
                    tracing::warn!("{text}");
                    continue;
                }
                Replayed::Tick(judged) => judged,
            };
            let (at, mut step) = (judged.at, as_recorded(&judged.recorded, judged.step));
            name_spared(&mut step.decision, &step.snapshot);
            let facts: NodeFacts = self.replay.facts().cloned().unwrap_or_default();
            let (tick, before) = (step.snapshot.tick, self.tick.replace(step.snapshot.tick));
            let known = self.publisher.take().filter(|(own, _)| own.goes_on(&facts, before, tick));
            let (publisher, _) = self.publisher.insert(known.unwrap_or_else(|| {
                let (to, latest) = channel();
                let started = boot::begun(&self.ring, &facts.boot_id, at);
                (Publisher::new(facts, started, to), latest)
            }));
            // The wall clock may have been set: what is later may stand before what is not.
            if (self.range.begin..=self.range.end).contains(&at.wall) {
                self.empty = None;
                return Ok(Some(step));
            }
            publisher.add_kills(step.oom_kills);
        }
        self.empty.take().map_or(Ok(None), |file| Err(self.range.no_tick(&file)))
    }

    /// The view of the next tick, made by the code that makes the live one.
    pub(crate) fn view(&mut self) -> Result<Option<View>> {
        let Some(step) = self.step()? else { return Ok(None) };
        let Some((publisher, _)) = &mut self.publisher else { return Ok(None) };
        let settings = self.replay.engine().map(Engine::settings);
        settings.iter().for_each(|settings| publisher.set_settings(settings));
        let mode = settings.map(|settings| Capability::relief(&settings.relief));
        Ok(Some(publisher.view(step, mode.into_iter().collect(), Cost::default())()))
    }

    /// The metrics of the next tick, as the API has them, and when it was. They count from the first
    /// tick of the range, and anew from each start of an agent.
    pub(crate) fn metrics(&mut self) -> Result<Option<(Nanos, String)>> {
        let Some(step) = self.step()? else { return Ok(None) };
        let Some((publisher, latest)) = &mut self.publisher else { return Ok(None) };
        if let Some(engine) = self.replay.engine()
            && let Some(sample) = &engine.standing().before
        {
            publisher.note(sample, engine.settings(), &step);
        }
        publisher.publish(step, Vec::new(), Cost::default());
        let published = latest.borrow().clone();
        Ok(published.map(|published| (published.at.wall, published.recorded_metrics())))
    }

    /// The next tick, and the ranking as of it for `purpose`, else for what was relieved then; by the
    /// configuration that was recorded.
    pub(crate) fn ranking(&mut self, purpose: Option<Purpose>) -> Result<Option<(Step, Ranking)>> {
        while let Some(step) = self.step()? {
            let purpose = purpose.unwrap_or_else(|| Purpose::of_decision(&step.decision));
            let engine = self.replay.engine();
            if let Some(ranking) = engine.and_then(|engine| engine.rank(&step.snapshot, purpose)) {
                return Ok(Some((step, ranking)));
            }
        }
        Ok(None)
    }

    /// The last tick's decision in sentences, without what was ended before, of which a range tells anyway.
    pub(crate) fn explain(&self, step: &Step) -> Explanation {
        let settings = self.replay.engine().map(Engine::settings);
        explain_by(settings, &[], &step.snapshot, &step.decision)
    }

    /// What the last tick was told of earlier actions.
    pub(crate) fn outcomes(&self) -> &[Outcome] {
        let sample = self.replay.engine().and_then(|engine| engine.standing().before.as_ref());
        sample.map_or(&[], |sample| &sample.outcomes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn until_is_now_where_its_time_of_day_comes_again() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        // 2026-10-25 00:40 and 01:40 UTC are both 02:40.
        let first = 1_792_888_800;
        #[rustfmt::skip]
        let table = [
            // seconds after the first 02:40, --end 02:50: seconds after the first 02:40
            (1_200, 1_200), // 03:00 of summer is 02:00 of winter an hour later
            (3_000, 3_000),
            (4_200, 4_200),
            (4_800, 4_200), // the second one is over
        ];
        for (now, want) in table {
            let wall = |second: u64| Nanos((first + second) * Nanos::SECOND.0);
            let present = Moment { wall: wall(now), ..Moment::default() };
            let when = When::parse("02:50", present, &zone).unwrap();
            let until = Until::of("02:50", when, present, &zone);
            assert_eq!(until.when, When::Wall(wall(want)), "{now}");
        }
    }

    #[test]
    fn range_ends_now_where_its_end_is_yet_to_come() {
        #[rustfmt::skip]
        let table = [
            // now, --begin, --end, what is shown
            ("05:00", "02:30", "03:30", Ok(("22 02:30", "22 03:30"))),
            ("03:05", "02:30", "03:30", Ok(("22 02:30", "22 03:05"))),
            ("00:10", "23:50", "00:20", Ok(("21 23:50", "22 00:10"))),
            ("02:00", "02:30", "03:30", Ok(("21 02:30", "21 03:30"))), // all of yesterday
            ("05:00", "03:30", "02:30", Err("--begin is after --end: 2026-11-22 03:30")),
            ("05:00", "03:30", "2026-11-22T02:30Z", Err("and 2026-11-22 02:30")),
            ("05:00", "2026-11-23T02:30Z", "06:00", Err("and 2026-11-21 06:00")),
        ];
        let at = |text: &str| {
            let time = format!("2026-11-{}Z", text.replace(' ', "T"));
            let Some(When::Wall(wall)) = When::parse(&time, Moment::default(), &TimeZone::UTC)
            else {
                panic!("{time}")
            };
            wall
        };
        for (now, begin, end, want) in table {
            let present = Moment { wall: at(&format!("22 {now}")), ..Moment::default() };
            let when = |text| When::parse(text, present, &TimeZone::UTC);
            let end_at = when(end).map(|when| Until::of(end, when, present, &TimeZone::UTC));
            let args = RangeArgs { begin: when(begin), end: end_at };
            let row = format!("{now} {begin} {end}");
            match (args.range_at(present.wall, || Ok(present)), want) {
                (Ok(range), Ok((from, to))) => {
                    assert_eq!((range.begin, range.end), (at(from), at(to)), "{row}");
                }
                (Err(why), Err(want)) => assert!(why.to_string().contains(want), "{row}: {why}"),
                (got, want) => panic!("{row}: {got:?}, {want:?}"),
            }
        }
    }
}
