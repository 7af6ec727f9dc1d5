//! The verbs, one file each: its options, what it prints, its exit code.

mod afar;
mod allocatable;
mod ask;
mod at;
mod completion;
mod config;
mod conflicts;
mod cpus;
mod doctor;
mod dump;
mod duration;
mod elsewhere;
pub(crate) mod exit;
mod explain;
mod incidents;
mod input;
mod limits;
pub(crate) mod log;
mod man;
mod manifest;
mod new_file;
mod node;
pub(crate) mod output;
mod plan;
mod plugin;
mod qos;
mod range;
mod rank;
mod replay;
mod run;
mod static_pods;
mod status;
mod sysdump;
mod table;
mod terminal;
mod top;
mod version;

use std::env;
use std::ffi::OsString;

use anstream::ColorChoice;
use anyhow::Result;
use clap::{
    ColorChoice as Color, CommandFactory as _, FromArgMatches as _, Parser, Subcommand,
    ValueEnum as _,
};

use exit::Code;

/// Show who waits on this Linux node, for what, and because of whom.
#[derive(Debug, Parser)]
#[command(name = "isobar", version, propagate_version = true, after_help = exit::HELP)]
struct Cli {
    /// When to use colour; auto: on a terminal, unless NO_COLOR is set or CLICOLOR is 0, and
    /// elsewhere if CLICOLOR_FORCE is set.
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = Color::Auto)]
    color: Color,
    /// Format of diagnostics on stderr.
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value_t = log::Format::Text, env = "ISOBAR_LOG_FORMAT")]
    log_format: log::Format,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run the agent in the foreground: sample this node, serve the page and the API.
    Run(run::Args),
    /// Show the pods and services that wait most, and their aggressors, every second.
    Top(top::Args),
    /// Show a summary of this node.
    Status(status::Args),
    /// Explain the latest decision: measurements, verdict, candidates, what would change it.
    Explain(explain::Args),
    /// Rank pods by the order in which they would be evicted.
    Rank(rank::Args),
    /// List, show, share and remove what was kept of what went wrong.
    Incidents(incidents::Args),
    /// Replay a recording with its own configuration or with another one.
    Replay(replay::Args),
    /// Print a range of a recording as ndjson, CSV, OpenMetrics or a trace.
    Dump(dump::Args),
    /// Show the node's allocatable resources and the limits that enforce them.
    Allocatable(allocatable::Args),
    /// Show reserved, shared and exclusive CPUs, and check the CPU manager's state file.
    Cpus(cpus::Args),
    /// Show QoS class and OOM scores of pods, and check those of running containers.
    Qos(qos::Args),
    /// Check what this node offers to isobar, and how to get what is missing.
    Doctor(doctor::Args),
    /// Collect what a bug report needs in one archive, without names.
    Sysdump(sysdump::Args),
    /// Check a configuration file, or print configurations.
    Config(config::Args),
    /// Print what installs isobar on the nodes of a Kubernetes cluster, for `kubectl apply -f -`.
    Manifest(manifest::Args),
    /// Print the version.
    Version(version::Args),
    /// Print a completion script for a shell.
    Completion(completion::Args),
    /// Print a manual page, or write all of them.
    Man(man::Args),
}

/// The value of `--color`, which the messages of clap itself follow too.
fn typed_color(arguments: impl Iterator<Item = OsString>) -> Option<Color> {
    let arguments: Vec<_> = arguments.filter_map(|argument| argument.into_string().ok()).collect();
    let at = arguments.iter().position(|argument| argument.starts_with("--color"))?;
    let value =
        arguments[at].strip_prefix("--color=").or(arguments.get(at + 1).map(String::as_str));
    Color::from_str(value?, false).ok()
}

