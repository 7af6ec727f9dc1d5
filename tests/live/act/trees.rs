//! Victims that are large: in processes, and in cgroups that they make themselves.

use std::fs;
use std::path::PathBuf;

use isobar_core::model::decision::OutcomeResult::Done;
use isobar_core::model::decision::StepKind::{KillContainers, Squeeze, StopContainers};

use super::place::{Cgroup, Pod, action, actor, enforced, settle, wait};
use crate::host::alone;

/// Many cgroups below one, which go with it.
struct Tree(Vec<PathBuf>);

impl Drop for Tree {
    fn drop(&mut self) {
        // A cgroup whose process has just ended can be removed a moment later.
        let end = |dir: &PathBuf| wait("it is removed", || fs::remove_dir(dir).is_ok());
        self.0.iter().rev().for_each(end);
    }
}

/// One below the other, and one beside the other.
fn trees(group: &Cgroup) -> [Tree; 2] {
    let mut dir = group.dir.clone();
    let mut deeper = || {
        dir.push("d");
        dir.clone()
    };
    let deep: Vec<_> = (0..1500).map(|_| deeper()).collect();
    let wide: Vec<_> = (0..3000).map(|i| group.dir.join(format!("w{i}"))).collect();
    [deep, wide].map(|dirs| {
        dirs.iter().for_each(|dir| fs::create_dir(dir).unwrap());
        Tree(dirs)
    })
}

#[test]
fn a_tree_that_is_deep_and_wide_is_ended() {
    let _alone = alone();
    for step in [StopContainers, KillContainers] {
        let Some(group) = Cgroup::new("tree") else { return };
        let deep_and_wide = trees(&group);
        let ends = deep_and_wide.each_ref().map(|tree| tree.0.last().unwrap().join("cgroup.procs"));
        for procs in &ends {
            group.spawn("exec sleep 100");
            wait("it has come", || group.pids().len() == 1);
            fs::write(procs, group.pids()[0].to_string()).unwrap();
        }
        let (mut actor, _state) = actor();
        let outcome = actor.take(&action(step, group.target()));
        assert_eq!(outcome.result, Done, "{outcome:?}");
        // What reads the processes and writes to what has no controller is refused for that alone.
        let outcome = actor.take(&action(Squeeze, group.target()));
        assert!(outcome.detail.contains("memory"), "{outcome:?}");
        let first = actor.take(&enforced(step, group.target()));
        assert_eq!(first.result, Done, "{first:?}");
        // Those that are not looked at are asked nothing, and end all the same.
        assert!(step == KillContainers || actor.is_busy(), "{first:?}");
        let last = settle(&mut actor, first);
        assert_eq!(last.result, Done, "{last:?}");
        for procs in &ends {
            wait("it has ended", || fs::read_to_string(procs).unwrap().is_empty());
        }
    }
}

#[test]
fn stop_asks_each_container_however_many_processes_one_has() {
    let Some(root) = Cgroup::new("crowd") else { return };
    let pod = Pod::new(&root);
    pod.container.spawn("for i in $(seq 600); do sleep 100 & done; wait");
    pod.container.wait_for(602);
    let polite = pod.pod().child(format!("cri-containerd-{}.scope", "de".repeat(32)));
    let left = tempfile::NamedTempFile::new().unwrap();
    let note = left.path().display();
    polite.spawn(&format!("trap 'echo bye > {note}; exit' TERM; while :; do sleep 0.1; done"));
    wait("it listens", || polite.pids().len() == 2);
    let (mut actor, _state) = actor();
    let first = actor.take(&enforced(StopContainers, pod.target()));
    let last = settle(&mut actor, first);
    assert_eq!((last.result, last.ended), (Done, Some(604)), "{last:?}");
    assert_eq!(fs::read_to_string(left.path()).unwrap(), "bye\n", "{last:?}");
}
