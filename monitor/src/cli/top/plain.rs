//! `isobar top` in a pipe, in other formats, and once: the tables of one tick after the other.

use std::convert::Infallible;
use std::io::{self, Write};

use anyhow::Result;
use isobar::record::incident::words::clock;
use isobar_core::model::snapshot::{IoRate, Waited};
use isobar_core::model::units::Percent;
use isobar_core::view::View;
use isobar_core::view::lead::lead;
use isobar_core::view::waiting::{name, worst_share};

use super::super::afar::Course;
use super::super::ask::Eye;
use super::super::exit::Code;
use super::super::output::{Format, List, view_json};
use super::super::status;
use super::super::table::Table;
use super::figures::{amount, cores, nameless, names, percent, some, throttled, time, union};
use super::rows::{self, Column};
use super::{Args, can_draw};

/// Pairs of sufferer and aggressor without `--rows`.
const AGGRESSORS: usize = 8;
/// Rows without `--rows`.
const ROWS: usize = 15;

/// Prints each tick that `eye` sees, one over the other on a terminal.
pub(super) fn watch(args: &Args, mut eye: Eye) -> Result<Infallible> {
    let clears = can_draw();
    loop {
        let view = eye.look_after(args.interval(), None)?;
        print(args, &view, clears)?;
    }
}

/// Prints each tick of a range under its time, or the first of them.
pub(super) fn past(args: &Args, mut ticks: Course) -> Result<Code> {
    let mut list = List::new(args.output, "SnapshotList");
    while let Some(view) = ticks.view()? {
        let json = match args.output {
            Format::Table | Format::Wide => Vec::new(),
            Format::Json | Format::Yaml | Format::Ndjson => view.to_json(&view.snapshot),
        };
        let gap = if list.is_empty() { "" } else { "\n" };
        list.add_json(&json, |out| {
            let (at, tick) = (view.snapshot.at, view.snapshot.tick);
            writeln!(out, "{gap}{}, tick {tick}", clock(at.wall))?;
            write(out, &view, args)
        })?;
        if args.once {
            break;
        }
    }
    list.close()?;
    Ok(Code::Ok)
}

/// Prints one tick.
pub(super) fn print(args: &Args, view: &View, clears: bool) -> Result<()> {
    // Written in one call, so that the screen does not flicker.
    let mut screen = Vec::new();
    match args.output {
        Format::Json | Format::Yaml | Format::Ndjson => view_json(&mut screen, view, args.output)?,
        Format::Table | Format::Wide => {
            screen.write_all(args.at.moment(view, &args.ask).as_bytes())?;
            write(&mut screen, view, args)?;
            if clears {
                // Not through the stream for colour: it drops this where colour is off.
                io::stdout().write_all(b"\x1b[H\x1b[2J")?;
            }
        }
    }
    let mut out = anstream::stdout().lock();
    out.write_all(&screen)?;
    Ok(out.flush()?)
}

fn write(out: &mut dyn Write, view: &View, args: &Args) -> Result<()> {
    let (wide, width) = (args.output.is_wide(), args.output.width());
    let most = Some(args.rows.unwrap_or(ROWS));
    let list = rows::List { shows_all: args.all, most, ..rows::List::default() };

    status::verdicts(out, view)?;
    writeln!(out)?;
    waiting(view, &list, wide).write(out, width)?;
    if !view.snapshot.aggressions.is_empty() {
        writeln!(out)?;
        aggressors(view, args.rows.unwrap_or(AGGRESSORS)).write(out, width)?;
    }
    if let Some(processes) = nameless(view) {
        writeln!(out)?;
        processes.write(out, width)?;
    }
    Ok(())
}

/// Sorted as the headline ranks, by the first figure. Shares are of the last ten seconds, times of the
/// last interval.
fn waiting(view: &View, list: &rows::List, wide: bool) -> Table {
    const NARROW: &str = "WAIT%> CPUS> CONTENDED%> THROTTLED> MEM%> IO%>";
    const MORE: &str = "WAIT> CONTENTION> BY-OWN-QUOTA> BY-QUOTA-ABOVE> PSI-CPU%> SHORTAGE%> IO-WAIT> DISK/s> PATH";
    let first = Column::Lead.heading(lead(view).0);
    let more = if wide { MORE } else { "" };
    let mut table = Table::new(&format!("NAME~ {first}> {NARROW} {more}"));
    for listed in list.rows(view) {
        let scope = listed.scope;
        let mut row = vec![
            name(scope),
            Column::Lead.cell(&listed),
            worst_share(scope).to_string(),
            cores(scope.cpu_usage),
            percent(union(scope.contention)),
            time(throttled(scope)),
            percent(some(scope.pressure.memory)),
            percent(some(scope.pressure.io)),
        ];
        if wide {
            let cpu = scope.cpu.as_ref();
            row.extend([
                time(cpu.map(|cpu| cpu.wait.now)),
                time(cpu.and_then(|cpu| cpu.contention).map(|t| t.now)),
                time(cpu.and_then(|cpu| cpu.throttled_own).map(|t| t.now)),
                time(cpu.and_then(|cpu| cpu.throttled_ancestor).map(|t| t.now)),
                percent(some(scope.pressure.cpu)),
                percent(union(scope.shortage)),
                time(scope.io_wait.map(|Waited { now, .. }| now)),
                amount(scope.io.map(IoRate::bytes)),
                scope.path.0.to_string(),
            ]);
        }
        table.row(row);
    }
    table
}

/// Sorted by the column LOST, as the headline is; what was lost is a part of the time. Both are of
/// the last interval, and the share is of all that the sufferer waited.
fn aggressors(view: &View, most: usize) -> Table {
    let mut table = Table::new("SUFFERER~ AGGRESSOR~ LOST> TIME> SHARE%>");
    let blames = &view.snapshot.aggressions;
    for blame in blames.iter().take(most) {
        let of_victim = blames.iter().filter(|other| other.victim == blame.victim);
        let all: u64 = of_victim.map(|other| other.time.0).sum();
        let share = Percent::share(blame.time.0, all).to_string();
        let (victim, aggressor) = names(view, blame);
        table.row([victim, aggressor, time(blame.loss), time(Some(blame.time)), share]);
    }
    table
}
