//! isobar as a plug-in of kubectl: what asks an agent asks one of the cluster, and what looks at this
//! machine says so.

use std::env;
use std::path::Path;

use clap::{ArgMatches, Command};

use super::conflicts::is_typed;
use super::elsewhere::ON_THE_NODE;
use super::exit::Misused;

/// The name by which kubectl calls its plug-ins.
const PLUGIN: &str = "kubectl-isobar";

/// Verbs that ask an agent, and the options with which they need none.
const ASKING: [(&str, &[&str]); 6] = [
    ("top", &[]),
    ("status", &[]),
    ("explain", &[]),
    ("doctor", &[]),
    ("rank", &["file", "at", "begin", "end"]),
    ("allocatable", &["capacity", "advise"]),
];

/// Verbs that look at this machine, which is none of the cluster's nodes, unless an option is given.
const LOCAL: [(&str, &[&str]); 4] = [
    ("qos", &["files", "pods"]),
    ("cpus", &["online", "topology"]),
    ("run", &[]),
    ("sysdump", &[]),
];

pub(super) fn is_meant() -> bool {
    let name = env::args_os().next().unwrap_or_default();
    Path::new(&name).file_name().is_some_and(|name| name == PLUGIN)
}

/// The command line as kubectl's plug-in has it.
pub(super) fn command(command: Command) -> Command {
    let ask = |command: Command, (verb, without): (&'static str, &'static [&'static str])| {
        let of_node = |verb: Command| {
            verb.mut_arg("node", |node| match without {
                [] => node.required(true),
                _ => node.required_unless_present_any(without),
            })
        };
        command.mut_subcommand(verb, of_node)
    };
    let of_node = |verb: Command| verb.mut_arg("node", |node| node.required(true));
    let command = ASKING.into_iter().fold(command, ask).bin_name("kubectl isobar");
    command.mut_subcommand("incidents", |incidents| {
        incidents.mut_subcommand("ls", of_node).mut_subcommand("show", of_node)
    })
}

/// What looks at this machine is meant for a node.
///
/// # Errors
/// With the way to have it there.
pub(super) fn check(matches: &ArgMatches) -> Result<(), Misused> {
    let Some((verb, options)) = matches.subcommand() else { return Ok(()) };
    let is_here = |(name, unless): &(&str, &[&str])| {
        *name == verb && !unless.iter().any(|id| is_typed(options, id))
    };
    // Its image has no program that could copy a file out of the pod.
    let how = if verb == "sysdump" { "sysdump - > node.tar.zst" } else { verb };
    match LOCAL.iter().any(is_here) {
        false => Ok(()),
        true => Err(Misused(format!(
            "{verb} is about the machine that it runs on, which no agent tells of: run it on the \
             node, with `{ON_THE_NODE} {how}`"
        ))),
    }
}
