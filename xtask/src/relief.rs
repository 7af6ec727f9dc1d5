//! `cargo xtask scenario`: what becomes of a node that is made to suffer, with isobar, with
//! something else, and with nothing.

mod agents;
mod amount;
mod churn;
mod facts;
pub(crate) mod figures;
pub(crate) mod file;
pub(crate) mod host;
mod judge;
mod latency;
mod offer;
mod peaks;
mod play;
mod pods;
mod probe;
mod reaction;
mod set;
mod still;
mod table;
mod watch;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum as _;

use crate::setup::{self, Kernel, Series};
use crate::shell::root;
use crate::vm::Lab;
use agents::{AGENTS, Agent};
pub(crate) use facts::Play;
use file::Scenario;
use host::Played;
pub(crate) use play::all as play_all;

/// Play what overload does to a node, with an agent and without, and measure who suffers.
#[derive(clap::Args)]
pub(crate) struct Verb {
    /// Only these: a file's name, or its number (s07, 7).
    names: Vec<String>,
    /// With these agents, one after the other: isobar, isobar-no-ebpf, isobar-observe, none.
    #[arg(long, value_delimiter = ',', default_value = "isobar", value_parser = Agent::named)]
    agent: Vec<Agent>,
    /// On this kernel.
    #[arg(long, default_value = "6.12", value_parser = |word: &str| Series::from_str(word, false))]
    kernel: Series,
    /// How often each.
    #[arg(long, default_value_t = 1)]
    runs: u32,
    /// Only those that `cargo xtask test` plays.
    #[arg(long)]
    quick: bool,
    /// Only say which there are, and why.
    #[arg(long)]
    list: bool,
    /// What the results' file is called.
    #[arg(long, default_value = "results")]
    name: String,
}

impl Verb {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let mut scenarios = scenarios()?;
        if let Some(unknown) = self.names.iter().find(|name| !scenarios.iter().any(|s| s.is(name)))
        {
            let names: Vec<&str> = scenarios.iter().map(|s| s.name.as_str()).collect();
            bail!("no scenario is called {unknown}; there are {}", names.join(", "));
        }
        scenarios.retain(|s| self.names.is_empty() || self.names.iter().any(|name| s.is(name)));
        scenarios.retain(|s| !self.quick || s.form.quick);
        if self.list {
            for scenario in &scenarios {
                println!("{:<28} {}", scenario.name, scenario.why);
            }
            return Ok(ExitCode::SUCCESS);
        }
        let series = self.kernel.to_string();
        scenarios.retain(|scenario| match scenario.not_on(&series) {
            None => true,
            Some(why) => {
                println!("scenario {} ... skipped: {why}", scenario.name);
                false
            }
        });
        let plays = plays(&scenarios, &self.agent, self.runs);
        let lab = Lab::ready(true)?;
        let kernel = setup::kernel(self.kernel)?;
        let expected = |play: &Play| {
            let scenario = scenarios.iter().find(|s| s.name == play.scenario);
            scenario.map_or(0.0, |s| s.form.idle.0 + s.form.seconds.0 + host::AROUND)
        };
        let mut left: f64 = plays.iter().map(expected).sum();
        let mut played: Vec<Played> = Vec::new();
        let file = host::kept(&self.name);
        println!("{} plays on {}, about {:.0} min", plays.len(), kernel.release, left / 60.0);
        host::play(&lab, &kernel, &scenarios, &plays, &mut |one| {
            left -= expected(&one.play);
            println!(
                "[{}/{}, {:.0} min left] {}",
                played.len() + 1,
                plays.len(),
                left / 60.0,
                one.line()
            );
            played.push(one);
            // Somebody who waits for an hour may look at what there is.
            if let Err(why) = keep(&file, &played) {
                eprintln!("{why:#}");
            }
        });
        println!("\n{}\n{}", table::all(&played), reaction::all(&played));
        keep(&file, &played)?;
        println!("all figures: {}", file.display());
        let failed = played.iter().filter(|one| one.counts_as_failed()).count();
        if lab.told_to_end() {
            bail!("told to end");
        }
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Writes all that is known of `played`.
fn keep(file: &Path, played: &[Played]) -> Result<()> {
    if let Some(dir) = file.parent() {
        fs::create_dir_all(dir)?;
    }
    fs::write(file, serde_json::to_string(played)?).with_context(|| file.display().to_string())
}

/// Plays the quick ones with isobar, and tells of each in a line and whether it failed. An
/// emulated machine stands still whenever the host has something else to do, so what fails is
/// played once more; the first time is told all the same.
pub(crate) fn quick(lab: &Lab, kernel: &Kernel, tell: &mut dyn FnMut(&str, bool)) -> Result<()> {
    let mut scenarios = scenarios()?;
    scenarios.retain(|s| s.form.quick && s.not_on(&kernel.series.to_string()).is_none());
    let isobar: Vec<Agent> = AGENTS.into_iter().filter(|agent| agent.is_judged).collect();
    let mut again = Vec::new();
    host::play(lab, kernel, &scenarios, &plays(&scenarios, &isobar, 1), &mut |one| {
        if one.counts_as_failed() {
            println!("{}\n(is played once more)", one.line());
            again.push(one.play);
        } else {
            tell(&one.line(), false);
        }
    });
    host::play(lab, kernel, &scenarios, &again, &mut |one| {
        tell(&one.line(), one.counts_as_failed());
    });
    Ok(())
}

/// The repository's scenarios.
pub(crate) fn scenarios() -> Result<Vec<Scenario>> {
    file::read_all(&root().join("tests/scenarios/relief"))
}

/// Each scenario with each agent, so many times; agents side by side, so that whatever changes
/// on this machine meanwhile changes for all.
pub(crate) fn plays(scenarios: &[Scenario], agents: &[Agent], runs: u32) -> Vec<Play> {
    let mut plays = Vec::new();
    for scenario in scenarios {
        for run in 1..=runs {
            for agent in agents {
                plays.push(Play { scenario: scenario.name.clone(), agent: agent.name.into(), run });
            }
        }
    }
    plays
}
