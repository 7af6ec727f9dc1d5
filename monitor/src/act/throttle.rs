//! Squeezes: a limit on memory that slows its target down (`memory.high`), or a smaller weight.
//! What stood in the file is in the ledger first, and is put back unless another writer has changed
//! it since.

use std::collections::BTreeSet;
use std::path::Path;

use super::cgroup::{CgroupDir, Root};
use super::error::ActError;
use super::ledger::{Ledger, Override};
use super::mark;
use isobar_core::model::cgroup::Limit;
use isobar_core::model::decision::{Action, Trigger};
use isobar_core::model::threshold::PressureSignal;
use isobar_core::model::units::Bytes;

/// A squeeze takes an eighth of what the target holds at most.
const TAKEN: u64 = 8;
/// A weight is cut to a tenth.
const CUT: u64 = 10;

/// The files that a squeeze for `action` writes.
fn files(action: &Action) -> &'static [&'static str] {
    match action.reason.threshold {
        Trigger::Pressure(threshold) => match threshold.on {
            PressureSignal::Cpu(_) => &["cpu.weight"],
            PressureSignal::Disk(_) => &["io.weight", "io.bfq.weight", "cpu.weight"],
            PressureSignal::Memory(_)
            | PressureSignal::Exhaustion(_)
            | PressureSignal::Refaults(_) => &["memory.high"],
        },
        Trigger::Eviction(_) => &["memory.high"],
    }
}

/// Squeezes one cgroup; what was done, in words.
pub(super) fn squeeze(
    group: &CgroupDir,
    action: &Action,
    ledger: &mut Ledger,
) -> Result<String, ActError> {
    let (mut done, mut impossible) = (Vec::new(), None);
    for file in files(action) {
        match write_limit(group, file, action, ledger) {
            // Few IO schedulers know weights; the weight of the CPU slows disk use as well.
            Err(ActError::Lacking { file: "io.weight" | "io.bfq.weight", .. }) => {}
            // It is the least already, as a BestEffort pod's weight of the CPU is, or not there.
            Err(error @ (ActError::Other(_) | ActError::Lacking { .. })) => {
                impossible = Some(error);
            }
            written => done.push(written?),
        }
    }
    match impossible {
        Some(error) if done.is_empty() => Err(error),
        _ => Ok(done.join(", ")),
    }
}

fn write_limit(
    group: &CgroupDir,
    file: &'static str,
    action: &Action,
    ledger: &mut Ledger,
) -> Result<String, ActError> {
    let live = stands(group, file)?;
    if let Some(done) = serve_also(group, file, &live, action, ledger)? {
        return Ok(done);
    }
    let wrote = match file {
        "memory.high" => less_memory(group, action.want)?,
        _ => less_weight(group, file, &live)?,
    };
    write_over(group, file, &wrote, action, ledger)
}

/// Where a file says already what isobar wrote for another action: it serves this one too.
fn serve_also(
    group: &CgroupDir,
    file: &'static str,
    live: &str,
    action: &Action,
    ledger: &mut Ledger,
) -> Result<Option<String>, ActError> {
    let entry = ledger.override_of(group.id, file).filter(|entry| entry.wrote == live);
    let Some(mut entry) = entry.cloned() else { return Ok(None) };
    entry.actions.insert(action.id);
    if action.is_enforced {
        remember(ledger, entry)?;
    }
    Ok(Some(format!("{}/{file} is at {live} already", group.path)))
}

/// Writes a value over what stands in a file, and keeps that in the ledger.
pub(super) fn write_over(
    group: &CgroupDir,
    file: &'static str,
    wrote: &str,
    action: &Action,
    ledger: &mut Ledger,
) -> Result<String, ActError> {
    let (path, live) = (&group.path, stands(group, file)?);
    if let Some(done) = serve_also(group, file, &live, action, ledger)? {
        return Ok(done);
    }
    if live == wrote {
        return Ok(format!("{path}/{file} is {live}"));
    }
    let change = format!("{path}/{file} from {live} to {wrote}");
    if !action.is_enforced {
        return Ok(format!("would write {change}"));
    }
    let entry = Override {
        cgroup: group.id,
        path: path.clone(),
        file: file.into(),
        before: live,
        wrote: wrote.into(),
        actions: BTreeSet::from([action.id]),
    };
    remember(ledger, entry.clone())?;
    let has_finished = group.write_detached(file, wrote).inspect_err(|_| {
        ledger.forget(entry.cgroup, &entry.file);
    })?;
    let live = stands(group, file)?;
    if !has_finished && live == entry.before {
        return Ok(format!("{change}; the kernel has not yet taken it"));
    }
    if live != wrote {
        remember(ledger, Override { wrote: live.clone(), ..entry })?;
        return Ok(format!("{change}; the kernel made it {live}"));
    }
    Ok(change)
}

