//! `isobar explain`: the latest decision in sentences, and what would change it.

use std::io::{self, Write};

use anyhow::Result;
use isobar_core::policy::explain::Explanation;
use isobar_core::view::API_VERSION;
use serde_json::json;

use super::ask;
use super::at::AtArgs;
use super::exit::Code;
use super::output::Format;
use super::terminal::harmless;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    #[command(flatten)]
    at: AtArgs,
    #[command(flatten)]
    ask: ask::AgentArgs,
}

pub(crate) fn run(args: &Args, sampling: &[String]) -> Result<Code> {
    let view = match args.at.past()? {
        Some(past) => past.view()?,
        None => ask::Eye::open(&args.ask, sampling)?.look()?,
    };
    let document = json!({
        "apiVersion": API_VERSION,
        "kind": "Explanation",
        "explanation": view.explanation,
        "decision": view.decision,
    });
    args.output.print(&document, |out| Ok(write(out, &view.explanation)?))?;
    Ok(Code::Ok)
}

/// Each part under its heading; empty parts are left out.
fn write(out: &mut dyn Write, explanation: &Explanation) -> io::Result<()> {
    let Explanation { why, verdict, candidates, otherwise, .. } = explanation;
    let parts = [
        ("Measurements", why),
        ("Verdict", verdict),
        ("Candidates", candidates),
        ("What would change it", otherwise),
    ];
    for (heading, sentences) in parts.into_iter().filter(|(_, sentences)| !sentences.is_empty()) {
        writeln!(out, "{heading}")?;
        for sentence in sentences {
            writeln!(out, "  {}", harmless(sentence))?;
        }
    }
    Ok(())
}
