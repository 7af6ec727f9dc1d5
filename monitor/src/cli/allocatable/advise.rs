//! `--advise`: what to reserve, from what a recording says that daemons used.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use isobar::agent::RECORDING_DIR;
use isobar::record::advice::advise;
use isobar::record::incident::words::{clock, time};
use isobar::record::reader::Recording;
use isobar_core::model::quantity::ResourceList;
use isobar_core::model::settings::Settings;
use isobar_core::view::API_VERSION;
use isobar_kubelet::advice::{Advice, Daemons, Percentiles, Preview};
use serde::Serialize;

use crate::cli::at::recording_at;
use crate::cli::exit::{Code, Refused};
use crate::cli::output::Format;
use crate::cli::table::Table;
use crate::cli::terminal::{harmless, width};

/// Cgroups of a group that a table names; more are counted.
const NAMED: usize = 3;

#[derive(Debug, clap::Args)]
pub(super) struct AdviseArgs {
    /// Advise what to reserve for the kubelet, the runtime and the system, from a recording.
    #[arg(long, conflicts_with_all = ["capacity", "pods", "apply", "roll_back"])]
    advise: bool,
    /// The recording, its directory, or the file of an incident [default: /var/lib/isobar/recording].
    #[arg(short = 'f', long = "file", value_name = "FILE", requires = "advise")]
    file: Option<PathBuf>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    advice: &'a Advice,
}

impl AdviseArgs {
    /// `None` if it was not asked for.
    pub(super) fn run(&self, settings: &Settings, output: Format) -> Result<Option<Code>> {
        if !self.advise {
            return Ok(None);
        }
        let file = recording_at(self.file.as_deref().unwrap_or(Path::new(RECORDING_DIR)));
        let node = &settings.node;
        let notice = |why| tracing::warn!("{why}");
        let advice = advise(Recording::open(&file)?, node, notice, |_| true)?;
        let Some(advice) = advice else {
            bail!(Refused(format!("{} has no tick", file.display())))
        };
        let document = Document { api_version: API_VERSION, kind: "Advice", advice: &advice };
        output.print(&document, |out| Ok(write(out, &advice)?))?;
        Ok(Some(Code::Ok))
    }
}

fn write(out: &mut dyn Write, advice: &Advice) -> io::Result<()> {
    let (from, to) = (clock(advice.from.wall), clock(advice.to.wall));
    let (covered, ticks) = (time(advice.covered), advice.ticks);
    writeln!(out, "{from} to {to}: {covered} recorded in {ticks} ticks\n")?;
    used(advice).write(out, width())?;
    writeln!(out)?;
    for group in &advice.groups {
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
        writeln!(out, "\nwhat an enforced limit of memory would have met:")?;
        met(&advice.preview).write(out, width())?;
    }
    for problem in &advice.problems {
        writeln!(out, "! {}", harmless(problem))?;
    }
    Ok(())
}

fn name(daemons: Daemons) -> &'static str {
    match daemons {
        Daemons::Kube => "kubelet and runtime",
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
    let mut table = Table::new("LIMIT-ON AT MEMORY> TICKS-ABOVE> FIRST LARGEST-THEN~");
    for Preview { daemons, limit, memory, ticks, first, by } in all {
        table.row([
            name(*daemons).into(),
            (*limit).into(),
            memory.to_string(),
            ticks.to_string(),
            first.map_or_else(|| "never".into(), |at| clock(at.wall)),
            by.as_ref().map_or_else(|| "-".into(), ToString::to_string),
        ]);
    }
    table
}
