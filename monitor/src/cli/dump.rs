//! `isobar dump`: a range of a recording in a format that other tools read. Tick by tick: memory
//! does not grow with the range.

mod csv;
mod openmetrics;
mod trace;

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::ValueEnum;
use isobar::agent::RECORDING_DIR;
use isobar::record::reader::Recording;
use isobar::record::replay::{Replay, Replayed};
use isobar::serve::publish::{Latest, Publisher, channel};
use isobar_core::model::cost::Cost;
use isobar_core::model::node::NodeFacts;
use isobar_core::model::units::Nanos;
use isobar_core::policy::engine::Step;
use isobar_core::view::View;

use super::at::{recording_at, when};
use super::exit::{Code, Refused};
use super::output::{Format, view_json};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The recording, its directory, or the file of an incident [default: /var/lib/isobar/recording].
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    file: Option<PathBuf>,
    /// The first moment: a time in RFC 3339, today's or yesterday's 02:40, or "10 min ago"
    /// [default: the beginning].
    #[arg(long, value_name = "TIME", value_parser = when)]
    begin: Option<Nanos>,
    /// The last moment [default: the end].
    #[arg(long, value_name = "TIME", value_parser = when)]
    end: Option<Nanos>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Form::Ndjson)]
    output: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// One snapshot of the API in each line.
    Ndjson,
    /// A row for each cgroup and tick.
    Csv,
    /// The metrics of the API with the time of their tick, for `promtool tsdb create-blocks-from`.
    Openmetrics,
    /// A trace for ui.perfetto.dev: a process for each cgroup, with what it waits for.
    Perfetto,
}

pub(crate) fn run(args: &Args) -> Result<Code> {
    let (begin, end) = (args.begin.unwrap_or(Nanos(0)), args.end.unwrap_or(Nanos(u64::MAX)));
    if begin > end {
        bail!(Refused("--begin is after --end".into()));
    }
    let file = recording_at(args.file.as_deref().unwrap_or(Path::new(RECORDING_DIR)));
    let recording = match args.begin {
        None => Recording::open(&file)?,
        Some(begin) => Recording::open_at(&file, begin)?,
    };
    let mut ticks = Ticks { replay: Replay::new(recording, None), begin, end, publisher: None };
    let mut out = BufWriter::new(io::stdout().lock());
    let n = match args.output {
        Form::Ndjson => lines(&mut out, &mut ticks)?,
        Form::Csv => csv::write(&mut out, &mut ticks)?,
        Form::Openmetrics => openmetrics::write(&mut out, &mut ticks)?,
        Form::Perfetto => trace::write(&mut out, &mut ticks)?,
    };
    out.flush()?;
    if n == 0 {
        bail!(Refused(format!("{} has no tick of these times", file.display())));
    }
    Ok(Code::Ok)
}

fn lines(out: &mut impl Write, ticks: &mut Ticks) -> Result<u64> {
    let mut n = 0;
    while let Some(view) = ticks.view()? {
        view_json(out, &view, Format::Ndjson)?;
        n += 1;
    }
    Ok(n)
}

/// The ticks of a range. Those before it, of the same chapter, run through the engine too.
struct Ticks {
    replay: Replay,
    begin: Nanos,
    end: Nanos,
    publisher: Option<(Publisher, Latest)>,
}

impl Ticks {
    /// The next tick of the range.
    fn step(&mut self) -> Result<Option<Step>> {
        while let Some(replayed) = self.replay.next().transpose()? {
            let judged = match replayed {
                Replayed::Notice(text) => {
                    tracing::warn!("{text}");
                    continue;
                }
                Replayed::Tick(judged) => judged,
            };
            if judged.at.wall > self.end {
                return Ok(None);
            }
            let (publisher, _) = self.publisher.get_or_insert_with(|| {
                let facts: NodeFacts = self.replay.facts().cloned().unwrap_or_default();
                let (to, latest) = channel();
                (Publisher::new(facts, judged.at, to), latest)
            });
            if let Some(engine) = self.replay.engine()
                && let Some(sample) = &engine.standing().before
            {
                publisher.note(sample, engine.settings(), &judged.step);
            }
            if judged.at.wall >= self.begin {
                return Ok(Some(judged.step));
            }
            publisher.remember(&judged.step.snapshot);
        }
        Ok(None)
    }

    /// The view of the next tick, made by the code that makes the live one.
    fn view(&mut self) -> Result<Option<View>> {
        let Some(step) = self.step()? else { return Ok(None) };
        let Some((publisher, _)) = &mut self.publisher else { return Ok(None) };
        Ok(Some(publisher.view(step, Vec::new(), Cost::default())()))
    }

    /// The metrics of the next tick, as the API has them, and when it was.
    fn metrics(&mut self) -> Result<Option<(Nanos, String)>> {
        let Some(step) = self.step()? else { return Ok(None) };
        let Some((publisher, latest)) = &mut self.publisher else { return Ok(None) };
        publisher.publish(step, Vec::new(), Cost::default());
        let published = latest.borrow().clone();
        Ok(published.map(|published| (published.at.wall, published.recorded_metrics())))
    }
}
