mod beside;
mod clean_up;
mod emergency;
mod endings;
mod joint;
mod kept;
mod kernel_kills;
mod node;
mod other_resources;
mod outliving;
mod partly;
mod properties;
mod reach;
mod restart;
mod restarts;
mod squeezes;
mod unbegun;
mod unmeasured;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::model::cgroup::{Cgroup, CgroupId, CgroupPath, Limit, MemoryFiles, MemoryStat};
use crate::model::condition::ScopeName;
use crate::model::decision::{
    InForce, Key, KeyValue, MeritKey, Order, OutcomeResult, Outsider, Phase, Ranking,
};
use crate::model::quantity::Quantity;
use crate::model::sample::{Moment, Sample};
use crate::model::settings::{self, Eviction};
use crate::model::threshold::{Amount, PressureSignal, PressureThreshold, Signal, Threshold};
use crate::model::units::{Bytes, Nanos, Percent};
use crate::model::workload::{Container, Pod};

use StepKind::{Evict, KillContainers, Reclaim, ReleaseMemory, Squeeze, StopContainers};

use self::node::Node;

const MIB: u64 = 1 << 20;

fn seconds(n: u64) -> Nanos {
    Nanos(n * Nanos::SECOND.0)
}

fn threshold(signal: Signal, grace: Nanos) -> Trigger {
    let value = Amount::Quantity(Quantity::bytes(100 * MIB));
    Trigger::Eviction(Threshold { signal, value, grace, min_reclaim: None })
}

fn pressure(on: PressureSignal) -> Trigger {
    Trigger::Pressure(PressureThreshold { scope: ScopeName::Kubepods, on, grace: seconds(5) })
}

fn met(threshold: Trigger) -> Met {
    let missing = matches!(threshold, Trigger::Eviction(_)).then_some(50 * MIB);
    Met { threshold, since: Nanos(0), is_due: true, measured: 50 * MIB, missing }
}

/// Who and how, in short.
fn short(verdict: &Relief) -> Option<(&str, StepKind)> {
    let action = verdict.actions.first()?;
    Some((&action.target.name, action.step))
}

#[test]
fn decide_begins_with_the_gentlest_step() {
    let hard = |signal| threshold(signal, Nanos(0));
    #[rustfmt::skip]
    let table = [
        // what is met, can be reclaimed, pods known, first step
        (threshold(Signal::MemoryAvailable, seconds(30)), 60, true,  Some(Reclaim)),
        (threshold(Signal::MemoryAvailable, seconds(30)), 40, true,  Some(Squeeze)), // a part is not enough
        (hard(Signal::MemoryAvailable),                   60, true,  Some(Reclaim)),
        (hard(Signal::MemoryAvailable),                    0, true,  Some(Evict)),
        (hard(Signal::AllocatableMemoryAvailable),         0, true,  Some(Evict)),
        (hard(Signal::MemoryAvailable),                    0, false, Some(StopContainers)),
        (hard(Signal::NodefsAvailable),                   60, true,  Some(Evict)),
        (hard(Signal::PidAvailable),                      60, true,  Some(Evict)),
        (pressure(PressureSignal::Memory(Percent(60_00))), 60, true, Some(Squeeze)),
        (pressure(PressureSignal::Cpu(Percent(60_00))),    60, true, Some(Squeeze)),
        (pressure(PressureSignal::Exhaustion(seconds(10))), 0, true, Some(KillContainers)),
    ];
    for (trigger, reclaimable, is_known, want) in table {
        let mut node = Node::new();
        for group in node.sample.cgroups.values_mut().map(Arc::make_mut) {
            let active_file = Bytes(reclaimable * MIB);
            group.memory.stat = Some(MemoryStat { active_file, ..MemoryStat::default() });
        }
        node.sample.pods = node.sample.pods.filter(|_| is_known);
        // Fifty mebibytes are missing; of an exhaustion, that many nanoseconds are left.
        let verdict = node.at(1, &[met(trigger)]);
        assert_eq!(short(&verdict), want.map(|step| ("a", step)), "{trigger:?} {reclaimable}");
    }
}

