//! What is short bounds who may pay, and a name proves nothing.

use std::sync::Arc;

use crate::model::cgroup::{Cgroup, CgroupId, CgroupPath, Limit, MemoryFiles, MemoryStat};
use crate::model::decision::{Decision, Hold, Relief, SparedReason};
use crate::model::node::Meminfo;
use crate::model::pod::QosClass;
use crate::model::sample::{Moment, Sample};
use crate::model::settings::{Settings, WorkloadRule};
use crate::model::threshold::{Amount, Signal, Threshold};
use crate::model::units::{Bytes, Nanos};
use crate::model::workload::{Pod, Pods};
use crate::policy::engine::{Engine, Standing, Step};

const MIB: u64 = 1 << 20;

fn cgroup(path: &str, held: u64, max: Limit, is_delegated: bool) -> Cgroup {
    let stat = MemoryStat { anon: Bytes(held * MIB), ..MemoryStat::default() };
    let current = Some(Bytes(held * MIB));
    let memory =
        MemoryFiles { current, max: Some(max), stat: Some(stat), ..MemoryFiles::default() };
    let path = CgroupPath(path.into());
    Cgroup { path, memory, is_delegated, pids_current: Some(1), ..Cgroup::default() }
}

/// The last of twenty ticks in which `last` holds 8 MiB more each second.
fn judge(cgroups: &[(&str, u64, Limit, bool)], last: &str) -> Step {
    judge_for(20, cgroups, last, |sample| sample)
}

/// The last of `n` ticks, of which the samples are made otherwise.
fn judge_for(
    n: u64,
    cgroups: &[(&str, u64, Limit, bool)],
    last: &str,
    otherwise: impl Fn(Sample) -> Sample,
) -> Step {
    let value = Amount::Quantity("100Mi".parse().unwrap());
    let hard = |signal| Threshold { signal, value, grace: Nanos(0), min_reclaim: None };
    let mut settings = Settings::default();
    settings.eviction.thresholds =
        vec![hard(Signal::AllocatableMemoryAvailable), hard(Signal::MemoryAvailable)];
    settings.workloads = vec![WorkloadRule {
        path: "/batch/*".parse().unwrap(),
        qos_class: QosClass::BestEffort,
        priority: 0,
        requests: [].into(),
    }];
    let mut engine = Engine::new(settings, Standing::new(1));
    let tick = |tick: u64| {
        let at = Nanos(tick * Nanos::SECOND.0);
        let group = |(path, held, max, is_delegated): &(&str, u64, Limit, bool)| {
            let held = if path.starts_with(last) || last.starts_with(path) {
                held + 8 * tick
            } else {
                *held
            };
            cgroup(path, held, *max, *is_delegated)
        };
        let ids: Vec<_> = cgroups.iter().map(|(path, ..)| *path).collect();
        let parent = |path: &str| {
            let above = path.rsplit_once('/').map(|(above, _)| above);
            let at = ids.iter().position(|one| Some(*one) == above)?;
            Some(CgroupId(at as u64 + 1))
        };
        let groups = cgroups.iter().map(|one| Cgroup { parent: parent(one.0), ..group(one) });
        let memory = Meminfo {
            total: Bytes(65_536 * MIB),
            free: Bytes(60_000 * MIB),
            available: Bytes(60_000 * MIB),
            ..Meminfo::default()
        };
        let mut sample = Sample { tick, at: Moment { boot: at, wall: at }, ..Sample::default() };
        sample.cgroups = (1..).map(CgroupId).zip(groups.map(Arc::new)).collect();
        sample.node.memory = Some(memory);
        sample
    };
    (1..=n).map(|n| engine.step(otherwise(tick(n)))).last().unwrap()
}

#[test]
fn scope_a_users_kubepods_is_no_limit_of_the_node() {
    let user = "/user.slice/user-1000.slice";
    let fake = format!("{user}/kubepods");
    let pod = format!("{fake}/podu1");
    let cgroups = [
        (user, 128, Limit::Max, true),
        (&fake, 128, Limit::At(128 * MIB), true),
        (&pod, 128, Limit::Max, true),
        ("/batch/nightly-report", 2_000, Limit::Max, false),
    ];
    let step = judge(&cgroups, &pod);
    assert_eq!(step.decision.ranking, None);
    assert!(step.decision.assessment.met.is_empty());
    assert!(step.decision.relief.actions.is_empty());
}

#[test]
fn scope_the_pods_limit_is_paid_below_it() {
    let cgroups = [
        ("/kubepods", 700, Limit::At(900 * MIB), false),
        ("/kubepods/podu1", 700, Limit::Max, false),
        ("/kubepods/besteffort", 0, Limit::Max, false),
        ("/kubepods/besteffort/podu2", 20, Limit::Max, false),
        ("/batch/nightly-report", 2_000, Limit::Max, false),
    ];
    let step = judge(&cgroups, "/kubepods/besteffort/podu2");
    let ranking = step.decision.ranking.unwrap();
    let names: Vec<_> = ranking.candidates.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["u2"], "the Guaranteed pod keeps to its request");
    let service = ranking.spared.iter().find(|one| one.name == "nightly-report").unwrap();
    assert_eq!(service.why, SparedReason::OutsideLimit);
}

