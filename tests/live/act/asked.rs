//! Evictions: what the API server answers decides, also of a victim that has no process left.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use isobar::act::evict::{Answer, Refusal, Request, Way};
use isobar::act::{Actuator, Options};
use isobar_core::model::decision::OutcomeResult::{Done, Failed, Refused};
use isobar_core::model::decision::StepKind::{Evict, KillContainers, StopContainers};
use tempfile::TempDir;
use tokio::sync::mpsc::{Receiver, channel};

use super::place::{Cgroup, Pod, action, enforced, mount, options, settle};

/// An actor with a way to the API server, and what it asks.
fn actor() -> (Actuator, Receiver<Request>, TempDir) {
    let (requests, asked) = channel(1);
    let [is_answering, is_allowed] = [(); 2].map(|()| Arc::new(AtomicBool::new(true)));
    let way = Way { requests, is_answering, is_allowed };
    let state = tempfile::tempdir().unwrap();
    let options = options(&mount().unwrap(), state.path());
    let actor = Actuator::open(Options { evict_by: Some(way), ..options }).unwrap();
    (actor, asked, state)
}

/// Says so to the request.
fn answer(request: &Request, result: Result<String, Refusal>) {
    request.reply.try_send(Answer { action: request.action, result }).unwrap();
}

#[test]
fn evict_of_an_empty_victim_waits_for_the_answer() {
    #[rustfmt::skip]
    let table = [
        // answer, result, words
        (Ok("the API server evicts hog".to_owned()),       Done,    "the API server evicts hog; all processes have ended"),
        (Err(Refusal::Forbidden("over budget".into())),    Refused, "over budget"),
        (Err(Refusal::Failed("not allowed".into())),       Failed,  "not allowed"),
    ];
    for (result, want, words) in table {
        let Some(group) = Cgroup::new("asked") else { return };
        let (mut actor, mut asked, _state) = actor();
        let first = actor.take(&enforced(Evict, group.target()));
        assert!(actor.is_busy(), "it is not known whether the victim is evicted: {first:?}");
        assert!(actor.poll().is_empty(), "nor a moment later");
        answer(&asked.try_recv().unwrap(), result);
        let last = settle(&mut actor, first);
        assert_eq!((last.result, &*last.detail), (want, words), "{last:?}");
    }
}

#[test]
fn evict_of_a_pod_whose_containers_wait_to_start_again() {
    let Some(root) = Cgroup::new("backoff") else { return };
    let pod = Pod::new(&root);
    pod.container.end();
    let (mut actor, mut asked, _state) = actor();
    let observed = actor.take(&action(Evict, pod.target()));
    assert_eq!(observed.result, Done, "{observed:?}");
    for step in [StopContainers, KillContainers] {
        let outcome = actor.take(&enforced(step, pod.target()));
        assert_eq!(outcome.result, Failed, "its sandbox is all that it has: {outcome:?}");
    }
    let first = actor.take(&enforced(Evict, pod.target()));
    assert_eq!(first.result, Done, "{first:?}");
    answer(&asked.try_recv().unwrap(), Ok("the API server evicts default/hog".into()));
    assert!(actor.poll().is_empty() && actor.is_busy(), "its volumes are still there");
    // The kubelet removes it.
    pod.sandbox.end();
    pod.pod().end();
    let last = settle(&mut actor, first);
    let want = "the API server evicts default/hog; its cgroup is gone";
    assert_eq!((last.result, &*last.detail), (Done, want), "{last:?}");
}
