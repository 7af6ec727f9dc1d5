//! `--advise`: what to reserve, from what a recording says that daemons used, and what limits would
//! have met.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use isobar::record::advice::{advise, name_evicted};
use isobar::record::incident::words::{clock, time};
use isobar::record::journal::Ring;
use isobar::record::reader::Recording;
use isobar::record::replay::always;
use isobar_core::model::quantity::ResourceList;
use isobar_core::view::Document;
use isobar_kubelet::advice::{
    Advice, Daemons, Group, Met, Percentiles, Preview, Reached, Share, Span, Tally,
};

use crate::cli::at::source;
use crate::cli::exit::{Code, Misused, Refused};
use crate::cli::node::ConfigArgs;
use crate::cli::output::Format;
use crate::cli::table::Table;
use crate::cli::terminal::{harmless, width};

/// Cgroups of a group that a table names; more are counted.
const NAMED: usize = 3;

#[derive(Debug, clap::Args)]
pub(super) struct AdviseArgs {
    /// Advise what to reserve for the kubelet, the runtime and the system, from a recording, and show
    /// what reservations and the limits of all pods would have met in it: those of --config, or else
    /// those that were in force.
    /// FILE is the recording, its directory, or the file of an incident [default:
    /// /var/lib/isobar/recording].
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with_all = ["capacity", "pods", "apply", "roll_back"])]
    advise: Option<Option<PathBuf>>,
    /// With --advise its file; else the same as --pods.
    #[arg(id = "input", short = 'f', long = "file", value_name = "FILE", conflicts_with_all = ["pods", "apply", "roll_back"])]
    pub(super) file: Option<PathBuf>,
}

impl AdviseArgs {
    /// `None` if it was not asked for.
    pub(super) fn run(&self, config: &ConfigArgs, output: Format) -> Result<Option<Code>> {
        let Some(file) = &self.advise else { return Ok(None) };
        if file.is_some() && self.file.is_some() {
            bail!(Misused("name one recording: --advise FILE, or --advise -f FILE".into()));
        }
        let settings = config.is_given().then(|| config.settings()).transpose()?;
        let other = || settings.clone().map(always);
        let file = source(file.as_deref().or(self.file.as_deref()))?;
        let notice = |why| tracing::warn!("{why}");
        let advice = advise(Recording::open(&file)?, other().as_deref(), notice, |_| true)?;
        let Some(mut advice) = advice else {
            bail!(Refused(format!("{} has no tick", file.display())))
        };
        name_evicted(&mut advice, &Ring::Files(file.clone()), other(), || true)?;
        output.print(&Document::new("Advice", &advice), |out| {
            write(out, &advice)?;
            Ok(writeln!(out, "{}", harmless(&ended(&file, config)))?)
        })?;
        Ok(Some(Code::Ok))
    }
}

/// Which command tells all who would have been evicted.
fn ended(file: &Path, config: &ConfigArgs) -> String {
    let (other, more) = match config.file() {
        Some(("--config", config)) => (config.display().to_string(), String::new()),
        Some((_, kubelet)) => {
            ("FILE".into(), format!(", where FILE has kubeletConfig: {}", kubelet.display()))
        }
        None => ("FILE".into(), ", where FILE has other ones".into()),
    };
    let file = file.display();
    format!("who would have been evicted from then on: isobar replay {file} --config {other}{more}")
}

fn write(out: &mut dyn Write, advice: &Advice) -> io::Result<()> {
    let (from, to) = (clock(advice.from.wall), clock(advice.to.wall));
    let (covered, ticks) = (time(advice.covered), advice.ticks);
    writeln!(out, "{from} to {to}: {covered} recorded in {ticks} ticks\n")?;
    used(advice).write(out, width())?;
    writeln!(out)?;
    let is_whole = |one: &&Group| matches!(one.daemons, Daemons::Kube | Daemons::System);
    for group in advice.groups.iter().filter(is_whole) {
        let named: Vec<_> = group.cgroups.iter().take(NAMED).map(|one| harmless(&one.0)).collect();
        let more = group.cgroups.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let named = if named.is_empty() { "none".into() } else { named.join(", ") };
        writeln!(out, "{}: {named}{more}", name(group.daemons))?;
    }
    writeln!(out, "\nrecommended, with {} % above what was used:", advice.margin)?;
    for (key, list) in
        [("kubeReserved", &advice.kube_reserved), ("systemReserved", &advice.system_reserved)]
    {
        if !list.is_empty() {
            writeln!(out, "  {key}: {{{}}}", amounts(list))?;
        }
    }
    if let (Some(threshold), Some(lost)) = (&advice.threshold, &advice.fastest_loss) {
        let why = format!("the node lost at most {lost} within ten seconds");
        writeln!(out, "  evictionHard: {{memory.available: {threshold}}}  # {why}")?;
    }
    if !advice.preview.is_empty() {
        writeln!(
            out,
            "\nwhat reservations would have met; of memory a limit, if enforced, of CPU a share:"
        )?;
        met(&advice.preview).write(out, width())?;
    }
    if !advice.pods.is_empty() {
        writeln!(out, "\nwhat limits of all pods would have met:")?;
        reached(&advice.pods).write(out, width())?;
        advice.pods.iter().try_for_each(|one| who(out, one))?;
    }
    for problem in &advice.problems {
        writeln!(out, "! {}", harmless(problem))?;
    }
    Ok(())
}

