//! Options that exclude each other, where one of them may come from the environment. clap would
//! count a variable as typed, and refuse `--no-agent` wherever `ISOBAR_AGENT` is set; here what is
//! typed wins.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, Error};

/// The options that apply to own samples only, such as `--config`.
pub(crate) const SAMPLING: [&str; 6] =
    ["config", "pods", "probes", "max_cgroups", "probe_budget", "cgroup_root"];

/// None of the first goes with any of the second.
#[rustfmt::skip]
const EXCLUSIVE: [(&[&str], &[&str]); 9] = [
    (&["recording", "node", "no_agent"],                       &["agent"]),
    (&["at", "begin", "end", "recording", "node"],             &["no_agent"]),
    (&["recording"],                                           &["node"]),
    // The agent, or the recording, has its own.
    (&["at", "begin", "end", "recording", "node"],             &SAMPLING),
    (&["node"],                                                &["file", "signal", "order", "capacity", "advise", "apply", "roll_back", "kubelet_config", "proc", "sys"]),
    // `rank -f` takes rules from --config, and nothing from this node.
    (&["file"],                                                &["pods", "probes", "max_cgroups", "probe_budget", "cgroup_root"]),
    (&["capacity"],                                            &["proc", "sys", "cgroup_root"]),
    (&["no_kubernetes"],                                       &["kubeconfig"]),
    (&["no_record"],                                           &["record_max_size", "record_max_age"]),
];

/// Whether an option stands on the command line of a verb.
pub(crate) fn is_typed(matches: &ArgMatches, id: &str) -> bool {
    matches.try_contains_id(id).is_ok()
        && matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// The error of clap for the first two options of the verb that exclude each other.
pub(crate) fn check(command: &mut Command, matches: &ArgMatches) -> Result<(), Error> {
    let Some((verb, matches)) = matches.subcommand() else { return Ok(()) };
    command.build();
    let command = command.find_subcommand(verb).expect("clap has found it");
    let text = |id: &str| {
        let option = command.get_arguments().find(|option| option.get_id() == id);
        ContextValue::String(option.expect("it is typed").to_string())
    };
    let typed = |ids: &'static [&str]| ids.iter().find(|id| is_typed(matches, id));
    for (some, others) in EXCLUSIVE {
        let (Some(one), Some(other)) = (typed(some), typed(others)) else { continue };
        let mut error = Error::new(ErrorKind::ArgumentConflict).with_cmd(command);
        error.insert(ContextKind::InvalidArg, text(one));
        error.insert(ContextKind::PriorArg, text(other));
        return Err(error);
    }
    Ok(())
}
