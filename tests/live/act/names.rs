//! Names that users give their cgroups take nothing out of reach.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use std::os::unix::fs::chown;

use isobar_core::model::decision::OutcomeResult::{Done, Failed};
use isobar_core::model::decision::StepKind::{KillContainers, Mark};

use super::place::{Cgroup, action, actor, enforced, settle};
use crate::host::skip;

#[test]
fn kill_finds_names_that_are_no_text() {
    let Some(root) = Cgroup::new("bytes") else { return };
    // In text, all of them have one path.
    let names: [&[u8]; 3] = [b"a\xff", b"a\xfe", "a\u{fffd}".as_bytes()];
    let groups: Vec<Cgroup> =
        names.iter().map(|name| root.child(OsStr::from_bytes(name))).collect();
    let leaves: Vec<Cgroup> = groups.iter().map(|group| group.child("leaf")).collect();
    let all = || groups.iter().chain(&leaves);
    for group in all() {
        group.spawn("exec sleep 100");
        group.wait_for(1);
    }
    assert!(groups.iter().all(|group| group.path == groups[0].path), "{:?}", groups[0].path);
    for (n, leaf) in leaves.iter().chain(&groups).enumerate() {
        let (mut actor, _state) = actor();
        let outcome = actor.take(&enforced(KillContainers, leaf.target()));
        let outcome = settle(&mut actor, outcome);
        assert_eq!((outcome.result, outcome.ended), (Done, Some(1)), "{n} {outcome:?}");
        assert!(leaf.pids().is_empty(), "{n} {outcome:?}");
        let left: usize = all().map(|group| group.pids().len()).sum();
        assert_eq!(left, 5 - n, "{n} {outcome:?}");
    }
}

#[test]
fn act_believes_no_name_that_a_user_gave() {
    let container = format!("kubepods/burstable/podu/{}", "c0".repeat(32));
    let pods = "is never touched: it holds all pods";
    let lone = "has no cgroup that is certainly a container's";
    #[rustfmt::skip]
    let table = [
        // path, the first that a user owns, result
        ("kubepods",                  None,             Err(pods)),
        ("kubepods",                  Some("kubepods"), Ok(())),
        ("x/kubepods",                Some("x"),        Ok(())),
        ("kubepods.slice",            Some("kubepods.slice"), Ok(())),
        ("x/kubepods/burstable",      None,             Err(pods)),
        ("x/kubepods/burstable",      Some("x"),        Ok(())),
        ("x/kubepods/burstable",      Some("burstable"), Err(pods)),
        ("x/kubepods/podu",           None,             Err(lone)),
        ("x/kubepods/podu",           Some("x"),        Ok(())),
        ("x/kubepods/podu",           Some("podu"),     Err(lone)), // a pod in a user namespace
        ("kubepods/burstable/podu/x", Some("kubepods"), Ok(())),
        (container.as_str(),          None,             Ok(())),
        (container.as_str(),          Some("kubepods"), Ok(())),
    ];
    for (path, users, want) in table {
        let Some(root) = Cgroup::new("like") else { return };
        let groups = root.below(path);
        let from = groups.iter().rev().skip_while(|group| {
            !users.is_some_and(|name| group.path.0.ends_with(&format!("/{name}")))
        });
        if from.into_iter().any(|group| chown(&group.dir, Some(1000), None).is_err()) {
            return skip("no cgroup can be given to another user");
        }
        groups[0].spawn("exec sleep 100");
        groups[0].wait_for(1);
        for step in [KillContainers, Mark] {
            let (mut actor, _state) = actor();
            let outcome = actor.take(&action(step, groups[0].target()));
            let (result, told) = match want {
                Ok(()) => (Done, "would "),
                Err(why) => (Failed, why),
            };
            assert_eq!(outcome.result, result, "{step:?} {path} {users:?} {outcome:?}");
            assert!(outcome.detail.contains(told), "{step:?} {path} {users:?} {outcome:?}");
        }
    }
}
