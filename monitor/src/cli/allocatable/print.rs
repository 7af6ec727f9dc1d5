//! The table: amounts by resource, limits by file, and problems.

use std::io::{self, Write};

use isobar_core::model::quantity::{Quantity, ResourceList};
use isobar_kubelet::fit::Fit;
use isobar_kubelet::layout::{Layout, Outgrown, Resident};

use super::Report;
use crate::cli::table::Table;
use crate::cli::terminal::{harmless, width};

pub(super) fn write(out: &mut dyn Write, document: &Report) -> io::Result<()> {
    let Report { capacity, kube_reserved, system_reserved, allocatable, .. } = document;
    amounts([capacity, kube_reserved, system_reserved, allocatable]).write(out, width())?;
    if !document.eviction_hard.is_empty() {
        let all: Vec<_> =
            document.eviction_hard.iter().map(|(name, value)| format!("{name}<{value}")).collect();
        writeln!(out, "\nhard eviction thresholds: {}", all.join(", "))?;
    }
    if !document.eviction_soft.is_empty() {
        let (values, graces) = (&document.eviction_soft, &document.eviction_soft_grace_period);
        let all: Vec<_> = values
            .iter()
            .zip(graces.values())
            .map(|((name, value), grace)| format!("{name}<{value} for {grace}"))
            .collect();
        writeln!(out, "soft eviction thresholds: {}", all.join(", "))?;
    }
    writeln!(out)?;
    limits(document).write(out, width())?;
    if let Some(fit) = &document.fit {
        writeln!(out)?;
        requests(fit).write(out, width())?;
    }
    if let Some(standing) = &document.standing {
        layout(out, &standing.layout)?;
    }
    for problem in &document.problems {
        writeln!(out, "! {}", harmless(problem))?;
    }
    Ok(())
}

/// Of capacity, both reservations and allocatable, in this order.
pub(super) fn amounts(lists: [&ResourceList; 4]) -> Table {
    let mut table = Table::new("RESOURCE CAPACITY> KUBE-RESERVED> SYSTEM-RESERVED> ALLOCATABLE>");
    let cell = |list: &ResourceList, name: &str| {
        list.get(name).map_or_else(|| "-".into(), ToString::to_string)
    };
    for name in lists[0].keys() {
        let cells = lists.map(|list| cell(list, name));
        table.row(std::iter::once(name.clone()).chain(cells));
    }
    table
}

/// What the pods request, and whether it fits.
fn requests(fit: &[Fit]) -> Table {
    let mut table = Table::new("REQUESTED BY-PODS> ALLOCATABLE> FREE> FITS");
    for Fit { resource, requested, allocatable, free, fits } in fit {
        let known = |amount: &Option<Quantity>| {
            amount.as_ref().map_or_else(|| "-".into(), ToString::to_string)
        };
        table.row([
            resource.clone(),
            requested.to_string(),
            known(allocatable),
            known(free),
            if *fits { "yes".into() } else { "no".into() },
        ]);
    }
    table
}

/// Each configured limit and its live value.
fn limits(document: &Report) -> Table {
    let mut table = Table::new("LIMITS-OF FILE CONFIGURED> LIVE> DRIFT");
    let enforced = &document.enforced;
    let live = document.standing.as_ref().map(|standing| &standing.live);
    let groups = [
        ("pods", Some(&enforced.pods), live.map(|live| &live.pods)),
        (
            "kube-reserved",
            enforced.kube_reserved.as_ref(),
            live.and_then(|live| live.kube_reserved.as_ref()),
        ),
        (
            "system-reserved",
            enforced.system_reserved.as_ref(),
            live.and_then(|live| live.system_reserved.as_ref()),
        ),
    ];
    for (name, limits, found) in groups {
        let Some(limits) = limits else { continue };
        for (file, configured) in limits.files() {
            let live = found.and_then(|found| found.file(&file));
            let drift = document.standing.iter().flat_map(|standing| &standing.drift);
            let why = found.and_then(|found| {
                drift.clone().find(|drift| drift.cgroup == found.path && drift.file == file)
            });
            table.row([
                name.into(),
                file,
                configured.to_string(),
                live.map_or_else(|| "-".into(), |live| live.to_string()),
                why.map_or_else(String::new, |drift| drift.why.words().into()),
            ]);
        }
    }
    table
}

/// The three cgroups, the processes outside of them, and usage above a reservation.
fn layout(out: &mut dyn Write, layout: &Layout) -> io::Result<()> {
    writeln!(out)?;
    for group in &layout.cgroups {
        match &group.path {
            None => writeln!(out, "{:<16} not configured", group.name)?,
            Some(path) => {
                let state = if group.exists { "" } else { " (missing)" };
                writeln!(out, "{:<16} {}{state}", group.name, harmless(&path.0))?;
            }
        }
    }
    let outside = &layout.outside;
    let (mib, threads) = (outside.memory.0 >> 20, outside.kernel_threads);
    write!(out, "outside of these: {} processes with {mib} MiB", outside.processes)?;
    if let Some(Resident { memory, pid, name, cgroup, .. }) = &outside.biggest {
        let mib = memory.unwrap_or_default().0 >> 20;
        let (name, path) = (harmless(name), harmless(&cgroup.0));
        write!(out, ", the largest is {name} ({pid}) in {path} with {mib} MiB")?;
    }
    writeln!(out, "; {threads} kernel threads")?;
    for Outgrown { cgroup, resource, used, reserved } in &layout.outgrown {
        let path = harmless(&cgroup.0);
        writeln!(out, "! {path} uses {used} of {resource}, but only {reserved} is reserved")?;
    }
    Ok(())
}
