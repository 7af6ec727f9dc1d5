//! What still holds of a standing that was kept for another.

use serde_json::json;

use super::*;

const ID: u64 = 7;

/// A squeeze that is waited for until the tenth second.
fn standing() -> ReliefStanding {
    let threshold = json!({ "pressure": {
        "scope": "system", "on": { "memory": 60.0 }, "grace": 0
    } });
    let target = json!({ "namespace": "", "name": "a", "uid": "u" });
    let action = json!({
        "id": ID, "step": "squeeze", "target": target, "deadline": 10 * Nanos::SECOND.0,
        "reason": {
            "threshold": threshold, "since": 0, "isDue": true, "measured": 0, "missing": null
        },
        "why": "gentlest", "want": null, "grace": null, "escalatesTo": null,
        "isEnforced": true, "message": "", "annotations": {}
    });
    let pending = json!({
        "action": action, "held": null, "isRefused": false, "isLast": false
    });
    let squeeze = |id: u64| {
        json!({
            "action": id, "target": target, "against": "x", "kind": "memory", "since": 0,
            "calmSince": null, "isEnforced": true, "isUseless": false
        })
    };
    let relief = json!({
        "nActions": ID, "pending": pending, "squeezes": [squeeze(ID - 1), squeeze(ID)]
    });
    serde_json::from_value(relief).unwrap()
}

#[test]
fn a_step_whose_time_was_over_long_ago_is_dropped_and_what_it_holds_is_given_up() {
    #[rustfmt::skip]
    let table = [
        // seconds of the boot clock, still pending
        (9,   true),
        (15,  true),
        (16,  false),
        (999, false),
    ];
    for (seconds, is_pending) in table {
        let now = Nanos(seconds * Nanos::SECOND.0);
        let got = standing().gone_on_with(&ReliefStanding::default(), now);
        assert_eq!(got == standing(), is_pending, "unchanged at {seconds}");
        let got = serde_json::to_value(got).unwrap();
        assert_eq!(got["pending"].is_object(), is_pending, "at {seconds}");
        let useless = [0, 1].map(|i| got["squeezes"][i]["isUseless"].as_bool());
        assert_eq!(useless, [Some(false), Some(!is_pending)], "at {seconds}");
        assert_eq!(got["nActions"], ID);
    }
}

#[test]
fn no_action_has_the_number_of_another() {
    let count =
        |n: u64| -> ReliefStanding { serde_json::from_value(json!({ "nActions": n })).unwrap() };
    for (kept, own, want) in [(7, 3, 7), (7, 9, 9), (0, 9, 9)] {
        let got = count(kept).gone_on_with(&count(own), Nanos(0));
        assert_eq!(got, count(want), "{kept} kept, {own} counted");
    }
}

#[test]
fn a_squeeze_that_was_taken_back_by_whoever_left_is_tried_again_and_nothing_follows_from_it() {
    let memory = [met(pressure(PressureSignal::Memory(Percent(60_00))))];
    type Row<'a> = (u64, bool, &'a [u64], (&'a str, StepKind));
    #[rustfmt::skip]
    let table: [Row<'_>; 5] = [
        // seconds of shortage, enforced, in force, what is next
        (1, true,  &[],  ("a", Squeeze)), // still pending
        (1, true,  &[1], ("a", Evict)),   // it had no effect
        (1, false, &[],  ("a", Evict)),   // nothing was in force, nor could be
        (0, true,  &[],  ("a", Squeeze)), // it had worked, and its like is not over for long
        (0, true,  &[1], ("a", Evict)),
    ];
    for (n_short, is_enforced, in_force, want) in table {
        let mut node = Node::new();
        if !is_enforced {
            node.relief.enforce.clear();
        }
        assert_eq!(short(&node.at(1, &memory)), Some(("a", Squeeze)));
        node.at(2, if n_short > 0 { &memory } else { &[] });
        node.standing.learn_squeezed(&in_force.iter().copied().collect());
        let next = (3..=20).find_map(|second| {
            let action = node.at(second, &memory).action?;
            Some((action.target.name, action.step))
        });
        let next = next.as_ref().map(|(name, step)| (name.as_str(), *step));
        assert_eq!(next, Some(want), "{n_short} {is_enforced} {in_force:?}");
    }
}
