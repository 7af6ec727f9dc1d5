//! `-o`: the output formats.

use std::fmt::Display;
use std::io::Write;

use anyhow::Result;
use clap::ValueEnum;
use isobar_core::model::sample::Gap;
use isobar_core::view::{API_VERSION, View};
use serde::Serialize;
use serde_json::Value;
use serde_transcode::{Transcoder, transcode};

use super::log;
use super::terminal::{self, harmless};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text for people, within the terminal's width.
    Table,
    /// The same with nothing shortened, and more columns and lines if the verb has them.
    Wide,
    /// Indented JSON.
    Json,
    /// YAML, with the keys of the JSON.
    Yaml,
    /// JSON in one line.
    Ndjson,
}

/// Says something on stderr, which may have names in it. Where that is closed no reader is left, and
/// `eprintln!` would panic.
pub(crate) fn say(text: impl Display) {
    for line in text.to_string().lines() {
        log::say(&format!("{}\n", harmless(line)));
    }
}

impl Format {
    /// Prints `document` as JSON or YAML, or what `table` writes.
    pub(crate) fn print(
        self,
        document: &impl Serialize,
        table: impl FnOnce(&mut dyn Write) -> Result<()>,
    ) -> Result<()> {
        let mut out = anstream::stdout().lock();
        match self {
            Self::Table | Self::Wide => table(&mut out),
            other => other.write(&mut out, document),
        }
    }

    /// Writes `document` as YAML or JSON: in one line, or indented.
    pub(crate) fn write(self, to: &mut dyn Write, document: &impl Serialize) -> Result<()> {
        // Each type is serialised in one way, and its text goes into the others: code for each type
        // in each format was a tenth of the binary.
        self.rewrite(to, &serde_json::to_vec(document)?)
    }

    fn rewrite(self, to: &mut dyn Write, json: &[u8]) -> Result<()> {
        let mut from = serde_json::Deserializer::from_slice(json);
        match self {
            Self::Yaml => return yaml(to, &Transcoder::new(&mut from)),
            Self::Ndjson => to.write_all(json)?,
            Self::Table | Self::Wide | Self::Json => {
                // Into memory first, as YAML: the serialisers would hide the error of a closed pipe.
                let mut text = Vec::new();
                transcode(&mut from, &mut serde_json::Serializer::pretty(&mut text))?;
                to.write_all(&text)?;
            }
        }
        Ok(writeln!(to)?)
    }

    pub(crate) fn is_wide(self) -> bool {
        self == Self::Wide
    }

    /// Columns that a table may take; `None` if nothing is to be shortened.
    pub(crate) fn width(self) -> Option<usize> {
        if self.is_wide() { None } else { terminal::width() }
    }
}

/// Documents that are written as they come: in JSON and YAML as the `items` of one document, in
/// ndjson one in each line.
pub(crate) struct List {
    output: Format,
    /// Of the document that they are in.
    kind: &'static str,
    n: u64,
}

impl List {
    pub(crate) fn new(output: Format, kind: &'static str) -> Self {
        Self { output, kind, n: 0 }
    }

    /// True before the first document.
    pub(crate) fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Prints the next document, or what `table` writes.
    pub(crate) fn add(
        &mut self,
        document: &impl Serialize,
        table: impl FnOnce(&mut dyn Write) -> Result<()>,
    ) -> Result<()> {
        let json = match self.output {
            Format::Table | Format::Wide => Vec::new(),
            Format::Json | Format::Yaml | Format::Ndjson => serde_json::to_vec(document)?,
        };
        self.add_json(&json, table)
    }

    /// The same of a document in JSON.
    pub(crate) fn add_json(
        &mut self,
        json: &[u8],
        table: impl FnOnce(&mut dyn Write) -> Result<()>,
    ) -> Result<()> {
        let mut out = anstream::stdout().lock();
        self.n += 1;
        match self.output {
            Format::Table | Format::Wide => table(&mut out),
            Format::Ndjson => self.output.rewrite(&mut out, json),
            Format::Json | Format::Yaml => self.write(&mut out, json),
        }
    }

    fn write(&self, out: &mut dyn Write, json: &[u8]) -> Result<()> {
        let (mut item, kind) = (Vec::new(), self.kind);
        self.output.rewrite(&mut item, json)?;
        // Neither format has a text over several lines.
        let item = String::from_utf8(item)?;
        let lines = item.lines();
        if self.output == Format::Yaml {
            if self.n == 1 {
                write!(out, "apiVersion: {API_VERSION}\nkind: {kind}\nitems:\n")?;
            }
            for (n, line) in lines.enumerate() {
                writeln!(out, "{}{line}", if n == 0 { "- " } else { "  " })?;
            }
            return Ok(());
        }
        let head = format!(
            "{{\n  \"apiVersion\": \"{API_VERSION}\",\n  \"kind\": \"{kind}\",\n  \"items\": ["
        );
        write!(out, "{}", if self.n == 1 { &head } else { "," })?;
        for line in lines {
            write!(out, "\n    {line}")?;
        }
        Ok(())
    }

    /// After the last document.
    pub(crate) fn close(self) -> Result<()> {
        if self.output == Format::Json && self.n > 0 {
            writeln!(anstream::stdout().lock(), "\n  ]\n}}")?;
        }
        Ok(())
    }
}

/// The view as the API has it.
pub(crate) fn view_json(to: &mut dyn Write, view: &View, format: Format) -> Result<()> {
    format.rewrite(to, &view.to_json(&view.snapshot))
}

/// YAML. A text is one line, however long, so that it can be searched for.
fn yaml(to: &mut dyn Write, what: &impl Serialize) -> Result<()> {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let text = serde_saphyr::to_string_with_options(what, options)?;
    to.write_all(text.as_bytes())?;
    Ok(())
}

/// What could not be read, and why.
pub(crate) fn gap_text(Gap { object, detail, .. }: &Gap) -> String {
    harmless(&format!("{object}: {detail}"))
}

/// The word that JSON has for a value of an enum.
pub(crate) fn word(what: &impl Serialize) -> String {
    let json = serde_json::to_value(what).ok();
    json.as_ref().and_then(Value::as_str).unwrap_or("?").to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_reads_back_as_json() {
        let many_words = "word ".repeat(40);
        let document = json!({
            "texts": [
                "no", "on", "~", "", " ", "-", "- a", "a: b", "a #b", "#", "0755", "1e3", "0x1f",
                ".inf", "1:30", "2026-11-22", "null", "*a", "&a", "!a", "@a", "`a", "%a", "{", "[",
                "'", "\"", "\\", "a\nb", "\n", "\t", "\u{1b}[2J", "\u{202e}", "é", "\u{1f600}", many_words,
            ],
            "numbers": [0, -1, 1.5, u64::MAX, i64::MIN],
            "nothing": [null, [], {}, [[]], [{}]],
            "1": {"true": false, "": 1, "a b": [{"c": [1, {"d": 2}]}]},
        });
        let mut out = Vec::new();
        yaml(&mut out, &document).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), document, "{text}");
    }
}
