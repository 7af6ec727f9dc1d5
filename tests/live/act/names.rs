//! Names that users give their cgroups take nothing out of reach.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use isobar_core::model::decision::OutcomeResult::Done;
use isobar_core::model::decision::StepKind::KillContainers;

use super::place::{Cgroup, actor, enforced, settle};

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
