//! `isobar explain`: the newest decision in sentences, with what would change it.

use std::io::{self, Write};

use anyhow::Result;
use isobar::serve::document::API_VERSION;
use isobar_core::policy::explain::Explanation;

use super::ask;
use super::exit::Code;
use super::output::{Plain, pretty};
use super::terminal::harmless;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// In which form.
    #[arg(short, long, value_enum, default_value_t = Plain::Table)]
    output: Plain,
    #[command(flatten)]
    ask: ask::AgentArgs,
}

pub(crate) fn run(args: &Args) -> Result<Code> {
    let view = ask::Eye::open(&args.ask)?.look()?;
    let mut out = io::stdout().lock();
    match args.output {
        Plain::Table => write(&mut out, &view.explanation)?,
        Plain::Json => {
            let document = serde_json::json!({
                "apiVersion": API_VERSION,
                "kind": "Explanation",
                "explanation": view.explanation,
                "decision": view.decision,
            });
            pretty(&mut out, &document)?;
        }
    }
    Ok(Code::Ok)
}

/// Each part under its heading; a part without a sentence is left out.
pub(crate) fn write(out: &mut impl Write, explanation: &Explanation) -> io::Result<()> {
    let Explanation { why, verdict, candidates, otherwise, .. } = explanation;
    let parts = [
        ("Why", why),
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