#[test]
fn decide_reclaims_nothing_that_memory_qos_protects() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    #[rustfmt::skip]
    let table = [
        // memory.min of 400 MiB held, of which 60 MiB are cache; first step for 50 MiB that are missing
        (None,                             Reclaim),
        (Some(Limit::At(0)),               Reclaim),
        (Some(Limit::At(300 * MIB)),       Reclaim),
        (Some(Limit::At(350 * MIB)),       Reclaim), // what is left suffices
        (Some(Limit::At(360 * MIB)),       Evict),
        (Some(Limit::At(500 * MIB)),       Evict),   // more than it holds
        (Some(Limit::Max),                 Evict),
    ];
    for (min, want) in table {
        let mut node = Node::new();
        for group in node.sample.cgroups.values_mut().map(Arc::make_mut) {
            let stat = MemoryStat { active_file: Bytes(60 * MIB), ..MemoryStat::default() };
            (group.memory.stat, group.memory.min) = (Some(stat), min);
        }
        assert_eq!(short(&node.at(1, &hard)), Some(("a", want)), "{min:?}");
    }
}

#[test]
fn decide_takes_no_limit_of_the_kubelet_for_a_squeeze() {
    let soft = [met(threshold(Signal::MemoryAvailable, seconds(30)))];
    let mut node = Node::new();
    // As MemoryQoS writes it. What isobar squeezed stands in the ledger alone.
    for group in node.sample.cgroups.values_mut().map(Arc::make_mut) {
        group.memory.high = Some(Limit::At(380 * MIB));
    }
    assert_eq!(short(&node.at(1, &soft)), Some(("a", Squeeze)), "it is not squeezed already");
}

#[test]
fn decide_takes_one_victim_at_a_time() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    let mut node = Node::new();
    assert_eq!(short(&node.at(1, &hard)), Some(("a", Evict)));
    assert!(matches!(node.at(2, &hard).held, Some(Hold::Settling { action: 1, .. })));
    node.hear(1, OutcomeResult::Done);
    // Done is what whoever acted says: the memory is still there.
    assert!(matches!(node.at(3, &hard).held, Some(Hold::Settling { action: 1, .. })));
    node.end("a");
    assert_eq!(node.at(4, &hard).held, Some(Hold::CoolingDown { until: seconds(6) }));
    assert_eq!(short(&node.at(6, &hard)), Some(("b", Evict)));
}

#[test]
fn decide_escalates_a_step_without_effect() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    let mut node = Node::new();
    let mut seen = Vec::new();
    for second in 1..=200 {
        let verdict = node.at(second, &hard);
        if let Some(action) = verdict.actions.into_iter().next() {
            seen.push((action.target.name, action.step, action.why, second));
        }
    }
    let a: Vec<_> = seen.iter().filter(|step| step.0 == "a").map(|s| (s.1, s.2, s.3)).collect();
    #[rustfmt::skip]
    let want = [
        // step, why, at which second: each has its deadline, and a second of grace where it ends work
        (Evict,          StepReason::Gentlest,  1),
        (StopContainers, StepReason::NoEffect, 32),
        (KillContainers, StepReason::NoEffect, 43),
        (ReleaseMemory,  StepReason::NoEffect, 49),
    ];
    assert_eq!(a, want);
    let names: Vec<_> = seen.iter().map(|step| step.0.as_str()).collect();
    assert_eq!(names[4..], ["b"; 4].into_iter().chain(["c"; 4]).collect::<Vec<_>>());
    let mut once = seen.iter().map(|step| (step.0.clone(), step.1)).collect::<Vec<_>>();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), seen.len(), "no step twice on anybody");
    assert_eq!(node.at(201, &hard).held, Some(Hold::NothingHelps));
}

