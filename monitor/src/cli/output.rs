//! `-o`: the forms in which a view can be had.

use std::io::Write;

use anyhow::Result;
use clap::ValueEnum;
use isobar::serve::document;
use isobar::serve::view::View;
use serde::Serialize;
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people, cut to the terminal.
    Table,
    /// For people, with every column and nothing shortened.
    Wide,
    /// For programs.
    Json,
    /// For programs: one line each.
    Ndjson,
}

/// The form of a verb that prints a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Plain {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// The view as the API has it.
pub(crate) fn view_json(to: &mut impl Write, view: &View, format: Format) -> Result<()> {
    let line = document::render(view);
    if format == Format::Ndjson {
        to.write_all(&line)?;
        writeln!(to)?;
        return Ok(());
    }
    pretty(to, &serde_json::from_slice::<Value>(&line)?)
}

/// Indented JSON and a newline.
pub(crate) fn pretty(to: &mut impl Write, what: &impl Serialize) -> Result<()> {
    serde_json::to_writer_pretty(&mut *to, what)?;
    writeln!(to)?;
    Ok(())
}
