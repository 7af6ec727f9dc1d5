//! The order `qos`, groups, and who is spared: isobar's own rules.

use super::*;
use QosClass::{BestEffort, Burstable, Guaranteed};

/// Pods in the order in which they go, each before the next by the key that is named.
#[test]
fn rank_qos_keys_in_order() {
    let with = |pod: Contender, ms: u64, started: Option<i64>| Contender {
        harm: harm(ms, 0),
        started,
        ..pod
    };
    #[rustfmt::skip]
    let table = [
        // pod, harm, started; what spared the next
        (pod("j", BestEffort, 5,  "0",     "1Mi"),   0,  None,    Some(Key::Qos)),
        (pod("i", Burstable,  -1, "100Mi", "101Mi"), 0,  None,    Some(Key::Priority)),
        (pod("h", Burstable,  0,  "100Mi", "300Mi"), 9,  None,    Some(Key::Harm)),
        (pod("g", Burstable,  0,  "100Mi", "900Mi"), 2,  None,    Some(Key::Excess)),
        (pod("f", Burstable,  0,  "100Mi", "300Mi"), 2,  Some(9), Some(Key::Started)),
        (pod("e", Burstable,  0,  "100Mi", "300Mi"), 2,  Some(8), Some(Key::Started)),
        (pod("d", Burstable,  0,  "100Mi", "300Mi"), 2,  None,    Some(Key::ExceedsRequest)),
        (pod("c", Burstable,  -9, "-",     "300Mi"), 2,  None,    Some(Key::ExceedsRequest)),
        (pod("b", Burstable,  -9, "100Mi", "100Mi"), 99, None,    Some(Key::Qos)),
        (pod("a", Guaranteed, -9, "100Mi", "100Mi"), 99, Some(9), Some(Key::Uid)),
        (pod("k", Guaranteed, -9, "100Mi", "100Mi"), 99, Some(9), None),
    ];
    let want: Vec<String> = table.iter().map(|(pod, ..)| pod.name.clone()).collect();
    let mut pods: Vec<_> =
        table.iter().map(|(pod, ms, started, _)| with(pod.clone(), *ms, *started)).collect();
    pods.reverse();
    let got = ranking(&pods, "memory.available", Order::Qos);
    assert_eq!(names(&got), want);
    for (pair, (.., spared_by)) in got.candidates.windows(2).zip(&table) {
        let key = why_before(&pair[0], &pair[1]).map(|(a, _)| a.key);
        assert_eq!(key, *spared_by, "{} before {}", pair[0].name, pair[1].name);
    }
}

#[test]
fn rank_qos_tells_keys() {
    #[rustfmt::skip]
    let table = [
        // pod, signal, keys
        (pod("a", BestEffort, 0, "0", "1Mi"), "memory.available",
            "qos=BestEffort priority=0 harm=7 excess=1Mi started=null uid=a"),
        (pod("a", Burstable, 0, "1Mi", "3Mi"), "memory.available",
            "qos=Burstable exceedsRequest=true priority=0 harm=7 excess=2Mi started=null uid=a"),
        (pod("a", Burstable, 0, "-", "3Mi"), "kubepods.memory.pressure",
            "qos=Burstable exceedsRequest=null priority=0 harm=7 excess=null usage=3Mi started=null uid=a"),
        (pod("a", Burstable, 0, "1Mi", "-"), "memory.available",
            "qos=Burstable exceedsRequest=null priority=0 harm=7 hasStats=false excess=null started=null uid=a"),
        // No kind of request for pids: no pod is above or within it.
        (pod("a", Burstable, 0, "-", "30"), "pid.available",
            "qos=Burstable priority=0 harm=7 processes=30 started=null uid=a"),
        // Ours does not take bytes from inodes.
        (pod("a", Guaranteed, 0, "1Gi", "30"), "nodefs.inodesFree",
            "qos=Guaranteed priority=0 harm=7 excess=30 started=null uid=a"),
    ];
    for (pod, signal, want) in table {
        let pods = [Contender { harm: harm(7, 0), ..pod }];
        let got = ranking(&pods, signal, Order::Qos);
        assert_eq!(keys(&got.candidates[0]), want, "{signal}");
    }
}

