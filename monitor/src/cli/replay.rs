//! `isobar replay`: runs a recording through the engine again, and shows where another
//! configuration or another version decides differently; or serves it to browsers.

mod player;
mod what_if;

use std::borrow::Cow;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;
use isobar::clock::written::When;
use isobar::config;
use isobar::record::reader::Recording;
use isobar::record::replay::{Judged, Replay, Replayed};
use isobar::record::what_if::WhatIf;
use isobar::serve::address::Address;
use isobar_core::model::condition::Status;
use isobar_core::model::decision::{Action, Decision};
use isobar_core::policy::engine::Step;
use isobar_core::recording::difference::{self, Difference};
use isobar_core::room;
use isobar_core::view::pods::name_spared;
use isobar_core::view::{API_VERSION, Document};
use serde_json::{Value, json};

use super::at::{present, recording_at, wall, when};
use super::exit::{Code, Misused, Refused};
use super::input::FileArg;
use super::output::{Format, List, word};
use super::table::Table;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    file: FileArg,
    /// Configuration to decide by: print what it would have changed.
    #[arg(long, value_name = "FILE", conflicts_with = "check")]
    config: Option<PathBuf>,
    /// Compare with the recorded decisions byte by byte; exit with 1 at the first difference.
    #[arg(long)]
    check: bool,
    /// First tick to print.
    #[arg(long, value_name = "TICK", default_value_t = 0)]
    from: u64,
    /// Last tick to print.
    #[arg(long, value_name = "TICK", default_value_t = u64::MAX, hide_default_value = true)]
    to: u64,
    /// Serve the page and the API of the recording there until interrupted: an IP address and a
    /// port, or a socket file as unix:/run/isobar/replay.sock.
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["config", "check", "from", "to", "output"])]
    listen: Option<Address>,
    /// The moment at which the page opens: "10 min ago", -10m (before the end of the recording),
    /// today's or yesterday's 02:40, a time in RFC 3339, or seconds since 1970 [default: the first
    /// tick].
    #[arg(long, value_name = "TIME", value_parser = when, allow_hyphen_values = true, requires = "listen")]
    at: Option<When>,
    /// Output format [default: ndjson; table with --check; text with --config]. With --config, text,
    /// json and yaml have the lanes, table and wide each field that differs, ndjson each decision
    /// that does.
    #[arg(short, long, value_enum)]
    output: Option<Form>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// What the other configuration would have changed, as lanes over time.
    Text,
    /// A table for people.
    Table,
    /// The same.
    Wide,
    /// Indented JSON.
    Json,
    /// YAML, with the keys of the JSON.
    Yaml,
    /// One line of JSON for each tick.
    Ndjson,
}

