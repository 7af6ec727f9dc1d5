use std::collections::BTreeMap;

use insta::assert_snapshot;

use super::relief::restarts;
use super::*;
use crate::model::cgroup::CgroupPath;
use crate::model::condition::{Condition, ConditionName, Measure, Phase, ScopeName, Status};
use crate::model::decision::{
    Action, Assessment, Candidate, Eased, Effect, Hold, Key, KeyValue, MeritKey, Order, Outsider,
    Ranking, Release, ReleaseReason, Relief, Restart, RestartFate, Spared, SparedReason, StepKind,
    Target, made,
};
use crate::model::pod::QosClass;
use crate::model::sample::Moment;
use crate::model::settings::Deletion;
use crate::model::threshold::{PressureThreshold, Signal, Threshold};
use crate::model::units::Bytes;
use crate::model::workload::RestartPolicy;

use StepKind::{KillContainers as Kill, StopContainers as Stop};

/// An explanation as text, section by section.
fn sections(decision: &Decision) -> String {
    let Explanation { why, verdict, candidates, otherwise, .. } = explain(decision);
    let all =
        [("why", why), ("verdict", verdict), ("candidates", candidates), ("otherwise", otherwise)];
    let all = all.into_iter().filter(|(_, lines)| !lines.is_empty());
    all.map(|(name, lines)| format!("{name}:\n  {}\n", lines.join("\n  "))).collect()
}

fn seconds(n: u64) -> Nanos {
    Nanos(n * Nanos::SECOND.0)
}

fn hard() -> Met {
    let value = Amount::Quantity("100Mi".parse().unwrap());
    let signal = Signal::MemoryAvailable;
    let threshold = Threshold { signal, value, grace: Nanos(0), min_reclaim: None };
    Met {
        threshold: Trigger::Eviction(threshold),
        since: seconds(7),
        is_due: true,
        measured: 80 << 20,
        missing: Some(20 << 20),
    }
}

fn stalled() -> Met {
    let on = PressureSignal::Memory(Percent(60_00));
    let threshold = PressureThreshold { scope: ScopeName::Kubepods, on, grace: seconds(20) };
    let threshold = Trigger::Pressure(threshold);
    Met { threshold, since: seconds(5), is_due: false, measured: 71_25, missing: None }
}

fn contended() -> Condition {
    let name = ConditionName::ALL[3];
    Condition {
        name,
        kind: name.name().into(),
        status: Status::True,
        phase: Phase::Contended,
        measure: Measure::Contention,
        threshold: Percent(60_00),
        avg10: Some(Percent(71_00)),
        avg60: Some(Percent(60_00)),
        seen: None,
        since: Moment { boot: seconds(9), wall: seconds(9) },
        judged: None,
        why: None,
    }
}

fn candidate(name: &str, priority: i64) -> Candidate {
    let key = |key, value| MeritKey { key, value };
    Candidate {
        name: name.into(),
        namespace: "web".into(),
        uid: name.into(),
        members: vec![],
        keys: vec![
            key(Key::Qos, KeyValue::Class(QosClass::BestEffort)),
            key(Key::Priority, KeyValue::Number(priority)),
            key(Key::Uid, KeyValue::Text(name.into())),
        ],
    }
}

