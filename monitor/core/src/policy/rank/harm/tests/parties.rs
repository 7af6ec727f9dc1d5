//! Who counts as one party, who waits by right, and what counts of a disk.

use super::*;

/// A pod reads one large file, another one many small pieces.
#[test]
fn harm_of_disk_waits_counts_requests() {
    #[rustfmt::skip]
    let table = [
        // requests of each; the share of the small one's 100 ms of waiting that the large one is told of
        ([0, 0],       75), // by bytes: 30 and 10 MiB
        ([30, 10],     75),
        ([30, 30],     74),
        ([30, 10_000], 15), // 16 KiB more for each
    ];
    for (requests, want) in table {
        let mut node = Node::new();
        node.read(POD_A, 30, requests[0], 0);
        node.read(POD_B, 10, requests[1], 100);
        node.update();
        assert_eq!(node.harm(Resource::Io, "a").0, want, "{requests:?}");
    }
}

/// Two pods wait for a disk, one of them for its own `io.max`.
#[test]
fn waits_at_an_own_io_limit_are_no_harm_of_others() {
    #[rustfmt::skip]
    let table = [
        // A or its container is at its limit; of A's 400 ms in that container; A's harm to others and itself, and B's
        ([false, false], 400, (75, 300), (100, 25)),
        ([true, false],  400, (75, 400), (0, 25)),
        ([false, true],  400, (75, 400), (0, 25)),
        ([true, true],   400, (75, 400), (0, 25)), // and not twice
        ([false, true],  300, (75, 375), (25, 25)), // another container waits for the disk
    ];
    for (at_limit, inside, a, b) in table {
        let mut node = Node::new();
        let pod = node.id(POD_A);
        node.scope(IN_A).parent = Some(pod);
        node.read(POD_A, 30, 0, 400);
        node.read(POD_B, 10, 0, 100);
        node.read(IN_A, 30, 0, inside);
        (node.scope(POD_A).is_at_io_limit, node.scope(IN_A).is_at_io_limit) = at_limit.into();
        node.update();
        let got = [node.harm(Resource::Io, "a"), node.harm(Resource::Io, "b")];
        assert_eq!(got, [a, b], "{at_limit:?} {inside}");
    }
}

/// What one pod waits for the disk that it fills itself is divided too, so that the other one, which waits for
/// its own `io.max` alone, seems to harm it most; its part of all waiting is small.
#[test]
fn who_fills_a_disk_has_the_largest_part_of_waiting() {
    let mut node = Node::new();
    node.read(POD_A, 95, 0, 900);
    node.read(POD_B, 5, 0, 800);
    node.scope(POD_B).is_at_io_limit = true;
    node.update();
    let harm = ["a", "b"].map(|uid| node.harm(Resource::Io, uid));
    assert_eq!(harm, [(0, 855), (45, 800)]);
    let parts = ["a", "b"].map(|uid| node.standing.io.pods[uid].part().0 / MS);
    assert_eq!(parts, [855, 45]);
    assert_eq!(node.standing.io.largest_part().0 / MS, 855);
}

/// Forty tasks of a pod with the least weight wait for one that runs within its part of the CPUs.
#[test]
fn who_runs_by_right_harms_none() {
    #[rustfmt::skip]
    let table = [
        // weights and CPU time in thousandths of the two pods; what A does to B, and B to A
        (Some([79, 1]), [1_500, 2_500], [0, 50]),
        (Some([1, 79]), [1_500, 2_500], [900, 0]),
        (Some([10, 10]), [2_000, 2_000], [900, 50]), // none has more than its part
        (None,           [1_500, 2_500], [900, 50]), // not known
    ];
    for (weights, used, want) in table {
        let mut node = Node::new();
        node.snapshot.whole.cpu_usage = Some(MilliCpu(4_000));
        for (path, at) in [("/kubepods", None), (POD_A, Some(0)), (POD_B, Some(1))] {
            let scope = node.scope(path);
            scope.cpu_usage = Some(MilliCpu(at.map_or(4_000, |at: usize| used[at])));
            let weight = weights.map(|weights| at.map_or(100, |at| weights[at]));
            Arc::make_mut(scope.files.as_mut().unwrap()).cpu.weight = weight;
        }
        let kubepods = node.id("/kubepods");
        node.scope(POD_A).parent = Some(kubepods);
        node.blame(POD_B, POD_A, 900);
        node.blame(POD_A, POD_B, 50);
        node.update();
        let got = ["a", "b"].map(|who| node.harm(Resource::Cpu, who).0);
        assert_eq!(got, want, "{weights:?} {used:?}");
    }
}

#[test]
fn service_with_many_cgroups_is_one_party() {
    let mut node = Node::new();
    let service = node.id(DAEMON);
    let place = Place::Other;
    for at in 50..58 {
        let path = CgroupPath(format!("{DAEMON}/{at}").into());
        let child = Scope { place: place.clone(), path, parent: Some(service), ..Scope::default() };
        node.snapshot.scopes.insert(CgroupId(at), child);
        node.blame(POD_B, &format!("{DAEMON}/{at}"), 100);
    }
    node.blame(POD_B, POD_A, 60);
    node.update();
    let told = node.standing.cpu.outsiders(3, |_| true);
    assert_eq!(told, [Outsider { path: CgroupPath(DAEMON.into()), harm: Nanos(800 * MS) }]);
}
