//! Marks: the highest `oom_score_adj` for the processes of a target, and `memory.oom.group` for its
//! cgroups. If memory runs out, the kernel's OOM killer takes that target, all of it; if it does
//! not, nothing has happened. What stood there is in the ledger first, and is put back.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::cgroup::CgroupDir;
use super::error::ActError;
use super::ledger::{Ledger, Override};
use super::process::{Stat, oom_score_adj};
use super::throttle;
use isobar_core::model::decision::Action;

/// The name of the override of a cgroup's processes.
pub(super) const SCORE: &str = "oom_score_adj";
/// `OOM_SCORE_ADJ_MAX`, include/uapi/linux/oom.h.
const HIGHEST: i32 = 1000;

/// The scores of one cgroup's processes: what most of them have, and the others.
#[derive(Debug, Default, PartialEq, Eq)]
struct Scores {
    usual: i32,
    /// By process id and start time: an id can be used again.
    others: BTreeMap<(u32, u64), i32>,
}

impl Scores {
    fn of(all: &[(u32, u64, i32)]) -> Self {
        let mut n = BTreeMap::<i32, usize>::new();
        all.iter().for_each(|(_, _, score)| *n.entry(*score).or_default() += 1);
        let usual = n.into_iter().max_by_key(|(_, n)| *n).map_or(0, |(score, _)| score);
        let others = all.iter().filter(|(.., score)| *score != usual);
        Self { usual, others: others.map(|(pid, start, score)| ((*pid, *start), *score)).collect() }
    }

    /// `2`, or `2 4711:88123=-5` with a process that has another score.
    fn text(&self) -> String {
        let mut text = self.usual.to_string();
        for ((pid, start), score) in &self.others {
            write!(text, " {pid}:{start}={score}").expect("a string takes all");
        }
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let usual = words.next()?.parse().ok()?;
        let other = |word: &str| {
            let (process, score) = word.split_once('=')?;
            let (pid, start) = process.split_once(':')?;
            Some(((pid.parse().ok()?, start.parse().ok()?), score.parse().ok()?))
        };
        Some(Self { usual, others: words.map(other).collect::<Option<_>>()? })
    }
}

/// Marks one cgroup; what was done, in words.
pub(super) fn mark(
    proc: &Path,
    group: &CgroupDir,
    action: &Action,
    ledger: &mut Ledger,
) -> Result<String, ActError> {
    let path = &group.path;
    let mut pids = Vec::new();
    group.pids(&mut pids)?;
    let known = ledger.override_of(group.id, SCORE).cloned();
    let score = |pid: u32| {
        let start = Stat::of(proc, pid)?.started;
        Some((pid, start, oom_score_adj(proc, pid)?))
    };
    let all: Vec<_> = pids.iter().filter_map(|pid| score(*pid)).collect();
    // A negative score is a promise that was made to this process.
    let (may, promised): (Vec<_>, Vec<_>) = all.into_iter().partition(|(.., score)| *score >= 0);
    if may.is_empty() {
        return Err(ActError::Other(match promised.len() {
            0 => format!("{path} has no processes"),
            n => format!("{path}: {n} processes are protected by a negative {SCORE}"),
        }));
    }
    let n = may.len();
    if !action.is_enforced {
        return Ok(format!("would raise {SCORE} of {n} processes in {path} to {HIGHEST}"));
    }
    let entry = match known {
        Some(mut entry) => {
            entry.actions.insert(action.id);
            entry
        }
        None => Override {
            cgroup: group.id,
            path: path.clone(),
            file: SCORE.into(),
            before: Scores::of(&may).text(),
            wrote: HIGHEST.to_string(),
            actions: [action.id].into(),
        },
    };
    throttle::remember(ledger, entry)?;
    for (pid, start, _) in &may {
        // The number may have been given to another process meanwhile.
        if Stat::of(proc, *pid).is_some_and(|stat| stat.started == *start) {
            write(proc, *pid, HIGHEST)?;
        }
    }
    // With one that was promised to be spared they must not end together.
    let group_wide = promised
        .is_empty()
        .then(|| throttle::write_over(group, "memory.oom.group", "1", action, ledger));
    let together = match group_wide {
        Some(Ok(_)) => ", and they end together",
        // Without the controller each process is chosen by itself.
        Some(Err(_)) | None => "",
    };
    Ok(format!("{SCORE} of {n} processes in {path} raised to {HIGHEST}{together}"))
}

/// Puts the scores of one cgroup's processes back, also of those that were started since.
pub(super) fn undo(
    proc: &Path,
    group: &CgroupDir,
    entry: &Override,
    is_enforced: bool,
    ledger: &mut Ledger,
) -> Result<String, ActError> {
    let path = &entry.path;
    let scores = Scores::parse(&entry.before).ok_or_else(|| {
        ActError::Other(format!("{path}: cannot understand the scores {:?}", entry.before))
    })?;
    let mut pids = Vec::new();
    group.pids(&mut pids)?;
    // One that another writer has changed since keeps what it has.
    let marked = pids.into_iter().filter(|pid| oom_score_adj(proc, *pid) == Some(HIGHEST));
    let (mut n, mut failed) = (0, None);
    for pid in marked {
        let Some(stat) = Stat::of(proc, pid) else { continue };
        let before = scores.others.get(&(pid, stat.started)).copied().unwrap_or(scores.usual);
        match is_enforced.then(|| write(proc, pid, before)) {
            Some(Err(why)) => failed = Some(why),
            Some(Ok(())) | None => n += 1,
        }
    }
    if let Some(why) = failed {
        return Err(why);
    }
    if !is_enforced {
        return Ok(format!("would put {SCORE} of {n} processes in {path} back"));
    }
    ledger.forget(entry.cgroup, &entry.file);
    Ok(format!("{SCORE} of {n} processes in {path} back to {}", scores.usual))
}

/// Sets the score of a process; one that is gone needs none.
fn write(proc: &Path, pid: u32, score: i32) -> Result<(), ActError> {
    let path = proc.join(pid.to_string()).join(SCORE);
    match fs::write(&path, score.to_string()) {
        Ok(()) => Ok(()),
        Err(why) if oom_score_adj(proc, pid).is_none() => {
            tracing::debug!(pid, %why, "ended before its OOM score was written");
            Ok(())
        }
        Err(why) => {
            Err(ActError::Other(format!("cannot write {score} to {}: {why}", path.display())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_text_reads_back() {
        type Row = (&'static [(u32, u64, i32)], &'static str);
        #[rustfmt::skip]
        let table: [Row; 4] = [
            // process, start time, score; text
            (&[(5, 70, 2)],                          "2"),
            (&[(5, 70, 2), (6, 71, 2), (7, 72, 0)],  "2 7:72=0"),
            (&[(5, 70, 1000), (6, 71, 999)],         "1000 6:71=999"),
            (&[],                                    "0"),
        ];
        for (all, text) in table {
            let scores = Scores::of(all);
            assert_eq!(scores.text(), text, "{all:?}");
            assert_eq!(Scores::parse(text), Some(scores), "{text}");
        }
        for text in ["", "x", "2 7=0", "2 7:72", "2 7:72=x", "2  7:72=0"] {
            assert_eq!(Scores::parse(text), None, "{text:?}");
        }
    }
}
