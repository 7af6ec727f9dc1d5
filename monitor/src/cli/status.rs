//! `isobar status`: headline, verdicts, mode, and what is missing, in a few lines.

mod wait;
mod watch;

use std::io::{self, Write};
use std::time::Duration;

use anyhow::Result;
use isobar_core::model::capability::Capability;
use isobar_core::model::condition::{Condition, Status};
use isobar_core::model::sample::GapReason;
use isobar_core::model::units::Percent;
use isobar_core::view::View;
use isobar_core::view::verdict::{Mood, PRESSED_AND_TRUE, Resource, Verdict};
use serde_json::{Value, json};

use self::wait::Wish;
use super::ask;
use super::at::AtArgs;
use super::duration::duration;
use super::exit::Code;
use super::output::{Format, word};
use super::table::Table;
use super::terminal::harmless;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// Print a line, or a document, now and at each change of a verdict or condition, until SIGINT.
    /// Of a range of a recording that is what --begin and --end print.
    #[arg(short, long, conflicts_with_all = ["at", "begin", "end", "recording"])]
    watch: bool,
    /// With --watch, also print after this time without a change, such as 10s.
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true, requires = "watch")]
    interval: Option<Duration>,
    /// Print the summary once CONDITION has this status: true (default), false or unknown. CONDITION
    /// is cpu, memory or io, which are true where this verb prints PRESSED, or a type of condition,
    /// such as SystemMemoryContentionPressure or MemoryPressure. Ends with 0, with 1 if --timeout
    /// has passed, or with 3 if the agent refuses to answer.
    #[arg(long, value_name = "CONDITION[=STATUS]", conflicts_with_all = ["at", "begin", "end", "recording", "watch"])]
    wait: Option<Wish>,
    /// How long --wait waits.
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true, default_value = "30s", requires = "wait")]
    timeout: Duration,
    #[command(flatten)]
    at: AtArgs,
    #[command(flatten)]
    ask: ask::AgentArgs,
}

/// Missing capabilities and unreadable files that are named; more are counted.
const NAMED: usize = 3;

pub(crate) fn run(args: &Args, sampling: &[String]) -> Result<Code> {
    let eye = || ask::Eye::open(&args.ask, sampling);
    if args.watch {
        match watch::run(eye()?, args.output, args.interval)? {}
    }
    if let Some(ticks) = args.at.ticks(&args.ask)? {
        return watch::past(ticks, args.output);
    }
    let (view, is_awaited) = match (args.at.view(&args.ask)?, &args.wait) {
        (Some(view), _) => (view, false),
        (None, Some(wish)) => {
            let eye = ask::Eye::awaited(&args.ask, sampling)?;
            (wait::run(eye, wish, args.timeout)?, true)
        }
        (None, None) => (eye()?.look()?, false),
    };
    let past = args.at.moment(&view, &args.ask);
    args.output.print(&summary(&view), |out| {
        out.write_all(past.as_bytes())?;
        Ok(write(out, &view, args.output)?)
    })?;
    Ok(if is_awaited { Code::Ok } else { code(&view) })
}

/// For scripts: whether a resource is pressed, or a condition True.
fn code(view: &View) -> Code {
    let is_pressed = is_pressed(view) || view.decision.assessment.holding().next().is_some();
    if is_pressed { Code::UnderPressure } else { Code::Ok }
}

fn is_pressed(view: &View) -> bool {
    view.verdict.iter().any(|verdict| verdict.mood == Mood::Pressed)
}

fn write(out: &mut dyn Write, view: &View, output: Format) -> io::Result<()> {
    let facts = &view.facts;
    let name = harmless(&facts.name);
    writeln!(out, "{name}, kernel {}, {} CPUs", facts.kernel, facts.n_cpus)?;
    verdicts(out, view)?;
    let is_true = |one: &Condition| one.status == Status::True;
    if is_pressed(view) || view.decision.assessment.conditions.iter().any(is_true) {
        writeln!(out, "{PRESSED_AND_TRUE}")?;
    }
    for sentence in view.explanation.why.iter().chain(&view.explanation.verdict) {
        writeln!(out, "{}", harmless(sentence))?;
    }
    if let Some(mode) = relief(view) {
        writeln!(out, "mode    {}", harmless(mode))?;
    }
    if let Some(tally) = view.foresight.and_then(|tally| tally.in_words()) {
        writeln!(out, "so far  {tally}")?;
    }
    let named = if output.is_wide() { usize::MAX } else { NAMED };
    if let Some(missing) = missing(view, named) {
        writeln!(out, "missing {}", harmless(&missing))?;
    }
    // A table that is too small makes figures wrong, and an option mends it.
    for gap in view.snapshot.gaps.iter().filter(|gap| gap.why == GapReason::Full) {
        writeln!(out, "lost    {}", harmless(&format!("{}: {}", gap.object, gap.detail)))?;
    }
    let conditions = &view.decision.assessment.conditions;
    if output.is_wide() && !conditions.is_empty() {
        writeln!(out)?;
        let mut table = Table::new("CONDITION STATUS PHASE AVG10> AVG60> THRESHOLD>");
        let shown =
            |average: Option<Percent>| average.map_or_else(|| "-".into(), |a| a.to_string());
        for condition in conditions {
            let Condition { kind, status, phase, avg10, avg60, threshold, .. } = condition;
            let (phase, threshold) = (word(phase), threshold.to_string());
            let (status, kind) = (status.name().to_owned(), kind.clone());
            table.row([kind, status, phase, shown(*avg10), shown(*avg60), threshold]);
        }
        table.write(out, None)?;
    }
    Ok(())
}