fn name(daemons: Daemons) -> &'static str {
    match daemons {
        Daemons::Kube => "kubelet and runtime",
        Daemons::Kubelet => "kubelet",
        Daemons::Runtime => "runtime",
        Daemons::System => "system",
    }
}

fn amounts(list: &ResourceList) -> String {
    let all: Vec<_> = list.iter().map(|(name, amount)| format!("{name}: {amount}")).collect();
    all.join(", ")
}

fn used(advice: &Advice) -> Table {
    let mut table = Table::new("USED-BY RESOURCE P50> P95> P99> MAX>");
    for group in &advice.groups {
        for (resource, used) in [("memory", &group.memory), ("cpu", &group.cpu)] {
            let unknown = || ["-"; 4].map(String::from);
            let cells = used.as_ref().map_or_else(unknown, |Percentiles { p50, p95, p99, max }| {
                [p50, p95, p99, max].map(ToString::to_string)
            });
            let head = [name(group.daemons).to_owned(), resource.to_owned()];
            table.row(head.into_iter().chain(cells));
        }
    }
    table
}

fn met(all: &[Preview]) -> Table {
    let mut table = Table::new("RESERVED-FOR RESOURCE AT AMOUNT> TICKS-ABOVE> FIRST LARGEST-THEN~");
    for Preview { daemons, resource, limit, amount, ticks, first, by } in all {
        table.row([
            name(*daemons).into(),
            (*resource).into(),
            (*limit).into(),
            amount.to_string(),
            ticks.to_string(),
            first.map_or_else(|| "never".into(), |at| clock(at.wall)),
            by.as_ref().map_or_else(|| "-".into(), ToString::to_string),
        ]);
    }
    table
}

fn reached(all: &[Reached]) -> Table {
    let mut table = Table::new("LIMIT RESOURCE AMOUNT> MOST-USED> ABOVE FIRST FROM-95%-ON LONGEST");
    let unknown = || "unknown".to_owned();
    for one @ Reached { resource, amount, met, .. } in all {
        let of_met = |cell: fn(&Met) -> String| met.as_ref().map_or_else(unknown, cell);
        table.row([
            limit(one).into(),
            (*resource).into(),
            amount.map_or_else(unknown, |amount| amount.to_string()),
            of_met(|met| met.most.to_string()),
            of_met(|met| often(&met.above)),
            of_met(|met| met.first.map_or_else(|| "-".into(), |at| clock(at.wall))),
            of_met(|met| often(&met.close)),
            of_met(|met| met.longest.map_or_else(|| "-".into(), span)),
        ]);
    }
    table
}

fn limit(one: &Reached) -> &'static str {
    match one.limit {
        "inForce" => "in force",
        "strictCpus" => "strict CPUs",
        other => other,
    }
}

fn often(tally: &Tally) -> String {
    match tally {
        Tally { ticks: 0, .. } => "never".into(),
        Tally { ticks, lasted, times: 1, .. } => format!("{ticks} ticks, {}", time(*lasted)),
        Tally { ticks, lasted, times, .. } => {
            format!("{ticks} ticks, {} in {times} times", time(*lasted))
        }
    }
}

fn span(Span { from, to }: Span) -> String {
    let lasted = time(to.boot.since(from.boot));
    format!("{} to {} ({lasted})", clock(from.wall), clock(to.wall))
}

/// By how much, and which pods; nothing of a limit that was never near.
fn who(out: &mut dyn Write, one: &Reached) -> io::Result<()> {
    let Some(Met { excess, largest, grew, .. }) = &one.met else { return Ok(()) };
    let named = |what: &str, all: &[Share]| {
        let all: Vec<_> =
            all.iter().map(|one| format!("{} {}", harmless(&one.pod), one.amount)).collect();
        (!all.is_empty()).then(|| format!("{what} {}", all.join(", ")))
    };
    let all = [
        excess.as_ref().map(|excess| format!("exceeded by {excess} at most")),
        named(if one.resource == "cpu" { "used most:" } else { "held most:" }, largest),
        named("grew most:", grew),
        one.evicted_first.as_ref().map(|pod| format!("evicted first: {}", harmless(pod))),
    ];
    let all: Vec<_> = all.into_iter().flatten().collect();
    match all.is_empty() {
        true => Ok(()),
        false => writeln!(out, "{} ({}): {}", limit(one), one.resource, all.join("; ")),
    }
}
