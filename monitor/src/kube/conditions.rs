//! Node conditions as they are written: what is wanted and what the node's object says give the
//! patch. Source: KEP-4205; types, reasons and times as kubelet `pkg/kubelet/nodestatus` has them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use isobar_core::model::condition::{Condition, Phase, Status};
use isobar_core::policy::explain::condition_numbers;

/// The conditions that are to be written, `None` if nothing has changed and no heartbeat is due.
///
/// All of them are written if one is, so that their heartbeats are the same. `foreign` are types
/// that another writer keeps, `stale` those of isobar's that have no rule any more: they go.
pub(super) fn patch(
    wanted: &[Condition],
    live: &[NodeCondition],
    (foreign, stale): (&BTreeSet<String>, &BTreeSet<String>),
    now: Timestamp,
    is_due: bool,
) -> Option<Value> {
    let own = wanted.iter().filter(|condition| !foreign.contains(&condition.kind));
    let wanted: Vec<_> = own.map(|condition| of(condition, live, now)).collect();
    let is_new = |one: &NodeCondition| {
        let before = live.iter().find(|before| before.type_ == one.type_);
        before.is_none_or(|before| (&before.status, &before.reason) != (&one.status, &one.reason))
    };
    let must = !wanted.is_empty() && (is_due || wanted.iter().any(is_new));
    (must || !stale.is_empty()).then(|| {
        let wanted = wanted.iter().map(|one| json!(one));
        let all: Vec<_> = wanted.chain(stale.iter().map(|kind| deleted(kind))).collect();
        json!({"status": {"conditions": all}})
    })
}

fn deleted(kind: &str) -> Value {
    json!({"type": kind, "$patch": "delete"})
}

/// The last word of an agent that exits: its conditions are judged no longer.
pub(super) fn unknown(wanted: &[Condition], live: &[NodeCondition], now: Timestamp) -> Value {
    let wanted =
        wanted.iter().filter(|condition| live.iter().any(|one| one.type_ == condition.kind));
    let wanted = wanted.map(|condition| {
        let unknown = Condition { status: Status::Unknown, ..condition.clone() };
        NodeCondition {
            reason: Some("AgentStopped".into()),
            message: Some("isobar has stopped: this condition is not judged".into()),
            ..of(&unknown, live, now)
        }
    });
    json!({"status": {"conditions": wanted.collect::<Vec<_>>()}})
}

/// Takes conditions of these types off the node.
pub(super) fn removal<'a>(types: impl Iterator<Item = &'a str>) -> Value {
    let each = types.map(deleted);
    json!({"status": {"conditions": each.collect::<Vec<_>>()}})
}

fn of(condition: &Condition, live: &[NodeCondition], now: Timestamp) -> NodeCondition {
    let status = format!("{:?}", condition.status);
    // An agent that is started again goes on with what the one before it saw.
    let before = live.iter().find(|one| one.type_ == condition.kind && one.status == status);
    let since = before.and_then(|before| before.last_transition_time.clone());
    NodeCondition {
        type_: condition.kind.clone(),
        reason: Some(reason(condition).into()),
        message: Some(condition_numbers(condition)),
        last_heartbeat_time: Some(Time(now)),
        last_transition_time: Some(since.unwrap_or(Time(now))),
        status,
    }
}

fn reason(condition: &Condition) -> &'static str {
    match (condition.status, condition.phase) {
        (Status::Unknown, _) => "PressureUnknown",
        (Status::True, Phase::Easing) => "PressureTrendingLower",
        (Status::True, _) => "PressureContended",
        (Status::False, Phase::High) => "PressureHigh",
        (Status::False, _) => "PressureLow",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isobar_core::model::condition::{ConditionName, Measure, Resource, ScopeName};
    use isobar_core::model::sample::Moment;
    use isobar_core::model::units::Percent;

    const NOW: i64 = 1_800_000_000;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn condition(kind: &str, status: Status, phase: Phase) -> Condition {
        Condition {
            name: ConditionName { scope: ScopeName::System, resource: Resource::Cpu },
            kind: kind.into(),
            status,
            phase,
            measure: Measure::Contention,
            threshold: Percent(50_00),
            avg10: Some(Percent(72_00)),
            avg60: Some(Percent(61_50)),
            seen: None,
            since: Moment::default(),
            judged: None,
            why: None,
        }
    }

    fn live(kind: &str, status: &str, reason: &str) -> NodeCondition {
        NodeCondition {
            type_: kind.into(),
            status: status.into(),
            reason: Some(reason.into()),
            message: None,
            last_heartbeat_time: Some(Time(at(NOW - 400))),
            last_transition_time: Some(Time(at(NOW - 4_000))),
        }
    }

    #[test]
    fn patch_only_on_change_and_heartbeat() {
        let wanted = [condition("A", Status::True, Phase::Contended)];
        let foreign = || BTreeSet::from(["A".to_owned()]);
        let same = live("A", "True", "PressureContended");
        #[rustfmt::skip]
        let table = [
            // live, foreign, a heartbeat is due, written, transition
            (vec![],                                             BTreeSet::new(), false, true,  Some(NOW)),
            (vec![same.clone()],                                 BTreeSet::new(), false, false, None),
            (vec![same.clone()],                                 BTreeSet::new(), true,  true,  Some(NOW - 4_000)),
            (vec![live("A", "True", "PressureTrendingLower")],   BTreeSet::new(), false, true,  Some(NOW - 4_000)),
            (vec![live("A", "False", "PressureLow")],            BTreeSet::new(), false, true,  Some(NOW)),
            (vec![live("Ready", "True", "KubeletReady")],        BTreeSet::new(), false, true,  Some(NOW)),
            (vec![same],                                         foreign(),       true,  false, None),
        ];
        for (live, foreign, is_due, is_written, transition) in table {
            let got = patch(&wanted, &live, (&foreign, &BTreeSet::new()), at(NOW), is_due);
            assert_eq!(got.is_some(), is_written, "{live:?} {foreign:?} {is_due}");
            let time = got.map(|got| got["status"]["conditions"][0]["lastTransitionTime"].clone());
            assert_eq!(time, transition.map(|time| json!(at(time).to_string())), "{live:?}");
        }
    }

    #[test]
    fn patch_body() {
        let wanted = [condition("A", Status::False, Phase::High)];
        let stale = BTreeSet::from(["Z".to_owned()]);
        let got = patch(&wanted, &[], (&BTreeSet::new(), &stale), at(NOW), false);
        let want = json!({"status": {"conditions": [{
            "type": "A",
            "status": "False",
            "reason": "PressureHigh",
            "message": "contention was 61.50 % over a minute and 72.00 % over ten seconds, the threshold is 50.00 %",
            "lastHeartbeatTime": "2027-01-15T08:00:00Z",
            "lastTransitionTime": "2027-01-15T08:00:00Z",
        }, {"type": "Z", "$patch": "delete"}]}});
        assert_eq!(got, Some(want));
    }

    #[test]
    fn unknown_names_only_what_is_there() {
        let wanted = ["A", "B"].map(|kind| condition(kind, Status::True, Phase::Contended));
        let got = unknown(&wanted, &[live("A", "True", "PressureContended")], at(NOW));
        let list = got["status"]["conditions"].as_array().unwrap();
        assert_eq!(list.len(), 1, "{got}");
        assert_eq!((&list[0]["type"], &list[0]["status"]), (&json!("A"), &json!("Unknown")));
    }
}
