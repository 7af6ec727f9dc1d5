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
const EXCLUSIVE: [(&[&str], &[&str]); 11] = [
    (&["recording", "node", "no_agent"],                       &["agent"]),
    (&["at", "begin", "end", "recording", "node"],             &["no_agent"]),
    (&["recording"],                                           &["node"]),
    // The agent, or the recording, has its own.
    (&["at", "begin", "end", "recording", "node"],             &SAMPLING),
    (&["node"],                                                &["file", "input", "order", "capacity", "advise", "apply", "roll_back", "kubelet_config", "proc", "sys"]),
    (&["agent"],                                               &["file", "order"]),
    // `rank -f` takes rules from --config, and nothing from this node.
    (&["file"],                                                &["pods", "probes", "max_cgroups", "probe_budget", "cgroup_root"]),
    // `qos -f` looks at no node.
    (&["files"],                                               &["config", "kubelet_config"]),
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

#[cfg(test)]
mod tests {
    use clap::builder::ValueParser;
    use clap::{Arg, CommandFactory as _};

    use super::*;
    use crate::cli::Cli;

    /// The verbs with options that take any text.
    fn command() -> Command {
        let any = |option: Arg| match option.get_action().takes_values() {
            true => option.value_parser(ValueParser::os_string()),
            false => option,
        };
        Cli::command().mut_subcommands(|verb| verb.mut_args(any))
    }

    /// An option as it is typed; `None` for what stands alone, as `--help` does.
    fn typed(option: &Arg) -> Option<Vec<String>> {
        if matches!(option.get_id().as_str(), "help" | "version") {
            return None;
        }
        let name = format!("--{}", option.get_long()?);
        Some(if option.get_action().takes_values() { vec![name, "x".into()] } else { vec![name] })
    }

    #[test]
    fn check_accepts_each_option_beside_the_required_ones() {
        let mut n = 0;
        for verb in command().get_subcommands().filter(|verb| !verb.has_subcommands()) {
            let required = verb.get_positionals().filter(|one| one.is_required_set());
            let required: Vec<_> = required.map(|_| "x".to_owned()).collect();
            for option in verb.get_arguments().filter_map(typed) {
                let line =
                    [vec!["isobar".into(), verb.get_name().into()], option, required.clone()];
                let line = line.concat();
                let mut command = command();
                let matches = match command.try_get_matches_from_mut(&line) {
                    Ok(matches) => matches,
                    // It needs another option.
                    Err(why) if why.kind() == ErrorKind::MissingRequiredArgument => continue,
                    Err(why) => panic!("{line:?}: {why}"),
                };
                check(&mut command, &matches).unwrap_or_else(|why| panic!("{line:?}: {why}"));
                n += 1;
            }
        }
        assert!(n > 100, "{n} options");
    }
}
