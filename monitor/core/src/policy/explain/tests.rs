use super::*;
use crate::model::cgroup::CgroupPath;
use crate::model::condition::{Condition, ConditionName, Measure, Phase, ScopeName, Status};
use crate::model::decision::{
    Action, Assessment, Candidate, Effect, Hold, Key, KeyValue, MeritKey, Order, Outsider, Ranking,
    Release, ReleaseReason, Relief, Spared, SparedReason, StepKind, StepReason, Target,
};
use crate::model::pod::QosClass;
use crate::model::sample::Moment;
use crate::model::threshold::{PressureThreshold, Signal, Threshold};
use crate::model::units::Bytes;

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
    let target = Target { name: "a".into(), namespace: "web".into(), ..Target::default() };
    let decision = Decision {
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
            spared: vec![Spared { name: "c".into(), uid: "c".into(), why: SparedReason::Critical }],
            n_spared: 1,
            outsiders: vec![Outsider {
                path: CgroupPath("/system.slice".into()),
                harm: seconds(1),
            }],
        }),
        relief: Relief {
            actions: vec![Action {
                id: 1,
                step: StepKind::Evict,
                target,
                reason: hard(),
                why: StepReason::Gentlest,
                want: None,
                grace: None,
                deadline: seconds(41),
                escalates_to: Some(StepKind::StopContainers),
                is_enforced: false,
                message: String::new(),
                annotations: std::collections::BTreeMap::new(),
            }],
            ..Relief::default()
        },
        ..Decision::default()
    };
    let explanation = explain(&decision);
    let want: [(&[String], &[&str]); 4] = [
        (
            &explanation.why,
            &[
                "KubepodsCPUContentionPressure is True for 1s: contention is at or above 60.00 % \
                 over a minute (60.00 %) and over ten seconds (71.00 %)",
                "memory.available is 80Mi, below the threshold of 100Mi, for 3s (hard)",
                "kubepods.memory.pressure is 71.25 % (avg10), at or above the threshold of 60.00 %, \
                 for 5s (its grace period is 20s)",
            ],
        ),
        (
            &explanation.verdict,
            &[
                "would evict web/a because memory.available is 80Mi, below the threshold of 100Mi, \
                 for 3s (hard)",
                "chosen because it is the gentlest step that can suffice",
                "if it has not helped within 31s: stop the containers of it",
                "nothing is changed on the node: this step is only observed",
            ],
        ),
        (
            &explanation.candidates,
            &[
                "first to go: web/a: class BestEffort, priority 0",
                "spared by priority: web/b: 10 (of web/a: 0)",
                "and 1 more candidates",
                "never chosen: c: its priority is critical",
                "no pod: /system.slice: others wait for it 1000 ms in each second",
            ],
        ),
        (
            &explanation.otherwise,
            &[
                "if web/a had priority 10, web/b might go first",
                "memory.available is no longer met when 20Mi more is available",
                "kubepods.memory.pressure is no longer met when it is below 60.00 %",
                "KubepodsCPUContentionPressure ends when contention over a minute is below 60.00 %",
            ],
        ),
    ];
    for (got, want) in want {
        assert_eq!(got, want);
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
    let want = [
        "C3 is True for 1s: contention is not measured: no eBPF",
        "C0, C2 are Unknown: no eBPF",
        "C1 is Unknown: no pods",
    ];
    assert_eq!(
        explain(&Decision {
            at,
            assessment: Assessment { conditions, ..Assessment::default() },
            ..Decision::default()
        })
        .why,
        want
    );
}

#[test]
fn explain_quiet_and_holds() {
    let quiet = explain(&Decision::default());
    assert_eq!(quiet.why, ["no significant pressure: no condition holds and no threshold is met"]);
    assert_eq!(quiet.verdict, ["no action: no eviction threshold is met"]);
    let until = seconds(3);
    let holds = [
        Hold::Settling { action: 4, until },
        Hold::CoolingDown { until },
        Hold::KernelKilled { until },
        Hold::BudgetSpent { until },
        Hold::Observed { action: 4 },
        Hold::NobodyLeft,
        Hold::BelowHarmBudget,
        Hold::HarmUnknown,
        Hold::NothingHelps,
        Hold::InGrace,
        Hold::StaleReadings,
    ];
    let mut told = std::collections::BTreeSet::new();
    for hold in holds {
        let relief = Relief { held: Some(hold), ..Relief::default() };
        let decision = Decision { relief, ..Decision::default() };
        let verdict = explain(&decision).verdict;
        assert_eq!(verdict.len(), 1, "{verdict:?}");
        assert!(verdict[0].starts_with("no action: "), "{verdict:?}");
        assert!(told.insert(verdict[0].clone()), "told twice: {verdict:?}");
    }
}

#[test]
fn explain_releases_and_effects() {
    let target = Target { name: "a".into(), namespace: "web".into(), ..Target::default() };
    let release =
        |why, is_enforced| Release { action: 4, target: target.clone(), why, is_enforced };
    let effect =
        |freed, left, measured| Effect { action: 4, after: seconds(5), freed, left, measured };
    let relief = Relief {
        releases: vec![
            release(ReleaseReason::Over, true),
            release(ReleaseReason::NoEffect, false),
            release(ReleaseReason::Expired, true),
        ],
        effects: vec![effect(Some(Bytes(300 << 20)), Some(2), Some(1)), effect(None, None, None)],
        ..Relief::default()
    };
    let decision = Decision { relief, ..Decision::default() };
    let want = [
        "no action: no eviction threshold is met",
        "releasing the squeeze of web/a: the shortage is over (action 4)",
        "would release the squeeze of web/a: it has not helped (action 4)",
        "releasing the squeeze of web/a: it has lasted as long as a squeeze may (action 4)",
        "action 4, 5s later: 300Mi less in use, 2 tasks left, still short",
        "action 4, 5s later: no longer short",
    ];
    assert_eq!(explain(&decision).verdict, want);
}
