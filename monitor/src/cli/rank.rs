//! `isobar rank`: who would go first, of the pods in a file or of this node now.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::ValueEnum;
use isobar::agent::{Live, Observer, Plan};
use isobar::config::{Invalid, yaml};
use isobar::scenario::{self, Scenario, signals};
use isobar::serve::document::API_VERSION;
use isobar_core::model::decision::{Candidate, Key, KeyValue, Order, Ranking};
use isobar_core::model::settings;
use isobar_core::policy::rank::{self, Purpose};
use serde::Serialize;

use super::exit::Code;
use super::input;
use super::output::{Plain, pretty};
use super::plan::PlanArgs;
use super::run::SourceArgs;
use super::table::{Set, Table};
use super::terminal::{harmless, width};

/// What a scenario must hold is in docs/policy.md, "Ranking".
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rank the pods in this file, `-` for standard input; without one, those of this node now.
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// What is short, such as memory.available or kubepods.cpu.pressure.
    #[arg(long, value_name = "SIGNAL", value_parser = signal)]
    signal: Option<Purpose>,
    /// By which keys; without it, as the file or the configuration says.
    #[arg(long, value_enum)]
    order: Option<OrderArg>,
    /// In which form.
    #[arg(short, long, value_enum, default_value_t = Plain::Table)]
    output: Plain,
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    sources: SourceArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OrderArg {
    /// By class of service, priority, harm to others, use above request, youth.
    Qos,
    /// As the kubelet does.
    Kubelet,
}

impl From<OrderArg> for Order {
    fn from(order: OrderArg) -> Self {
        match order {
            OrderArg::Qos => Self::Qos,
            OrderArg::Kubelet => Self::Kubelet,
        }
    }
}

/// What is printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    ranking: &'a Ranking,
}

pub(crate) fn run(args: &Args) -> Result<Code> {
    let plan = args.plan.plan()?;
    let ranking = match &args.file {
        Some(file) => of_file(file, args, &plan.settings.ranking)?,
        None => of_node(args, plan)?,
    };
    let mut out = io::stdout().lock();
    match args.output {
        Plain::Table => write(&mut out, &ranking, width())?,
        Plain::Json => {
            let document =
                Document { api_version: API_VERSION, kind: "Ranking", ranking: &ranking };
            pretty(&mut out, &document)?;
        }
    }
    Ok(Code::Ok)
}

fn signal(name: &str) -> Result<Purpose, String> {
    Purpose::named(name).ok_or_else(|| format!("expected one of {}", signals()))
}

/// The usual first question: who would go if memory ran out?
fn usual() -> Purpose {
    Purpose::of_signal(isobar_core::model::threshold::Signal::MemoryAvailable)
}

/// Reads `file`, or standard input for `-`.
fn read(file: &Path) -> Result<Scenario> {
    let (name, bytes) = input::read(file)?;
    let text = yaml::utf8(&bytes).map_err(|problem| Invalid::one(&name, problem))?;
    Ok(scenario::parse(&name, text)?)
}

/// A flag wins over the file, and that over the configuration.
fn of_file(file: &Path, args: &Args, rules: &settings::Ranking) -> Result<Ranking> {
    let scenario = read(file)?;
    let purpose = args.signal.or(scenario.purpose).unwrap_or_else(usual);
    let order = args.order.map(Order::from).or(scenario.order).unwrap_or(rules.order);
    let contenders = scenario.contenders(purpose, rules);
    Ok(rank::rank_all(&contenders, purpose, order, rules))
}

/// Two samples a second apart, judged without an agent.
fn of_node(args: &Args, mut plan: Plan) -> Result<Ranking> {
    let purpose = args.signal.unwrap_or_else(usual);
    if let Some(order) = args.order {
        plan.settings.ranking.order = order.into();
    }
    let node = Live::open(&args.sources.options(&plan.settings.node.kubelet_root))?;
    let ranking = Observer::new(node, plan).rank(purpose);
    Ok(ranking.expect("an observer has taken a sample before it ranks"))
}

fn write(out: &mut impl Write, ranking: &Ranking, width: Option<usize>) -> io::Result<()> {
    let Ranking { signal, order, candidates, spared, outsiders, .. } = ranking;
    let order = word(order);
    match candidates.len() {
        0 => writeln!(out, "{signal}, order {order}: nobody may be chosen")?,
        n => writeln!(out, "{signal}, order {order}: {n} candidates, first to go first")?,
    }
    if !candidates.is_empty() {
        table(candidates).write(out, width)?;
    }
    if !spared.is_empty() {
        writeln!(out, "\nnever chosen")?;
        let mut table = Table::new([("NAME", Set::Name), ("WHY", Set::Left)]);
        for spared in spared {
            table.row([spared.name.clone(), word(&spared.why)]);
        }
        table.write(out, width)?;
    }
    for outsider in outsiders {
        let (path, ms) = (harmless(&outsider.path.0), outsider.harm.0 / 1_000_000);
        writeln!(out, "\nno pod, but others wait for it {ms} ms a second: {path}")?;
    }
    Ok(())
}

