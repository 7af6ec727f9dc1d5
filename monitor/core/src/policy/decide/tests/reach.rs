//! Whom a decision reaches, and what it waits for.

use std::sync::Arc;

use super::*;
use crate::model::decision::Target;
use crate::model::pod::QosClass;
use crate::model::snapshot::{Averages, Snapshot};
use crate::policy::decide::grace;
use crate::policy::decide::target::targets_of;
use crate::policy::rank::harm::HarmStanding;
use crate::policy::rank::{Contender, Field, HEAD, Harm, Purpose};

/// Pods of which this many are harmless and one, of a higher class, is the hog.
fn contenders(n_harmless: usize) -> Vec<Contender> {
    let pod = |name: String, class, ms: u64| Contender {
        usage: Some(Quantity::bytes(400 * MIB)),
        harm: Some(Harm { others: Nanos(ms * 1_000_000), own: Nanos(0) }),
        ..Contender::unknown(&name, class)
    };
    let harmless = (0..n_harmless).map(|i| pod(format!("p{i:02}"), QosClass::BestEffort, 1));
    harmless.chain([pod("hog".into(), QosClass::Guaranteed, 900)]).collect()
}

/// One decision about them, with what was tried so far.
fn judged(all: &[Contender], short_of: Met, second: u64, standing: &mut ReliefStanding) -> Relief {
    let relief = settings::Relief { enforce: StepKind::ALL.into(), ..settings::Relief::default() };
    let cgroup = |contender: &Contender| Cgroup {
        path: CgroupPath(format!("/kubepods/besteffort/pod{}", contender.uid).into()),
        ..Cgroup::default()
    };
    let cgroups = (10..).map(CgroupId).zip(all.iter().map(cgroup).map(Arc::new)).collect();
    let at = Moment { boot: seconds(second), wall: seconds(second) };
    let sample = Sample { cgroups, at, ..Sample::default() };
    let purpose = Purpose::of(&short_of.threshold);
    let field = Field::new(all, purpose, Order::Qos, &settings::Ranking::default());
    let ranking = field.ranking(HEAD);
    let snapshot = Snapshot::between(None, &sample, &mut Averages::default());
    let question = Question {
        snapshot: &snapshot,
        outlooks: &[],
        relief: &relief,
        eviction: &Eviction::default(),
        sample: &sample,
        before: None,
        unseen: Nanos(0),
        met: &[short_of],
        first: Some(short_of),
        foretold: None,
        is_stale: false,
        ranking: Some(&ranking),
        field: Some(&field),
        unmeasured: &[],
        protected: &Default::default(),
        harm: &HarmStanding::default(),
        is_harm_paused: false,
        observations: &[],
    };
    decide(&question, standing)
}

#[test]
fn choose_reaches_a_hog_behind_harmless_pods() {
    let stalled = met(pressure(PressureSignal::Memory(Percent(60_00))));
    for n_harmless in [0, 1, 15, 16, 17, 500] {
        let all = contenders(n_harmless);
        let verdict = judged(&all, stalled, 1, &mut ReliefStanding::default());
        assert_eq!(short(&verdict), Some(("hog", Squeeze)), "behind {n_harmless}");
    }
    let nobody = &contenders(500)[..500];
    let verdict = judged(nobody, stalled, 1, &mut ReliefStanding::default());
    assert_eq!(verdict.held, Some(Hold::BelowHarmBudget), "and where there is none");
}

#[test]
fn choose_passes_candidates_that_cannot_end() {
    let hard = met(threshold(Signal::PidAvailable, Nanos(0)));
    let (all, mut standing) = (contenders(40), ReliefStanding::default());
    let mut tried = std::collections::BTreeSet::new();
    // Nobody ends, and the budget has room for two at a time.
    for second in (0..20_000).step_by(10) {
        let verdict = judged(&all, hard, second, &mut standing);
        tried.extend(verdict.actions.into_iter().next().map(|action| action.target.name));
    }
    assert_eq!(tried.len(), 41);
}

#[test]
fn hear_prolongs_the_deadline_by_unseen_time() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    let mut node = Node::new();
    assert_eq!(short(&node.at(1, &hard)), Some(("a", Evict)));
    // A minute's sleep, of which one second counts.
    node.unseen = seconds(59);
    assert!(matches!(node.at(61, &hard).held, Some(Hold::Settling { action: 1, .. })));
    node.unseen = Nanos(0);
    assert!(matches!(node.at(90, &hard).held, Some(Hold::Settling { action: 1, .. })));
    assert_eq!(short(&node.at(91, &hard)), Some(("a", StopContainers)));
}