/// What the agent does about pressure; `None` without an agent.
pub(crate) fn relief(view: &View) -> Option<&str> {
    let relief =
        view.capabilities.iter().find(|capability| capability.name == Capability::RELIEF)?;
    Some(&relief.detail)
}

/// The first names of what is missing, and how many more; `None` if nothing is.
fn missing(view: &View, n_named: usize) -> Option<String> {
    let names = view.missing();
    let more = match names.len() {
        0 => return None,
        n if n > n_named => format!(" and {} more", n - n_named),
        _ => String::new(),
    };
    let named = names.into_iter().take(n_named).collect::<Vec<_>>().join(", ");
    Some(format!("{named}{more}; `isobar doctor` lists causes and remedies"))
}

/// The headline, and one line for each resource.
pub(crate) fn verdicts(out: &mut dyn Write, view: &View) -> io::Result<()> {
    writeln!(out, "{}", harmless(&view.headline))?;
    for verdict in &view.verdict {
        let resource = match verdict.resource {
            Resource::Cpu => "CPU",
            Resource::Memory => "memory",
            Resource::Io => "io",
        };
        writeln!(out, "{resource:<7} {}  {}", paint(verdict), verdict.text)?;
    }
    Ok(())
}

/// The word of a verdict, in its colour and as wide as the longest.
fn paint(verdict: &Verdict) -> String {
    let colour = match verdict.mood {
        Mood::Pressed => "31;1",
        _ if verdict.is_short => "33",
        Mood::Calm => "32",
        Mood::Waits => "33",
        Mood::Unknown => "2",
    };
    format!("\x1b[{colour}m{:<7}\x1b[0m", verdict_word(verdict))
}

/// The word of a verdict; loud where it is the worst one, also without colour.
pub(super) fn verdict_word(verdict: &Verdict) -> &'static str {
    if verdict.mood == Mood::Pressed { "PRESSED" } else { verdict.word() }
}

fn summary(view: &View) -> Value {
    json!({
        "apiVersion": isobar_core::view::API_VERSION,
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
        "foresight": view.foresight,
        "gaps": view.snapshot.gaps,
        "missing": view.missing(),
        "cost": view.cost,
    })
}

#[cfg(test)]
mod tests {
    use isobar_core::model::capability::CapabilityState;
    use isobar_core::model::sample::Gap;
    use isobar_core::model::snapshot::Snapshot;

    use super::*;

    #[test]
    fn missing_is_one_line_that_names_doctor() {
        let capability = |name: &str, state| Capability::new(name, state, "observing");
        let off = |name: &&str| capability(name, CapabilityState::Absent);
        let tail = "; `isobar doctor` lists causes and remedies";
        #[rustfmt::skip]
        let table: [(&[&str], &[&str], Option<&str>); 5] = [
            // absent, unread, line
            (&[],                        &[],                   None),
            (&["a", "b"],                &[],                   Some("a, b")),
            (&["a", "b", "c", "d", "e"], &[],                   Some("a, b, c and 2 more")),
            (&["a"],                     &["/x", "/x", "/y", "/x"], Some("a, /x, /y")),
            (&[],                        &["/x", "/y", "/x", "/z", "/z", "/w"], Some("/x, /y, /z and 1 more")),
        ];
        for (names, unread, want) in table {
            let gap = |object: &&str| Gap {
                object: (*object).into(),
                why: GapReason::Unsupported,
                detail: "no such file".into(),
            };
            let mut capabilities: Vec<_> = names.iter().map(off).collect();
            capabilities.push(capability("sched_switch", CapabilityState::Attached));
            let gaps = unread.iter().map(gap).collect();
            let snapshot = Snapshot { gaps, ..Snapshot::default() };
            let view = View { capabilities, snapshot, ..View::default() };
            assert_eq!(
                missing(&view, NAMED),
                want.map(|want| format!("{want}{tail}")),
                "{names:?} {unread:?}"
            );
        }
    }
}
