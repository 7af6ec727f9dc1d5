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
use super::process::{Stat, oom_score_adj, oom_size, processes};
use super::target::OpenTarget;
use super::throttle;
use isobar_core::model::decision::Action;
use isobar_core::model::units::Percent;

/// The name of the override of a cgroup's processes.
pub(super) const SCORE: &str = "oom_score_adj";
/// `OOM_SCORE_ADJ_MAX`, include/uapi/linux/oom.h.
const HIGHEST: i32 = 1000;

/// Processes of one cgroup that are remembered one by one. The ledger is written anew with each
/// change, so of more only those with an unusual score are.
const MOST: usize = 4096;

/// As many processes are compared by size.
const WEIGHED: usize = 1_000;

/// A process and no other: its id, which can be used again, and its start time.
type Process = (u32, u64);

/// The scores of one cgroup's processes: what most of them have, and what each has.
#[derive(Debug, Default, PartialEq, Eq)]
struct Scores {
    usual: i32,
    each: BTreeMap<Process, i32>,
}

impl Scores {
    fn of(all: &[(Process, i32)]) -> Self {
        let mut n = BTreeMap::<i32, usize>::new();
        all.iter().for_each(|(_, score)| *n.entry(*score).or_default() += 1);
        let usual = n.into_iter().max_by_key(|(_, n)| *n).map_or(0, |(score, _)| score);
        Self { usual, each: all.iter().copied().collect() }
    }

    /// Adds what a later mark finds: the highest score is that of the mark before.
    fn add(&mut self, all: &[(Process, i32)]) {
        for (process, score) in all {
            match *score {
                HIGHEST => _ = self.each.entry(*process).or_insert(self.usual),
                score => _ = self.each.insert(*process, score),
            }
        }
    }

    /// `2 4710:88120=2 4711:88123=-5`: the usual score, and that of each process.
    fn text(&self) -> String {
        let is_few = self.each.len() <= MOST;
        let told = self.each.iter().filter(|(_, score)| is_few || **score != self.usual);
        let mut text = self.usual.to_string();
        for ((pid, start), score) in told.take(MOST) {
            write!(text, " {pid}:{start}={score}").expect("a string takes all");
        }
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let usual = words.next()?.parse().ok()?;
        let one = |word: &str| {
            let (process, score) = word.split_once('=')?;
            let (pid, start) = process.split_once(':')?;
            Some(((pid.parse().ok()?, start.parse().ok()?), score.parse().ok()?))
        };
        Some(Self { usual, each: words.map(one).collect::<Option<_>>()? })
    }

