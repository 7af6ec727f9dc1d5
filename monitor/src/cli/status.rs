//! `isobar status`: the verdict, what is missing, what it costs, in a few lines.

use std::io::{self, Write};

use anyhow::Result;
use isobar::serve::verdict::{Mood, Resource, Verdict};
use isobar::serve::view::View;
use isobar_core::model::capability::CapabilityState;
use isobar_core::model::condition::Status;

use super::ask;
use super::exit::Code;
use super::output::{Plain, pretty};
use super::terminal::{colours_on_stdout, harmless};

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
        Plain::Table => write(&mut out, &view)?,
        Plain::Json => pretty(&mut out, &summary(&view))?,
    }
    Ok(code(&view))
}

/// A script asks for this: whether a condition holds.
fn code(view: &View) -> Code {
    let decision = &view.decision;
    let is_contended = decision.assessment.conditions.iter().any(|c| c.status == Status::True);
    if is_contended || !decision.assessment.node_pressure.is_empty() {
        Code::UnderPressure
    } else {
        Code::Ok
    }
}

fn write(out: &mut impl Write, view: &View) -> Result<()> {
    let facts = &view.facts;
    let name = harmless(&facts.name);
    writeln!(out, "{name}, kernel {}, {} CPUs", facts.kernel, facts.n_cpus)?;
    verdicts(out, view)?;
    for sentence in view.explanation.why.iter().chain(&view.explanation.verdict) {
        writeln!(out, "{}", harmless(sentence))?;
    }
    let missing = view.capabilities.iter().filter(|c| c.state != CapabilityState::Attached);
    for capability in missing {
        let remedy = capability.remedy.as_deref().map(|r| format!(" ({r})")).unwrap_or_default();
        let state = capability.state.word();
        let line = format!("{} {state}: {}{remedy}", capability.name, capability.detail);
        writeln!(out, "  [-] {}", harmless(&line))?;
    }
    for gap in &view.snapshot.gaps {
        writeln!(out, "  [-] {}", harmless(&format!("{}: {}", gap.object, gap.detail)))?;
    }
    Ok(())
}

/// The headline, and the three sentences, each behind its word.
pub(crate) fn verdicts(out: &mut impl Write, view: &View) -> io::Result<()> {
    writeln!(out, "{}", harmless(&view.headline))?;
    for Verdict { resource, mood, text } in &view.verdict {
        let resource = match resource {
            Resource::Cpu => "CPU",
            Resource::Memory => "memory",
            Resource::Io => "io",
        };
        let (word, colour) = match mood {
            Mood::Calm => ("calm", "32"),
            Mood::Waits => ("waits", "33"),
            Mood::Pressed => ("PRESSED", "31;1"),
            Mood::Unknown => ("unknown", "2"),
        };
        let word = format!("{word:<8}");
        let word = if colours_on_stdout() { format!("\x1b[{colour}m{word}\x1b[0m") } else { word };
        writeln!(out, "{resource:<7} {word} {text}")?;
    }
    Ok(())
}

fn summary(view: &View) -> serde_json::Value {
    serde_json::json!({
        "apiVersion": isobar::serve::document::API_VERSION,
        "kind": "Status",
        "facts": view.facts,
        "tick": view.snapshot.tick,
        "at": view.snapshot.at,
        "headline": view.headline,
        "verdict": view.verdict,
        "conditions": view.decision.assessment.conditions,
        "nodePressure": view.decision.assessment.node_pressure,
        "explanation": view.explanation,
        "capabilities": view.capabilities,
        "gaps": view.snapshot.gaps,
        "cost": view.cost,
    })
}
