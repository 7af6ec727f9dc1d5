//! Events that are refused, and answers that are lost.

use super::*;
use isobar_apistub::{Effect, Fault};

/// An event about the pod, now.
fn of_pod(namespace: &str) -> Note {
    let about = About::Pod { namespace: namespace.into(), name: "web".into(), uid: "u1".into() };
    Note { about, ..high(clock::now()) }
}

#[test]
fn kube_events_that_are_refused_hold_up_no_others() {
    let ending = r#"{"kind": "Status", "code": 403, "reason": "Forbidden", "message": "events.events.k8s.io is forbidden: unable to create new content in namespace ending because it is being terminated"}"#;
    let wrong = r#"{"kind": "Status", "code": 422, "reason": "Invalid", "message": "Event \"web.1\" is invalid: involvedObject.namespace"}"#;
    let text = |code, text: &str| Effect::Text { code, text: text.into() };
    #[rustfmt::skip]
    let table = [
        // what is answered, what the capability says of it
        (text(403, ending),                                       None),
        (text(422, wrong),                                        Some("PressureHigh was not accepted: the API server answered 422")),
        (Effect::Status { code: 403, retry_after_seconds: None }, Some("403")),
    ];
    for (effect, want) in table {
        let path = "/apis/events.k8s.io/v1/namespaces/ending/events";
        let bed = Bed::with(|stub| stub.add_fault(Fault::new("create", path, effect.clone())));
        let told = || bed.capability("events").unwrap_or_default();
        bed.api.note(of_pod("ending"));
        eventually("it is refused", || !bed.bodies("create", "events", "").is_empty());
        if let Some(words) = want {
            eventually(words, || told().contains(words));
        }
        bed.api.note(high(clock::now()));
        within(Duration::from_secs(4), "the next one is written", || {
            bed.stub.all("events").len() == 1
        });
        eventually("it is told", || told() == "1 written, 1 left out");
    }
}

/// A count that is refused, as by a webhook of one namespace.
#[test]
fn kube_events_whose_count_is_refused_hold_up_no_others() {
    let path = "/apis/events.k8s.io/v1/namespaces/default/events/*";
    let refused = Effect::Status { code: 403, retry_after_seconds: None };
    let bed = Bed::with(|stub| stub.add_fault(Fault::new("patch", path, refused)));
    // The second of each comes within 30 s of the first, which is over by now.
    for ago in [35, 32] {
        let at = later(clock::now(), -ago);
        bed.api.note(high(at));
        bed.api.note(Note { at, ..of_pod("shop") });
    }
    eventually("the other is counted", || {
        let all = bed.stub.all("events");
        all.iter().any(|one| one["metadata"]["namespace"] == "shop" && one["series"]["count"] == 2)
    });
    std::thread::sleep(Duration::from_secs(11));
    assert_eq!(bed.bodies("patch", "events", "").len(), 2, "each is tried once");
}

#[test]
fn kube_events_whose_answer_is_lost_are_written() {
    let bed = Bed::with(|stub| {
        stub.add_fault(Fault::new("create", "*/events", Effect::Lost).times(1));
    });
    bed.api.note(high(clock::now()));
    eventually("it is written", || bed.capability("events").as_deref() == Some("1 written"));
    assert_eq!(bed.bodies("create", "events", "").len(), 2);
    // It is known, and counted when it comes again.
    bed.api.note(high(later(clock::now(), 40)));
    eventually("it is counted", || bed.bodies("patch", "events", "").len() == 1);
    assert_eq!(bed.stub.all("events").len(), 1);
}

#[test]
fn kube_events_of_long_names_are_written() {
    #[rustfmt::skip]
    let table = [
        // the pod's name, what of it is in the name of the event
        ("web".to_owned(),                             "web".to_owned()),
        ("a".repeat(253),                              "a".repeat(236)),
        // After a dot the server wants a letter or a digit.
        (format!("{}.{}", "a".repeat(235), "bc"),      "a".repeat(235)),
    ];
    for (name, kept) in table {
        let bed = Bed::new();
        let about = About::Pod { namespace: "shop".into(), name, uid: "u1".into() };
        bed.api.note(Note { about, ..high(clock::now()) });
        eventually("it is written", || bed.stub.all("events").len() == 1);
        let event = bed.stub.all("events").pop().unwrap();
        let (start, moment) = event["metadata"]["name"].as_str().unwrap().rsplit_once('.').unwrap();
        assert_eq!((start, moment.len()), (&*kept, 16));
    }
}
