use std::collections::BTreeSet;

use super::*;
use Enforcement::{
    KubeReserved, KubeReservedCompressible, Pods, SystemReserved, SystemReservedCompressible,
};

fn list(pairs: &[(&str, &str)]) -> ResourceList {
    pairs.iter().map(|(name, amount)| ((*name).into(), amount.parse().unwrap())).collect()
}

fn weight_of(shares: u64) -> Limits {
    let cpu_weight = Some(shares::weight(shares));
    Limits { cpu_shares: Some(shares), cpu_weight, ..Limits::default() }
}

#[test]
fn enforced_reserved_cgroups() {
    let both = list(&[("cpu", "100m"), ("memory", "200Mi")]);
    let memory = list(&[("memory", "200Mi")]);
    let only_memory = Limits { memory_max: Some(200 << 20), ..Limits::default() };
    let everything = Limits { memory_max: Some(200 << 20), ..weight_of(102) };
    #[rustfmt::skip]
    let table = [
        // set aside, enforced, what is written
        (ResourceList::new(), KubeReserved,             None),
        (ResourceList::new(), KubeReservedCompressible, None),
        (both.clone(),        KubeReservedCompressible, Some(weight_of(102))),
        (memory.clone(),      KubeReserved,             Some(only_memory)),
        (memory,              KubeReservedCompressible, Some(Limits::default())),
        (both.clone(),        KubeReserved,             Some(everything)),
        (both,                SystemReserved,           None), // the other cgroup's
    ];
    for (kube_reserved, enforce, want) in table {
        let node = Node { enforce: BTreeSet::from([enforce]), ..Node::default() };
        let reservation = Reservation { kube: kube_reserved, ..Reservation::default() };
        let got = Enforced::of(&node, &ResourceList::new(), &reservation);
        assert_eq!(got.kube_reserved, want, "{enforce:?} of {:?}", reservation.kube);
    }
}

#[test]
fn enforced_pods_not_limited() {
    let capacity = list(&[("cpu", "4"), ("memory", "8Gi"), ("pid", "1000")]);
    let system = list(&[("cpu", "1"), ("memory", "1Gi"), ("pid", "100")]);
    let reservation = Reservation { system, ..Reservation::default() };
    let gib = |n: u64| Some(n << 30);
    #[rustfmt::skip]
    let table = [
        // enforced, cgroupsPerQOS, bytes, shares, processes
        (vec![Pods],                             true,  gib(7), Some(3_072), Some(900)),
        (vec![],                                 true,  gib(8), Some(4_096), Some(1_000)),
        (vec![SystemReservedCompressible],       true,  gib(8), Some(4_096), Some(1_000)),
        (vec![],                                 false, None,   None,        None),
    ];
    for (enforce, cgroups_per_qos, memory, shares, pids) in table {
        let enforce: BTreeSet<_> = enforce.into_iter().collect();
        let node = Node { enforce: enforce.clone(), cgroups_per_qos, ..Node::default() };
        let got = Enforced::of(&node, &capacity, &reservation).pods;
        let row = format!("{enforce:?}, {cgroups_per_qos}");
        assert_eq!((got.memory_max, got.cpu_shares, got.pids_max), (memory, shares, pids), "{row}");
    }
}

#[test]
fn enforced_huge_pages() {
    let capacity =
        list(&[("hugepages-2Mi", "1Gi"), ("hugepages-1Gi", "4Gi"), ("hugepages-64Ki", "0")]);
    let kube = list(&[("memory", "1Gi")]);
    let reservation = Reservation { kube, ..Reservation::default() };
    let node = Node { enforce: BTreeSet::from([Pods, KubeReserved]), ..Node::default() };
    let got = Enforced::of(&node, &capacity, &reservation);
    let sizes = |limits: Limits| limits.hugetlb_max.into_iter().collect::<Vec<_>>();
    let all = [("1GB".into(), 4 << 30), ("2MB".into(), 1 << 30), ("64KB".into(), 0)];
    assert_eq!(sizes(got.pods), all);
    let none = [("1GB".into(), 0), ("2MB".into(), 0), ("64KB".into(), 0)];
    assert_eq!(sizes(got.kube_reserved.unwrap()), none);
}

#[test]
fn enforced_without_reservation() {
    let node = Node {
        enforce: BTreeSet::from([KubeReserved, SystemReservedCompressible]),
        kube_reserved_cgroup: "/kube".into(),
        system_reserved_cgroup: "/system".into(),
        ..Node::default()
    };
    let system = list(&[("cpu", "1")]);
    let reservation = Reservation { system, ..Reservation::default() };
    assert_eq!(problems(&node, &reservation), ["[\"kube\"] cgroup is not configured properly"]);
}
