//! Of a pod its containers are ended, and never its sandbox.

use isobar::model::decision::OutcomeResult::{Done, Failed};
use isobar::model::decision::StepKind::{KillContainers, StopContainers};
use isobar::model::decision::{Target, TargetGroup};

use crate::place::{Cgroup, Pod, actor, enforced};

#[test]
fn the_sandbox_is_spared_whether_or_not_the_api_names_the_containers() {
    for names in [vec![], vec![format!("containerd://{}", Pod::CONTAINER)]] {
        let Some(root) = Cgroup::new("pod") else { return };
        let pod = Pod::new(&root);
        let (mut actor, _state) = actor();
        for (step, target) in [
            (StopContainers, Target { containers: names.clone(), ..pod.target() }),
            (KillContainers, Target { containers: names.clone(), ..pod.target() }),
        ] {
            let outcome = actor.take(&enforced(step, target));
            assert_eq!(outcome.result, Done, "{names:?} {outcome:?}");
        }
        assert_eq!(pod.container.pids().len(), 0, "{names:?}");
        assert_eq!(pod.sandbox.pids().len(), 1, "{names:?}");
    }
}

#[test]
fn the_pods_of_a_group_are_ended_together() {
    let Some(root) = Cgroup::new("group") else { return };
    let (one, other) = (root.child("one"), root.child("other"));
    let pods = [Pod::new(&one), Pod::new(&other)];
    let groups =
        pods.iter().map(|pod| TargetGroup { id: pod.pod().id(), path: pod.pod().path.clone() });
    let target = Target { name: "small".into(), groups: groups.collect(), ..Target::default() };
    let (mut actor, _state) = actor();
    actor.prepare(std::slice::from_ref(&target));
    let outcome = actor.take(&enforced(KillContainers, target));
    assert_eq!((outcome.result, outcome.ended), (Done, Some(2)), "{outcome:?}");
    for pod in &pods {
        assert_eq!((pod.container.pids().len(), pod.sandbox.pids().len()), (0, 1), "{outcome:?}");
    }
}

#[test]
fn where_nothing_can_be_told_from_a_sandbox_nothing_is_ended() {
    let Some(root) = Cgroup::new("lone") else { return };
    let pod = Pod::new(&root);
    let (mut actor, _state) = actor();
    actor.take(&enforced(KillContainers, pod.target()));
    let named = Target { containers: vec!["containerd://0123".into()], ..pod.target() };
    #[rustfmt::skip]
    let table = [
        // target, why
        (pod.target(), "all that it has look like sandboxes, or are empty"),
        (named,        "none that it has is named by the API"),
    ];
    for (target, why) in table {
        let outcome = actor.take(&enforced(KillContainers, target));
        assert_eq!(outcome.result, Failed, "{outcome:?}");
        assert!(outcome.detail.ends_with(why), "{outcome:?}");
    }
    assert_eq!(pod.sandbox.pids().len(), 1);
}
