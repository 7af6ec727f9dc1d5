//! Holds somebody back: a limit on memory that slows the one who goes on, or a smaller weight.
//! What stood there is remembered first, and put back unless somebody else has changed it since.

use std::collections::BTreeSet;

use super::cgroup::Group;
use super::failure::Failure;
use super::journal::{Entry, Journal};
use super::size;
use isobar_core::model::cgroup::Limit;
use isobar_core::model::decision::{Action, Trigger};
use isobar_core::model::threshold::PressureSignal;
use isobar_core::model::units::Bytes;

/// A page: limits are cut to whole ones.
const PAGE: u64 = 4096;
/// Memory that is left to who is held back, at least: seven eighths of what it has.
const TAKEN: u64 = 8;
/// A weight is cut to a tenth.
const CUT: u64 = 10;

/// The files that hold the target of `action` back.
fn files(action: &Action) -> &'static [&'static str] {
    match action.reason.threshold {
        Trigger::Pressure(threshold) => match threshold.on {
            PressureSignal::Cpu(_) => &["cpu.weight"],
            PressureSignal::Disk(_) => &["io.weight", "cpu.weight"],
            PressureSignal::Memory(_)
            | PressureSignal::Exhaustion(_)
            | PressureSignal::Refaults(_) => &["memory.high"],
        },
        Trigger::Eviction(_) => &["memory.high"],
    }
}

/// Holds one cgroup back; what was done, in words.
pub(super) fn squeeze(
    group: &Group,
    action: &Action,
    journal: &mut Journal,
) -> Result<String, Failure> {
    let mut told = Vec::new();
    for file in files(action) {
        match hold(group, file, action, journal) {
            // The disk knows weights on few machines; that of the processors slows as well.
            Err(Failure::Lacking { file: "io.weight", .. }) => {}
            held => told.push(held?),
        }
    }
    Ok(told.join(", "))
}

fn hold(
    group: &Group,
    file: &'static str,
    action: &Action,
    journal: &mut Journal,
) -> Result<String, Failure> {
    let path = &group.path;
    let live = stands(group, file)?;
    if let Some(entry) = journal.of(group.id, file)
        && entry.wrote == live
    {
        let mut entry = entry.clone();
        entry.actions.insert(action.id);
        let told = format!("{path}/{file} is held at {live} already");
        if action.is_enforced {
            remember(journal, entry)?;
        }
        return Ok(told);
    }
    let wrote = match file {
        "memory.high" => less_memory(group, action.want)?,
        _ => less_weight(group, file, &live)?,
    };
    let change = format!("{path}/{file} from {live} to {wrote}");
    if !action.is_enforced {
        return Ok(format!("would write {change}"));
    }
    let entry = Entry {
        boot: journal.boot.clone(),
        cgroup: group.id,
        path: path.clone(),
        file: file.into(),
        before: live,
        wrote: wrote.clone(),
        actions: BTreeSet::from([action.id]),
    };
    remember(journal, entry.clone())?;
    if let Err(failure) = group.write_aside(file, &wrote) {
        // It was never in force. If even that cannot be written down, it is left as it is found.
        forget(journal, &entry)?;
        return Err(failure);
    }
    let live = stands(group, file)?;
    if live != wrote {
        remember(journal, Entry { wrote: live.clone(), ..entry })?;
        return Ok(format!("{change}; the kernel made it {live}"));
    }
    Ok(change)
}

/// The limit: what is wanted below what is held, never more than an eighth at a time, and never
/// below what the cgroup is promised.
fn less_memory(group: &Group, want: Option<Bytes>) -> Result<String, Failure> {
    let Limit::At(current) = group.limit("memory.current")? else {
        return Err(no(group, "memory.current", "an amount", "max"));
    };
    let least = current - current / TAKEN;
    let asked = want.map_or(least, |want| current.saturating_sub(want.0));
    let promised = ["memory.low", "memory.min"].map(|file| match group.limit(file) {
        Ok(Limit::At(n)) => n,
        Ok(Limit::Max) => u64::MAX,
        // A file that is not there promises nothing.
        Err(_) => 0,
    });
    let floor = promised.into_iter().max().unwrap_or(0);
    let high = asked.max(least).max(floor) / PAGE * PAGE;
    let path = &group.path;
    if floor >= current || high == 0 {
        let (has, floor) = (size(Bytes(current)), size(Bytes(floor)));
        return Err(Failure::Told(format!(
            "{path} holds {has} and is promised {floor} (memory.low, memory.min): there is \
             nothing to hold back"
        )));
    }
    match group.limit("memory.high")? {
        Limit::At(stands) if stands <= high => Err(Failure::Told(format!(
            "{path}/memory.high is {stands} already, which is no more than {high}: somebody else \
             holds it back"
        ))),
        _ => Ok(high.to_string()),
    }
}