    /// What stood there before the mark.
    fn before(entry: &Override) -> Result<Self, ActError> {
        let Override { path, before, .. } = entry;
        let unclear =
            || ActError::Other(format!("{path}: cannot understand the scores {before:?}"));
        Self::parse(before).ok_or_else(unclear)
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
    // A negative score is a promise that was made to this process.
    let (may, promised): (Vec<_>, Vec<_>) =
        scores_in(proc, group)?.into_iter().partition(|(_, score)| *score >= 0);
    if may.is_empty() {
        return Err(ActError::Other(match promised.len() {
            0 => format!("{path} has no processes"),
            n => format!("{path}: {} protected by a negative {SCORE}", processes(n as u64)),
        }));
    }
    let processes = processes(may.len() as u64);
    if !action.is_enforced {
        return Ok(format!("would raise {SCORE} of {processes} to {HIGHEST}"));
    }
    throttle::remember(ledger, entry(group, action, &may, ledger)?)?;
    // A number may have been given to another process meanwhile.
    for ((pid, _), _) in may.iter().filter(|(process, _)| is_alive(proc, *process)) {
        write(proc, *pid, HIGHEST)?;
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
    Ok(format!("{SCORE} of {processes} raised to {HIGHEST}{together}"))
}

/// Of what a target's processes have in memory and swap, the part of the largest; `None` of too many,
/// while a kill may wait.
pub(super) fn largest(proc: &Path, target: &OpenTarget) -> Option<Percent> {
    let mut pids = Vec::new();
    for group in target.work() {
        group.pids(&mut pids).ok()?;
    }
    if pids.len() > WEIGHED {
        return None;
    }
    let sizes: Vec<u64> = pids.into_iter().filter_map(|pid| oom_size(proc, pid)).collect();
    let all = sizes.iter().copied().fold(0, u64::saturating_add);
    sizes.into_iter().max().filter(|_| all > 0).map(|most| Percent::share(most, all))
}

/// The processes in and below a cgroup, each with its score.
fn scores_in(proc: &Path, group: &CgroupDir) -> Result<Vec<(Process, i32)>, ActError> {
    let mut pids = Vec::new();
    group.pids(&mut pids)?;
    let score = |pid: u32| {
        let start = Stat::of(proc, pid)?.started;
        Some(((pid, start), oom_score_adj(proc, pid)?))
    };
    Ok(pids.into_iter().filter_map(score).collect())
}

/// What the ledger has to know of a mark.
fn entry(
    group: &CgroupDir,
    action: &Action,
    all: &[(Process, i32)],
    ledger: &Ledger,
) -> Result<Override, ActError> {
    if let Some(known) = ledger.override_of(group.id, SCORE) {
        let mut scores = Scores::before(known)?;
        scores.add(all);
        let mut entry = Override { before: scores.text(), ..known.clone() };
        entry.actions.insert(action.id);
        return Ok(entry);
    }
    Ok(Override {
        cgroup: group.id,
        path: group.path.clone(),
        file: SCORE.into(),
        before: Scores::of(all).text(),
        wrote: HIGHEST.to_string(),
        actions: [action.id].into(),
    })
}

/// Puts the scores of one cgroup's processes back, also of those that were started since, and of
/// those that have left it.
pub(super) fn undo(
    proc: &Path,
    group: &CgroupDir,
    entry: &Override,
    is_enforced: bool,
    ledger: &mut Ledger,
) -> Result<String, ActError> {
    let path = &entry.path;
    let scores = Scores::before(entry)?;
    let mut pids = Vec::new();
    group.pids(&mut pids)?;
    let marked = still_marked(proc, &scores, &pids);
    let processes = processes(marked.len() as u64);
    if !is_enforced {
        return Ok(format!("would put {SCORE} of {processes} in {path} back"));
    }
    restore(proc, &marked)?;
    ledger.forget(entry.cgroup, &entry.file);
    Ok(format!("{SCORE} of {processes} in {path} back to {}", scores.usual))
}

/// The same where the cgroup is gone: of processes that left it before. How many.
pub(super) fn undo_left(proc: &Path, entry: &Override) -> Result<usize, ActError> {
    let marked = still_marked(proc, &Scores::before(entry)?, &[]);
    restore(proc, &marked)?;
    Ok(marked.len())
}

/// Processes that the mark still stands for, each with the score that it had: those that were
/// marked, wherever they are now, and those `inside`. One that another writer has changed since
/// keeps what it has.
fn still_marked(proc: &Path, scores: &Scores, inside: &[u32]) -> Vec<(u32, i32)> {
    let mut all = scores.each.clone();
    for pid in inside {
        if let Some(stat) = Stat::of(proc, *pid) {
            all.entry((*pid, stat.started)).or_insert(scores.usual);
        }
    }
    let is_marked = |process: Process| {
        is_alive(proc, process) && oom_score_adj(proc, process.0) == Some(HIGHEST)
    };
    let marked = all.into_iter().filter(|(process, _)| is_marked(*process));
    marked.map(|((pid, _), before)| (pid, before)).collect()
}

/// Puts each score back, also after one that fails; the first failure counts.
fn restore(proc: &Path, marked: &[(u32, i32)]) -> Result<(), ActError> {
    let written = marked.iter().map(|(pid, before)| write(proc, *pid, *before));
    let written: Vec<_> = written.collect();
    written.into_iter().collect()
}

fn is_alive(proc: &Path, (pid, start): Process) -> bool {
    Stat::of(proc, pid).is_some_and(|stat| stat.started == start)
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
        type Row = (&'static [(Process, i32)], &'static str);
        #[rustfmt::skip]
        let table: [Row; 4] = [
            // process and start time, score; text
            (&[((5, 70), 2)],                                "2 5:70=2"),
            (&[((5, 70), 2), ((6, 71), 2), ((7, 72), 0)],    "2 5:70=2 6:71=2 7:72=0"),
            (&[((5, 70), 1000), ((6, 71), 999)],             "1000 5:70=1000 6:71=999"),
            (&[],                                            "0"),
        ];
        for (all, text) in table {
            let scores = Scores::of(all);
            assert_eq!(scores.text(), text, "{all:?}");
            assert_eq!(Scores::parse(text), Some(scores), "{text}");
        }
        for text in ["", "x", "2 7=0", "2 7:72", "2 7:72=x", "2  7:72=0"] {
            assert_eq!(Scores::parse(text), None, "{text:?}");
        }
        // Of the version before: only those with another score.
        let old = Scores { usual: 2, each: [((7, 72), 0)].into() };
        assert_eq!(Scores::parse("2 7:72=0"), Some(old));
    }

    #[test]
    fn scores_text_is_bounded() {
        let n = u32::try_from(MOST).unwrap();
        #[rustfmt::skip]
        let table = [
            // processes with the usual score, others, how many are told
            (n,     0,     MOST),
            (n,     3,     3),
            (n * 3, n * 2, MOST),
        ];
        for (usual, others, told) in table {
            let score = |pid| ((pid, 1), if pid < usual { 2 } else { 5 });
            let all: Vec<_> = (0..usual + others).map(score).collect();
            let text = Scores::of(&all).text();
            assert_eq!(text.matches('=').count(), told, "{usual} {others}");
            assert!(text.starts_with("2 "), "{usual} {others}");
        }
    }

    #[test]
    fn scores_add_what_a_later_mark_finds() {
        let mut scores = Scores::of(&[((5, 70), 2), ((6, 71), 2), ((7, 72), 0)]);
        #[rustfmt::skip]
        let found = [
            ((5, 70), HIGHEST),
            ((7, 72), 300),     // another writer changed it
            ((8, 90), HIGHEST), // started since
            ((9, 91), 4),       // started since with a score of its own
        ];
        scores.add(&found);
        assert_eq!(scores.text(), "2 5:70=2 6:71=2 7:72=300 8:90=2 9:91=4");
    }
}
