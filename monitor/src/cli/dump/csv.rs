//! Rows of comma-separated values (RFC 4180). What was not measured is an empty cell.

use std::io::Write;

use anyhow::Result;
use isobar::record::incident::words::precise;
use isobar_core::model::psi::Pressure;
use isobar_core::model::snapshot::{Scope, Union, Waited, working_set};
use isobar_core::view::waiting::name;

use super::Ticks;
use crate::cli::terminal::harmless;

const COLUMNS: [&str; 16] = [
    "time",
    "tick",
    "cgroup",
    "name",
    "cpu_millicpu",
    "memory_working_set_bytes",
    "cpu_contention_avg10_percent",
    "memory_shortage_avg10_percent",
    "psi_cpu_some_avg10_percent",
    "psi_memory_some_avg10_percent",
    "psi_io_some_avg10_percent",
    "cpu_wait_ns",
    "cpu_contention_ns",
    "cpu_throttled_ns",
    "memory_wait_ns",
    "io_wait_ns",
];

pub(super) fn write(out: &mut impl Write, ticks: &mut Ticks) -> Result<()> {
    let mut has_head = false;
    while let Some(view) = ticks.view()? {
        if !std::mem::replace(&mut has_head, true) {
            writeln!(out, "{}\r", COLUMNS.join(","))?;
        }
        let (at, tick) = (precise(view.snapshot.at.wall), view.snapshot.tick.to_string());
        for scope in std::iter::once(&view.snapshot.whole).chain(view.snapshot.scopes.values()) {
            let cells = [at.clone(), tick.clone(), scope.path.to_string(), name(scope)];
            let all: Vec<_> =
                cells.into_iter().map(|cell| quoted(&cell)).chain(figures(scope)).collect();
            writeln!(out, "{}\r", all.join(","))?;
        }
    }
    Ok(())
}

fn figures(scope: &Scope) -> [String; 12] {
    let cpu = scope.cpu.as_ref();
    let throttled = cpu.and_then(|cpu| {
        Some(cpu.throttled_own?.now.plus(cpu.throttled_ancestor.unwrap_or_default().now))
    });
    [
        known(scope.cpu_usage.map(|cpu| cpu.0)),
        known(scope.files.as_deref().and_then(working_set).map(|bytes| bytes.0)),
        share(scope.contention),
        share(scope.shortage),
        some(scope.pressure.cpu),
        some(scope.pressure.memory),
        some(scope.pressure.io),
        time(cpu.map(|cpu| cpu.wait)),
        time(cpu.and_then(|cpu| cpu.contention)),
        known(throttled.map(|time| time.0)),
        time(scope.memory.as_ref().map(|memory| memory.any)),
        time(scope.io_wait),
    ]
}

fn known(figure: Option<u64>) -> String {
    figure.map_or_else(String::new, |figure| figure.to_string())
}

fn time(waited: Option<Waited>) -> String {
    known(waited.map(|waited| waited.now.0))
}

fn share(union: Option<Union>) -> String {
    union.map_or_else(String::new, |union| union.avg10.to_string())
}

fn some(pressure: Option<Pressure>) -> String {
    let line = pressure.and_then(|pressure| pressure.some);
    line.map_or_else(String::new, |line| line.avg10.to_string())
}

/// A cell in quotes where it needs them. A spreadsheet takes a cell that begins like a formula for
/// one, a terminal obeys control characters, and any user can choose the name of a cgroup. A new line in
/// quotes is a part of the name.
fn quoted(cell: &str) -> String {
    let is_formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let cell = cell.split('\n').map(harmless).collect::<Vec<_>>().join("\n");
    let cell = if is_formula { format!("'{cell}") } else { cell };
    match cell.contains([',', '"', '\n']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_cells() {
        #[rustfmt::skip]
        let table = [
            // name, cell
            ("/a.service",      "/a.service"),
            ("/a,b",            "\"/a,b\""),
            ("/say \"no\"",     "\"/say \"\"no\"\"\""),
            ("/two\nlines",     "\"/two\nlines\""),
            ("=cmd()",          "'=cmd()"),
            ("\tcmd",           "'\u{fffd}cmd"),
            ("/\x1b[2J",        "/\u{fffd}[2J"),
            ("/a\u{202e}b",     "/a\u{fffd}b"),
            ("/größe",          "/größe"),
        ];
        for (name, want) in table {
            assert_eq!(quoted(name), want, "{name:?}");
        }
    }
}