impl Form {
    /// As of other verbs.
    fn format(self) -> Format {
        match self {
            Self::Text | Self::Table => Format::Table,
            Self::Wide => Format::Wide,
            Self::Json => Format::Json,
            Self::Yaml => Format::Yaml,
            Self::Ndjson => Format::Ndjson,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<Code> {
    if let Some(address) = &args.listen {
        let file = args.file.path();
        let at = args.at.map(|at| wall(at, || present(Some(file)))).transpose()?;
        return player::serve(file, address, at);
    }
    if args.from > args.to {
        let text = format!("--from {} is after --to {}", args.from, args.to);
        return Err(Refused(text).into());
    }
    if args.output == Some(Form::Text) && args.config.is_none() {
        let text =
            "-o text shows what another configuration would have changed: name it with --config";
        return Err(Misused(text.into()).into());
    }
    let other = args.config.as_deref().map(config::load).transpose()?;
    let file = match args.file.path() {
        file if file == Path::new("-") => Path::new("/dev/stdin"),
        file => file,
    };
    let recording = Recording::open(&recording_at(file))?;
    let is_other = other.is_some();
    // A comparison of nothing has an exit code of its own.
    let is_part = (args.from, args.to) != (0, u64::MAX) && !args.check;
    let lacks = is_part.then(|| {
        let file = args.file.path().display();
        Refused(match args.to {
            u64::MAX => format!("{file} has no tick from {} on", args.from),
            to => format!("{file} has no tick from {} to {to}", args.from),
        })
    });
    let ticks =
        Ticks { replay: Replay::new(recording, other), from: args.from, to: args.to, lacks };
    let mut out = BufWriter::new(io::stdout().lock());
    let code = match (args.check, args.output) {
        (true, form) => check(&mut out, ticks, form.unwrap_or(Form::Table).format())?,
        (false, form) if is_other => otherwise(&mut out, ticks, form.unwrap_or(Form::Text))?,
        (false, form) => decisions(&mut out, ticks, form.unwrap_or(Form::Ndjson).format())?,
    };
    out.flush()?;
    Ok(code)
}

/// The ticks from `from` to `to`. The ticks before them run through the engine too: decisions
/// depend on them.
struct Ticks {
    replay: Replay,
    from: u64,
    to: u64,
    /// What it means that none of them is there, until one was found.
    lacks: Option<Refused>,
}

impl Iterator for Ticks {
    type Item = Result<Judged>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(replayed) = self.replay.next() else {
                return self.lacks.take().map(|lacks| Err(lacks.into()));
            };
            match replayed {
                Err(error) => return Some(Err(error.into())),
                Ok(Replayed::Notice(text)) => tracing::warn!("{text}"),
                Ok(Replayed::Tick(judged)) if (self.from..=self.to).contains(&judged.tick) => {
                    self.lacks = None;
                    return Some(Ok(*judged));
                }
                Ok(Replayed::Tick(_)) => {}
            }
        }
    }
}

fn decisions(out: &mut impl Write, ticks: Ticks, format: Format) -> Result<Code> {
    let mut table = Table::new("TICK CONDITIONS ACTIONS NO-ACTION");
    let mut list = List::new(format, "DecisionList");
    for judged in ticks {
        let judged = judged?;
        let text = told(&judged);
        let fields = text.strip_prefix('{').unwrap_or(&text);
        let head = format!("{{\"apiVersion\":\"{API_VERSION}\",\"kind\":\"Decision\",");
        match format {
            Format::Table | Format::Wide => table.row(summary(&judged.step.decision)),
            Format::Ndjson => writeln!(out, "{head}{fields}")?,
            Format::Json | Format::Yaml => {
                list.add_json(format!("{head}{fields}").as_bytes(), |_| Ok(()))?;
            }
        }
    }
    if matches!(format, Format::Table | Format::Wide) {
        table.write(out, None)?;
    }
    list.close()?;
    Ok(Code::Ok)
}

/// The decision in the bytes that --check compares, but for the namespaces of spared pods: two of them may
/// have one name.
fn told(judged: &Judged) -> Cow<'_, str> {
    let Step { decision, snapshot, .. } = &judged.step;
    if decision.ranking.as_ref().is_none_or(|ranking| ranking.spared.is_empty()) {
        return Cow::Borrowed(&judged.text);
    }
    let mut decision = decision.clone();
    name_spared(&mut decision, snapshot);
    serde_json::to_string(&decision).map_or(Cow::Borrowed(&judged.text), Cow::Owned)
}

/// Conditions that are True, the actions, and the reason if a threshold is met without an action.
fn summary(decision: &Decision) -> [String; 4] {
    let raised = decision.assessment.conditions.iter().filter(|c| c.status == Status::True);
    let conditions: Vec<_> = raised.map(|c| c.kind.clone()).collect();
    let action = |action: &Action| format!("{} {}", word(&action.step), action.target.full_name());
    let actions: Vec<_> = decision.relief.actions.iter().map(action).collect();
    let joined = |all: Vec<String>| if all.is_empty() { "-".into() } else { all.join(", ") };
    let held =
        decision.relief.held.as_ref().map_or_else(|| "-".into(), |held| in_words(&json!(held)));
    [decision.tick.to_string(), joined(conditions), joined(actions), held]
}

/// The name of an enum's variant, as JSON has it, in words: `budgetSpent` is `budget spent`.
fn in_words(value: &Value) -> String {
    let name = match value {
        Value::Object(fields) => fields.keys().next().map(String::as_str),
        other => other.as_str(),
    };
    let letter = |c: char| match c.is_uppercase() {
        true => format!(" {}", c.to_lowercase()),
        false => c.into(),
    };
    name.unwrap_or("unknown").chars().map(letter).collect()
}

fn otherwise(out: &mut impl Write, ticks: Ticks, form: Form) -> Result<Code> {
    match form {
        Form::Text => what_if::write(&WhatIf::of(ticks)?, out)?,
        Form::Json | Form::Yaml => {
            form.format().write(out, &Document::new("WhatIf", WhatIf::of(ticks)?))?;
        }
        Form::Table | Form::Wide => differences(out, ticks, false)?,
        Form::Ndjson => differences(out, ticks, true)?,
    }
    Ok(Code::Ok)
}

