//! The actor, on real processes in real cgroups below the host's cgroup v2 mount.
//! Whoever makes a cgroup here removes it; where there is none to be had, the test says so.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "act/place.rs"]
mod place;

use isobar::model::decision::OutcomeResult::{Done, Failed};
use isobar::model::decision::StepKind;

use place::{Cgroup, action, actor, enforced};

#[test]
fn a_victim_that_forks_while_it_dies_is_ended_with_all_its_children() {
    let Some(group) = Cgroup::new("forks") else { return };
    group.spawn("while :; do sleep 0.01 & done");
    group.wait_for(20);
    let (mut actor, _state) = actor();
    assert!(actor.means().contains(&StepKind::KillContainers), "{:?}", actor.means());
    let outcome = actor.take(&enforced(StepKind::KillContainers, group.target()));
    assert_eq!(outcome.result, Done, "{outcome:?}");
    assert!(outcome.ended.unwrap() >= 20, "{outcome:?}");
    assert!(group.pids().is_empty(), "{outcome:?}");
    assert_eq!(actor.news(), [], "what is over is told once");
}

#[test]
fn a_dry_run_goes_the_same_way_and_ends_nobody() {
    let Some(group) = Cgroup::new("dry") else { return };
    group.spawn("sleep 100");
    group.wait_for(1);
    let (mut actor, _state) = actor();
    for step in [StepKind::KillContainers, StepKind::StopContainers] {
        let outcome = actor.take(&action(step, group.target()));
        assert_eq!(outcome.result, Done, "{outcome:?}");
        assert!(outcome.detail.starts_with("would "), "{outcome:?}");
    }
    assert_eq!(group.pids().len(), 1);
    let stranger = group.target_with_id(7);
    let outcome = actor.take(&action(StepKind::KillContainers, stranger));
    assert_eq!(outcome.result, Failed, "a dry run is refused what the other is: {outcome:?}");
}
