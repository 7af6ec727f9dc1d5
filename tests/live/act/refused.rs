//! What is refused, and what is said then.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use isobar::act::{Actuator, OpenError, Options};
use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::decision::OutcomeResult::Failed;
use isobar_core::model::decision::{Action, StepKind, Target};
use isobar_core::model::threshold::PressureSignal;
use isobar_core::model::units::Percent;

use super::files::Tree;
use super::place::{Cgroup, action, actor, actor_of, enforced, mount, options};

#[test]
fn kill_path_used_again() {
    let Some(group) = Cgroup::new("again") else { return };
    group.spawn("exec sleep 100");
    group.wait_for(1);
    let (mut actor, _state) = actor();
    let before = group.target_with_id(7);
    let gone = Target { path: Some(group.path.child("gone")), ..group.target() };
    for step in StepKind::ALL {
        for (target, why) in [(&before, "is a different cgroup now"), (&gone, "/gone is gone")] {
            for action in [action(step, target.clone()), enforced(step, target.clone())] {
                let outcome = actor.take(&action);
                assert_eq!(outcome.result, Failed, "{step:?} {outcome:?}");
                let is_told = outcome.detail.contains(why) || step == StepKind::Evict;
                assert!(is_told, "{step:?} {outcome:?}");
            }
        }
    }
    assert_eq!(group.pids().len(), 1);
}

#[test]
fn kill_removed_after_prepare() {
    let Some(group) = Cgroup::new("reused") else { return };
    let child = group.child("same");
    let (target, path) = (child.target(), child.dir.clone());
    let (mut actor, _state) = actor();
    actor.prepare(std::slice::from_ref(&target));
    drop(child);
    assert!(!path.exists());
    let stranger = group.child("same");
    stranger.spawn("exec sleep 100");
    stranger.wait_for(1);
    let outcome = actor.take(&enforced(StepKind::KillContainers, target));
    assert_eq!(stranger.pids().len(), 1, "{outcome:?}");
}

#[test]
fn act_never_touch() {
    let Some(group) = Cgroup::new("never") else { return };
    let kept = group.child("kept");
    let below = kept.child("below");
    for each in [&group, &kept, &below] {
        each.spawn("exec sleep 100");
        each.wait_for(1);
    }
    let state = tempfile::tempdir().unwrap();
    let never_touch = vec![format!("{}/k?pt", group.path).parse().unwrap()];
    let root = mount().unwrap();
    let mut actor =
        Actuator::open(Options { never_touch, ..options(&root, state.path()) }).unwrap();
    let id = |path: &Path| CgroupId(fs::metadata(path).unwrap().ino());
    let whole =
        Target { cgroup: Some(id(&root)), path: Some(CgroupPath::root()), ..group.target() };
    #[rustfmt::skip]
    let table = [
        // target, why
        (group.target(), "/kept is never touched: neverTouch names /"),
        (kept.target(),  "/kept is never touched: neverTouch names /"),
        (below.target(), "/kept/below is never touched: neverTouch names /"),
        (whole,          "/ is never touched: it is the whole node"),
    ];
    for (target, why) in table {
        actor.prepare(std::slice::from_ref(&target));
        for step in StepKind::ALL.into_iter().filter(|step| *step != StepKind::Evict) {
            let outcome = actor.take(&enforced(step, target.clone()));
            assert_eq!(outcome.result, Failed, "{step:?} {outcome:?}");
            assert!(outcome.detail.contains(why), "{step:?} {why:?} {outcome:?}");
        }
    }
    assert_eq!([&group, &kept, &below].map(|each| each.pids().len()), [1, 1, 1]);
}

#[test]
fn act_refuses_odd_targets() {
    let Some(group) = Cgroup::new("odd") else { return };
    group.spawn("exec sleep 100");
    group.wait_for(1);
    let (mut actor, _state) = actor();
    let at = |path: String| Target { path: Some(CgroupPath(path.into())), ..group.target() };
    let name = group.path.0.trim_start_matches('/');
    #[rustfmt::skip]
    let table = [
        // target, why
        (Target { cgroup: None, ..group.target() }, "no cgroup of "),
        (Target { path: None, ..group.target() },   "no cgroup of "),
        (at(format!("/{name}/../{name}")),          "is no path of a cgroup"),
        (at(format!("//{name}")),                   "is no path of a cgroup"),
        (at(name.into()),                           "is no path of a cgroup"),
        (at(String::new()),                         "is no path of a cgroup"),
    ];
    for (target, why) in table {
        let outcome = actor.take(&enforced(StepKind::KillContainers, target));
        assert_eq!(outcome.result, Failed, "{outcome:?}");
        assert!(outcome.detail.contains(why), "{why:?} {outcome:?}");
    }
    assert_eq!(group.pids().len(), 1);
}

#[test]
fn actor_open_refuses() {
    let state = tempfile::tempdir().unwrap();
    let root = tempfile::tempdir().unwrap();
    let fine = options(root.path(), state.path());
    assert!(Actuator::open(fine.clone()).is_ok());
    fs::create_dir(state.path().join("ledger.json")).unwrap();
    let nowhere = || "/nowhere".into();
    #[rustfmt::skip]
    let table = [
        // options, why
        (Options { cgroup_root: nowhere(), ..fine.clone() }, "cannot open /nowhere, where cgroup v2"),
        (Options { proc: nowhere(), ..fine.clone() },        "cannot read /nowhere/sys/kernel/random"),
        (fine,                                               "ledger.json"),
    ];
    for (options, why) in table {
        let error: OpenError = Actuator::open(options).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn act_spares_init_and_isobar() {
    use StepKind::{KillContainers, Reclaim, Squeeze, StopContainers};
    let own = std::process::id().to_string();
    let cpu = PressureSignal::Cpu(Percent(40_00));
    let hidden = "1 processes of /busy are in a PID namespace that this one does not show";
    #[rustfmt::skip]
    let table = [
        // its processes, why nothing is done
        ("0",  hidden),
        (&own, "cgroup /busy is never touched: isobar runs in it"),
        ("1",  "cgroup /busy is never touched: process 1 runs in it"),
    ];
    for (procs, why) in table {
        for step in [Reclaim, Squeeze, StopContainers, KillContainers] {
            let files =
                ["cpu.weight", "memory.current", "memory.reclaim"].map(|file| (file, "100"));
            let tree = Tree::new(&files);
            fs::write(tree.dir.join("cgroup.procs"), format!("{procs}\n")).unwrap();
            let (mut actor, _state) = actor_of(tree.root.path());
            let action = Action { step, is_enforced: false, ..tree.squeeze(7, cpu, None) };
            let outcome = actor.take(&action);
            assert_eq!(outcome.result, Failed, "{procs} {step:?} {outcome:?}");
            assert!(outcome.detail.starts_with(why), "{procs} {step:?} {outcome:?}");
        }
    }
}
