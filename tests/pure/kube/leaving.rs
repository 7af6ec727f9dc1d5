//! What the agent says of its node when it leaves.

use super::*;
use isobar::config::kubernetes::AtExit;
use isobar_apistub::{Effect, Fault};

/// As long as the agent gives it.
const LAST_WORD: Duration = Duration::from_millis(1500);
const STATUS: &str = "/api/v1/nodes/n1/status";

/// A bed whose node has the condition and the taint.
fn pressed() -> Bed {
    let bed = Bed::new();
    bed.publish_until(Status::True, |node| {
        is(node, "True", "PressureContended") && taint_keys(node) == [TAINT]
    });
    // The pause between two writes.
    std::thread::sleep(Duration::from_millis(1200));
    bed
}

#[test]
fn kube_leaving_takes_taints_back_in_any_case() {
    let latency = || Effect::Latency { millis: 400 };
    #[rustfmt::skip]
    let table = [
        // verb, path, effect, a write is under way, conditions are told
        ("*",     "*",                latency(),     false, true),
        ("*",     "*",                latency(),     true,  false),
        ("patch", STATUS,             Effect::Hang,  false, false),
        ("patch", STATUS,             Effect::Hang,  true,  false),
        ("patch", STATUS,             Effect::Lost,  true,  true),
    ];
    for (verb, path, effect, is_busy, is_told) in table {
        let row = format!("{verb} {path} {effect:?} {is_busy}");
        let bed = pressed();
        bed.stub.add_fault(Fault::new(verb, path, effect));
        if is_busy {
            let n_before = bed.bodies("patch", "nodes", "status").len();
            bed.api.publish(wanted(Status::False));
            eventually("it is being written", || {
                bed.bodies("patch", "nodes", "status").len() > n_before
            });
        }
        let Bed { stub, api, dir: _dir } = bed;
        api.last_word().say(LAST_WORD);
        let node = stub.get("nodes", "", "n1").unwrap();
        assert!(taint_keys(&node).is_empty(), "{row}: {}", node["spec"]);
        assert!(!is_told || is(&node, "Unknown", "AgentStopped"), "{row}: {}", node["status"]);
    }
}

/// The taint was set, and the answer was lost: the agent knows of none.
#[test]
fn kube_leaving_takes_back_a_taint_whose_answer_was_lost() {
    let bed = Bed::with(|stub| {
        stub.add_fault(Fault::new("patch", "/api/v1/nodes/n1", Effect::Lost));
        stub.add_fault(Fault::new("watch", "/api/v1/nodes", Effect::Hang));
    });
    bed.publish_until(Status::True, |node| taint_keys(node) == [TAINT]);
    bed.stub.clear_faults();
    let Bed { stub, api, dir: _dir } = bed;
    api.last_word().say(LAST_WORD);
    let node = stub.get("nodes", "", "n1").unwrap();
    assert!(taint_keys(&node).is_empty(), "{}", node["spec"]);
}

/// As after a tick that panicked, or beside one that hangs.
#[test]
fn kube_leaving_without_the_tick() {
    for hangs in [false, true] {
        let Bed { stub, api, dir: _dir } = pressed();
        let last_word = api.last_word();
        let api = hangs.then_some(api);
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(taint_keys(&stub.get("nodes", "", "n1").unwrap()), [TAINT]);
        last_word.say(LAST_WORD);
        drop(api);
        let node = stub.get("nodes", "", "n1").unwrap();
        assert!(taint_keys(&node).is_empty(), "{hangs}: {}", node["spec"]);
        assert!(is(&node, "Unknown", "AgentStopped"), "{hangs}: {}", node["status"]);
    }
}

/// A list of nodes that hangs, as a write did, takes no more than its part of the time.
#[test]
fn kube_leaving_does_not_wait_for_a_node_that_cannot_be_read() {
    let bed = pressed();
    bed.stub.add_fault(Fault::new("list", "/api/v1/nodes", Effect::Hang));
    bed.stub.add_fault(Fault::new("patch", STATUS, Effect::Hang));
    let n_before = bed.bodies("patch", "nodes", "status").len();
    bed.api.publish(wanted(Status::False));
    eventually("it is being written", || bed.bodies("patch", "nodes", "status").len() > n_before);
    let Bed { stub, api, dir: _dir } = bed;
    api.last_word().say(LAST_WORD);
    let node = stub.get("nodes", "", "n1").unwrap();
    assert!(taint_keys(&node).is_empty(), "{}", node["spec"]);
}

/// The first write was done, its answer was lost, and the agent that observes has read nothing since.
#[test]
fn kube_leaving_takes_back_a_condition_whose_answer_was_lost() {
    let status = |code| Effect::Status { code, retry_after_seconds: None };
    #[rustfmt::skip]
    let table = [
        // what the writes after it are answered
        Effect::Lost,
        status(403), // a refusal says nothing of the one before
        status(422),
    ];
    for later in table {
        let row = format!("{later:?}");
        let bed = Bed::with(|stub| {
            stub.add_fault(Fault::new("patch", STATUS, Effect::Lost).times(1));
            stub.add_fault(Fault::new("patch", STATUS, later));
            stub.add_fault(Fault::new("get", "/api/v1/nodes/*", status(403)));
            stub.add_fault(Fault::new("watch", "/api/v1/nodes", Effect::Hang));
        });
        eventually(&row, || {
            let told = wanted(Status::True);
            let publish = told.publish.map(|publish| Publish { taints: false, ..publish });
            bed.api.publish(Wanted { publish, taints: Vec::new(), ..told });
            is(&bed.node(), "True", "PressureContended")
                && bed.bodies("patch", "nodes", "status").len() == 2
        });
        // The answer to the second.
        std::thread::sleep(Duration::from_millis(300));
        bed.stub.clear_faults();
        let Bed { stub, api, dir: _dir } = bed;
        api.last_word().say(LAST_WORD);
        let node = stub.get("nodes", "", "n1").unwrap();
        assert!(is(&node, "Unknown", "AgentStopped"), "{row}: {}", node["status"]);
    }
}

#[test]
fn kube_leaving_treats_conditions_as_configured() {
    #[rustfmt::skip]
    let table = [
        (AtExit::Unknown, Some(("Unknown", "AgentStopped"))),
        (AtExit::Keep,    Some(("True", "PressureContended"))),
        (AtExit::Remove,  None),
    ];
    for (at_exit, want) in table {
        let bed = pressed();
        let mut last = wanted(Status::True);
        last.publish = last.publish.map(|publish| Publish { at_exit, ..publish });
        bed.api.publish(last);
        let Bed { stub, api, dir: _dir } = bed;
        api.last_word().say(SOON);
        let node = stub.get("nodes", "", "n1").unwrap();
        let want = want.map(|(status, reason)| (status.to_owned(), reason.to_owned()));
        assert_eq!(condition(&node), want, "{at_exit:?}");
        assert!(taint_keys(&node).is_empty(), "{at_exit:?}");
        assert_eq!(node["status"]["conditions"].as_array().unwrap().len(), 4 + want.iter().len());
    }
}