#[test]
fn target_of_names_all_cgroups_and_containers() {
    let mut node = Node::new();
    let pods = Arc::make_mut(node.sample.pods.as_mut().unwrap());
    for (uid, ids) in [("a", [Some("0a"), Some("1a")]), ("b", [Some("0b"), None])] {
        let container =
            |id: Option<&str>| Container { id: id.map(Into::into), ..Default::default() };
        // One of them has started just now, or not at all.
        pods.get_mut(uid).unwrap().containers = ids.map(container).into();
    }
    let service = Cgroup { path: CgroupPath("/batch/job".into()), ..Cgroup::default() };
    node.sample.cgroups.insert(CgroupId(30), service.into());
    let candidate = |uid: &str, members: &[&str]| Candidate {
        name: uid.into(),
        namespace: String::new(),
        uid: uid.into(),
        members: members.iter().map(ToString::to_string).collect(),
        keys: vec![],
    };
    type Row<'a> = (Candidate, Option<u64>, &'a [u64], &'a [&'a str]);
    #[rustfmt::skip]
    let table: [Row<'_>; 5] = [
        // candidate, its own cgroup, those of its pods, containers
        (candidate("a", &[]),          Some(10), &[],       &["0a", "1a"]),
        (candidate("b", &[]),          Some(11), &[],       &[]),
        (candidate("a", &["a", "b"]),  None,     &[10, 11], &["0a", "1a"]),
        (candidate("/batch/job", &[]), Some(30), &[],       &[]),
        (candidate("gone", &[]),       None,     &[],       &[]),
    ];
    for (candidate, own, groups, containers) in table {
        let targets = targets_of(&[&candidate], &node.sample, &node.snapshot());
        let [target] = targets.try_into().unwrap();
        assert_eq!(target.cgroup, own.map(CgroupId), "{candidate:?}");
        assert_eq!(target.path.is_some(), own.is_some(), "{candidate:?}");
        let ids: Vec<_> = target.groups.iter().map(|group| group.id.0).collect();
        assert_eq!(ids, groups, "{candidate:?}");
        assert_eq!(target.containers, containers, "{candidate:?}");
    }
}

#[test]
fn grace_is_the_kubelets() {
    #[rustfmt::skip]
    let table = [
        // threshold's grace, evictionMaxPodGracePeriod, the pod's own, seconds
        (0,  30, Some(30), 1), // hard
        (60, 30, Some(10), 10),
        (60, 5,  Some(30), 5),
        (60, 5,  None,     5),
        (60, 0,  Some(30), 1),
        (60, -1, Some(30), 1),
    ];
    for (threshold_grace, max_pod_grace, own, want) in table {
        let mut node = Node::new();
        let pods = Arc::make_mut(node.sample.pods.as_mut().unwrap());
        pods.get_mut("a").unwrap().termination_grace = own;
        let trigger = threshold(Signal::MemoryAvailable, seconds(threshold_grace));
        let eviction = Eviction { max_pod_grace, ..Eviction::default() };
        let target = Target { uid: "a".into(), ..Target::default() };
        let got = grace(&trigger, &eviction, &target, &node.sample);
        assert_eq!(got, seconds(want), "{threshold_grace} {max_pod_grace} {own:?}");
    }
}

#[test]
fn grace_of_a_group_is_its_longest() {
    let mut node = Node::new();
    let pods = Arc::make_mut(node.sample.pods.as_mut().unwrap());
    pods.get_mut("a").unwrap().termination_grace = Some(5);
    pods.get_mut("b").unwrap().termination_grace = Some(20);
    let trigger = threshold(Signal::MemoryAvailable, seconds(60));
    let eviction = Eviction { max_pod_grace: 30, ..Eviction::default() };
    let members = vec!["a".into(), "b".into()];
    let target = Target { uid: "a".into(), members, ..Target::default() };
    assert_eq!(grace(&trigger, &eviction, &target, &node.sample), seconds(20));
}

#[test]
fn decide_counts_a_restarted_pod_again() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    let mut node = Node::new();
    node.relief.budget = 2;
    node.relief.steps = [KillContainers].into();
    for (second, n_victims) in [(1, 1), (61, 2)] {
        assert_eq!(short(&node.at(second, &hard)), Some(("a", KillContainers)), "second {second}");
        assert_eq!(node.standing.victims.len(), n_victims);
        // Its memory is back, and what was tried is forgotten.
        node.sample
            .cgroups
            .values_mut()
            .map(Arc::make_mut)
            .for_each(|group| group.memory.current = Some(Bytes(0)));
        node.at(second + 1, &[]);
        node.at(second + 20, &[]);
        let held = Some(Bytes(400 * MIB));
        node.sample
            .cgroups
            .values_mut()
            .map(Arc::make_mut)
            .for_each(|group| group.memory.current = held);
        node.at(second + 40, &[]);
    }
    assert!(matches!(node.at(121, &hard).held, Some(Hold::BudgetSpent { .. })));
}

