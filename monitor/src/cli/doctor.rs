//! `isobar doctor`: what this node offers, and what to do about the rest.

mod checks;

use std::io::{self, Write};

use anyhow::Result;
use isobar::model::capability::{Capability, CapabilityState};
use isobar::serve::document::API_VERSION;
use serde::Serialize;

use super::exit::Code;
use super::output::{Plain, pretty};
use super::{ask, terminal};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// In which form.
    #[arg(short, long, value_enum, default_value_t = Plain::Table)]
    output: Plain,
    #[command(flatten)]
    ask: ask::AgentArgs,
}

/// One thing looked at.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Finding {
    name: &'static str,
    state: State,
    /// True if isobar cannot keep its promise without: then a fault makes the exit code 1.
    needed: bool,
    /// What was seen.
    detail: String,
    /// What to do; nothing where all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum State {
    Ok,
    Missing,
    Unknown,
}

impl Finding {
    fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, state: State::Ok, needed: false, detail: detail.into(), remedy: None }
    }

    fn missing(name: &'static str, detail: impl Into<String>, remedy: &'static str) -> Self {
        let (state, detail) = (State::Missing, detail.into());
        Self { name, state, needed: false, detail, remedy: Some(remedy) }
    }

    fn unknown(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, state: State::Unknown, needed: false, detail: detail.into(), remedy: None }
    }

    fn needed(self) -> Self {
        Self { needed: true, ..self }
    }
}

pub(crate) fn run(args: &Args) -> Result<Code> {
    let findings = checks::all();
    // Attaching is the only honest test of a probe. A failure to look is told, and is no fault of
    // the node's.
    let probes = ask::Eye::open(&args.ask).and_then(|mut eye| eye.look()).map(|v| v.capabilities);
    let mut out = io::stdout().lock();
    match args.output {
        Plain::Table => write(&mut out, &findings, &probes)?,
        Plain::Json => pretty(
            &mut out,
            &serde_json::json!({
                "apiVersion": API_VERSION, "kind": "Diagnosis",
                "findings": findings,
                "capabilities": probes.as_deref().unwrap_or_default(),
                "capabilitiesUnknown": probes.as_ref().err().map(|why| format!("{why:#}")),
            }),
        )?,
    }
    let fault = findings.iter().any(|f| f.needed && f.state == State::Missing);
    Ok(if fault { Code::Failure } else { Code::Ok })
}

fn write(
    out: &mut impl Write,
    findings: &[Finding],
    probes: &Result<Vec<Capability>>,
) -> io::Result<()> {
    for finding in findings {
        let sign = match (finding.state, finding.needed) {
            (State::Ok, _) => "ok",
            (State::Missing, true) => "MISSING",
            (State::Missing, false) => "absent",
            (State::Unknown, _) => "unknown",
        };
        line(out, sign, finding.name, &finding.detail, finding.remedy)?;
    }
    match probes {
        Ok(probes) => {
            for probe in probes {
                let sign = match probe.state {
                    CapabilityState::Attached => "ok",
                    other => other.word(),
                };
                line(out, sign, &probe.name, &probe.detail, probe.remedy.as_deref())?;
            }
            Ok(())
        }
        Err(why) => line(out, "unknown", "probes", &format!("{why:#}"), None),
    }
}

fn line(
    out: &mut impl Write,
    sign: &str,
    name: &str,
    detail: &str,
    remedy: Option<&str>,
) -> io::Result<()> {
    let [name, detail] = [name, detail].map(terminal::harmless);
    writeln!(out, "{sign:<8} {name:<22} {detail}")?;
    if let Some(remedy) = remedy {
        writeln!(out, "{:<8} {:<22} try: {}", "", "", terminal::harmless(remedy))?;
    }
    Ok(())
}
