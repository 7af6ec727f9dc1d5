//! `cargo xtask bench`: what isobar costs on this machine, against its budgets. `docs/performance.md`
//! says how each figure is measured.

mod agent;
mod clients;
mod cluster;
mod empty;
mod host;
mod progress;
mod rank;
mod record;
mod rig;
mod running;
mod sample;
mod switch;
mod tool;
mod tree;

use std::fmt::Display;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::host::Host;
use self::rig::Rig;
use crate::dist::target::Target;
use crate::setup::Musl;
use crate::{build, setup};
use isobar_lab::shell::{quietly, root, step};

/// Measure what isobar costs here, and compare it with its budgets.
#[derive(clap::Args)]
pub(crate) struct Bench {
    /// What to measure; without it, everything.
    what: Vec<What>,
    /// How often each context-switch price is measured.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Write the figures here as JSON; without it, to target/bench.json.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// The price of a context switch, beside runqlat's.
    Switch,
    /// The agent's CPU, memory and start, by the number of cgroups.
    Agent,
    /// The agent with fifty streams and a scraper: CPU, memory, ticks on time.
    Clients,
    /// The agent with an API server and a kubelet to talk to, beside one without.
    Cluster,
    /// How long a tick takes, and what each program takes of each event.
    Sample,
    /// How long it takes to rank all pods of a node.
    Rank,
    /// What a recording takes, and how fast it is read.
    Record,
}

/// Everything that was measured.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    host: Host,
    switch: Option<switch::Figures>,
    agent: Option<agent::Figures>,
    clients: Option<clients::Figures>,
    cluster: Option<cluster::Figures>,
    sample: Option<sample::Figures>,
    rank: Option<rank::Figures>,
    record: Option<record::Figures>,
}

impl Bench {
    pub(crate) fn run(self) -> Result<ExitCode> {
        // Before the build, which keeps the machine busy.
        let host = Host::look()?;
        let wants = |what| self.wants(what);
        println!("{host}");
        let (switch, agent, clients, cluster, sample, rank, record) = Default::default();
        let mut figures = Figures { host, switch, agent, clients, cluster, sample, rank, record };
        if wants(What::Rank) {
            figures.rank = told(rank::measure()?);
        }
        if wants(What::Record) {
            let (object, musl) = what_is_shipped()?;
            let cargo = build::release(&object, &musl, &["bench", "--bench", "record"])?;
            figures.record = told(record::measure(cargo)?);
        }
        let with_an_agent = [What::Switch, What::Agent, What::Clients, What::Cluster, What::Sample];
        if with_an_agent.into_iter().any(wants) {
            self.with_an_agent(&mut figures)?;
        }
        let file = self.json.unwrap_or_else(|| root().join("target/bench.json"));
        fs::write(&file, serde_json::to_string_pretty(&figures)? + "\n")
            .with_context(|| format!("cannot write {}", file.display()))?;
        eprintln!("figures as JSON: {}", file.display());
        Ok(ExitCode::SUCCESS)
    }

    /// What is measured on an agent that runs.
    fn with_an_agent(&self, figures: &mut Figures) -> Result<()> {
        let wants = |what| self.wants(what);
        let (object, musl) = what_is_shipped()?;
        let isobar = build::released(&object, &musl)?;
        if wants(What::Switch) {
            setup::observers()?;
        }
        let expected = [
            (What::Switch, switch::expected(self.rounds)),
            (What::Agent, agent::expected()),
            (What::Clients, clients::expected()),
            (What::Cluster, cluster::expected()),
            (What::Sample, sample::expected()),
        ];
        let expected = expected.into_iter().filter(|(what, _)| wants(*what));
        let mut rig = Rig::new(isobar, object, expected.map(|(_, seconds)| seconds).sum())?;

        if wants(What::Switch) {
            figures.switch = told(switch::measure(&mut rig, self.rounds)?);
        }
        if wants(What::Agent) {
            figures.agent = told(agent::measure(&mut rig)?);
        }
        if wants(What::Clients) {
            figures.clients = told(clients::measure(&mut rig)?);
        }
        if wants(What::Cluster) {
            figures.cluster = told(cluster::measure(&mut rig)?);
        }
        if wants(What::Sample) {
            figures.sample = told(sample::measure(&mut rig)?);
        }
        Ok(())
    }

    fn wants(&self, what: What) -> bool {
        self.what.is_empty() || self.what.contains(&what)
    }
}

/// What a benchmark of cargo's prints, a figure a line of JSON.
fn printed<T: DeserializeOwned>(what: &str, cargo: &mut Command) -> Result<Vec<T>> {
    let said = step(what, || quietly(cargo))?;
    let lines = said.lines().filter(|line| line.starts_with('{'));
    let read = |line| serde_json::from_str(line).with_context(|| format!("no figures: {line}"));
    let figures: Vec<T> = lines.map(read).collect::<Result<_>>()?;
    ensure!(!figures.is_empty(), "the benchmark printed no figures");
    Ok(figures)
}

/// Prints what was measured, and keeps it.
fn told<T: Display>(measured: T) -> Option<T> {
    println!("\n{measured}");
    Some(measured)
}

/// The eBPF object, and what builds a release: what is shipped is smaller and slower than a build for
/// this machine alone.
fn what_is_shipped() -> Result<(PathBuf, Musl)> {
    let here = Target::here().context("isobar is released for x86_64 and aarch64 alone")?;
    Ok((build::object(&setup::toolchain()?)?, setup::musl(here)?))
}

/// The middle of these figures; `None` of none.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) =
        (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some(f64::midpoint(*low, *high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(median(vec![4.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(Vec::new()), None);
    }
}
