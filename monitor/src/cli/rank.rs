//! `isobar rank`: the order in which pods would be evicted, of a file or of this node.

mod print;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Error, Result, bail};
use clap::ValueEnum;
use isobar::agent::{Live, Observer, Plan};
use isobar::clock;
use isobar::clock::written::When;
use isobar::record::incident::words::clock as date;
use isobar::scenario::{self, signals};
use isobar::serve::address::Address;
use isobar_core::model::decision::{Decision, Order, Ranking};
use isobar_core::model::sample::{Gap, GapReason};
use isobar_core::model::settings;
use isobar_core::model::snapshot::Snapshot;
use isobar_core::model::units::Moment;
use isobar_core::policy::engine::Step;
use isobar_core::policy::rank::{self, Purpose};
use isobar_core::view::Document;
use serde::{Deserialize, Serialize};

use super::afar::exact;
use super::ask::Place;
use super::at::{self, Past};
use super::elsewhere::{NodeArg, document};
use super::exit::{Code, Misused};
use super::input;
use super::output::{Format, List, gap_text, say};
use super::plan::PlanArgs;
use super::range::{RangeArgs, Ticks};
use super::run::SourceArgs;
use super::terminal::harmless;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Scenario file (`kind: Scenario`, see docs/configuration.md), or manifests of pods, or what
    /// `kubectl get pods -o yaml` or `-o json` prints of the pods of a node; - for standard input; or a
    /// recording [default: the pods of this node].
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The moment of the recording that is ranked, as in `isobar status --at`: now and -10m count from
    /// its end with -f, of an agent by its clock [default: its last tick].
    #[arg(long, value_name = "TIME", value_parser = at::when, allow_hyphen_values = true, conflicts_with_all = ["begin", "end"])]
    at: Option<When>,
    #[command(flatten)]
    range: RangeArgs,
    /// The signal whose threshold is met, such as memory.available or kubepods.cpu.pressure [default:
    /// the file's, or of a recording what was relieved then; else memory.available].
    #[arg(long, value_name = "SIGNAL", value_parser = signal)]
    signal: Option<Purpose>,
    /// Order of candidates [default: the file's, else the configuration's].
    #[arg(long, value_enum, conflicts_with_all = ["at", "begin", "end"])]
    order: Option<OrderArg>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// Ask the agent at this address, or its socket file as unix:PATH [default: own samples, or the
    /// recording].
    #[arg(long, value_name = "ADDR")]
    agent: Option<Address>,
    #[command(flatten)]
    node: NodeArg,
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    sources: SourceArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OrderArg {
    /// For memory, the pods that took it first; for the rest, and where what they took is unknown, as qos.
    Cause,
    /// By QoS class, priority, harm to others, usage above request, start time.
    Qos,
    /// The kubelet's order.
    Kubelet,
}

impl From<OrderArg> for Order {
    fn from(order: OrderArg) -> Self {
        match order {
            OrderArg::Cause => Self::Cause,
            OrderArg::Qos => Self::Qos,
            OrderArg::Kubelet => Self::Kubelet,
        }
    }
}

/// A ranking of a recording.
#[derive(Debug, Serialize)]
struct Dated<'a> {
    #[serde(flatten)]
    of: Document<&'a Ranking>,
    tick: u64,
    at: Moment,
    #[serde(skip)]
    ranking: &'a Ranking,
}

/// What an agent has decided last, or would have at another moment.
#[derive(Deserialize)]
struct Told<T> {
    tick: u64,
    at: Moment,
    #[serde(flatten)]
    of: T,
}

#[derive(Deserialize)]
struct Decided {
    decision: Decision,
}

#[derive(Deserialize)]
struct Ranked {
    ranking: Ranking,
}

pub(crate) fn run(args: &Args, sampling: &[String]) -> Result<Code> {
    let place = args.node.place()?.or_else(|| args.agent.clone().map(Place::Address));
    if let Some(place) = place {
        refuse_rules(args, sampling)?;
        return of_agent(&place, args);
    }
    if args.range.is_asked() {
        refuse_rules(args, sampling)?;
        return course(Ticks::open(args.file.as_deref(), args.range)?, args);
    }
    let plan = args.plan.plan(None)?;
    let (ranking, now) = match &args.file {
        Some(file) if args.at.is_none() && !input::is_recording(file) => {
            (of_file(file, args, &plan.settings.ranking)?, None)
        }
        file if args.at.is_some() || file.is_some() => return of_past(args, sampling),
        _ => (of_node(args, plan)?, Some(clock::now().wall)),
    };
    let document = Document::new("Ranking", &ranking);
    args.output.print(&document, |out| Ok(print::write(out, &ranking, now, args.output)?))?;
    Ok(Code::Ok)
}

/// Of the present, an agent ranks while a threshold is due; of what it has recorded, for any signal.
fn of_agent(place: &Place, args: &Args) -> Result<Code> {
    if args.range.is_asked() {
        let text = "an agent ranks for one moment: name it with --at, or name a recording with -f";
        bail!(Misused(text.into()));
    }
    let (tick, at, ranking) = match (args.at, args.signal) {
        (Some(asked), signal) => {
            let signal = signal.map(|signal| format!("&signal={}", signal.name));
            let path = format!("/api/v1/rank?at={}{}", exact(asked)?, signal.unwrap_or_default());
            let Told { tick, at, of: Ranked { ranking } } =
                document(place, &path, "its ranking of that moment")?;
            if let When::Wall(asked) = asked {
                at::warn_if_old(asked, at);
            }
            (tick, at, ranking)
        }
        (None, Some(_)) => {
            let text = "an agent ranks for --signal at a moment that it has recorded: add --at now";
            bail!(Misused(text.into()));
        }
        (None, None) => {
            let Told { tick, at, of: Decided { decision } } =
                document(place, "/api/v1/decisions", "its decision")?;
            let Some(ranking) = decision.ranking else {
                bail!(
                    "the agent on {place} ranks nobody, because no threshold is due; to rank as if \
                     one were, add --at now"
                );
            };
            (tick, at, ranking)
        }
    };
    let dated = Dated { of: Document::new("Ranking", &ranking), tick, at, ranking: &ranking };
    args.output.print(&dated, |out| Ok(dated.write(out, args.output)?))?;
    Ok(Code::Ok)
}

