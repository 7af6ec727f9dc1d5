//! A node of which everything is known, for one scrape that has every metric.

use std::sync::Arc;

use isobar::record::incident::{Counts, Kind};
use isobar::serve::publish::{Latest, Publisher, channel};
use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::cgroup::{CgroupId, CgroupPath, Limit, MemoryStat};
use isobar_core::model::condition::{Condition, ConditionName, Measure, Phase, ScopeName, Status};
use isobar_core::model::cost::Cost;
use isobar_core::model::cpuset::CpuSet;
use isobar_core::model::decision::{
    Action, Assessment, Decision, InForce, Met, NodePressure, Observation, Outcome, OutcomeResult,
    Outlook, Phase as InForcePhase, Relief, StepKind, Trigger, made,
};
use isobar_core::model::limit::{LimitResult, LimitState, LimitWrite, NodeResources};
use isobar_core::model::node::NodeFacts;
use isobar_core::model::pod::Place;
use isobar_core::model::quantity::Quantity;
use isobar_core::model::sample::{Cause, Moment, Sample};
use isobar_core::model::settings::{Settings, WrittenLimit};
use isobar_core::model::snapshot::{Doubts, IoRate, Snapshot, Union};
use isobar_core::model::stall::{Coverage, Lost};
use isobar_core::model::threshold::{Amount, Signal, Threshold};
use isobar_core::model::units::{Bytes, Nanos, Percent};
use isobar_core::model::workload::Pod;
use isobar_core::policy::engine::Step;
use isobar_kubelet::cpus::{Pool, Sets};

use crate::made_up;

pub(super) const ODD_NAME: &str = "od\"d\\\nname";

const START: Moment = Moment { boot: Nanos(0), wall: Nanos(1_795_000_000_000_000_000) };
const GIB: u64 = 1 << 30;

/// The newest of one tick of a node of which everything is known.
pub(super) fn latest() -> Latest {
    of(snapshot())
}

/// The same, a node of which the headline tells that CPUs are short, and one that disks are: it has
/// figures of what is short first alone.
pub(super) fn each() -> [Latest; 3] {
    let of_snapshot = |snapshot| {
        let (mut publisher, latest) = publisher();
        publisher.publish(Step { snapshot, ..Step::default() }, Vec::new(), Cost::default());
        latest
    };
    let of_cpu = made_up::snapshot(3);
    let mut of_io = made_up::snapshot(3);
    of_io.whole.contention = Some(Union::default());
    of_io.whole.pressure.io = of_io.whole.pressure.cpu;
    let rate = IoRate { read: Bytes(90 << 20), reads: 90, ..IoRate::default() };
    of_io.scopes.values_mut().for_each(|scope| scope.io = Some(IoRate::default()));
    of_io.scopes.get_mut(&CgroupId(21)).unwrap().io = Some(rate);
    of_io.whole.io = Some(rate);
    [latest(), of_snapshot(of_cpu), of_snapshot(of_io)]
}

/// The same of a snapshot; of an empty one nothing else is known either.
pub(super) fn of(snapshot: Snapshot) -> Latest {
    let (mut publisher, latest) = publisher();
    publish(&mut publisher, snapshot);
    latest
}

pub(super) fn publisher() -> (Publisher, Latest) {
    let facts =
        NodeFacts { name: "worker-07".into(), kernel: "6.12.57".into(), ..NodeFacts::default() };
    let (to, latest) = channel();
    (Publisher::new(facts, START, to), latest)
}

pub(super) fn publish(publisher: &mut Publisher, snapshot: Snapshot) {
    if snapshot == Snapshot::default() {
        let step = Step { snapshot, ..Step::default() };
        publisher.note(&Sample::default(), &Settings::default(), &step);
        return publisher.publish(step, Vec::new(), Cost::default());
    }
    let step = Step { snapshot, decision: decision(), ..Step::default() };
    publisher.note_limits(&limits());
    let exclusive = CpuSet([2, 3].into());
    let sets = Some(Sets { exclusive, shared_millicores: 4_000, ..Sets::default() });
    let pool = Pool { sets, ..Pool::default() };
    let of = |cpu: &str, memory: &str| {
        let of = [("cpu", cpu), ("memory", memory)];
        of.map(|(name, amount)| (name.to_owned(), amount.parse().unwrap())).into()
    };
    let (capacity, allocatable) = (of("8", "32Gi"), of("7500m", "30Gi"));
    let resources = NodeResources { capacity, allocatable, ..NodeResources::default() };
    publisher.note_node((Some(&pool), Some(&resources)));
    publisher.note(&Sample::default(), &settings(), &step);
    // Its outcome comes with a later sample.
    publisher.note(&sample(), &settings(), &step);
    let counts = Counts { incidents: [(Kind::Condition, 2), (Kind::Kill, 1)].into(), lost: 3 };
    publisher.show_recording(None, Some(&counts));
    let oom = Capability::new("mark_victim", CapabilityState::Attached, "");
    let capabilities = made_up::capabilities().into_iter().chain([oom]).collect();
    publisher.publish(step, capabilities, made_up::cost());
}

