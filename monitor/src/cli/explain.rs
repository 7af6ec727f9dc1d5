//! `isobar explain`: the latest decision in sentences, and what would change it; or those of a range
//! that differ from the one before.

use std::io::{self, Write};

use anyhow::Result;
use isobar::record::incident::words::clock;
use isobar_core::model::decision::Decision;
use isobar_core::policy::explain::{Explanation, relief};
use isobar_core::recording::difference::verdict;
use isobar_core::view::API_VERSION;
use serde_json::{Value, json};

use super::afar::{Course, Decided};
use super::ask;
use super::at::AtArgs;
use super::exit::Code;
use super::output::{Format, List};
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
    if let Some(ticks) = args.at.ticks(&args.ask)? {
        return course(ticks, args.output);
    }
    let view = match args.at.view(&args.ask)? {
        Some(view) => view,
        None => ask::Eye::open(&args.ask, sampling)?.look()?,
    };
    let mut document = document(&view.explanation, &view.decision);
    document["headline"] = json!(view.headline);
    let past = args.at.moment(&view, &args.ask);
    args.output.print(&document, |out| {
        out.write_all(past.as_bytes())?;
        writeln!(out, "{}", harmless(&view.headline))?;
        Ok(write(out, &view.explanation)?)
    })?;
    Ok(Code::Ok)
}

fn document(explanation: &Explanation, decision: &Decision) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "Explanation",
        "explanation": explanation,
        "decision": decision,
    })
}

/// The first decision of a range, and each that differs from the one before.
fn course(mut ticks: Course, output: Format) -> Result<Code> {
    let mut list = List::new(output, "ExplanationList");
    let mut last = None;
    while let Some(Decided { decision, explanation, outcomes }) = ticks.decided()? {
        let decision = &decision;
        // A squeeze is released in each tick until that is done.
        let releases: Vec<_> = decision.relief.releases.iter().map(|one| one.action).collect();
        let told = Some((verdict(decision), releases));
        if last == told && outcomes.is_empty() && decision.relief.effects.is_empty() {
            continue;
        }
        last = told;
        let mut document = document(&explanation, decision);
        document["outcomes"] = json!(outcomes);
        let gap = if list.is_empty() { "" } else { "\n" };
        list.add(&document, |out| {
            writeln!(out, "{gap}{}, tick {}", clock(decision.at.wall), decision.tick)?;
            if !outcomes.is_empty() {
                writeln!(out, "Outcome of earlier actions")?;
            }
            for outcome in &outcomes {
                writeln!(out, "  {}", harmless(&relief::outcome(outcome)))?;
            }
            Ok(write(out, &explanation)?)
        })?;
    }
    list.close()?;
    Ok(Code::Ok)
}

/// Each part under its heading; empty parts are left out.
fn write(out: &mut dyn Write, explanation: &Explanation) -> io::Result<()> {
    let Explanation { why, verdict, lately, candidates, otherwise, .. } = explanation;
    let parts = [
        ("Measurements", why),
        ("Verdict", verdict),
        ("Ended lately", lately),
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
