//! Ending work, at once or by asking first.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use isobar_core::model::decision::Action;
use isobar_core::model::decision::OutcomeResult::{Done, Refused};
use isobar_core::model::decision::StepKind::{KillContainers, StopContainers};
use isobar_core::model::units::Nanos;
use rustix::process::{Pid, Signal, kill_process};

use super::place::{Cgroup, action, actor, enforced, settle, wait};

#[test]
fn kill_forking_victim() {
    for is_prepared in [false, true] {
        let Some(group) = Cgroup::new("forks") else { return };
        group.spawn("while :; do sleep 5 & done");
        group.wait_for(20);
        let (mut actor, _state) = actor();
        let means = actor.available_steps();
        assert!(means.allowed.contains(&KillContainers), "{means:?}");
        if is_prepared {
            actor.prepare(&[group.target()]);
        }
        let outcome = actor.take(&enforced(KillContainers, group.target()));
        let outcome = settle(&mut actor, outcome);
        assert_eq!(outcome.result, Done, "{outcome:?}");
        // On a busy machine the kernel may take longer than the actuator waits.
        let ways = ["cgroup.kill after ", "SIGKILL to each, as cgroup.kill takes long after "];
        assert!(ways.iter().any(|way| outcome.detail.starts_with(way)), "{outcome:?}");
        assert!(outcome.ended.unwrap() >= 20, "{outcome:?}");
        assert!(group.pids().is_empty(), "{outcome:?}");
        assert!(!actor.is_busy() && actor.poll().is_empty(), "what is over is told once");
        println!("{}", outcome.detail);
    }
}

#[test]
fn kill_late_comers() {
    let Some(group) = Cgroup::new("late") else { return };
    group.spawn("exec sleep 100");
    group.wait_for(1);
    let (mut actor, _state) = actor();
    actor.prepare(&[group.target()]);
    group.spawn("exec sleep 100");
    let below = group.child("below");
    below.spawn("exec sleep 100");
    below.wait_for(1);
    group.wait_for(2);
    let outcome = actor.take(&enforced(KillContainers, group.target()));
    let outcome = settle(&mut actor, outcome);
    assert_eq!(outcome.result, Done, "{outcome:?}");
    assert!(group.pids().is_empty() && below.pids().is_empty(), "{outcome:?}");
}

#[test]
fn kill_counts_its_own() {
    let Some(group) = Cgroup::new("early") else { return };
    (0..3).for_each(|_| group.spawn("exec sleep 100"));
    group.wait_for(3);
    let (mut actor, _state) = actor();
    actor.prepare(&[group.target()]);
    let early = i32::try_from(group.pids()[0]).ok().and_then(Pid::from_raw).unwrap();
    kill_process(early, Signal::KILL).unwrap();
    // The others may not sleep yet, and one that is not asleep has not ended for that.
    wait("one has ended", || group.states().replace('Z', "") == "SS");
    let outcome = actor.take(&enforced(KillContainers, group.target()));
    let outcome = settle(&mut actor, outcome);
    assert_eq!((outcome.result, outcome.ended), (Done, Some(2)), "{outcome:?}");
}

#[test]
fn kill_frozen() {
    let Some(group) = Cgroup::new("frozen") else { return };
    group.spawn("exec sleep 100");
    group.wait_for(1);
    group.write("cgroup.freeze", "1");
    wait("it is frozen", || group.read("cgroup.events").contains("frozen 1"));
    let (mut actor, _state) = actor();
    let outcome = actor.take(&enforced(KillContainers, group.target()));
    let outcome = settle(&mut actor, outcome);
    assert_eq!((outcome.result, outcome.ended), (Done, Some(1)), "{outcome:?}");
    assert!(group.pids().is_empty());
}

#[test]
fn kill_dry_run() {
    let Some(group) = Cgroup::new("dry") else { return };
    group.spawn("exec sleep 100");
    group.wait_for(1);
    let (mut actor, _state) = actor();
    actor.prepare(&[group.target()]);
    for step in [KillContainers, KillContainers, StopContainers] {
        let outcome = actor.take(&action(step, group.target()));
        assert_eq!(outcome.result, Done, "{outcome:?}");
        assert!(outcome.detail.starts_with("would "), "{outcome:?}");
    }
    assert!(!actor.is_busy());
    assert_eq!(group.pids().len(), 1);
}

#[test]
fn kill_finds_processes_below_any_name() {
    let Some(group) = Cgroup::new("names") else { return };
    let below = group.child(OsStr::from_bytes(b"hidden-\xff\xfe"));
    let deeper = below.child("deeper");
    deeper.spawn("exec sleep 100");
    deeper.wait_for(1);
    let (mut actor, _state) = actor();
    let outcome = actor.take(&action(KillContainers, group.target()));
    assert!(outcome.detail.contains("would end 1 process"), "{outcome:?}");
    let outcome = actor.take(&enforced(KillContainers, group.target()));
    let outcome = settle(&mut actor, outcome);
    assert_eq!((outcome.result, outcome.ended), (Done, Some(1)), "{outcome:?}");
    assert!(deeper.pids().is_empty());
}