pub(crate) fn run() -> Result<Code> {
    let is_plugin = plugin::is_meant();
    let command = if is_plugin { plugin::command(Cli::command()) } else { Cli::command() };
    let mut command = command.color(typed_color(env::args_os()).unwrap_or(Color::Auto));
    let matches = command.get_matches_mut();
    conflicts::check(&mut command, &matches).unwrap_or_else(|error| error.exit());
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match cli.color {
        Color::Auto => ColorChoice::Auto,
        Color::Always => ColorChoice::Always,
        Color::Never => ColorChoice::Never,
    }
    .write_global();
    log::init(cli.log_format);
    if is_plugin {
        plugin::check(&matches)?;
    }
    let sampling = ask::sampling_options(&matches);
    match cli.verb {
        Verb::Run(args) => run::run(&args),
        Verb::Top(args) => top::run(&args, &sampling),
        Verb::Status(args) => status::run(&args, &sampling),
        Verb::Explain(args) => explain::run(&args, &sampling),
        Verb::Rank(args) => rank::run(&args, &sampling),
        Verb::Incidents(args) => incidents::run(&args),
        Verb::Replay(args) => replay::run(&args),
        Verb::Dump(args) => dump::run(&args),
        Verb::Allocatable(args) => allocatable::run(&args),
        Verb::Cpus(args) => cpus::run(&args),
        Verb::Qos(args) => qos::run(&args),
        Verb::Doctor(args) => doctor::run(&args, &sampling),
        Verb::Sysdump(args) => sysdump::run(&args, &sampling),
        Verb::Config(args) => config::run(&args),
        Verb::Manifest(args) => manifest::run(&args),
        Verb::Version(args) => version::run(&args),
        Verb::Completion(args) => completion::run(&args),
        Verb::Man(args) => man::run(&args),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};

    use super::output::Format;
    use super::*;

    #[test]
    fn typed_color_of_arguments() {
        #[rustfmt::skip]
        let table: [(&[&str], Option<Color>); 6] = [
            // arguments, colour
            (&["isobar", "status", "--color", "never"],   Some(Color::Never)),
            (&["isobar", "--color=always", "status"],     Some(Color::Always)),
            (&["isobar", "--color=", "never"],            None),
            (&["isobar", "--color"],                      None),
            (&["isobar", "--color", "blue"],              None),
            (&["isobar"],                                 None),
        ];
        for (arguments, want) in table {
            assert_eq!(typed_color(arguments.iter().map(OsString::from)), want, "{arguments:?}");
        }
    }

    /// What they print has a form of its own; docs/cli.md says which.
    const OWN_OUTPUT: [&str; 10] = [
        "run",
        "dump",
        "sysdump",
        "config defaults",
        "manifest",
        "incidents export",
        "incidents import",
        "incidents rm",
        "completion",
        "man",
    ];
    /// They read no file that somebody gave them.
    const NO_INPUT: [&str; 8] = [
        "run",
        "doctor",
        "config defaults",
        "config schema",
        "manifest",
        "version",
        "completion",
        "man",
    ];

    /// Verbs, and those below them, by all their words.
    fn verbs(of: &Command, above: &str) -> Vec<(String, Command)> {
        let all = of.get_subcommands().filter(|verb| verb.get_name() != "help");
        let all = all.flat_map(|verb| {
            let name = format!("{above} {}", verb.get_name()).trim().to_owned();
            match verb.has_subcommands() {
                true => verbs(verb, &name),
                false => vec![(name, verb.clone())],
            }
        });
        all.collect()
    }

    #[test]
    fn cli_options_are_the_same_everywhere() {
        let docs = include_str!("../../../docs/cli.md");
        let mut command = Cli::command();
        command.build();
        let all = verbs(&command, "");
        assert!(all.len() > 20, "{}", all.len());
        for (name, verb) in all {
            let has = |is_it: &dyn Fn(&Arg) -> bool| verb.get_arguments().any(is_it);
            let values = |option: &Arg| -> Vec<String> {
                option.get_possible_values().iter().map(|one| one.get_name().to_owned()).collect()
            };
            let takes = |option: &Arg, format: &Format| {
                let format = format.to_possible_value().expect("none is hidden");
                values(option).iter().any(|value| value == format.get_name())
            };
            let is_output = |option: &Arg| {
                option.get_short() == Some('o')
                    && Format::value_variants().iter().all(|format| takes(option, format))
            };
            let is_own = OWN_OUTPUT.contains(&&*name);
            assert_eq!(has(&is_output), !is_own, "-o of {name}");
            assert!(!is_own || docs.contains(&format!("`{name}`")), "{name} in docs/cli.md");
            let reads = has(&|option| option.get_short() == Some('f'));
            assert_eq!(reads, !NO_INPUT.contains(&&*name), "-f of {name}");
        }
    }

    #[test]
    fn cli_definitions_are_sound() {
        Cli::command().debug_assert();
    }
}
