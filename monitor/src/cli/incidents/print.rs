//! Incidents as text.

use std::io::{self, Write};

use isobar::record::incident::words::{clock, time};
use isobar::record::incident::{Incident, Kind, State};
use isobar_core::model::quantity::Quantity;

use crate::cli::table::Table;
use crate::cli::terminal::{harmless, wrapped};

/// Columns of a paragraph where the terminal's are not known.
const WIDTH: usize = 100;

pub(super) fn list(out: &mut dyn Write, all: &[Incident], width: Option<usize>) -> io::Result<()> {
    if all.is_empty() {
        return writeln!(out, "no incidents");
    }
    let mut table = Table::new("NAME BEGIN LASTED> KINDS TICKS> SIZE>");
    for one in all {
        table.row([
            one.name.clone(),
            clock(one.begin.wall),
            lasted(one),
            kinds(&one.kinds),
            one.ticks.to_string(),
            Quantity::bytes(one.size).to_string(),
        ]);
    }
    table.write(out, width)
}

pub(super) fn one(out: &mut dyn Write, one: &Incident, width: Option<usize>) -> io::Result<()> {
    writeln!(out, "{}", harmless(&one.name))?;
    let (kinds, size) = (kinds(&one.kinds), Quantity::bytes(one.size));
    writeln!(out, "{kinds}; lasted {}; {} ticks, {size}", lasted(one), one.ticks)?;
    writeln!(out)?;
    let told = match one.summary.as_str() {
        "" => "Its summary is made when it is over.",
        summary => summary,
    };
    for line in wrapped(&harmless(told), width.unwrap_or(WIDTH)) {
        writeln!(out, "{line}")?;
    }
    if !one.triggers.is_empty() {
        writeln!(out, "\nTriggers")?;
        for trigger in &one.triggers {
            writeln!(out, "  {}  {}", clock(trigger.at.wall), harmless(&trigger.text))?;
        }
    }
    if !one.waits.is_empty() {
        writeln!(out)?;
        let mut table = Table::new("SUFFERER~ AGGRESSOR~ TIME>");
        for wait in &one.waits {
            table.row([wait.sufferer.clone(), wait.aggressor.clone(), time(wait.time)]);
        }
        table.write(out, width)?;
    }
    if !one.deeds.is_empty() {
        writeln!(out, "\nSteps and outcomes")?;
        for deed in &one.deeds {
            let only = if deed.is_enforced { "" } else { " (only observed)" };
            writeln!(out, "  {}  {}{only}", clock(deed.at.wall), harmless(&deed.text))?;
        }
    }
    Ok(())
}

pub(super) fn kinds(all: &[Kind]) -> String {
    all.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(",")
}

pub(super) fn lasted(one: &Incident) -> String {
    match (one.end, one.state) {
        (Some(end), _) => time(end.boot.since(one.begin.boot)),
        (None, State::Open) => "open".into(),
        (None, State::Frozen) => "cut off".into(),
    }
}
