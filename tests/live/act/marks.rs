//! The highest OOM score for a target, and everything as it was afterwards.
//!
//! Not every machine lets a process lower a score (CAP_SYS_RESOURCE), so the scores here are plain
//! files beside real cgroups; virtual machines show the rest.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use isobar::act::{Actuator, Options};
use isobar_core::model::decision::OutcomeResult::{Done, Failed};
use isobar_core::model::decision::StepKind::Mark;
use isobar_core::model::decision::{Action, Phase, Release, ReleaseReason};
use tempfile::TempDir;

use super::place::{Cgroup, Pod, action, enforced, mount, options};

/// A procfs of these processes and their scores.
fn processes(proc: &Path, all: &[(u32, i32)]) {
    for (pid, score) in all {
        let dir = proc.join(pid.to_string());
        fs::create_dir_all(&dir).unwrap();
        for file in ["stat", "statm"] {
            fs::copy(format!("/proc/{pid}/{file}"), dir.join(file)).unwrap();
        }
        fs::write(dir.join("oom_score_adj"), format!("{score}\n")).unwrap();
    }
}

fn score(proc: &Path, pid: u32) -> i32 {
    let text = fs::read_to_string(proc.join(pid.to_string()).join("oom_score_adj")).unwrap();
    text.trim_end().parse().unwrap()
}

fn scores(proc: &Path, group: &Cgroup) -> Vec<i32> {
    let mut all: Vec<i32> = group.pids().into_iter().map(|pid| score(proc, pid)).collect();
    all.sort_unstable();
    all
}

fn open(proc: &Path, state: &Path) -> Actuator {
    let options = options(&mount().unwrap(), state);
    Actuator::open(Options { proc: proc.into(), ..options }).unwrap()
}

fn release(group: &Cgroup) -> Release {
    let why = ReleaseReason::Over;
    Release { action: 7, step: Mark, target: group.target(), why, is_enforced: true }
}

/// A procfs without processes.
fn procfs() -> TempDir {
    let proc = tempfile::tempdir().unwrap();
    let kernel = proc.path().join("sys/kernel/random");
    fs::create_dir_all(&kernel).unwrap();
    fs::copy("/proc/sys/kernel/random/boot_id", kernel.join("boot_id")).unwrap();
    proc
}

/// A cgroup with a process for each of these scores, and their procfs.
fn group(name: &str, scores: &[i32]) -> Option<(Cgroup, TempDir)> {
    let group = Cgroup::new(name)?;
    scores.iter().for_each(|_| group.spawn("exec sleep 100"));
    group.wait_for(scores.len());
    let proc = procfs();
    let all: Vec<_> = group.pids().into_iter().zip(scores.iter().copied()).collect();
    processes(proc.path(), &all);
    Some((group, proc))
}

#[test]
fn mark_is_undone_by_the_next_agent() {
    let Some((group, proc)) = group("marked", &[2, 2, 5, -500]) else { return };
    let (proc, state) = (proc.path(), tempfile::tempdir().unwrap());
    let mut before = open(proc, state.path());
    let outcome = before.take(&enforced(Mark, group.target()));
    assert_eq!(outcome.result, Done, "{outcome:?}");
    assert_eq!(scores(proc, &group), [-500, 1000, 1000, 1000], "{outcome:?}");
    // What starts now inherits the score of its parent.
    let known = group.pids();
    group.spawn("exec sleep 100");
    group.wait_for(5);
    let new = group.pids().into_iter().filter(|pid| !known.contains(pid));
    processes(proc, &new.map(|pid| (pid, 1000)).collect::<Vec<_>>());
    drop(before);

    let mut next = open(proc, state.path());
    let phases: Vec<Phase> = next.in_force().iter().map(|entry| entry.phase).collect();
    assert_eq!(phases, [Phase::Marked]);
    let outcome = next.release(&release(&group)).unwrap();
    assert_eq!(outcome.result, Done, "{outcome:?}");
    assert_eq!(scores(proc, &group), [-500, 2, 2, 2, 5], "{outcome:?}");
    assert!(next.in_force().is_empty());
}