#[test]
fn rank_qos_without_statistics() {
    let pods = [
        pod("unknown", BestEffort, 0, "0", "-"),
        pod("idle", BestEffort, 0, "0", "0"),
        pod("within", Burstable, 0, "1Gi", "1Mi"),
        pod("unknown-burstable", Burstable, 0, "1Gi", "-"),
        pod("above", Burstable, 0, "1Mi", "1Gi"),
    ];
    let got = ranking(&pods, "memory.available", Order::Qos);
    let want = ["idle", "unknown", "above", "unknown-burstable", "within"];
    assert_eq!(names(&got), want);
    let spared_by = why_before(&got.candidates[0], &got.candidates[1]);
    let spared_by = spared_by.map(|(a, b)| (a.key, a.value.clone(), b.value.clone()));
    assert_eq!(spared_by, Some((Key::HasStats, KeyValue::Bool(true), KeyValue::Bool(false))));
}

#[test]
fn rank_qos_ignores_little_harm() {
    let with = |name: &str, usage: &str, ns: u64| Contender {
        harm: Some(Harm { others: Nanos(ns), own: Nanos(0) }),
        ..pod(name, BestEffort, 0, "0", usage)
    };
    let pods = [with("small", "10Mi", 999_999), with("large", "600Mi", 0)];
    let got = ranking(&pods, "memory.available", Order::Qos);
    assert_eq!(names(&got), ["large", "small"]);
    let pods = [with("small", "10Mi", 1_000_000), with("large", "600Mi", 999_999)];
    let got = ranking(&pods, "memory.available", Order::Qos);
    assert_eq!(names(&got), ["small", "large"]);
}

#[test]
fn rank_spares_who_harms_only_itself() {
    use SparedReason::HarmsOnlyItself;
    #[rustfmt::skip]
    let table = [
        // signal, harm, spared as
        ("kubepods.cpu.pressure",      harm(0, 300), Some(HarmsOnlyItself)),
        ("system.memory.pressure",     harm(0, 300), Some(HarmsOnlyItself)),
        ("kubepods.memory.refaults",   harm(0, 300), Some(HarmsOnlyItself)),
        ("kubepods.cpu.pressure",      harm(1, 300), None),
        ("kubepods.cpu.pressure",      harm(0, 0),   None), // harms no pod: the harm budget decides
        ("kubepods.cpu.pressure",      None,         None), // not measured
        // The pod that used it up frees it.
        ("memory.available",           harm(0, 300), None),
        ("allocatableMemory.available", harm(0, 300), None),
        ("kubepods.memory.exhaustion", harm(0, 300), None),
        ("pid.available",              harm(0, 300), None),
        ("nodefs.available",           harm(0, 300), None),
    ];
    for order in [Order::Qos, Order::Kubelet] {
        for (signal, harm, want) in table {
            let pods = [Contender { harm, ..pod("a", BestEffort, 0, "0", "1") }];
            let got = ranking(&pods, signal, order);
            let why = got.spared.first().map(|spared| spared.why);
            assert_eq!(why, want, "{signal} {harm:?}");
            assert_eq!(got.n_candidates + got.n_spared, 1, "{signal} {harm:?}");
        }
    }
}

#[test]
fn rank_orders_the_spared() {
    let spared = |name: &str, usage: &str, why: SparedReason| Contender {
        spared: Some(why),
        ..pod(name, BestEffort, 0, "0", usage)
    };
    let pods = [
        spared("small", "1Mi", SparedReason::Static),
        spared("large", "9Gi", SparedReason::OptedOut),
        pod("candidate", Guaranteed, 0, "2Gi", "1Gi"),
    ];
    let got = ranking(&pods, "memory.available", Order::Qos);
    let told: Vec<_> = got.spared.iter().map(|s| (s.name.as_str(), s.why)).collect();
    assert_eq!(told, [("large", SparedReason::OptedOut), ("small", SparedReason::Static)]);
    assert_eq!((names(&got), got.n_spared), (vec!["candidate"], 2));
}

