//! The kubelet's own cases, and some derived from its rules: order `kubelet`.

use super::*;
use QosClass::{BestEffort, Burstable, Guaranteed};

/// Name, priority, request, use.
type Row = (&'static str, i32, &'static str, &'static str);

/// The kubelet asks for no class: every pod gets another, to see that it does not matter.
fn contenders(rows: &[Row]) -> Vec<Contender> {
    let classes = [Guaranteed, Burstable, BestEffort].into_iter().cycle();
    let rows = rows.iter().zip(classes);
    rows.map(|(&(name, priority, request, usage), class)| {
        pod(name, class, priority, request, usage)
    })
    .collect()
}

#[test]
fn rank_kubelet_cases() {
    #[rustfmt::skip]
    let table: &[(&str, &str, &[Row], &[&str])] = &[
        // case, signal, pods as (name, priority, request, use), first to go first
        ("M1", "memory.available",
            &[("below", -1, "200Mi", "199Mi"), ("exceeds", 1, "100Mi", "101Mi")],
            &["exceeds", "below"]),
        ("M2", "memory.available",
            &[("high", 12534, "0", "0"), ("medium", 1, "0", "0"), ("low", -134, "0", "0")],
            &["low", "medium", "high"]),
        // Upstream compares by use alone; with its other two keys those above their request lead,
        // as they do here.
        ("M3", "memory.available",
            &[("be-high", 0, "0", "500Mi"), ("be-low", 0, "0", "300Mi"), ("bu-high", 0, "100Mi", "800Mi"),
              ("bu-low", 0, "100Mi", "300Mi"), ("g-high", 0, "1Gi", "800Mi"), ("g-low", 0, "1Gi", "200Mi")],
            &["bu-high", "be-high", "be-low", "bu-low", "g-high", "g-low"]),
        ("M4", "memory.available",
            &[("p8", 1, "1Gi", "200Mi"), ("p7", 1, "1Gi", "800Mi"), ("p6", -1, "1Gi", "200Mi"),
              ("p5", -1, "1Gi", "800Mi"), ("p4", 1, "100Mi", "150Mi"), ("p3", 1, "100Mi", "600Mi"),
              ("p2", -1, "0", "50Mi"), ("p1", -1, "0", "500Mi")],
            &["p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8"]),
        ("M6", "memory.available",
            &[("a", 0, "100Mi", "150Mi"), ("b", 0, "0", "-"), ("c", -5, "100Mi", "900Mi")],
            &["b", "c", "a"]),
        ("M8", "memory.available",
            &[("x", 0, "0", "0"), ("y", 0, "10", "5"), ("z", 0, "0", "1")],
            &["z", "x", "y"]),
        // The same keys where kubepods is at its limit.
        ("M4 of the allocatable", "allocatableMemory.available",
            &[("p3", 1, "100Mi", "600Mi"), ("p2", -1, "0", "50Mi"), ("p5", -1, "1Gi", "800Mi")],
            &["p2", "p3", "p5"]),
        ("P1", "pid.available",
            &[("high-lo", 1, "-", "5"), ("high-hi", 1, "-", "20"), ("low-lo", -1, "-", "6"), ("low-hi", -1, "-", "20")],
            &["low-hi", "low-lo", "high-hi", "high-lo"]),
        // Statistics are looked at by the second comparator, after priority.
        ("P without statistics", "pid.available",
            &[("many", 0, "-", "500"), ("none", 0, "-", "-"), ("low", -1, "-", "1")],
            &["low", "none", "many"]),
        ("D1", "nodefs.available",
            &[("below", -1, "200Mi", "199Mi"), ("exceeds", 1, "100Mi", "101Mi")],
            &["exceeds", "below"]),
        ("D3", "imagefs.available",
            &[("p8", 1, "1Gi", "200Mi"), ("p7", 1, "1Gi", "800Mi"), ("p6", -1, "1Gi", "200Mi"),
              ("p5", -1, "1Gi", "800Mi"), ("p4", 1, "100Mi", "150Mi"), ("p3", 1, "100Mi", "600Mi"),
              ("p2", -1, "0", "50Mi"), ("p1", -1, "0", "500Mi")],
            &["p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8"]),
        ("D4", "nodefs.inodesFree",
            &[("low", 0, "0", "200k"), ("medium", 0, "0", "300k"), ("high", 0, "0", "400k")],
            &["high", "medium", "low"]),
        ("D5", "containerfs.inodesFree",
            &[("p4", 1, "0", "150k"), ("p3", 1, "0", "350k"), ("p2", -1, "0", "100k"), ("p1", -1, "0", "400k")],
            &["p1", "p2", "p3", "p4"]),
        ("D7", "nodefs.available",
            &[("below", 0, "1Gi", "900Mi"), ("above", 0, "100Mi", "700Mi")],
            &["above", "below"]),
        // Bytes asked for are subtracted from inodes used, so the one that asked for a little
        // storage goes after one with far fewer inodes.
        ("inodes less bytes", "nodefs.inodesFree",
            &[("asked", 0, "1Mi", "400k"), ("not", 0, "0", "10")],
            &["not", "asked"]),
        // Whoever uses an inode exceeds: the request for inodes is 0, however large that for bytes.
        ("no inodes", "nodefs.inodesFree",
            &[("none", -1, "0", "0"), ("one", 1, "1Gi", "1")],
            &["one", "none"]),
        ("two without statistics", "memory.available",
            &[("b", 0, "0", "-"), ("a", 0, "5Gi", "-"), ("c", -1, "0", "-")],
            &["c", "a", "b"]),
    ];
    for (case, signal, rows, want) in table {
        let pods = contenders(rows);
        let got = ranking(&pods, signal, Order::Kubelet);
        assert_eq!(names(&got), *want, "{case}");
        assert_eq!(got.n_candidates, rows.len(), "{case}");
    }
}

/// Two pods that both lack statistics are equal to each comparator that looks at them (M10): what
/// is left are the keys that need none.
#[test]
fn rank_kubelet_without_statistics() {
    for purpose in Purpose::all() {
        let pods = [pod("b", BestEffort, 0, "0", "-"), pod("a", Guaranteed, 0, "1Gi", "-")];
        let got = rank(&pods, purpose, Order::Kubelet, &settings::Ranking::default());
        assert_eq!(names(&got), ["a", "b"], "{}", purpose.name);
        let [first, second] = &got.candidates[..] else { panic!("two pods") };
        let decided = why_before(first, second).map(|(a, _)| a.key);
        assert_eq!(decided, Some(Key::Uid), "{}", purpose.name);
    }
}

#[test]
fn rank_kubelet_tells_keys() {
    #[rustfmt::skip]
    let table: &[(&str, &[Row], &str)] = &[
        // signal, pods, keys of the first
        ("memory.available",   &[("a", -5, "100Mi", "900Mi")],
            "exceedsRequest=true priority=-5 excess=800Mi uid=a"),
        ("memory.available",   &[("a", 0, "1Gi", "800Mi")],
            "exceedsRequest=false priority=0 excess=-224Mi uid=a"),
        ("memory.available",   &[("a", 0, "0", "-"), ("b", 0, "0", "0")],
            "hasStats=false exceedsRequest=null priority=0 excess=null uid=a"),
        ("memory.available",   &[("a", 0, "-", "1Gi")],
            "exceedsRequest=null priority=0 excess=null usage=1Gi uid=a"),
        ("pid.available",      &[("a", 1, "-", "20")],
            "priority=1 processes=20 uid=a"),
        ("pid.available",      &[("a", 1, "-", "-")],
            "priority=1 hasStats=false processes=null uid=a"),
        ("nodefs.available",   &[("a", 0, "0", "700Mi")],
            "exceedsRequest=true priority=0 excess=700Mi uid=a"),
        ("imagefs.inodesFree", &[("a", 0, "1k", "50k")],
            "exceedsRequest=true priority=0 excess=49k uid=a"),
        ("system.cpu.pressure", &[("a", 0, "500m", "2")],
            "exceedsRequest=true priority=0 excess=1500m uid=a"),
        ("system.disk.pressure", &[("a", 0, "-", "2Mi")],
            "priority=0 usage=2Mi uid=a"),
    ];
    for (signal, rows, want) in table {
        let pods = contenders(rows);
        let got = ranking(&pods, signal, Order::Kubelet);
        assert_eq!(keys(&got.candidates[0]), *want, "{signal}");
    }
}