#[test]
fn mark_spares_promises_and_observes() {
    let Some((group, files)) = group("promised", &[2, 2, 5, -500]) else { return };
    let (proc, state) = (files.path(), tempfile::tempdir().unwrap());
    let mut actor = open(proc, state.path());
    let outcome = actor.take(&action(Mark, group.target()));
    let is_told = outcome.detail.starts_with("would raise oom_score_adj of 3 processes");
    assert!(is_told, "{outcome:?}");
    assert_eq!(scores(proc, &group), [-500, 2, 2, 5], "only observed");

    processes(proc, &group.pids().into_iter().map(|pid| (pid, -999)).collect::<Vec<_>>());
    let outcome = actor.take(&Action { id: 8, ..enforced(Mark, group.target()) });
    assert_eq!(outcome.result, Failed, "{outcome:?}");
    assert!(outcome.detail.contains("protected by a negative oom_score_adj"), "{outcome:?}");
    assert!(actor.in_force().iter().all(|entry| entry.action.id != 8), "it has come to nothing");
}

/// How a mark ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Release,
    /// The cgroup is removed, and the mark released after it.
    GoneThenRelease,
    /// The cgroup is removed, and the ledger is pruned.
    Gone,
}

#[test]
fn mark_is_undone_for_processes_that_left() {
    for end in [End::Release, End::GoneThenRelease, End::Gone] {
        let Some((group, files)) = group("deserted", &[2, 2, 2, 5]) else { return };
        let Some(away) = Cgroup::new("away") else { return };
        let (proc, state) = (files.path(), tempfile::tempdir().unwrap());
        let mut actor = open(proc, state.path());
        let release = release(&group);
        let outcome = actor.take(&enforced(Mark, group.target()));
        assert_eq!(outcome.result, Done, "{end:?} {outcome:?}");
        let pids = group.pids();
        pids.iter().for_each(|pid| away.write("cgroup.procs", &pid.to_string()));
        assert_eq!(scores(proc, &away), [1000; 4], "{end:?}");
        // One is another process by now, of one another writer has changed the score.
        let stat = proc.join(pids[0].to_string()).join("stat");
        let text = fs::read_to_string(&stat).unwrap();
        let started = text.rsplit_once(')').unwrap().1.split(' ').nth(20).unwrap();
        fs::write(&stat, text.replace(started, "77")).unwrap();
        processes(proc, &[(pids[1], 300)]);

        if end != End::Release {
            fs::remove_dir(&group.dir).unwrap();
        }
        match end {
            End::Gone => {
                sleep(Duration::from_millis(1100));
                assert_eq!(actor.poll(), [], "{end:?}");
            }
            _ => assert_eq!(actor.release(&release).unwrap().result, Done, "{end:?}"),
        }
        let left = pids.iter().map(|pid| score(proc, *pid));
        assert_eq!(left.collect::<Vec<_>>(), [1000, 300, 2, 5], "{end:?}");
        assert!(actor.in_force().is_empty(), "{end:?}");
    }
}

#[test]
fn mark_reaches_containers_that_are_started_again() {
    let Some(root) = Cgroup::new("restarted") else { return };
    let pod = Pod::new(&root);
    let (files, state) = (procfs(), tempfile::tempdir().unwrap());
    let proc = files.path();
    let container = |digit: &str| {
        let name = format!("cri-containerd-{}.scope", digit.repeat(64));
        let group = pod.pod().child(name);
        group.spawn("exec sleep 100");
        group.wait_for(1);
        processes(proc, &[(group.pids()[0], 2)]);
        group
    };
    let sidecar = container("1");
    processes(proc, &[(pod.container.pids()[0], 2), (pod.sandbox.pids()[0], 5)]);
    let mut actor = open(proc, state.path());
    let outcome = actor.take(&enforced(Mark, pod.target()));
    assert_eq!(outcome.result, Done, "{outcome:?}");

    pod.container.end();
    let again = container("2");
    let each = |score| [[score], [score], [5]].map(Vec::from);
    let all = || [&sidecar, &again, &pod.sandbox].map(|group| scores(proc, group));
    sleep(Duration::from_millis(1100));
    assert_eq!(actor.poll(), []);
    assert_eq!(all(), each(1000), "the sandbox is left out");
    actor.call_off(|step| step != Mark);
    let later = container("3");
    sleep(Duration::from_millis(1100));
    assert_eq!(actor.poll(), []);
    assert_eq!(scores(proc, &later), [2], "marks are no longer enforced");
    later.end();
    drop(actor);

    let mut next = open(proc, state.path());
    let release = release(pod.pod());
    let outcome = next.release(&release).unwrap();
    assert_eq!((outcome.result, all()), (Done, each(2)), "{outcome:?}");
    let observed = next.take(&action(Mark, pod.target()));
    assert_eq!(observed.result, Done, "{observed:?}");
    sleep(Duration::from_millis(1100));
    next.poll();
    assert_eq!(all(), each(2), "what is only observed is not extended");
}
