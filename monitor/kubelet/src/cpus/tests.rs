use proptest::prelude::*;

use super::*;
use isobar_core::model::topology::CpuPlace;

/// `n` CPUs: `sockets` of them, each with `nodes` NUMA nodes, two threads to a core if `threads`
/// is 2, numbered as Linux does it on x86: all first threads, then all second ones.
fn machine(n: u32, sockets: u32, nodes: u32, threads: u32) -> Topology {
    let n_cores = n / threads;
    let told = (0..n).map(|cpu| {
        let core = cpu % n_cores;
        let socket = core * sockets / n_cores;
        let node = core * sockets * nodes / n_cores;
        (cpu, CpuPlace { core, socket, node })
    });
    Topology::of(&told.collect())
}

/// Sockets that take turns, as in the kubelet's own tests: 12 CPUs, core 0 of socket 0 is {0, 6}.
fn dual_socket_ht() -> Topology {
    let told = (0..12).map(|cpu| (cpu, CpuPlace { core: cpu % 6, socket: cpu % 2, node: cpu % 2 }));
    Topology::of(&told.collect())
}

fn settings(reserved: &str, cpu: &str, strict: bool) -> Settings {
    let mut settings = Settings::default();
    settings.node.static_cpus = true;
    settings.node.strict_cpu_reservation = strict;
    if !reserved.is_empty() {
        settings.node.reserved_cpus = Some(reserved.parse().unwrap());
    }
    if !cpu.is_empty() {
        settings.node.system_reserved.insert("cpu".into(), cpu.parse().unwrap());
    }
    settings
}

#[test]
fn take_whole_groups_first() {
    // The first eight are the threads of four cores, the others cores of one thread.
    let core = |cpu| if cpu < 8 { cpu / 2 } else { cpu };
    let place = |cpu| (cpu, CpuPlace { core: core(cpu), ..CpuPlace::default() });
    let hybrid = Topology::of(&(0..12).map(place).collect());
    #[rustfmt::skip]
    let table = [
        // row, topology, how many, which
        ("8 hyper-threads",         machine(8, 1, 1, 2),  2, "0,4"),
        ("half a core",             machine(8, 1, 1, 2),  1, "0"),
        ("a core and a half",       machine(8, 1, 1, 2),  3, "0-1,4"),
        ("no hyper-threads",        machine(8, 1, 1, 1),  3, "0-2"),
        ("12 CPUs in two sockets",  dual_socket_ht(),     2, "0,6"),
        ("a socket",                dual_socket_ht(),     6, "0,2,4,6,8,10"),
        ("a socket and a core",     dual_socket_ht(),     8, "0-2,4,6-8,10"),
        ("all",                     dual_socket_ht(),    12, "0-11"),
        ("more than there are",     dual_socket_ht(),    13, "0-11"),
        ("none",                    dual_socket_ht(),     0, ""),
        ("a node of a socket",      machine(16, 2, 2, 2), 4, "0-1,8-9"),
        ("a socket of two nodes",   machine(16, 2, 2, 2), 8, "0-3,8-11"),
        ("nodes before cores",      machine(16, 2, 2, 2), 6, "0-2,8-10"),
        ("80 CPUs",                 machine(80, 2, 1, 2), 4, "0-1,40-41"),
        ("cores of two sizes",      hybrid,               2, "8-9"),
    ];
    for (row, topology, n, want) in table {
        assert_eq!(take(&topology, n).to_string(), want, "{row}");
    }
}

#[test]
fn plan_shared_pool() {
    #[rustfmt::skip]
    let table = [
        // reservedSystemCPUs, systemReserved.cpu, strict, reserved, default, shared
        ("",        "500m", false, "0",       "0-7",   7_000),
        ("",        "2",    false, "0,4",     "0-7",   6_000),
        ("",        "1001m", true, "0,4",     "1-3,5-7", 6_000),
        ("0-1",     "",     false, "0-1",     "0-7",   6_000),
        ("0-1",     "3",    true,  "0-1",     "2-7",   6_000), // the list overrides the time
        ("0-7",     "",     true,  "0-7",     "",      0),
    ];
    for (cpus, time, strict, reserved, default, shared) in table {
        let row = format!("{cpus:?} {time:?} {strict}");
        let plan = Plan::of(&settings(cpus, time, strict), &machine(8, 1, 1, 2)).unwrap();
        assert_eq!(plan.reserved.to_string(), reserved, "{row}");
        assert_eq!(plan.default.to_string(), default, "{row}");
        assert_eq!(shared_pool_millicores(&plan.default, &plan.reserved), shared, "{row}");
    }
}

#[test]
fn plan_refuses() {
    #[rustfmt::skip]
    let table = [
        // reservedSystemCPUs, systemReserved.cpu, what is said
        ("0,9-10", "",   "reserved-cpus: 0,9-10 is not a subset of online-cpus: 0-7"),
        ("",       "",   "the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero"),
        ("",       "0",  "the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero"),
        ("",       "9",  "invalid Node Allocatable configuration. Resource \"cpu\" has a reservation of 9 but capacity of 8. Expected capacity >= reservation."),
    ];
    for (cpus, time, want) in table {
        let got = Plan::of(&settings(cpus, time, false), &machine(8, 1, 1, 2));
        assert_eq!(got, Err(want.into()), "{cpus:?} {time:?}");
    }
    let mut no_policy = settings("", "", false);
    no_policy.node.static_cpus = false;
    let plan = Plan::of(&no_policy, &machine(8, 1, 1, 2)).unwrap();
    assert_eq!(plan.reserved, CpuSet::default(), "without the static policy none are needed");
}

#[test]
fn plan_warns_of_a_small_pool() {
    let mut settings = settings("0-1", "", true);
    settings.node.min_shared_cpus = 4;
    let plan = Plan::of(&settings, &machine(8, 1, 1, 2)).unwrap();
    let said = |millicores| warnings(&settings.node, &plan, millicores);
    assert_eq!(said(4_000), Vec::<String>::new());
    assert_eq!(said(3_000), ["the shared pool has 3 CPUs, and minSharedCPUs wants 4"]);
    settings.node.static_cpus = false;
    assert_eq!(warnings(&settings.node, &plan, 4_000).len(), 1);
}

proptest! {
    #[test]
    fn take_as_many_as_asked(
        n in 1_u32..40, sockets in 1_u32..4, nodes in 1_u32..4, threads in 1_u32..3, ask in 0_usize..80,
    ) {
        let topology = machine(n * threads, sockets, nodes, threads);
        let taken = take(&topology, ask);
        prop_assert_eq!(taken.0.len(), ask.min(topology.cpus.len()));
        prop_assert!(taken.0.is_subset(&topology.all().0));
    }
}