/// Made up, at a fixed time.
pub(super) fn snapshot() -> Snapshot {
    let mut snapshot = made_up::snapshot(3);
    let pods = snapshot.scopes.get_mut(&CgroupId(2)).unwrap();
    let pods = Arc::make_mut(pods.files.as_mut().unwrap());
    (pods.cpu.weight, pods.pids_max) = (Some(157), Some(Limit::At(30_000)));
    let mut scopes = snapshot.scopes.values_mut();
    let pod = scopes.find(|scope| matches!(scope.place, Place::Pod { .. })).unwrap();
    let files = Arc::make_mut(pod.files.as_mut().unwrap());
    files.memory.stat = Some(MemoryStat { anon: Bytes(GIB), ..MemoryStat::default() });
    pod.below_request = Some(Union { avg10: Percent(38_00), ..Union::default() });
    Snapshot {
        pods: sample().pods,
        at: Moment { boot: Nanos(9 * Nanos::SECOND.0), wall: Nanos(START.wall.0 + 9_000_000_000) },
        interval: Nanos(7 * Nanos::SECOND.0),
        covers: Coverage {
            waits: true,
            throttling: true,
            memory: true,
            memory_causes: false,
            oom_kills: true,
        },
        lost: Lost { pairs: 4, pair_time: Nanos(2_000_000), ..Lost::default() },
        doubts: Doubts { backwards: 1, ..Doubts::default() },
        ..snapshot
    }
}

fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.eviction.thresholds = vec![hard(), soft()];
    settings.eviction.pressure = made::usual_pressure_thresholds();
    settings.relief.enforce = [StepKind::Mark].into();
    settings
}

fn hard() -> Threshold {
    Threshold {
        signal: Signal::MemoryAvailable,
        value: Amount::Quantity(Quantity::bytes(GIB)),
        grace: Nanos(0),
        min_reclaim: None,
    }
}

fn soft() -> Threshold {
    Threshold { signal: Signal::PidAvailable, grace: Nanos(30 * Nanos::SECOND.0), ..hard() }
}

fn met() -> Met {
    Met {
        threshold: Trigger::Eviction(hard()),
        since: Nanos(0),
        is_due: true,
        measured: GIB / 2,
        missing: Some(GIB / 2),
    }
}

fn action() -> Action {
    made::action(StepKind::KillContainers, met())
}

fn sample() -> Sample {
    let phase = InForcePhase::Ending;
    let in_force = InForce { action: action(), since: Nanos(0), held: None, phase, largest: None };
    let (freed, ended) = (Some(Bytes(GIB)), Some(3));
    let outcome = Outcome { freed, ended, ..made::outcome(1, OutcomeResult::Done) };
    let pod = |uid: &str, name: &str| {
        let (uid, namespace, name) = (uid.to_owned(), "shop".into(), name.into());
        (uid.clone(), Pod { uid, namespace, name, ..Pod::default() })
    };
    let pods = [pod(made_up::POD_A, "front"), pod(made_up::POD_C, ODD_NAME)];
    Sample {
        cause: Cause::Pressure,
        pods: Some(Arc::new(pods.into())),
        outcomes: vec![outcome],
        in_force: vec![in_force],
        ..Sample::default()
    }
}

fn decision() -> Decision {
    let observation =
        |signal, available, capacity| Observation { signal, available, capacity, at: Nanos(0) };
    let outlook = |scope| Outlook {
        scope,
        left: Some(Bytes(3 * GIB)),
        growth: Some(Bytes(GIB / 64)),
        lasts: Some(Nanos(192 * Nanos::SECOND.0)),
        efficiency: Some(Percent(87_50)),
        refaults: Some(12),
    };
    let assessment = Assessment {
        conditions: ConditionName::ALL.map(condition).into(),
        node_pressure: vec![NodePressure::MemoryPressure],
        observations: vec![
            observation(Signal::MemoryAvailable, GIB / 2, 32 * GIB),
            observation(Signal::PidAvailable, 30_000, 32_768),
        ],
        outlooks: vec![outlook(ScopeName::System), outlook(ScopeName::Kubepods)],
        met: vec![met()],
        ..Assessment::default()
    };
    let relief = Relief { actions: vec![action()], ..Relief::default() };
    Decision { generation: 2, assessment, relief, ..Decision::default() }
}

fn condition(name: ConditionName) -> Condition {
    Condition {
        name,
        kind: format!("isobar.example/{name}"),
        status: Status::True,
        phase: Phase::Contended,
        measure: Measure::Contention,
        threshold: Percent(50_00),
        avg10: Some(Percent(64_00)),
        avg60: Some(Percent(58_25)),
        seen: None,
        since: START,
        judged: Some(START),
        why: None,
    }
}

fn limits() -> Vec<LimitState> {
    let limit = |cgroup: &str, file: &str, value: &str, live: &str, result| LimitState {
        write: LimitWrite {
            what: WrittenLimit::Allocatable,
            cgroup: CgroupPath(cgroup.into()),
            file: file.into(),
            value: value.into(),
        },
        before: None,
        live: Some(live.into()),
        result,
        detail: String::new(),
    };
    #[rustfmt::skip]
    let limits = [
        // cgroup, file, configured, live, result
        limit("/kubepods.slice", "memory.max",  "33000000000", "34000000000", LimitResult::Drifted),
        limit("/system.slice",   "cpu.weight",  "313",         "313",         LimitResult::Kept),
        // Neither is a number.
        limit("/system.slice",   "pids.max",    "max",         "max",         LimitResult::Kept),
        limit("/kubepods.slice", "cpuset.cpus", "1-7",         "0-7",         LimitResult::Failed),
    ];
    limits.into()
}