#[test]
fn decide_ends_again_at_once_what_was_started_again() {
    let exhausted = pressure(PressureSignal::Exhaustion(seconds(10)));
    let gone = [Met { measured: seconds(1).0, ..met(exhausted) }];
    let mut node = Node::new();
    node.relief.steps = [KillContainers, ReleaseMemory].into();
    let set = |node: &mut Node, held| {
        let groups = node.sample.cgroups.values_mut().map(Arc::make_mut);
        groups.for_each(|group| group.memory.current = Some(Bytes(held * MIB)));
    };
    assert_eq!(short(&node.at(1, &gone)), Some(("a", KillContainers)));
    set(&mut node, 0);
    assert!(node.at(2, &gone).actions.is_empty());
    // Its containers run again, and memory is as short as it was.
    set(&mut node, 400);
    let next = (3..20).find_map(|second| {
        let decided = node.at(second, &gone);
        short(&decided).map(|(name, step)| (second, name.to_owned(), step))
    });
    assert_eq!(next, Some((3, "a".into(), KillContainers)));
}

#[test]
fn is_back_goes_before_a_slow_average() {
    let stalled = [met(pressure(PressureSignal::Memory(Percent(60_00))))];
    let mut node = Node::new();
    node.relief.steps = [KillContainers, ReleaseMemory].into();
    assert_eq!(short(&node.at(1, &stalled)), Some(("a", KillContainers)));
    assert_eq!(short(&node.at(8, &stalled)), Some(("a", ReleaseMemory)));
    node.end("a");
    assert!(matches!(node.at(11, &stalled).held, Some(Hold::CoolingDown { .. })));
}

#[test]
fn target_of_ignores_cgroups_named_like_a_pod() {
    let mut node = Node::new();
    let copy = |path: &str| Cgroup { path: CgroupPath(path.into()), ..Cgroup::default() };
    node.sample.cgroups.insert(CgroupId(1), copy("/user.slice/kubepods/besteffort/poda").into());
    node.sample.cgroups.insert(CgroupId(2), copy("/kubepods").into());
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    let target = node.at(1, &hard).actions.pop().unwrap().target;
    assert_eq!(target.path, Some(CgroupPath("/kubepods/besteffort/poda".into())));
}

#[test]
fn rests_until_depends_on_the_measure() {
    let left = |n| {
        let trigger = pressure(PressureSignal::Exhaustion(seconds(10)));
        Met { measured: seconds(n).0, ..met(trigger) }
    };
    #[rustfmt::skip]
    let table = [
        // what is met, for how many seconds nothing new is begun
        (met(threshold(Signal::MemoryAvailable, Nanos(0))),            2),
        (met(threshold(Signal::PidAvailable, seconds(30))),            2),
        (left(5),                                                      2),
        (left(0),                                                      1), // the node's own count may lag
        (met(pressure(PressureSignal::Memory(Percent(60_00)))),       10), // an average
    ];
    for (short_of, want) in table {
        let mut node = Node::new();
        node.relief.steps = [KillContainers, Squeeze].into();
        node.sample.pods = None;
        let hard = met(threshold(Signal::MemoryAvailable, Nanos(0)));
        assert_eq!(short(&node.at(1, &[hard])), Some(("a", KillContainers)));
        node.end("a");
        let held = node.at(2, &[short_of]).held;
        let until = seconds(2 + want);
        assert_eq!(held, Some(Hold::CoolingDown { until }), "{short_of:?}");
        assert_eq!(short(&node.at(2 + want, &[short_of])).map(|(name, _)| name), Some("b"));
    }
}

#[test]
fn is_spent_skips_a_victim_that_holds_nothing() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    let soft = [met(threshold(Signal::MemoryAvailable, seconds(30)))];
    let mut node = Node::new();
    node.relief.steps = [KillContainers].into();
    assert_eq!(short(&node.at(1, &soft)), Some(("a", KillContainers)));
    // The sandbox stays, and with it the pod's cgroup.
    let a = node.sample.cgroups.values_mut().map(Arc::make_mut).next().unwrap();
    a.memory.current = Some(Bytes(MIB));
    node.at(2, &soft);
    assert_eq!(short(&node.at(5, &hard)), Some(("b", KillContainers)));
}

#[test]
fn can_evict_a_group_whose_pods_are_all_known() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    for (unknown, want) in [("none", Evict), ("a", StopContainers), ("b", StopContainers)] {
        let mut node = Node::new();
        Arc::make_mut(node.sample.pods.as_mut().unwrap()).remove(unknown);
        node.ranking.candidates[0].members = vec!["a".into(), "b".into()];
        assert_eq!(short(&node.at(1, &hard)), Some(("a", want)), "not known: {unknown}");
    }
}
