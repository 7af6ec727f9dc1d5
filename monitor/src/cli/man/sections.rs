//! What a manual page says beyond the options: exit codes, files, environment.

use std::io::{self, Write};

use clap::Command;
use clap_mangen::roff::{Roff, bold, roman};
use isobar::agent::{RECORDING_DIR, STATE_DIR};

/// Exit codes by verb, with what they mean there. 0 and 2 are those of every verb.
#[rustfmt::skip]
const EXITS: &[(&str, &[(&str, &str)])] = &[
    ("run",         &[("1", "the agent ended because of an error, such as an address that is taken"),
                      ("3", "the configuration or the file of pods is invalid"),
                      ("4", "it may not open the address, its state, or the node's files"),
                      ("5", "this kernel has no cgroup v2")]),
    ("top",         &[ASKED, STRANGE]),
    ("status",      &[("1", "no agent answers, or --timeout has passed"), STRANGE,
                      ("10", "a resource is pressed, or a condition is True, of a range in any line; not with --wait")]),
    ("explain",     &[ASKED, STRANGE]),
    ("rank",        &[("1", "this node could not be read"), ("3", "the file or the recording is invalid")]),
    ("incidents",   &[("1", "a file could not be read or written"),
                      ("3", "there is no incident of this name, or a file is no recording")]),
    ("replay",      &[("1", "with --check: a decision differs, or there is none to compare; with --listen: the address is taken"),
                      ("3", "the recording or the configuration is invalid, or has nothing of that time"),
                      ("4", "with --listen: it may not open the address")]),
    ("dump",        &[("1", "the recording could not be read"),
                      ("3", "the recording is invalid, or has nothing of that time")]),
    ("allocatable", &[LIMITS, INVALID]),
    ("cpus",        &[LIMITS, INVALID]),
    ("qos",         &[("1", "this node could not be read"), ("3", "a file is invalid")]),
    ("doctor",      &[("1", "something is absent or unknown that isobar works without"),
                      ("4", "a privilege is missing that isobar needs"),
                      ("5", "a feature of the kernel is missing that isobar needs")]),
    ("sysdump",     &[("1", "the archive could not be written")]),
    ("config",      &[INVALID]),
    ("manifest",    &[]),
    ("version",     &[]),
    ("completion",  &[]),
    ("man",         &[("1", "a page could not be written")]),
    ("",            &[("1", "failure"), ("3", "invalid input"), ("4", "not permitted"),
                      ("5", "unsupported kernel"), ("10", "under pressure (status)")]),
];
const ASKED: (&str, &str) = ("1", "no agent answers, or this node could not be read");
const STRANGE: (&str, &str) =
    ("3", "the answer is no agent's, or a recording or a configuration is invalid");
const LIMITS: (&str, &str) =
    ("1", "a limit could not be written, or this machine could not be read");
const INVALID: (&str, &str) = ("3", "the configuration or another file is invalid");

/// Files that verbs read and write, unless an option names others.
#[rustfmt::skip]
const FILES: &[(&str, &str, &[&str])] = &[
    (RECORDING_DIR,       "the recording, and incidents in incidents/",
     &["run", "incidents", "top", "status", "explain", "rank", "dump", "allocatable", "sysdump"]),
    (STATE_DIR,           "what outlives the agent: limits and squeezes in force, averages",
     &["run", "allocatable", "cpus", "qos"]),
    ("/etc/isobar/config.yaml", "the configuration of the packaged service, by ISOBAR_CONFIG", &["run"]),
    ("/var/lib/kubelet/cpu_manager_state", "the CPU manager's state", &["cpus"]),
    ("/proc/pressure",    "pressure of the node", &["run", "top", "status", "explain", "doctor"]),
    ("/sys/fs/cgroup",    "cgroup v2: usage, pressure and limits of pods and services",
     &["run", "top", "status", "explain", "rank", "allocatable", "cpus", "qos"]),
    ("/sys/kernel/btf/vmlinux", "types of the running kernel, for the eBPF programs",
     &["run", "top", "status", "explain", "rank", "doctor"]),
];

/// Variables that no option names.
#[rustfmt::skip]
const VARIABLES: &[(&str, &str)] = &[
    ("ISOBAR_LOG",     "level of diagnostics: error, warn, info (default) or debug"),
    ("NO_COLOR",       "if set, no colour, unless --color says so"),
    ("CLICOLOR",       "if 0, no colour, unless --color says so"),
    ("CLICOLOR_FORCE", "if set, colour also where output does not go to a terminal, unless NO_COLOR is set"),
];

/// Appends the sections to the page of `command`, whose names from the first verb on are `path`.
pub(super) fn write(page: &mut dyn Write, command: &Command, path: &[&str]) -> io::Result<()> {
    let verb = path.first().copied().unwrap_or_default();
    let mut roff = Roff::default();
    let after = command.get_after_help().filter(|_| !verb.is_empty());
    if let Some(notes) = after {
        roff.control("SH", ["NOTES"]);
        roff.text([roman(notes.to_string())]);
    }
    let exits = EXITS.iter().find(|(name, _)| *name == verb).map(|(_, exits)| *exits);
    let every = [("0", "it is done"), ("2", "wrong usage, or options that do not go together")];
    let mut exits = [&every, exits.unwrap_or_default()].concat();
    exits.sort_unstable_by_key(|(code, _)| (code.len(), *code));
    section(&mut roff, "EXIT STATUS", exits);
    let files = FILES.iter().filter(|(_, _, verbs)| verb.is_empty() || verbs.contains(&verb));
    section(&mut roff, "FILES", files.map(|(file, what, _)| (*file, *what)).collect());
    environment(&mut roff, command);
    let see = if verb.is_empty() { "isobar-run(1), isobar-status(1)" } else { "isobar(1)" };
    roff.control("SH", ["SEE ALSO"]);
    roff.text([roman(format!("{see}; /usr/share/doc/isobar, where a package installed it"))]);
    roff.to_writer(page)
}

/// The variables of the options first.
fn environment(roff: &mut Roff, command: &Command) {
    let of_options = command.get_arguments().filter_map(|option| {
        let name = option.get_env()?.to_str()?.to_owned();
        Some((name, format!("the same as --{}", option.get_long()?)))
    });
    let others = VARIABLES.iter().map(|(name, what)| ((*name).to_owned(), (*what).to_owned()));
    let all: Vec<_> = of_options.chain(others).collect();
    section(roff, "ENVIRONMENT", all.iter().map(|(name, what)| (&**name, &**what)).collect());
}

fn section(roff: &mut Roff, heading: &str, rows: Vec<(&str, &str)>) {
    if rows.is_empty() {
        return;
    }
    roff.control("SH", [heading]);
    for (name, what) in rows {
        roff.control("TP", []);
        roff.text([bold(name)]);
        roff.text([roman(what)]);
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn exits_of_every_verb() {
        let command = Cli::command();
        let verbs: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
        let named: Vec<_> =
            EXITS.iter().map(|(verb, _)| *verb).filter(|verb| !verb.is_empty()).collect();
        assert_eq!(named, verbs);
        let known = |verb: &&str| verbs.contains(verb);
        assert!(FILES.iter().all(|(_, _, verbs)| verbs.iter().all(known)));
    }
}