/// `n` pods of one owner, each using so much.
fn owned(n: usize, owner: &str, class: QosClass, usage: &str) -> Vec<Contender> {
    let owner = Owner { kind: "ReplicaSet".into(), name: owner.into(), uid: format!("{owner}-1") };
    let pod = |i| Contender {
        owner: Some(owner.clone()),
        started: Some(i),
        harm: harm(1, 2),
        ..pod(&format!("{}-{i:02}", owner.name), class, 0, "0", usage)
    };
    (0..).take(n).map(pod).collect()
}

#[test]
fn rank_groups_small_pods_of_one_owner() {
    let mut pods = owned(40, "hogs", BestEffort, "20Mi");
    pods.push(Contender { harm: harm(5, 0), ..pod("larger", BestEffort, 0, "0", "200Mi") });
    let got = ranking(&pods, "memory.available", Order::Qos);
    assert_eq!(names(&got), ["ReplicaSet/hogs", "larger"]);
    let group = &got.candidates[0];
    assert_eq!(keys(group), "qos=BestEffort priority=0 harm=40 excess=800Mi started=0 uid=hogs-00");
    assert_eq!((group.members.len(), group.members[39].as_str()), (40, "hogs-39"));
    assert!(got.candidates[1].members.is_empty());
    assert_eq!(got.n_candidates, 2);
}

#[test]
fn rank_groups_only_equals() {
    let two = || owned(2, "a", Burstable, "20Mi");
    let alter = |alter: fn(&mut Contender)| {
        let mut pods = two();
        alter(&mut pods[1]);
        pods
    };
    #[rustfmt::skip]
    let table = [
        // why, pods, signal, order, candidates
        ("small and of one owner",   two(),                                        "memory.available",         Order::Qos,     1),
        ("memory pressure, too",     two(),                                        "kubepods.memory.pressure", Order::Qos,     1),
        ("the kubelet has no groups", two(),                                       "memory.available",         Order::Kubelet, 2),
        ("only for memory",          two(),                                        "nodefs.available",         Order::Qos,     2),
        ("only for memory",          two(),                                        "kubepods.cpu.pressure",    Order::Qos,     2),
        ("one is not small",         alter(|p| p.usage = Some(quantity("64Mi"))),  "memory.available",         Order::Qos,     2),
        ("of one, use is not known", alter(|p| p.usage = None),                    "memory.available",         Order::Qos,     2),
        ("another priority",         alter(|p| p.priority = 1),                    "memory.available",         Order::Qos,     2),
        ("another class",            alter(|p| p.class = BestEffort),              "memory.available",         Order::Qos,     2),
        ("within its request",       alter(|p| p.request = Some(quantity("1Gi"))), "memory.available",         Order::Qos,     2),
        ("another namespace",        alter(|p| p.namespace = "b".into()),          "memory.available",         Order::Qos,     2),
        ("no owner",                 alter(|p| p.owner = None),                    "memory.available",         Order::Qos,     2),
        ("spared",                   alter(|p| p.spared = Some(SparedReason::OptedOut)), "memory.available",   Order::Qos,     1),
    ];
    for (why, pods, signal, order, want) in table {
        let got = ranking(&pods, signal, order);
        assert_eq!(got.n_candidates, want, "{why}: {got:?}");
    }
    let never = settings::Ranking { group_below: Bytes(0), ..Default::default() };
    let got = rank_all(&two(), purpose("memory.available"), Order::Qos, &never);
    assert_eq!(got.n_candidates, 2, "0 is never");
}

#[test]
fn rank_group_knows_what_all_know() {
    let mut pods = owned(3, "a", BestEffort, "20Mi");
    pods[1].started = None;
    pods[2].harm = None;
    let got = ranking(&pods, "memory.available", Order::Qos);
    let want = "qos=BestEffort priority=0 harm=null excess=60Mi started=null uid=a-00";
    assert_eq!(keys(&got.candidates[0]), want);
}

#[test]
fn purpose_names_are_unique() {
    let all: Vec<_> = Purpose::all().collect();
    assert_eq!(all.len(), 19);
    for one in all {
        assert_eq!(Purpose::named(one.name), Some(one));
    }
    assert_eq!(Purpose::named("memory"), None);
}
