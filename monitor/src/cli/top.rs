//! `isobar top`: who waits most, why, and because of whom.

use std::io::{self, Write};

use anyhow::Result;
use isobar::serve::view::View;
use isobar::serve::waiting::{Level, name, waiting_most};
use isobar_core::model::psi::Pressure;
use isobar_core::model::snapshot::{Blame, Scope, Union, Waited};
use isobar_core::model::units::{MilliCpu, Nanos, Percent};

use super::exit::Code;
use super::output::{Format, view_json};
use super::table::{Set, Table};
use super::{ask, status, terminal};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one tick and leave.
    #[arg(long)]
    once: bool,
    /// Rows at most.
    #[arg(short, long, value_name = "N", default_value_t = 15)]
    n: usize,
    /// Show slices and single containers too.
    #[arg(long)]
    all: bool,
    /// In which form.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    #[command(flatten)]
    ask: ask::AgentArgs,
}

/// Aggressors take fewer rows: the first few tell the story.
const AGGRESSORS: usize = 8;

pub(crate) fn run(args: &Args) -> Result<Code> {
    let mut eye = ask::Eye::open(&args.ask)?;
    loop {
        let view = eye.look()?;
        // A screen is written at once: half of it would flicker.
        let mut screen = Vec::new();
        match args.output {
            Format::Json | Format::Ndjson => view_json(&mut screen, &view, args.output)?,
            Format::Table | Format::Wide => {
                if !args.once && terminal::is_terminal() {
                    screen.extend(b"\x1b[H\x1b[2J");
                }
                write(&mut screen, &view, args)?;
            }
        }
        let mut out = io::stdout().lock();
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

/// Shares are of the last ten seconds, times of the last interval.
fn waiting(view: &View, level: Level, n: usize, wide: bool) -> Table {
    let narrow = [
        ("WAITING", Set::Name),
        ("CPU", Set::Right),
        ("CONTENDED%", Set::Right),
        ("THROTTLED", Set::Right),
        ("MEM%", Set::Right),
        ("IO%", Set::Right),
    ];
    let more = [
        ("WAIT", Set::Right),
        ("BY-OTHERS", Set::Right),
        ("BY-OWN-QUOTA", Set::Right),
        ("BY-QUOTA-ABOVE", Set::Right),
        ("PSI-CPU%", Set::Right),
        ("SHORTAGE%", Set::Right),
        ("IO-WAIT", Set::Right),
        ("PATH", Set::Left),
    ];
    let mut table = Table::new(narrow.into_iter().chain(if wide { more.to_vec() } else { vec![] }));
    for (_, scope) in waiting_most(&view.snapshot, level, n) {
        let mut row = vec![
            name(scope),
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
                scope.path.0.clone(),
            ]);
        }
        table.row(row);
    }
    table
}

fn aggressors(view: &View) -> Table {
    let mut table = Table::new([
        ("WHO WAITS", Set::Name),
        ("WHILE THIS RAN", Set::Name),
        ("TIME", Set::Right),
        ("SHARE%", Set::Right),
    ]);
    let blames = &view.snapshot.aggressions;
    for blame in blames.iter().take(AGGRESSORS) {
        let of_victim = blames.iter().filter(|other| other.victim == blame.victim);
        let all: u64 = of_victim.map(|other| other.time.now.0).sum();
        let share = Percent::share(blame.time.now.0, all).to_string();
        let (victim, aggressor) = names(view, blame);
        table.row([victim, aggressor, time(Some(blame.time.now)), share]);
    }
    table
}

fn names(view: &View, blame: &Blame) -> (String, String) {
    let scopes = &view.snapshot.scopes;
    let of = |id, path: &Option<_>| match (scopes.get(id), path) {
        (Some(scope), _) => name(scope),
        (None, Some(path)) => format!("{path}"),
        (None, None) => format!("a cgroup that is gone ({})", id.0),
    };
    let aggressor = match blame.aggressor.0 {
        0 => "nobody: waking up took this long".into(),
        _ => of(&blame.aggressor, &blame.aggressor_path),
    };
    (of(&blame.victim, &blame.victim_path), aggressor)
}

fn throttled(scope: &Scope) -> Option<Nanos> {
    let cpu = scope.cpu.as_ref()?;
    Some(cpu.throttled_own?.now.plus(cpu.throttled_ancestor?.now))
}

/// What is not known is a dash: a 0 would be a claim.
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
        _ => format!("{} ms", ns / 1_000_000),
    }))
}