#[test]
fn decide_escalates_a_refused_step_at_once() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    let mut node = Node::new();
    node.at(1, &hard);
    node.hear(1, OutcomeResult::Refused);
    let verdict = node.at(2, &hard);
    assert_eq!(short(&verdict), Some(("a", StopContainers)));
    assert_eq!(verdict.actions[0].why, StepReason::Failed);
}

#[test]
fn decide_observed_takes_no_second_victim() {
    let soft = [met(threshold(Signal::MemoryAvailable, seconds(30)))];
    let mut node = Node::new();
    node.relief.enforce.clear();
    let mut seen = Vec::new();
    for second in 1..=100 {
        let verdict = node.at(second, &soft);
        seen.extend(
            verdict.actions.into_iter().next().map(|a| (a.target.name, a.step, a.is_enforced)),
        );
    }
    let want = [Squeeze, Evict].map(|step| ("a".to_owned(), step, false));
    assert_eq!(seen, want, "to the first step that ends work, and no further");
    assert_eq!(node.at(101, &soft).held, Some(Hold::Observed { action: 2 }));
    // The kernel took it: the next shortage is a new one.
    node.end("a");
    node.at(102, &[]);
    assert_eq!(short(&node.at(120, &soft)), Some(("b", Squeeze)));
}

#[test]
fn decide_keeps_the_eviction_budget() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    let mut node = Node::new();
    node.relief.budget = 2;
    node.at(1, &hard);
    node.end("a");
    node.at(2, &hard);
    assert_eq!(short(&node.at(20, &hard)), Some(("b", Evict)));
    node.end("b");
    node.at(21, &hard);
    let until = seconds(1).plus(node.relief.budget_window);
    let verdict = node.at(40, &hard);
    assert_eq!(verdict.held, Some(Hold::BudgetSpent { until }));
    assert_eq!(verdict.events.len(), 1, "told once");
    assert_eq!(node.at(41, &hard).events.len(), 0, "and not again");
    assert_eq!(short(&node.at(602, &hard)), Some(("c", Evict)));
}

#[test]
fn decide_counts_steps_of_one_eviction_once() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    let mut node = Node::new();
    node.relief.budget = 1;
    node.at(1, &hard);
    assert_eq!(short(&node.at(32, &hard)), Some(("a", StopContainers)));
    assert_eq!(node.standing.victims.len(), 1);
}

#[test]
fn choose_spares_candidates_below_the_harm_budget() {
    let stalled = [met(pressure(PressureSignal::Memory(Percent(60_00))))];
    let short_of = [met(threshold(Signal::MemoryAvailable, seconds(30)))];
    let mut node = Node::new();
    for candidate in &mut node.ranking.candidates {
        candidate.keys[0].value = KeyValue::Number(1);
    }
    assert_eq!(node.at(1, &stalled).held, Some(Hold::BelowHarmBudget));
    assert_eq!(short(&node.at(2, &short_of)), Some(("a", Squeeze)), "what runs out runs out");
}

#[test]
fn choose_names_who_does_the_harm_and_is_no_candidate() {
    let busy = [met(pressure(PressureSignal::Cpu(Percent(50_00))))];
    let path = || CgroupPath("/user.slice".into());
    for (harm, want) in [
        (49, Hold::BelowHarmBudget),
        (50, Hold::HarmedByOther { by: "/user.slice".into() }),
        (900, Hold::HarmedByOther { by: "/user.slice".into() }),
    ] {
        let mut node = Node::new();
        node.ranking.outsiders = vec![Outsider { path: path(), harm: Nanos(harm * 1_000_000) }];
        for candidate in &mut node.ranking.candidates {
            candidate.keys[0].value = KeyValue::Number(0);
        }
        let is_named = matches!(want, Hold::HarmedByOther { .. });
        let verdict = node.at(1, &busy);
        assert_eq!(verdict.held, Some(want), "{harm} ms/s");
        assert_eq!(verdict.events.len(), usize::from(is_named), "{harm} ms/s: told");
        assert_eq!(node.at(2, &busy).events.len(), 0, "{harm} ms/s: once");
    }
}

