//! Incidents as text.

use std::io::{self, Write};

use isobar::record::incident::words::{clock, time};
use isobar::record::incident::{Incident, Kind, Limits, State, Wait};
use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::quantity::Quantity;
use isobar_core::model::sample::Moment;
use isobar_core::model::units::{Bytes, MilliCpu};

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
        let is_open = one.end.is_none() && one.state == State::Open;
        table.row([
            one.name.clone(),
            clock(one.begin.wall),
            lasted(one),
            kinds(&one.kinds),
            if is_open { "-".into() } else { one.ticks.to_string() },
            if is_open { "-".into() } else { Bytes(one.size).to_string() },
        ]);
    }
    table.write(out, width)
}

pub(super) fn one(out: &mut dyn Write, one: &Incident, width: Option<usize>) -> io::Result<()> {
    writeln!(out, "{}", harmless(&one.name))?;
    let (kinds, size) = (kinds(&one.kinds), Bytes(one.size));
    writeln!(out, "{kinds}; {}; {} ticks, {size}", how_long(one), one.ticks)?;
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
        if one.more_triggers > 0 {
            writeln!(
                out,
                "  {} more are not listed: none is graver than these",
                one.more_triggers
            )?;
        }
    }
    if !one.waits.is_empty() {
        writeln!(out)?;
        let mut table = Table::new("SUFFERER~ AGGRESSOR~ WAITED> LOST>");
        for wait in &one.waits {
            let Wait { sufferer, aggressor, time: waited, loss, .. } = wait;
            table.row([sufferer.clone(), aggressor.clone(), time(*waited), time(*loss)]);
        }
        table.write(out, width)?;
    }
    if !one.limits.is_empty() {
        writeln!(out)?;
        let mut table = Table::new("LIMITS-OF~ MEMORY.MAX> MEMORY.HIGH> CPUS>");
        one.limits.iter().for_each(|of| table.row(limits(of)));
        table.write(out, width)?;
    }
    let lacking = lacking(one);
    if !lacking.is_empty() {
        writeln!(out, "\nWhat the agent lacked")?;
        for (from, what) in lacking {
            writeln!(out, "  {}  {}", clock(from.wall), harmless(&what))?;
        }
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

/// A name with its limits; a dash where it has none.
pub(super) fn limits(Limits { name, memory_max, memory_high, cpu_max }: &Limits) -> [String; 4] {
    let bytes =
        |limit: &Option<Bytes>| limit.map_or("-".into(), |Bytes(n)| Quantity::bytes(n).to_string());
    let cpus = cpu_max.map_or("-".into(), |MilliCpu(n)| format!("{}.{:03}", n / 1_000, n % 1_000));
    [name.clone(), bytes(memory_max), bytes(memory_high), cpus]
}

/// Capabilities that the agent did not have when it began, and those that changed; since when.
pub(super) fn lacking(one: &Incident) -> Vec<(Moment, String)> {
    let is_lacking = |of: &&Capability| of.state != CapabilityState::Attached;
    let words = |of: &Capability| {
        let why = if of.detail.is_empty() { String::new() } else { format!(": {}", of.detail) };
        format!("{} ({}){why}", of.name, of.state.name())
    };
    let first = one.capabilities.iter().filter(is_lacking).map(|of| (one.begin, words(of)));
    first.chain(one.changes.iter().map(|one| (one.at, words(&one.capability)))).collect()
}

pub(super) fn kinds(all: &[Kind]) -> String {
    all.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(",")
}

/// The same as a part of a sentence.
pub(super) fn how_long(one: &Incident) -> String {
    if one.end.is_some() { format!("lasted {}", lasted(one)) } else { lasted(one) }
}

fn lasted(one: &Incident) -> String {
    match (one.end, one.state) {
        (Some(end), _) => time(end.boot.since(one.begin.boot)),
        (None, State::Open) => "open".into(),
        (None, State::Frozen) => "cut off".into(),
    }
}

#[cfg(test)]
mod tests {
    use isobar_core::model::units::Nanos;

    use super::*;

    fn printed(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn figures_have_their_unit_and_those_that_sort_are_shown() {
        let wait = |sufferer: &str, time, loss| Wait {
            sufferer: sufferer.into(),
            aggressor: "b".into(),
            time: Nanos(time * Nanos::SECOND.0),
            loss: Nanos(loss * Nanos::SECOND.0),
            ..Wait::default()
        };
        let waits = vec![wait("a", 3, 2), wait("c", 9, 1)];
        let state = State::Frozen;
        let incident = Incident { size: 1_500, state, waits, ..Incident::default() };
        let listed = printed(|out| list(out, std::slice::from_ref(&incident), None));
        assert!(listed.ends_with(" 1.4Ki\n"), "{listed}");
        let shown = printed(|out| one(out, &incident, None));
        let want = "SUFFERER  AGGRESSOR  WAITED  LOST\n\
                    a         b              3s    2s\n\
                    c         b              9s    1s\n";
        assert!(shown.contains("0 ticks, 1.4Ki\n") && shown.contains(want), "{shown}");
    }
}