#[test]
fn explain_a_verdict() {
    let containers = vec!["0f3c".into()];
    let target =
        Target { name: "a".into(), namespace: "web".into(), containers, ..Target::default() };
    let mut decision = Decision {
        tick: 12,
        at: Moment { boot: seconds(10), wall: seconds(10) },
        assessment: Assessment {
            conditions: vec![contended()],
            met: vec![hard(), stalled()],
            ..Assessment::default()
        },
        ranking: Some(Ranking {
            signal: "memory.available".into(),
            order: Order::Qos,
            candidates: vec![candidate("a", 0), candidate("b", 10)],
            n_candidates: 3,
            spared: vec![Spared {
                name: "c".into(),
                namespace: "shop".into(),
                uid: "c".into(),
                why: SparedReason::Critical,
            }],
            n_spared: 1,
            outsiders: vec![Outsider {
                path: CgroupPath("/system.slice".into()),
                harm: seconds(1),
            }],
            loss: None,
        }),
        relief: Relief {
            actions: vec![Action {
                target,
                deadline: seconds(41),
                escalates_to: Some(StepKind::StopContainers),
                is_enforced: false,
                ..made::action(StepKind::Evict, hard())
            }],
            ..Relief::default()
        },
        ..Decision::default()
    };
    assert_snapshot!(sections(&decision));

    let restarted = "the kubelet starts its containers again, unless restartPolicy is Never";
    let says_so = |decision: &Decision| explain(decision).verdict.iter().any(|s| s == restarted);
    assert!(!says_so(&decision), "an evicted pod is gone");
    #[rustfmt::skip]
    let table = [
        (Deletion::Never,       None),
        (Deletion::NoEviction,  Some("if the API server has no eviction for isobar (relief.deletePods)")),
        (Deletion::OverBudgets, Some("or a disruption budget forbids it (relief.deletePods)")),
    ];
    for (deletion, want) in table {
        decision.relief.actions[0].deletion = deletion;
        let said = explain(&decision).verdict.into_iter().find(|text| text.contains("deleted"));
        let is_said = said.as_deref().zip(want).is_some_and(|(said, want)| said.ends_with(want));
        assert_eq!((said.is_some(), is_said), (want.is_some(), want.is_some()), "{said:?}");
    }
    decision.relief.actions[0].step = StepKind::StopContainers;
    assert!(says_so(&decision));
}