#[test]
fn choose_ignores_harm_when_memory_runs_out() {
    let mut node = Node::new();
    for candidate in &mut node.ranking.candidates {
        candidate.keys[0].value = KeyValue::Number(0);
    }
    let soon =
        Met { measured: seconds(8).0, ..met(pressure(PressureSignal::Exhaustion(seconds(10)))) };
    let verdict = node.at(1, &[soon]);
    assert_eq!(short(&verdict), Some(("a", Evict)));
    // A step that outlasts the memory would come too late.
    assert_eq!(verdict.actions[0].deadline, seconds(9));
}

#[test]
fn choose_ignores_harm_when_memory_is_thrashed() {
    let stalled = [met(pressure(PressureSignal::Memory(Percent(60_00))))];
    let mut node = Node::new();
    for candidate in &mut node.ranking.candidates {
        candidate.keys[0].value = KeyValue::Number(0);
    }
    assert_eq!(short(&node.at(1, &stalled)), Some(("a", Squeeze)));
}

#[test]
fn is_back_ignores_a_victim_that_was_not_read() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    let mut node = Node::new();
    node.at(1, &hard);
    let groups = node.sample.cgroups.clone();
    for group in node.sample.cgroups.values_mut().filter(|group| group.path.0.ends_with("poda")) {
        let Cgroup { path, parent, .. } = &**group;
        *group = Cgroup { path: path.clone(), parent: *parent, ..Cgroup::default() }.into();
    }
    assert!(matches!(node.at(2, &hard).held, Some(Hold::Settling { .. })));
    node.sample.cgroups = groups;
    node.end("a");
    assert!(matches!(node.at(3, &hard).held, Some(Hold::CoolingDown { .. })));
}

#[test]
fn untried_is_kept_by_threshold() {
    let cpu = met(pressure(PressureSignal::Cpu(Percent(60_00))));
    let memory = met(pressure(PressureSignal::Memory(Percent(60_00))));
    let mut node = Node::new();
    assert_eq!(short(&node.at(1, &[cpu])), Some(("a", Squeeze)));
    // The squeeze has worked; memory is another matter, also on the same pod.
    assert_eq!(short(&node.at(2, &[memory])), Some(("a", Squeeze)));
}

#[test]
fn decide_names_a_reason_for_no_action() {
    let soft = met(threshold(Signal::MemoryAvailable, seconds(30)));
    let mut node = Node::new();
    assert_eq!(node.at(1, &[]), Relief::default());
    assert_eq!(node.at(2, &[Met { is_due: false, ..soft }]).held, Some(Hold::InGrace));
    node.is_stale = true;
    assert_eq!(node.at(3, &[soft]).held, Some(Hold::StaleReadings));
    let average = met(pressure(PressureSignal::Memory(Percent(30_00))));
    assert_eq!(node.at(4, &[average]).held, Some(Hold::Easing));
    node.is_stale = false;
    node.ranking.candidates.clear();
    let verdict = node.at(5, &[soft]);
    assert_eq!((verdict.held, verdict.events.len()), (Some(Hold::NobodyLeft), 1));
}

#[test]
fn is_back_waits_for_the_whole_group() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    let mut node = Node::new();
    node.sample.pods = None;
    node.ranking.candidates[0].members = vec!["a".into(), "b".into()];
    assert_eq!(short(&node.at(1, &hard)), Some(("a", StopContainers)));
    node.end("a");
    assert!(matches!(node.at(2, &hard).held, Some(Hold::Settling { .. })));
    node.end("b");
    assert!(matches!(node.at(3, &hard).held, Some(Hold::CoolingDown { .. })));
}
