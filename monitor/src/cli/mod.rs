//! The verbs. Each is one file: what it asks for, what it prints, how it ends.

mod allocatable;
mod ask;
mod completion;
mod config;
mod cpus;
mod doctor;
pub(crate) mod exit;
mod explain;
mod input;
mod limits;
mod node;
mod output;
mod plan;
mod qos;
mod rank;
mod replay;
mod run;
mod status;
mod table;
pub(crate) mod terminal;
mod top;
mod version;

use anyhow::Result;
use clap::{Parser, Subcommand};

use exit::Code;

/// Who waits on this node, for what, and because of whom.
#[derive(Debug, Parser)]
#[command(name = "isobar", version, propagate_version = true, after_help = exit::HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Observe this node and serve what is seen, until a signal comes.
    Run(run::Args),
    /// Show who waits most and because of whom, every second.
    Top(top::Args),
    /// Say in a few lines how the node is.
    Status(status::Args),
    /// Say why the node is judged as it is, who would go first, and what would change that.
    Explain(explain::Args),
    /// Say who would be evicted first, and why not the others.
    Rank(rank::Args),
    /// Judge a recording again: by what it was judged by, or by another configuration.
    Replay(replay::Args),
    /// Say what of a node is left for pods, which limits see to it, and whether they are in place.
    Allocatable(allocatable::Args),
    /// Say which CPUs are reserved, shared and handed out, and check the CPU manager's state.
    Cpus(cpus::Args),
    /// Say which class of service and OOM scores pods have, and whether those here differ.
    Qos(qos::Args),
    /// Check what this node offers isobar, and what to do about the rest.
    Doctor(doctor::Args),
    /// Check a configuration, and print what it comes to.
    Config(config::Args),
    /// Print the version, and what this binary was built for.
    Version(version::Args),
    /// Print a completion script for a shell.
    Completion(completion::Args),
    /// Print the manual page.
    Man,
}

pub(crate) fn dispatch(cli: Cli) -> Result<Code> {
    match cli.verb {
        Verb::Run(args) => run::run(&args),
        Verb::Top(args) => top::run(&args),
        Verb::Status(args) => status::run(&args),
        Verb::Explain(args) => explain::run(&args),
        Verb::Rank(args) => rank::run(&args),
        Verb::Replay(args) => replay::run(&args),
        Verb::Allocatable(args) => allocatable::run(&args),
        Verb::Cpus(args) => cpus::run(&args),
        Verb::Qos(args) => qos::run(&args),
        Verb::Doctor(args) => doctor::run(&args),
        Verb::Config(args) => config::run(&args),
        Verb::Version(args) => version::run(&args),
        Verb::Completion(args) => completion::run(&args),
        Verb::Man => completion::man(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definitions_of_the_verbs_are_sound() {
        Cli::command().debug_assert();
    }
}
