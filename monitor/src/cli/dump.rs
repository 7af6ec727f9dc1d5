//! `isobar dump`: a range of a recording in a format that other tools read. Tick by tick: memory
//! does not grow with the range.

mod csv;
mod openmetrics;
mod trace;

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;

use super::exit::Code;
use super::output::{Format, view_json};
use super::range::{RangeArgs, Ticks};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The recording, its directory, or the file of an incident [default: /var/lib/isobar/recording].
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    range: RangeArgs,
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
    let mut ticks = Ticks::open(args.file.as_deref(), args.range)?;
    let mut out = BufWriter::new(io::stdout().lock());
    match args.output {
        Form::Ndjson => lines(&mut out, &mut ticks)?,
        Form::Csv => csv::write(&mut out, &mut ticks)?,
        Form::Openmetrics => openmetrics::write(&mut out, &mut ticks)?,
        Form::Perfetto => trace::write(&mut out, &mut ticks)?,
    }
    out.flush()?;
    Ok(Code::Ok)
}

fn lines(out: &mut impl Write, ticks: &mut Ticks) -> Result<()> {
    while let Some(view) = ticks.view()? {
        view_json(out, &view, Format::Ndjson)?;
    }
    Ok(())
}