#[test]
fn explain_what_the_kubelet_restarts() {
    use RestartPolicy::{Always, Never, OnFailure};
    type Row<'a> = (StepKind, RestartPolicy, bool, u32, u64, &'a [&'a str]);
    #[rustfmt::skip]
    let table: [Row<'_>; 9] = [
        // step, policy, sidecars, restarts since, back-off in seconds, sentences
        (Stop, Never,     false, 0, 0,   &["the kubelet does not start its containers again (restartPolicy Never)"]),
        (Kill, Never,     true,  0, 0,   &["the kubelet does not start its containers again (restartPolicy Never); a sidecar only until it has seen that the others have ended"]),
        (Stop, Always,    false, 0, 0,   &["the kubelet starts its containers again (restartPolicy Always), at once, or after a back-off if they have failed lately"]),
        (Stop, Always,    false, 1, 10,  &["the kubelet starts its containers again (restartPolicy Always), after a back-off of about 10s",
                              "restarted once since isobar ended it; eviction would be needed to keep it from coming back"]),
        (Kill, Always,    true,  3, 40,  &["the kubelet starts its containers again (restartPolicy Always), after a back-off of about 40s",
                              "restarted 3 times since isobar ended it; eviction would be needed to keep it from coming back"]),
        (Stop, OnFailure, false, 0, 0,   &["the kubelet starts those of its containers that end with an error again (restartPolicy OnFailure), at once, or after a back-off if they have failed lately"]),
        (Stop, OnFailure, true,  1, 10,  &["the kubelet starts its sidecars and those of its containers that end with an error again (restartPolicy OnFailure), after a back-off of about 10s",
                              "restarted once since isobar ended it; eviction would be needed to keep it from coming back"]),
        (Kill, OnFailure, false, 0, 10,  &["the kubelet starts its containers again (restartPolicy OnFailure), after a back-off of about 10s"]),
        (Kill, OnFailure, true,  0, 10,  &["the kubelet starts its containers again (restartPolicy OnFailure), after a back-off of about 10s"]),
    ];
    for (step, policy, has_sidecars, n_since, wait, want) in table {
        let wait = seconds(wait);
        let (is_ending, containers) = (false, BTreeMap::new());
        let restart = Restart { policy, n_since, wait, has_sidecars, is_ending, containers };
        assert_eq!(restarts(step, &restart), want, "{step:?} {policy:?} {n_since}");
        let restart = Restart { is_ending: true, ..restart };
        let none = "the kubelet does not start its containers again: the pod was told to end";
        assert_eq!(restarts(step, &restart), [none], "{step:?} {policy:?} {n_since}");
    }
}

#[test]
fn explain_what_the_kubelet_restarts_of_containers_that_differ() {
    use RestartFate::{Again, ByExitCode, Stays};
    let now = "at once, or after a back-off if they have failed lately";
    #[rustfmt::skip]
    let table: [(&[(&str, RestartFate)], String); 4] = [
        // what becomes of each container, what the kubelet does
        (&[("web", Again)],                          format!("starts web again, {now}")),
        (&[("job", Stays)],                          "does not start job again".into()),
        (&[("job", Stays), ("log", Again), ("web", Again)],
                                                     format!("starts log, web again, {now}; it does not start job again")),
        (&[("job", ByExitCode), ("log", Again), ("web", Stays)],
            format!("starts log again, {now}; it starts job again if the exit code asks for that; it does not start web again")),
    ];
    for (containers, does) in table {
        let containers = containers.iter().map(|(name, fate)| ((*name).into(), *fate)).collect();
        let (policy, wait) = (RestartPolicy::Never, Nanos(0));
        let (has_sidecars, is_ending) = (false, false);
        let restart = Restart { policy, n_since: 0, wait, has_sidecars, is_ending, containers };
        let want = format!("by their own restartPolicy and rules, the kubelet {does}");
        assert_eq!(restarts(Stop, &restart), [want]);
    }
}

#[test]
fn explain_unknowns_once() {
    let unknown = |at: usize, status, why: &str| Condition {
        name: ConditionName::ALL[at],
        kind: format!("C{at}"),
        status,
        phase: Phase::Unknown,
        why: Some(why.into()),
        ..contended()
    };
    let conditions = vec![
        unknown(0, Status::Unknown, "no eBPF"),
        unknown(1, Status::Unknown, "no pods"),
        unknown(2, Status::Unknown, "no eBPF"),
        unknown(3, Status::True, "no eBPF"), // not stale yet: it still holds
    ];
    let at = Moment { boot: seconds(10), wall: seconds(10) };
    let assessment = Assessment { conditions, ..Assessment::default() };
    assert_snapshot!(sections(&Decision { at, assessment, ..Decision::default() }));
}

#[test]
fn explain_quiet_and_holds() {
    assert_snapshot!("quiet", sections(&Decision::default()));
    let until = seconds(3);
    let holds = [
        Hold::Settling { action: 4, until },
        Hold::CoolingDown { until },
        Hold::KernelKilled { until },
        Hold::Ending { pod: "shop/web".into(), until },
        Hold::CleaningUp { until },
        Hold::BudgetSpent { until },
        Hold::Observed { action: 4 },
        Hold::NobodyLeft,
        Hold::BelowHarmBudget,
        Hold::HarmedByOther { by: "/user.slice".into() },
        Hold::HarmUnknown,
        Hold::UseUnknown,
        Hold::NothingHelps,
        Hold::InGrace,
        Hold::StaleReadings,
        Hold::Easing,
    ];
    let told = holds.map(|hold| {
        let relief = Relief { held: Some(hold), ..Relief::default() };
        explain(&Decision { relief, ..Decision::default() }).verdict.join("; ")
    });
    assert_snapshot!("holds", told.join("\n"));
    let distinct: std::collections::BTreeSet<_> = told.iter().collect();
    assert_eq!(distinct.len(), told.len(), "each hold has a sentence of its own");
}

#[test]
fn explain_releases_and_effects() {
    let target = Target { name: "a".into(), namespace: "web".into(), ..Target::default() };
    let release = |why, is_enforced| Release {
        action: 4,
        step: StepKind::Squeeze,
        target: target.clone(),
        why,
        is_enforced,
    };
    let effect = |freed, left, harm, measured| Effect {
        action: 4,
        after: seconds(5),
        freed,
        left,
        harm,
        measured,
    };
    let eased = Eased { before: seconds(2), now: Nanos(300_000_000) };
    let relief = Relief {
        releases: vec![
            release(ReleaseReason::Over, true),
            release(ReleaseReason::NoEffect, false),
            release(ReleaseReason::Expired, true),
        ],
        effects: vec![
            effect(Some(Bytes(300 << 20)), Some(2), None, Some(1)),
            effect(None, None, Some(eased), Some(1)),
            effect(None, None, None, None),
        ],
        ..Relief::default()
    };
    let decision = Decision { relief, ..Decision::default() };
    assert_snapshot!(sections(&decision));
}