#[test]
fn stop_grace_over() {
    let Some(group) = Cgroup::new("deaf") else { return };
    group.spawn("trap '' TERM; while :; do sleep 0.1; done");
    wait("it is deaf", || group.pids().len() == 2);
    let (mut actor, _state) = actor();
    let first = actor.take(&enforced(StopContainers, group.target()));
    assert_eq!((first.result, first.freed), (Done, None), "{first:?}");
    assert!(first.detail.starts_with("SIGTERM to 1 process in 1 cgroup"), "{first:?}");
    assert!(actor.is_busy() && actor.poll().is_empty(), "its grace has only begun");
    assert!(!group.pids().is_empty(), "{first:?}");
    let mut news = Vec::new();
    wait("its grace is over", || {
        news.extend(actor.poll());
        !news.is_empty()
    });
    let [last] = &news[..] else { panic!("told more than once: {news:?}") };
    assert_eq!((last.action, last.result), (first.action, Done), "{last:?}");
    assert!(
        last.detail.contains("the grace period ended with ") && last.took >= Nanos::SECOND,
        "{last:?}"
    );
    assert!(group.pids().is_empty() && !actor.is_busy());
}

#[test]
fn stop_grace_watched() {
    let Some(group) = Cgroup::new("hole") else { return };
    group.spawn("trap '' TERM; while :; do sleep 0.1; done");
    wait("it is deaf", || group.pids().len() == 2);
    let (mut actor, _state) = actor();
    let grace = Some(Nanos(2 * Nanos::SECOND.0));
    let first = actor.take(&Action { grace, ..enforced(StopContainers, group.target()) });
    std::thread::sleep(std::time::Duration::from_millis(5_500));
    assert_eq!(actor.poll(), [], "a second of its two was watched");
    let last = settle(&mut actor, first);
    assert!(last.detail.contains("the grace period ended with "), "{last:?}");
    assert!(last.took >= Nanos(6 * Nanos::SECOND.0), "{last:?}");
    assert!(group.pids().is_empty(), "{last:?}");
}

#[test]
fn stop_ends_when_asked() {
    let Some(group) = Cgroup::new("polite") else { return };
    let left = tempfile::NamedTempFile::new().unwrap();
    let note = left.path().display();
    group.spawn(&format!(
        "trap 'sleep 0.2; echo bye > {note}; exit' TERM; while :; do sleep 0.1; done"
    ));
    wait("it listens", || group.pids().len() == 2);
    let (mut actor, _state) = actor();
    let grace = Some(Nanos(60 * Nanos::SECOND.0));
    let asked = Action { grace, ..enforced(StopContainers, group.target()) };
    let first = actor.take(&asked);
    assert!(actor.is_busy(), "{first:?}");
    let last = settle(&mut actor, first);
    assert!(last.detail.contains("; all processes have ended"), "{last:?}");
    assert!(!last.detail.contains("the grace period ended"), "{last:?}");
    assert_eq!(std::fs::read_to_string(left.path()).unwrap(), "bye\n");
}

#[test]
fn kill_takes_over_from_stop() {
    let Some(group) = Cgroup::new("both") else { return };
    group.spawn("trap '' TERM; while :; do sleep 0.1; done");
    wait("it is deaf", || group.pids().len() == 2);
    let (mut actor, _state) = actor();
    actor.take(&enforced(StopContainers, group.target()));
    let outcome = actor.take(&enforced(KillContainers, group.target()));
    let outcome = settle(&mut actor, outcome);
    assert_eq!(outcome.result, Done, "{outcome:?}");
    assert!(group.pids().is_empty() && !actor.is_busy() && actor.poll().is_empty());
}

#[test]
fn stop_no_longer_enforced() {
    let Some(group) = Cgroup::new("called-off") else { return };
    group.spawn("trap '' TERM; while :; do sleep 0.1; done");
    wait("it is deaf", || group.pids().len() == 2);
    let (mut actor, _state) = actor();
    let first = actor.take(&enforced(StopContainers, group.target()));
    assert!(actor.is_busy(), "{first:?}");
    assert_eq!(actor.call_off(|step| step == StopContainers), []);
    assert!(actor.is_busy(), "it is enforced as before");
    let told = actor.call_off(|step| step == KillContainers);
    let [last] = &told[..] else { panic!("told once: {told:?}") };
    assert_eq!((last.action, last.result), (first.action, Refused), "{last:?}");
    assert!(last.detail.ends_with("stopContainers is no longer enforced"), "{last:?}");
    assert!(!actor.is_busy());
    std::thread::sleep(std::time::Duration::from_millis(1200));
    assert_eq!(actor.poll(), []);
    assert!(!group.pids().is_empty(), "its grace is over, and nobody ends it");
}
