//! The table: one line for each set of CPUs, then exclusive assignments, then problems.

use std::io::{self, Write};

use isobar::agent::limits::Intruder;
use isobar::source::interrupts::Interrupt;

use super::live::Seen;
use super::{Checksum, Report};
use crate::cli::table::Table;
use crate::cli::terminal::harmless;

pub(super) fn write(
    out: &mut dyn Write,
    document: &Report,
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
        writeln!(out, "! {}", harmless(problem))?;
    }
    write_intruders(out, document.intruders.as_deref().unwrap_or_default(), width)?;
    write_interrupts(out, document.interrupts.as_deref().unwrap_or_default(), width)?;
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

/// Those that ran there first.
fn write_intruders(out: &mut dyn Write, all: &[Seen], width: Option<usize>) -> io::Result<()> {
    if all.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nprocesses of pods that may run on reserved CPUs, and those on which they did"
    )?;
    let mut table = Table::new("PID> NAME POD~ CPUS RAN-ON FOR>");
    for Seen { intruder, ran_on, ran_millis } in all {
        let Intruder { pid, name, pod, cpus, .. } = intruder;
        let ran_on = match ran_on {
            None => "gone".into(),
            Some(on) if on.0.is_empty() => "-".into(),
            Some(on) => on.to_string(),
        };
        let length = ran_millis.filter(|millis| *millis > 0);
        let length = length.map_or("-".into(), |millis| format!("{millis}ms"));
        let (name, pod) = (name.clone(), pod.clone());
        table.row([pid.to_string(), name, pod, cpus.to_string(), ran_on, length]);
    }
    table.write(out, width)
}

fn write_interrupts(
    out: &mut dyn Write,
    all: &[Interrupt],
    width: Option<usize>,
) -> io::Result<()> {
    /// A server has hundreds; JSON has them all.
    const SHOWN: usize = 10;
    if all.is_empty() {
        return Ok(());
    }
    writeln!(out, "\ninterrupts that are handled on CPUs of pods: {}", all.len())?;
    let mut table = Table::new("IRQ> NAME~ CPUS");
    for Interrupt { irq, name, cpus } in all.iter().take(SHOWN) {
        table.row([irq.to_string(), name.clone(), cpus.to_string()]);
    }
    table.write(out, width)?;
    if all.len() > SHOWN {
        writeln!(out, "and {} more; -o json has them all", all.len() - SHOWN)?;
    }
    Ok(())
}
