//! `-o`: the output formats.

use std::io::Write;

use anyhow::Result;
use clap::ValueEnum;
use isobar_core::model::sample::Gap;
use isobar_core::view::View;
use serde::Serialize;
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table, cut to the terminal's width.
    Table,
    /// A table with every column, nothing shortened.
    Wide,
    /// Indented JSON.
    Json,
    /// One line of JSON for each tick.
    Ndjson,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Plain {
    /// Text for people.
    Table,
    /// Indented JSON.
    Json,
}

impl Plain {
    /// Prints `document` as JSON, or what `table` writes.
    pub(crate) fn print(
        self,
        document: &impl Serialize,
        table: impl FnOnce(&mut dyn Write) -> Result<()>,
    ) -> Result<()> {
        let mut out = anstream::stdout().lock();
        match self {
            Self::Table => table(&mut out),
            Self::Json => pretty(&mut out, document),
        }
    }
}

/// The view as the API has it.
pub(crate) fn view_json(to: &mut impl Write, view: &View, format: Format) -> Result<()> {
    let line = view.to_json(&view.snapshot);
    if format == Format::Ndjson {
        to.write_all(&line)?;
        writeln!(to)?;
        return Ok(());
    }
    pretty(to, &serde_json::from_slice::<Value>(&line)?)
}

/// Indented JSON and a newline.
pub(crate) fn pretty(to: &mut (impl Write + ?Sized), what: &impl Serialize) -> Result<()> {
    serde_json::to_writer_pretty(&mut *to, what)?;
    writeln!(to)?;
    Ok(())
}

/// What could not be read, and why.
pub(crate) fn gap_text(Gap { object, detail, .. }: &Gap) -> String {
    format!("{object}: {detail}")
}

/// The word that JSON has for a value of an enum.
pub(crate) fn word(what: &impl Serialize) -> String {
    let json = serde_json::to_value(what).ok();
    json.as_ref().and_then(Value::as_str).unwrap_or("?").to_owned()
}
