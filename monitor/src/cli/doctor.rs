//! `isobar doctor`: what this node offers to isobar, and remedies for what is missing.

mod checks;
mod summary;

use std::io::{self, Write};

use anyhow::Result;
use isobar_core::model::capability::{Capability, CapabilityState, missing};
use isobar_core::model::sample::Gap;
use isobar_core::view::{API_VERSION, View};
use serde::Serialize;
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr as _;

use self::summary::Summary;
use super::ask;
use super::exit::{Code, Misused};
use super::output::Format;
use super::terminal::{harmless, wrapped};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    #[command(flatten)]
    ask: ask::AgentArgs,
}

/// The result of one check.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Finding {
    name: &'static str,
    state: State,
    /// Without it, isobar only sees pressure and files, or nothing.
    needed: bool,
    detail: String,
    /// How to get it; `None` if it is there.
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

pub(crate) fn run(args: &Args, sampling: &[String]) -> Result<Code> {
    let (findings, probes) = diagnose(&args.ask, sampling)?;
    let summary = Summary::of_all(&findings, &probes);
    args.output.print(&told(&findings, &probes, &summary), |out| {
        write(out, &findings, &probes, args.output.width())?;
        Ok(writeln!(out, "\n{}", harmless(&summary.line()))?)
    })?;
    Ok(summary.code())
}

/// What is found, as JSON.
pub(super) fn document(ask: &ask::AgentArgs, sampling: &[String]) -> Result<Value> {
    let (findings, probes) = diagnose(ask, sampling)?;
    let summary = Summary::of_all(&findings, &probes);
    Ok(told(&findings, &probes, &summary))
}

/// What looked at the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// A running agent: what it may do is in its capabilities, whatever this process may.
    Agent,
    /// This process, or nothing, because no agent answered at the usual address.
    Doctor,
    /// The same where an option said that none is asked, or one at another address.
    Asked,
}

type Diagnosis = (Vec<Finding>, Result<Probes>);

fn diagnose(ask: &ask::AgentArgs, sampling: &[String]) -> Result<Diagnosis> {
    // Attaching is the only reliable test of a program. If no view can be had, that is reported, and
    // is no fault of the node.
    let eye = ask::Eye::open(ask, sampling);
    let by = match &eye {
        Ok(ask::Eye::Agent { .. }) => By::Agent,
        _ if ask.is_given() => By::Asked,
        _ => By::Doctor,
    };
    let view = eye.and_then(|mut eye| eye.look());
    let findings = if ask.is_elsewhere() { Vec::new() } else { checks::all(by) };
    match view {
        Err(error) if error.is::<Misused>() => Err(error),
        view => Ok((findings, view.map(Probes::of))),
    }
}

/// What a view says of its node.
struct Probes {
    capabilities: Vec<Capability>,
    /// What is missing beside them, each object once.
    unread: Vec<Gap>,
}

impl Probes {
    fn of(view: View) -> Self {
        // Capabilities come first, so what follows those that are missing without any gap is unread.
        let n_absent = missing(&view.capabilities, &[]).len();
        let unread = view.missing().into_iter().skip(n_absent);
        let gap = |name| view.snapshot.gaps.iter().find(|gap| gap.object == name).cloned();
        let unread = unread.filter_map(gap).collect();
        Self { capabilities: view.capabilities, unread }
    }
}

impl<'a> Summary<'a> {
    fn of_all(findings: &'a [Finding], probes: &'a Result<Probes>) -> Self {
        match probes {
            Ok(probes) => Self::of(findings, Some(&probes.capabilities)).and_unread(&probes.unread),
            Err(_) => Self::of(findings, None),
        }
    }
}

fn told(findings: &[Finding], probes: &Result<Probes>, summary: &Summary) -> Value {
    let of_view = probes.as_ref().ok();
    json!({
        "apiVersion": API_VERSION, "kind": "Diagnosis",
        "findings": findings,
        "capabilities": of_view.map_or(&[][..], |probes| &probes.capabilities),
        "unread": of_view.map_or(&[][..], |probes| &probes.unread),
        "capabilitiesUnknown": probes.as_ref().err().map(|why| format!("{why:#}")),
        "summary": summary,
    })
}

/// The capabilities together, where no view tells them apart.
const PROBES: &str = "probes";

struct Line<'a> {
    sign: &'a str,
    name: &'a str,
    detail: String,
    remedy: Option<&'a str>,
}