/// The weight: a tenth. `io.weight` may say more of single devices, which is left alone.
fn less_weight(group: &Group, file: &'static str, live: &str) -> Result<String, Failure> {
    let (word, digits) = match live.split_once(' ') {
        Some(("default", digits)) => ("default ", digits),
        _ => ("", live),
    };
    let weight: u64 = digits.parse().map_err(|_| no(group, file, "a weight", live))?;
    match weight {
        0 => Err(Failure::Told(format!("{}/cpu.idle is 1: it yields to everybody", group.path))),
        1 => Err(Failure::Told(format!("{}/{file} is 1 already, the least", group.path))),
        weight => Ok(format!("{word}{}", (weight / CUT).max(1))),
    }
}

fn no(group: &Group, file: &'static str, expected: &'static str, found: &str) -> Failure {
    Failure::Text { path: group.path.clone(), file, expected, found: found.into() }
}

/// Takes a squeeze back that no other action needs; what was done, in words.
pub(super) fn release(
    group: &Group,
    entry: &Entry,
    action: u64,
    is_enforced: bool,
    journal: &mut Journal,
) -> Result<String, Failure> {
    if let Some(other) = entry.actions.iter().find(|other| **other != action) {
        let told = format!("{}/{} is still held for action {other}", entry.path, entry.file);
        if is_enforced {
            let mut entry = entry.clone();
            entry.actions.remove(&action);
            remember(journal, entry)?;
        }
        return Ok(told);
    }
    undo(group, entry, is_enforced, journal)
}

/// Puts one file back; what was done, in words.
fn undo(
    group: &Group,
    entry: &Entry,
    is_enforced: bool,
    journal: &mut Journal,
) -> Result<String, Failure> {
    let Some(file) = known(&entry.file) else {
        return Err(Failure::Told(format!("{}: isobar never writes {}", entry.path, entry.file)));
    };
    let Entry { path, before, wrote, .. } = entry;
    let live = stands(group, file)?;
    if live != *wrote {
        if is_enforced {
            forget(journal, entry)?;
        }
        return Ok(format!("{path}/{file} is left at {live}: somebody else wrote it over {wrote}"));
    }
    let change = format!("{path}/{file} from {live} back to {before}");
    if !is_enforced {
        return Ok(format!("would write {change}"));
    }
    group.write(file, before)?;
    forget(journal, entry)?;
    Ok(change)
}

/// What a file says; of `io.weight`, what holds where no device has a weight of its own.
fn stands(group: &Group, file: &'static str) -> Result<String, Failure> {
    Ok(group.read(file)?.lines().next().unwrap_or_default().into())
}

fn known(file: &str) -> Option<&'static str> {
    ["memory.high", "cpu.weight", "io.weight"].into_iter().find(|known| *known == file)
}

/// Nothing is written that could not be undone.
fn remember(journal: &mut Journal, entry: Entry) -> Result<(), Failure> {
    journal.keep(entry).map_err(|why| {
        let cause = std::error::Error::source(&why).map(ToString::to_string).unwrap_or_default();
        Failure::Told(format!(
            "nothing was written, because it could not be undone: {why}: {cause}"
        ))
    })
}

/// Forgets a file that stands as it should.
pub(super) fn forget(journal: &mut Journal, entry: &Entry) -> Result<(), Failure> {
    journal.drop(entry.cgroup, &entry.file).map_err(|why| {
        let cause = std::error::Error::source(&why).map(ToString::to_string).unwrap_or_default();
        Failure::Told(format!("{}/{} is undone, but: {why}: {cause}", entry.path, entry.file))
    })
}
