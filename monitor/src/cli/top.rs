//! `isobar top`: the pods and services that wait most, and their aggressors.

use std::io::{self, IsTerminal as _, Write};

use anyhow::Result;
use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::psi::Pressure;
use isobar_core::model::snapshot::{Blame, Scope, Union, Waited};
use isobar_core::model::units::{MilliCpu, Nanos, Percent};
use isobar_core::view::View;
use isobar_core::view::waiting::{Level, name, waiting_most, worst_share};

use super::exit::Code;
use super::output::{Format, view_json};
use super::table::Table;
use super::{ask, status, terminal};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print once and exit.
    #[arg(long)]
    once: bool,
    /// Maximum number of rows.
    #[arg(short, long, value_name = "N", default_value_t = 15)]
    n: usize,
    /// Include slices and containers.
    #[arg(long)]
    all: bool,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    #[command(flatten)]
    ask: ask::AgentArgs,
}

const AGGRESSORS: usize = 8;

pub(crate) fn run(args: &Args, sampling: &[String]) -> Result<Code> {
    let mut eye = ask::Eye::open(&args.ask, sampling)?;
    let clears = !args.once && io::stdout().is_terminal();
    loop {
        let view = eye.look()?;
        // Written in one call, so that the screen does not flicker.
        let mut screen = Vec::new();
        match args.output {
            Format::Json | Format::Ndjson => view_json(&mut screen, &view, args.output)?,
            Format::Table | Format::Wide => {
                write(&mut screen, &view, args)?;
                if clears {
                    // Not through the stream for colour: it drops this where colour is off.
                    io::stdout().write_all(b"\x1b[H\x1b[2J")?;
                }
            }
        }
        let mut out = anstream::stdout().lock();
        out.write_all(&screen)?;
        out.flush()?;
        if args.once {
            return Ok(Code::Ok);
        }
    }
}

fn write(out: &mut impl Write, view: &View, args: &Args) -> Result<()> {
    let wide = args.output == Format::Wide;
    let width = if wide { None } else { terminal::width() };
    let level = if args.all { Level::All } else { Level::Units };

    status::verdicts(out, view)?;
    writeln!(out)?;
    waiting(view, level, args.n, wide).write(out, width)?;
    if !view.snapshot.aggressions.is_empty() {
        writeln!(out)?;
        aggressors(view).write(out, width)?;
    }
    Ok(())
}

/// Sorted by the column WAIT%. Shares are of the last ten seconds, times of the last interval.
fn waiting(view: &View, level: Level, n: usize, wide: bool) -> Table {
    const NARROW: &str = "NAME~ WAIT%> CPUS> CONTENDED%> THROTTLED> MEM%> IO%>";
    const MORE: &str =
        "WAIT> CONTENTION> BY-OWN-QUOTA> BY-QUOTA-ABOVE> PSI-CPU%> SHORTAGE%> IO-WAIT> PATH";
    let mut table = Table::new(&if wide { format!("{NARROW} {MORE}") } else { NARROW.into() });
    for (_, scope) in waiting_most(&view.snapshot, level, n) {
        let mut row = vec![
            name(scope),
            worst_share(scope).to_string(),
            cores(scope.cpu_usage),
            union(scope.contention),
            time(throttled(scope)),
            some(scope.pressure.memory),
            some(scope.pressure.io),
        ];
        if wide {
            let cpu = scope.cpu.as_ref();
            row.extend([
                time(cpu.map(|cpu| cpu.wait.now)),
                time(cpu.and_then(|cpu| cpu.contention).map(|t| t.now)),
                time(cpu.and_then(|cpu| cpu.throttled_own).map(|t| t.now)),
                time(cpu.and_then(|cpu| cpu.throttled_ancestor).map(|t| t.now)),
                some(scope.pressure.cpu),
                union(scope.shortage),
                time(scope.io_wait.map(|Waited { now, .. }| now)),
                scope.path.0.to_string(),
            ]);
        }
        table.row(row);
    }
    table
}

fn aggressors(view: &View) -> Table {
    let mut table = Table::new("SUFFERER~ AGGRESSOR~ TIME> SHARE%>");
    let blames = &view.snapshot.aggressions;
    for blame in blames.iter().take(AGGRESSORS) {
        let of_victim = blames.iter().filter(|other| other.victim == blame.victim);
        let all: u64 = of_victim.map(|other| other.time.0).sum();
        let share = Percent::share(blame.time.0, all).to_string();
        let (victim, aggressor) = names(view, blame);
        table.row([victim, aggressor, time(Some(blame.time)), share]);
    }
    table
}

fn names(view: &View, blame: &Blame) -> (String, String) {
    let scopes = &view.snapshot.scopes;
    let of = |id, path: &Option<_>| match (scopes.get(id), path) {
        (Some(scope), _) => name(scope),
        (None, Some(path)) => format!("{path}"),
        (None, None) => format!("removed cgroup {}", id.0),
    };
    let aggressor = match blame.aggressor {
        CgroupId(0) => "none (wake-up latency of an idle CPU)".into(),
        CgroupId::UNKNOWN => "unknown (too long ago)".into(),
        _ => of(&blame.aggressor, &blame.aggressor_path),
    };
    (of(&blame.victim, &blame.victim_path), aggressor)
}

fn throttled(scope: &Scope) -> Option<Nanos> {
    let cpu = scope.cpu.as_ref()?;
    Some(cpu.throttled_own?.now.plus(cpu.throttled_ancestor?.now))
}

/// Unknown values print as a dash: a 0 would be a measurement.
fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".into())
}

fn some(pressure: Option<Pressure>) -> String {
    or_dash(pressure.and_then(|p| p.some).map(|line| line.avg10.to_string()))
}

fn union(union: Option<Union>) -> String {
    or_dash(union.map(|u| u.avg10.to_string()))
}

fn cores(usage: Option<MilliCpu>) -> String {
    or_dash(usage.map(|MilliCpu(milli)| format!("{}.{:02}", milli / 1_000, milli % 1_000 / 10)))
}

fn time(nanos: Option<Nanos>) -> String {
    or_dash(nanos.map(|Nanos(ns)| match ns {
        0 => "0".into(),
        1..1_000_000 => format!("{} us", ns / 1_000),
        1_000_000..10_000_000_000 => format!("{} ms", ns / 1_000_000),
        _ => format!("{}.{} s", ns / 1_000_000_000, ns % 1_000_000_000 / 100_000_000),
    }))
}
