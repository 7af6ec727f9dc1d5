//! `cargo xtask lab`: scenarios in virtual machines, with isobar, with something else, and with
//! nothing.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::ValueEnum as _;
use isobar_lab::agents::Agent;
use isobar_lab::host::{Lab, Plays, expected_seconds};
use isobar_lab::machine::Series;
use isobar_lab::report::{self, Played};
use isobar_lab::shell::root;
use isobar_lab::{Play, Scenario};

use crate::{build, setup};

/// Play scenarios in a virtual machine: what a kernel is made to do and what isobar makes of it, what
/// overload does to a node and who suffers.
#[derive(clap::Args)]
pub(crate) struct Verb {
    /// Only these: a file's name, which stands for all of its variants, or its number (s07, 7).
    names: Vec<String>,
    /// With these agents, one after the other: isobar, isobar-no-ebpf, isobar-observe, none, and
    /// earlyoom, systemd-oomd, oomd, nohang as Debian has them or, with -tuned, set up for a node.
    #[arg(long, value_delimiter = ',', default_value = "isobar", value_parser = Agent::named)]
    agent: Vec<Agent>,
    /// On this kernel, or `all`.
    #[arg(long, default_value = "6.12", value_parser = series)]
    kernel: Kernels,
    /// How often each.
    #[arg(long, default_value_t = 1)]
    runs: u32,
    /// Only those that `cargo xtask test` plays on that kernel.
    #[arg(long)]
    ordinary: bool,
    /// Only list them, each with its reason.
    #[arg(long)]
    list: bool,
    /// A shell in the machine instead of scenarios.
    #[arg(long)]
    shell: bool,
    /// Keep what the machines said also when all went well.
    #[arg(long)]
    keep: bool,
    /// The name of the results' file.
    #[arg(long, default_value = "results")]
    name: String,
}

#[derive(Clone)]
struct Kernels(Vec<Series>);

fn series(word: &str) -> Result<Kernels, String> {
    match word {
        "all" => Ok(Kernels(Series::ALL.into())),
        _ => Series::from_str(word, false).map(|one| Kernels(vec![one])),
    }
}

impl Verb {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let scenarios = self.chosen()?;
        if self.list {
            for scenario in &scenarios {
                println!("{:<40} {}", scenario.name, scenario.why);
            }
            return Ok(ExitCode::SUCCESS);
        }
        let object = build::object(&setup::toolchain()?)?;
        let mut machine = setup::machine()?;
        if self.agent.iter().any(Agent::is_peer) {
            machine.peers = Some(setup::peers()?);
        }
        let lab = Lab::open(machine, build::for_guests(&object)?, self.keep)?;
        if self.shell {
            lab.shell(&setup::kernel(self.kernel.0[0])?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let file = results(&self.name);
        let mut played = Vec::new();
        for series in &self.kernel.0 {
            self.play(&lab, *series, &scenarios, &mut played)?;
        }
        print!("{}", report::tables(&played));
        report::keep(&file, &played)?;
        println!("all figures: {}", file.display());
        let n_failed = played.iter().filter(|one| one.counts_as_failed()).count();
        println!("{} passed, {n_failed} failed", played.iter().filter(|one| one.passed()).count());
        if lab.is_stopped() {
            bail!("stopped by a signal");
        }
        Ok(if n_failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn chosen(&self) -> Result<Vec<Scenario>> {
        let mut scenarios = isobar_lab::scenarios()?;
        let is_known = |name: &String| scenarios.iter().any(|scenario| scenario.is(name));
        if let Some(unknown) = self.names.iter().find(|name| !is_known(name)) {
            let names: Vec<&str> = scenarios.iter().map(|s| s.name.as_str()).collect();
            bail!("no scenario is called {unknown}; there are {}", names.join(", "));
        }
        scenarios.retain(|s| self.names.is_empty() || self.names.iter().any(|name| s.is(name)));
        Ok(scenarios)
    }

    fn play(
        &self,
        lab: &Lab,
        series: Series,
        scenarios: &[Scenario],
        played: &mut Vec<Played>,
    ) -> Result<()> {
        let kernel = setup::kernel(series)?;
        let wanted = |scenario: &&Scenario| !self.ordinary || scenario.is_ordinary_on(series);
        let (mut plays, mut left) = (Vec::new(), 0.0);
        for scenario in scenarios.iter().filter(wanted) {
            if let Some(why) = scenario.not_on(series) {
                println!("test kernel {series} {} ... skipped: {why}", scenario.name);
                continue;
            }
            let all = side_by_side(scenario, &self.agent, self.runs);
            left += expected_seconds(scenario) * all.len() as f64;
            plays.extend(all);
        }
        let n = plays.len();
        println!("{n} plays on {}, about {:.0} min", kernel.release, left / 60.0);
        let file = results(&self.name);
        lab.play(&Plays { kernel: &kernel, scenarios, plays }, &mut |one| {
            println!("{}", one.text());
            played.push(one);
            // A run of hours can be looked at before its end.
            if let Err(why) = report::keep(&file, played) {
                eprintln!("{why:#}");
            }
        });
        Ok(())
    }
}

/// One scenario with each agent, so many times; agents side by side, so that whatever changes on
/// this machine meanwhile changes for all.
fn side_by_side(scenario: &Scenario, agents: &[Agent], runs: u32) -> Vec<Play> {
    let of = |run| {
        let play = move |agent: &Agent| Play {
            scenario: scenario.name.clone(),
            agent: agent.name.into(),
            run,
        };
        agents.iter().map(play)
    };
    (1..=runs).flat_map(of).collect()
}

fn results(name: &str) -> PathBuf {
    root().join("target/scenario").join(format!("{name}.json"))
}
