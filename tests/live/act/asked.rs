//! Evictions: what the API server answers decides, also of a victim that has no process left.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use isobar::act::evict::{Answer, Refusal, Way};
use isobar::act::{Actuator, Options};
use isobar_core::model::decision::OutcomeResult::{Done, Failed, Refused};
use isobar_core::model::decision::StepKind::Evict;
use tokio::sync::mpsc::channel;

use super::place::{Cgroup, enforced, mount, options, settle};

#[test]
fn evict_of_an_empty_victim_waits_for_the_answer() {
    #[rustfmt::skip]
    let table = [
        // answer, result, words
        (Ok("the API server evicts hog".to_owned()),       Done,    "the API server evicts hog; all processes have ended"),
        (Err(Refusal::Forbidden("over budget".into())),    Refused, "over budget"),
        (Err(Refusal::Failed("not allowed".into())),       Failed,  "not allowed"),
    ];
    for (answer, want, words) in table {
        let Some(group) = Cgroup::new("asked") else { return };
        let (requests, mut asked) = channel(1);
        let [is_answering, is_allowed] = [(); 2].map(|()| Arc::new(AtomicBool::new(true)));
        let way = Way { requests, is_answering, is_allowed };
        let state = tempfile::tempdir().unwrap();
        let options = options(&mount().unwrap(), state.path());
        let mut actor = Actuator::open(Options { evict_by: Some(way), ..options }).unwrap();
        let first = actor.take(&enforced(Evict, group.target()));
        assert!(actor.is_busy(), "it is not known whether the victim is evicted: {first:?}");
        assert!(actor.poll().is_empty(), "nor a moment later");
        let request = asked.try_recv().unwrap();
        let answer = Answer { action: request.action, result: answer };
        request.reply.try_send(answer).unwrap();
        let last = settle(&mut actor, first);
        assert_eq!((last.result, &*last.detail), (want, words), "{last:?}");
    }
}