/// One row to a candidate, one column to a key; the last says which key sent the one before first.
fn table(candidates: &[Candidate]) -> Table {
    let keys = keys(candidates);
    let columns = keys.iter().map(|key| (heading(*key), Set::Right));
    let mut table = Table::new(
        [("NAME", Set::Name)].into_iter().chain(columns).chain([("SPARED-BY", Set::Left)]),
    );
    let before = std::iter::once(None).chain(candidates.iter().map(Some));
    for (candidate, before) in candidates.iter().zip(before) {
        let name = match candidate.members.len() {
            0 => candidate.name.clone(),
            n => format!("{} ({n} pods)", candidate.name),
        };
        let values = keys.iter().map(|key| {
            let found = candidate.keys.iter().find(|merit| merit.key == *key);
            found.map_or_else(|| "-".into(), |merit| value(&merit.value))
        });
        let spared_by = before
            .and_then(|before| rank::why_before(before, candidate))
            .map_or_else(|| "-".into(), |(_, its)| word(&its.key));
        table.row([name].into_iter().chain(values).chain([spared_by]));
    }
    table
}

/// The keys that any candidate has, in the order in which they decide; the uid has no column.
fn keys(candidates: &[Candidate]) -> Vec<Key> {
    let mut keys = Vec::new();
    for candidate in candidates {
        let mut at = 0;
        for merit in candidate.keys.iter().filter(|merit| merit.key != Key::Uid) {
            match keys.iter().position(|key| *key == merit.key) {
                Some(found) => at = found + 1,
                None => {
                    keys.insert(at, merit.key);
                    at += 1;
                }
            }
        }
    }
    keys
}

fn heading(key: Key) -> &'static str {
    match key {
        Key::HasStats => "STATS",
        Key::ExceedsRequest => "ABOVE-REQUEST",
        Key::Priority => "PRIORITY",
        Key::Excess => "EXCESS",
        Key::Usage => "USE",
        Key::Qos => "CLASS",
        Key::Harm => "HARM-MS/S",
        Key::Processes => "PROCESSES",
        Key::Started => "STARTED",
        Key::Preference => "PREFERENCE",
        Key::Uid => "UID",
    }
}

fn value(value: &KeyValue) -> String {
    match value {
        KeyValue::Bool(true) => "yes".into(),
        KeyValue::Bool(false) => "no".into(),
        KeyValue::Unknown => "?".into(),
        KeyValue::Class(class) => word(class),
        KeyValue::Number(n) => n.to_string(),
        KeyValue::Quantity(quantity) => quantity.to_string(),
        KeyValue::Text(text) => text.clone(),
    }
}

/// The word that JSON has for it.
fn word(what: &impl Serialize) -> String {
    let json = serde_json::to_value(what).ok();
    json.as_ref().and_then(serde_json::Value::as_str).unwrap_or("?").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(scenario: &str) -> String {
        let scenario = scenario::parse("-", scenario).unwrap();
        let rules = settings::Ranking::default();
        let purpose = usual();
        let pods = scenario.contenders(purpose, &rules);
        let ranking = rank::rank_all(&pods, purpose, Order::Qos, &rules);
        let mut out = Vec::new();
        write(&mut out, &ranking, None).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_table_says_for_each_what_sent_the_one_before_first() {
        let got = printed(
            "pods: [{name: hog, usage: {memory: 800Mi}}, {name: web, request: {memory: 1Gi}, \
             usage: {memory: 2Gi}}, {name: etcd, priority: 2000001000, usage: {memory: 1Gi}}]",
        );
        let want = "memory.available, order qos: 2 candidates, first to go first\n\
                    NAME       CLASS  ABOVE-REQUEST  PRIORITY  HARM-MS/S  EXCESS  STARTED  SPARED-BY\n\
                    hog   BestEffort              -         0          ?   800Mi        ?  -\n\
                    web    Burstable            yes         0          ?     1Gi        ?  qos\n\
                    \n\
                    never chosen\n\
                    NAME  WHY\n\
                    etcd  critical\n";
        assert_eq!(got, want);
    }

    #[test]
    fn nobody_to_choose_is_said() {
        assert_eq!(printed("pods: []"), "memory.available, order qos: nobody may be chosen\n");
    }
}