fn write(
    out: &mut dyn Write,
    findings: &[Finding],
    probes: &Result<Probes>,
    width: Option<usize>,
) -> io::Result<()> {
    let of_finding = |finding: &'_ Finding| match (finding.state, finding.needed) {
        (State::Ok, _) => "ok",
        (State::Missing, true) => "MISSING",
        (State::Missing, false) => "absent",
        (State::Unknown, _) => "unknown",
    };
    let mut lines: Vec<_> = findings
        .iter()
        .map(|finding| Line {
            sign: of_finding(finding),
            name: finding.name,
            detail: finding.detail.clone(),
            remedy: finding.remedy,
        })
        .collect();
    match probes {
        Ok(Probes { capabilities, unread }) => {
            lines.extend(capabilities.iter().map(|probe| Line {
                sign: match probe.state {
                    CapabilityState::Attached => "ok",
                    other => other.name(),
                },
                name: &probe.name,
                detail: probe.detail.clone(),
                remedy: probe.remedy.as_deref(),
            }));
            lines.extend(unread.iter().map(|gap| Line {
                sign: "unread",
                name: &gap.object,
                detail: gap.detail.clone(),
                remedy: None,
            }));
        }
        Err(why) => {
            let detail = format!("{why:#}");
            lines.push(Line { sign: "unknown", name: PROBES, detail, remedy: None });
        }
    }
    aligned(out, &lines, width)
}

/// Three columns; the last is wrapped at the terminal's width.
fn aligned(out: &mut dyn Write, lines: &[Line<'_>], width: Option<usize>) -> io::Result<()> {
    const SIGN: usize = 8;
    const NARROWEST: usize = 30;
    let names = lines.iter().map(|line| line.name.width()).max().unwrap_or(0);
    let room =
        width.map_or(usize::MAX, |width| width.saturating_sub(SIGN + 1 + names + 1).max(NARROWEST));
    for Line { sign, name, detail, remedy } in lines {
        let (name, detail) = (harmless(name), harmless(detail));
        let pad = " ".repeat(names.saturating_sub(name.width()));
        let remedy = remedy.map(|remedy| format!("remedy: {}", harmless(remedy)));
        let mut texts = wrapped(&detail, room);
        texts.extend(remedy.iter().flat_map(|remedy| wrapped(remedy, room)));
        let below = " ".repeat(names);
        for (n, text) in texts.iter().enumerate() {
            let line = match n {
                0 => format!("\x1b[{}m{sign:<SIGN$}\x1b[0m {name}{pad} {text}", colour(sign)),
                _ => format!("{:<SIGN$} {below} {text}", ""),
            };
            writeln!(out, "{}", line.trim_end())?;
        }
    }
    Ok(())
}

/// As in `isobar status`.
fn colour(sign: &str) -> &'static str {
    match sign {
        "ok" => "32",
        "MISSING" => "31;1",
        "unknown" | "off" => "2",
        _ => "33",
    }
}

#[cfg(test)]
mod tests {
    use anstream::StripStream;
    use isobar_core::model::sample::GapReason;
    use isobar_core::model::snapshot::Snapshot;

    use super::*;

    #[test]
    fn probes_and_what_is_unread_are_what_a_view_misses() {
        let capability = |name: &str, state| Capability::new(name, state, "");
        let gap = |object: &str, why| Gap { object: object.into(), why, detail: "no".into() };
        let capabilities =
            vec![capability("a", CapabilityState::Absent), capability("b", CapabilityState::Off)];
        let gaps = [GapReason::Unsupported, GapReason::Denied].map(|why| gap("/x", why));
        let gaps =
            gaps.into_iter().chain([gap("a", GapReason::Denied), gap("/y", GapReason::Gone)]);
        let snapshot = Snapshot { gaps: gaps.collect(), ..Snapshot::default() };
        let view = View { capabilities, snapshot, ..View::default() };
        assert_eq!(view.missing(), ["a", "/x"]);
        let summary = Ok(Probes::of(view));
        let line = Summary::of_all(&[], &summary).line();
        assert_eq!(
            line,
            "0 ok; 1 absent, and isobar works without: a; 1 off: b; 1 cannot be read: /x"
        );
    }

    #[test]
    fn aligned_wraps_text_at_terminal_width() {
        let long = "it counts stalls by tracepoint alone: the cause of a limit is unknown";
        let line = |name, detail: &str, remedy| Line {
            sign: "absent",
            name,
            detail: detail.into(),
            remedy,
        };
        let lines = [
            line("cgroup v2", "/sys/fs/cgroup", None),
            line("mm_vmscan_memcg_reclaim_begin", long, Some("boot a newer kernel")),
        ];
        let printed = |width| {
            let mut out = Vec::new();
            aligned(&mut StripStream::new(&mut out), &lines, width).unwrap();
            String::from_utf8(out).unwrap()
        };
        let narrow = "\
absent   cgroup v2                     /sys/fs/cgroup
absent   mm_vmscan_memcg_reclaim_begin it counts stalls by tracepoint alone: the
                                       cause of a limit is unknown
                                       remedy: boot a newer kernel
";
        assert_eq!(printed(Some(80)), narrow);
        assert!(printed(None).contains(long), "without a terminal nothing is wrapped");
    }
}