/// The node has 95 MiB left at the last tick, because of a leaking service with a cgroup of such a name.
#[test]
fn scope_a_kubepods_below_a_service_protects_no_one() {
    let service = "/batch/x";
    for name in ["x-kubepods.slice", "kubepods", "kubepods.slice"] {
        for is_delegated in [false, true] {
            let fake = format!("{service}/{name}");
            let cgroups = [
                ("/", 65_536 - 255, Limit::Max, false),
                (service, 700, Limit::Max, is_delegated),
                (&fake, 0, Limit::Max, is_delegated),
                ("/kubepods", 400, Limit::At(900 * MIB), false),
                ("/kubepods/besteffort", 0, Limit::Max, false),
                ("/kubepods/besteffort/podu1", 400, Limit::Max, false),
            ];
            let step = judge_for(20, &cgroups, service, |mut sample| {
                let memory = sample.node.memory.as_mut().unwrap();
                memory.available = Bytes((255 - 8 * sample.tick) * MIB);
                memory.free = memory.available;
                sample
            });
            let what = format!("{fake} {is_delegated}");
            assert_eq!(step.kubepods, Some(CgroupId(4)), "{what}");
            let ranking = step.decision.ranking.expect("memory is short");
            let names: Vec<_> = ranking.candidates.iter().map(|one| one.name.as_str()).collect();
            assert_eq!(names.first(), Some(&"x"), "{what}: {:?}", ranking.spared);
        }
    }
}

/// Its name may say that it is never evicted. No other one pays for it meanwhile.
#[test]
fn scope_a_pod_that_no_source_has_named_yet_is_spared_for_a_while() {
    #[rustfmt::skip]
    let table: [(bool, &[&str], u64, bool); 5] = [
        // may be named yet, those that are, seconds since the agent began; is it a candidate?
        (false, &[],           20, true),
        (true,  &[],           20, false),
        (true,  &["u1"],       20, false),
        (true,  &["u1", "u2"], 20, true),
        (true,  &["u1"],       40, true),
    ];
    for (awaits_names, known, n, want) in table {
        let cgroups = [
            ("/kubepods", 820 - 8 * n, Limit::At(900 * MIB), false),
            ("/kubepods/besteffort", 0, Limit::Max, false),
            ("/kubepods/besteffort/podu2", 580 - 8 * n, Limit::Max, false),
            ("/kubepods/burstable", 0, Limit::Max, false),
            ("/kubepods/burstable/podu1", 240, Limit::Max, false),
        ];
        let pods: Pods = Arc::new(known.iter().map(|uid| named(uid)).collect());
        let step = judge_for(n, &cgroups, "/kubepods/besteffort/podu2", |sample| Sample {
            awaits_names,
            pods: (!known.is_empty()).then(|| Arc::clone(&pods)),
            ..sample
        });
        let what = format!("{awaits_names} {known:?} {n}");
        let Decision { ranking, relief, .. } = step.decision;
        let ranking = ranking.unwrap();
        let is_candidate = ranking.candidates.iter().any(|one| one.uid == "u2");
        assert_eq!(is_candidate, want, "{what}");
        let why = ranking.spared.iter().find(|one| one.uid == "u2").map(|one| one.why);
        assert_eq!(why, (!want).then_some(SparedReason::NotYetNamed), "{what}");
        if !want {
            assert_eq!((relief.actions.len(), relief.held), (0, Some(Hold::NotYetKnown)), "{what}");
        }
    }
}

#[test]
fn scope_a_taker_that_is_not_read_at_a_tick_is_waited_for() {
    let taker = "/kubepods/besteffort/podu2";
    // The threshold is met at the last tick.
    for is_unread in [false, true] {
        let held = 404;
        let cgroups = [
            ("/kubepods", held + 240, Limit::At(900 * MIB), false),
            ("/kubepods/besteffort", 0, Limit::Max, false),
            (taker, held, Limit::Max, false),
            ("/kubepods/burstable", 0, Limit::Max, false),
            ("/kubepods/burstable/podu1", 240, Limit::Max, false),
        ];
        let step = judge_for(20, &cgroups, taker, |mut sample| {
            let own = sample.cgroups.values_mut().find(|one| one.path.0.as_ref() == taker);
            let own = own.filter(|_| is_unread && sample.tick == 20);
            own.into_iter().for_each(|own| Arc::make_mut(own).memory.stat = None);
            sample
        });
        let Relief { actions, held, .. } = step.decision.relief;
        assert_eq!(held == Some(Hold::NotYetKnown), is_unread, "{held:?}");
        let is_ended = actions.iter().any(|action| action.target.uid == "u2");
        assert_eq!(is_ended, !is_unread, "{actions:?}");
    }
}

fn named(uid: &str) -> (String, Pod) {
    (uid.into(), Pod { uid: uid.into(), name: uid.into(), ..Pod::default() })
}