/// One line of JSON for each decision that differs, or a table of their fields.
fn differences(out: &mut impl Write, ticks: Ticks, in_lines: bool) -> Result<()> {
    let mut table = Table::new("TICK> FIELD RECORDED WITH-CONFIG");
    let mut before = Vec::new();
    for judged in ticks {
        let judged = judged?;
        let found = difference::by_field(&verdict(&judged.recorded), &verdict(&judged.text));
        match in_lines {
            // A difference that lasts is shown once, where it begins.
            false => {
                for Difference { path, left, right } in &found {
                    let lasts = |last: &Difference| last.path == *path && last.right == *right;
                    if before.iter().any(lasts) {
                        continue;
                    }
                    let what = path.trim_start_matches('/').to_owned();
                    table.row([judged.tick.to_string(), what, shown(left), shown(right)]);
                }
            }
            true if found.is_empty() => {}
            true => {
                let line = json!({
                    "apiVersion": API_VERSION,
                    "kind": "Difference",
                    "tick": judged.tick,
                    "recorded": parsed(&judged.recorded),
                    "otherwise": parsed(&judged.text),
                });
                writeln!(out, "{line}")?;
            }
        }
        before = found;
    }
    if !in_lines {
        table.write(out, None)?;
    }
    Ok(())
}

/// What a decision came to; a text that this version cannot read, as it is.
fn verdict(text: &str) -> Value {
    let decision = room::from_slice(text.as_bytes());
    decision.map_or_else(|_| parsed(text), |decision| difference::verdict(&decision))
}

fn check(out: &mut impl Write, ticks: Ticks, format: Format) -> Result<Code> {
    let (mut n, mut found) = (0_u64, None);
    for judged in ticks {
        let judged = judged?;
        n += 1;
        if judged.recorded != judged.text {
            let (recorded, now) = (parsed(&judged.recorded), parsed(&judged.text));
            found = Some((judged.tick, difference::first(&recorded, &now)));
            break;
        }
    }
    let code = if found.is_none() && n > 0 { Code::Ok } else { Code::Failure };
    if !matches!(format, Format::Table | Format::Wide) {
        let first = found.as_ref().map(|(tick, difference)| {
            let place = difference.as_ref();
            json!({
                "tick": tick,
                "path": place.map(|d| &d.path),
                "recorded": place.map(|d| &d.left),
                "now": place.map(|d| &d.right),
            })
        });
        let document = json!({
            "apiVersion": API_VERSION, "kind": "Check", "compared": n, "difference": first,
        });
        format.write(out, &document)?;
        return Ok(code);
    }
    match found {
        None if n == 0 => writeln!(out, "no decisions to compare: none recorded for these ticks")?,
        None => writeln!(out, "{n} decisions compared, all the same")?,
        Some((tick, None)) => {
            writeln!(out, "tick {tick}: same values, different bytes")?;
        }
        Some((tick, Some(Difference { path, left, right }))) => {
            writeln!(out, "tick {tick} differs: {path}")?;
            writeln!(out, "  recorded  {}", shown(&left))?;
            writeln!(out, "  now       {}", shown(&right))?;
            writeln!(out, "{} decisions before it are the same", n - 1)?;
        }
    }
    Ok(code)
}

/// A text that is not JSON is shown unchanged.
fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.into()))
}

fn shown(value: &Option<Value>) -> String {
    value.as_ref().map_or_else(|| "-".into(), |value| super::terminal::harmless(&value.to_string()))
}

#[cfg(test)]
mod tests {
    use isobar_core::model::decision::Hold;
    use isobar_core::model::units::Nanos;

    use super::*;
    use isobar_core::model::decision::{Ranking, Spared, SparedReason};
    use isobar_core::model::workload::Pod;
    use std::collections::BTreeMap;

    #[test]
    fn told_has_the_namespaces_of_spared_pods() {
        let spared = |uid: &str| Spared {
            name: "web".into(),
            namespace: String::new(),
            uid: uid.into(),
            why: SparedReason::Static,
        };
        let pod = |uid: &str, namespace: &str| {
            let (name, namespace) = ("web".into(), namespace.into());
            (uid.into(), Pod { uid: uid.into(), name, namespace, ..Pod::default() })
        };
        let mut step = Step::default();
        step.decision.ranking =
            Some(Ranking { spared: vec![spared("u1"), spared("u2")], ..Ranking::default() });
        step.snapshot.pods = Some(BTreeMap::from([pod("u1", "shop"), pod("u2", "mail")]).into());
        let text = serde_json::to_string(&step.decision).unwrap();
        let (at, recorded) = (step.decision.at, text.clone());
        let told: Value =
            serde_json::from_str(&told(&Judged { tick: 0, at, recorded, text, step })).unwrap();
        let spared = &told["ranking"]["spared"];
        assert_eq!([&spared[0]["namespace"], &spared[1]["namespace"]], ["shop", "mail"]);
    }

    #[test]
    fn in_words_splits_names_of_variants() {
        #[rustfmt::skip]
        let table = [
            // reason, words
            (Hold::BudgetSpent { until: Nanos(1) }, "budget spent"),
            (Hold::InGrace,                         "in grace"),
        ];
        for (hold, want) in table {
            assert_eq!(in_words(&json!(hold)), want, "{hold:?}");
        }
    }
}