/// The limit: what is wanted below what is held, never more than an eighth at a time, and never
/// below what the cgroup is promised.
fn less_memory(group: &CgroupDir, want: Option<Bytes>) -> Result<String, ActError> {
    let Limit::At(current) = group.limit("memory.current")? else {
        return Err(no(group, "memory.current", "an amount", "max"));
    };
    let least = current - current / TAKEN;
    let asked = want.map_or(least, |want| current.saturating_sub(want.0));
    // A file that is not there promises nothing.
    let promised = ["memory.low", "memory.min"]
        .map(|file| group.limit(file).map_or(0, |limit| limit.at().unwrap_or(u64::MAX)));
    let floor = promised.into_iter().max().unwrap_or(0);
    // The kernel cuts a limit to whole pages.
    let page = procfs::page_size();
    let high = asked.max(least).max(floor) / page * page;
    let path = &group.path;
    if floor >= current || high == 0 {
        let (has, floor) = (Bytes(current), Bytes(floor));
        return Err(ActError::Other(format!(
            "{path} holds {has} and is promised {floor} (memory.low, memory.min): there is \
             nothing to squeeze"
        )));
    }
    match group.limit("memory.high")? {
        Limit::At(stands) if stands <= high => Err(ActError::Other(format!(
            "{path}/memory.high is {stands} already, which is no more than {high}: another \
             writer has limited it"
        ))),
        _ => Ok(high.to_string()),
    }
}

/// The weight: a tenth. `io.weight` and BFQ's own may say more of single devices, which is left alone.
fn less_weight(group: &CgroupDir, file: &'static str, live: &str) -> Result<String, ActError> {
    let (word, digits) = match live.split_once(' ') {
        Some(("default", digits)) => ("default ", digits),
        _ => ("", live),
    };
    let weight: u64 = digits.parse().map_err(|_| no(group, file, "a weight", live))?;
    match weight {
        0 => Err(ActError::Other(format!(
            "{}/cpu.idle is 1: it runs only when a CPU is idle",
            group.path
        ))),
        1 => Err(ActError::Other(format!("{}/{file} is 1 already, the least", group.path))),
        weight => Ok(format!("{word}{}", (weight / CUT).max(1))),
    }
}

fn no(group: &CgroupDir, file: &'static str, expected: &'static str, found: &str) -> ActError {
    ActError::Text { path: group.path.clone(), file, expected, found: found.into() }
}

/// Takes a limit back that no other action needs; what was done, in words.
pub(super) fn release(
    proc: &Path,
    group: &CgroupDir,
    entry: &Override,
    action: u64,
    is_enforced: bool,
    ledger: &mut Ledger,
) -> Result<String, ActError> {
    if let Some(other) = entry.actions.iter().find(|other| **other != action) {
        let done = format!("{}/{} still serves action {other}", entry.path, entry.file);
        if is_enforced {
            let mut entry = entry.clone();
            entry.actions.remove(&action);
            remember(ledger, entry)?;
        }
        return Ok(done);
    }
    match entry.file.as_str() {
        mark::SCORE => mark::undo(proc, group, entry, is_enforced, ledger),
        _ => undo(group, entry, is_enforced, ledger),
    }
}

/// Puts one file back; what was done, in words.
fn undo(
    group: &CgroupDir,
    entry: &Override,
    is_enforced: bool,
    ledger: &mut Ledger,
) -> Result<String, ActError> {
    let Some(file) = known(&entry.file) else {
        return Err(ActError::Other(format!("{}: isobar never writes {}", entry.path, entry.file)));
    };
    let Override { path, before, wrote, .. } = entry;
    let live = stands(group, file)?;
    if live == *before {
        if is_enforced {
            ledger.forget(entry.cgroup, &entry.file);
        }
        return Ok(format!("{path}/{file} stands at {live} again"));
    }
    if live != *wrote {
        if is_enforced {
            ledger.forget(entry.cgroup, &entry.file);
        }
        return Ok(format!("{path}/{file} is left at {live}: another writer has changed {wrote}"));
    }
    let change = format!("{path}/{file} from {live} back to {before}");
    if !is_enforced {
        return Ok(format!("would write {change}"));
    }
    // A limit that is still below what is held makes the writer reclaim, once it stands.
    if !group.write_detached(file, before)? && stands(group, file)? != *before {
        return Err(ActError::Other(format!("{change}: the kernel has not yet taken it")));
    }
    ledger.forget(entry.cgroup, &entry.file);
    Ok(change)
}

/// Whether what isobar wrote stands no more, but what stood there before.
pub(super) fn is_undone(root: &Root, entry: &Override) -> bool {
    let Some(file) = known(&entry.file) else { return false };
    let group = CgroupDir::open(root, &entry.path, entry.cgroup);
    entry.before != entry.wrote
        && group.and_then(|group| stands(&group, file)).is_ok_and(|live| live == entry.before)
}

/// Writes once more what isobar wrote; whether the kernel has finished.
pub(super) fn write_again(root: &Root, entry: &Override) -> Result<bool, ActError> {
    let group = CgroupDir::open(root, &entry.path, entry.cgroup)?;
    known(&entry.file).map_or(Ok(true), |file| group.write_detached(file, &entry.wrote))
}

/// What a file says; of `io.weight`, what holds where no device has a weight of its own.
fn stands(group: &CgroupDir, file: &'static str) -> Result<String, ActError> {
    Ok(group.read(file)?.lines().next().unwrap_or_default().into())
}

fn known(file: &str) -> Option<&'static str> {
    ["memory.high", "cpu.weight", "io.weight", "io.bfq.weight", "memory.oom.group"]
        .into_iter()
        .find(|known| *known == file)
}

/// Nothing is written that the next agent could not undo.
pub(super) fn remember(ledger: &mut Ledger, entry: Override) -> Result<(), ActError> {
    ledger.keep(entry).map_err(|why| {
        let cause = std::error::Error::source(&why).map(ToString::to_string).unwrap_or_default();
        ActError::Other(format!(
            "nothing was written, because it could not be undone: {why}: {cause}"
        ))
    })
}
