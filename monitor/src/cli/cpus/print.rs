//! The table: one line for each set of CPUs, then exclusive assignments, then problems.

use std::io::{self, Write};

use isobar::agent::limits::Intruder;

use super::{Checksum, Document};
use crate::cli::table::Table;
use crate::cli::terminal::harmless;

pub(super) fn write(
    out: &mut dyn Write,
    document: &Document,
    width: Option<usize>,
) -> io::Result<()> {
    let strict = if document.strict { ", strict" } else { "" };
    let shown = |cpus: String| if cpus.is_empty() { "none".into() } else { cpus };
    writeln!(out, "policy     {}{strict}", document.policy)?;
    writeln!(out, "online     {}", document.online)?;
    writeln!(out, "reserved   {}", shown(document.reserved.to_string()))?;
    writeln!(out, "default    {}", shown(document.default_cpu_set.to_string()))?;
    writeln!(out, "shared     {} millicores", document.shared_pool_millicores)?;
    writeln!(out, "exclusive  {} CPUs", document.exclusive_cpus)?;
    for problem in &document.problems {
        writeln!(out, "! {problem}")?;
    }
    if let Some(intruders) = document.intruders.as_ref().filter(|found| !found.is_empty()) {
        writeln!(out, "\nprocesses of pods that may run on reserved CPUs")?;
        let mut table = Table::new("PID> NAME POD~ CPUS");
        for intruder in intruders {
            let Intruder { pid, name, pod, cpus, .. } = intruder;
            table.row([pid.to_string(), name.clone(), pod.clone(), cpus.to_string()]);
        }
        table.write(out, width)?;
    }
    let Some(state) = &document.state else { return Ok(()) };
    let sum = match state.checksum {
        Checksum::Ok => "checksum ok",
        Checksum::Corrupt => "corrupt",
    };
    let policy = state.policy_name.as_deref().unwrap_or("unknown");
    let default = state.default_cpu_set.clone().unwrap_or_default();
    writeln!(out, "\nstate      {}: {sum}", harmless(&state.file.display().to_string()))?;
    writeln!(out, "policy     {}", harmless(policy))?;
    writeln!(out, "default    {}", harmless(&shown(default)))?;
    if !state.assignments.is_empty() {
        let mut table = Table::new("POD~ CONTAINER~ CPUS");
        for assigned in &state.assignments {
            let cpus = assigned.cpus.to_string();
            table.row([assigned.pod.clone(), assigned.container.clone(), cpus]);
        }
        table.write(out, width)?;
    }
    for problem in &state.problems {
        writeln!(out, "! {}", harmless(problem))?;
    }
    if let Some(remedy) = &state.remedy {
        writeln!(out, "  {}", harmless(remedy))?;
    }
    Ok(())
}