fn signal(name: &str) -> Result<Purpose, String> {
    Purpose::named(name).ok_or_else(|| format!("expected one of {}", signals()))
}

/// An option overrides the file, and the file overrides the configuration.
fn of_file(file: &Path, args: &Args, rules: &settings::Ranking) -> Result<Ranking> {
    let (name, bytes) = input::read(file)?;
    let scenario = scenario::parse(&name, &bytes)?;
    scenario.notes.iter().for_each(say);
    let purpose = args.signal.or(scenario.purpose).unwrap_or_else(Purpose::usual);
    let order = args.order.map(Order::from).or(scenario.order).unwrap_or(rules.order);
    let contenders = scenario.contenders(purpose, rules);
    Ok(rank::rank_all(&contenders, purpose, order, rules))
}

/// A recording is ranked by its own configuration, and in its order.
fn refuse_rules(args: &Args, sampling: &[String]) -> Result<()> {
    let order = args.order.map(|_| "--order".to_owned());
    let ignored: Vec<_> = sampling.iter().cloned().chain(order).collect();
    if !ignored.is_empty() {
        let options = ignored.join(", ");
        let text = format!("a recording is ranked by its own configuration: leave {options} out");
        return Err(Misused(text).into());
    }
    Ok(())
}

fn of_past(args: &Args, sampling: &[String]) -> Result<Code> {
    refuse_rules(args, sampling)?;
    let past = Past::open(args.at.or(Some(When::Wall(at::LAST))), args.file.as_deref())?;
    let past = past.expect("a moment is named");
    let (step, ranking) = past.rank(args.signal)?;
    let document = Dated::new(&step, &ranking);
    args.output.print(&document, |out| Ok(document.write(out, args.output)?))?;
    Ok(Code::Ok)
}

impl<'a> Dated<'a> {
    fn new(step: &Step, ranking: &'a Ranking) -> Self {
        let Snapshot { tick, at, .. } = step.snapshot;
        Self { tick, at, of: Document::new("Ranking", ranking), ranking }
    }

    fn write(&self, out: &mut dyn Write, output: Format) -> io::Result<()> {
        writeln!(out, "{}, tick {}", date(self.at.wall), self.tick)?;
        print::write(out, self.ranking, Some(self.at.wall), output)
    }
}

/// The ranking at the begin of a range, and each time that another candidate came first.
fn course(mut ticks: Ticks, args: &Args) -> Result<Code> {
    let mut list = List::new(args.output, "RankingList");
    let mut last = None;
    while let Some((step, ranking)) = ticks.ranking(args.signal)? {
        let first = ranking.candidates.first();
        let first =
            first.map(|first| (first.namespace.clone(), first.name.clone(), first.uid.clone()));
        let first = (ranking.signal.clone(), first);
        if last.as_ref() == Some(&first) {
            continue;
        }
        last = Some(first);
        let gap = if list.is_empty() { "" } else { "\n" };
        let document = Dated::new(&step, &ranking);
        list.add(&document, |out| {
            out.write_all(gap.as_bytes())?;
            Ok(document.write(out, args.output)?)
        })?;
    }
    list.close()?;
    Ok(Code::Ok)
}

/// Two samples a second apart, judged without an agent.
fn of_node(args: &Args, mut plan: Plan) -> Result<Ranking> {
    let purpose = args.signal.unwrap_or_else(Purpose::usual);
    if let Some(order) = args.order {
        plan.settings.ranking.order = order.into();
    }
    let node = Live::open(&args.sources.options(&plan.settings.node.kubelet_root))?;
    let mut observer = Observer::new(node, plan);
    let ranking = observer.rank(purpose).expect("an observer has taken a sample before it ranks");
    let sees_none = ranking.n_candidates + ranking.n_spared == 0;
    let gaps = observer.gaps().iter();
    // What hides a pod makes any ranking wrong; the rest tells why there may be none.
    for gap in gaps.filter(|gap| sees_none || hides_pods(gap)) {
        say(format_args!("cannot read {}", gap_text(gap)));
    }
    match observer.gaps().iter().find(|gap| hides_pods(gap)) {
        Some(gap) if sees_none => Err(unseen(gap)),
        _ => Ok(ranking),
    }
}

/// True of a directory of cgroups that could not be listed: pods may be in it.
fn hides_pods(gap: &Gap) -> bool {
    gap.object.ends_with('/') && gap.why != GapReason::Gone
}

/// Why no pod is seen, by the first directory that could not be listed.
fn unseen(gap: &Gap) -> Error {
    let kind = match gap.why {
        GapReason::Denied => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    };
    Error::new(io::Error::new(kind, gap.detail.clone()))
        .context(format!("no pod is seen, and cgroups are hidden in {}", harmless(&gap.object)))
}
