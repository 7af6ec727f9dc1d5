//! Who counts as one party, who waits by right, and what counts of a disk.

use super::*;
use crate::model::condition::ScopeName;
use crate::model::decision::{Action, InForce, Phase, StepKind, Trigger, made};
use crate::model::snapshot::IoRate;
use crate::model::threshold::{PressureSignal, PressureThreshold};

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

/// An `io.max` of a slice holds up all that lies below it, and no other party.
#[test]
fn waits_at_an_io_limit_above_are_no_harm_of_others() {
    let mut node = Node::new();
    node.read(POD_A, 5, 0, 100);
    node.read(DAEMON, 10, 0, 8_000);
    node.scope("/system.slice").is_at_io_limit = true;
    node.update();
    assert_eq!(node.harm(Resource::Io, "a"), (0, 33));
    assert_eq!(node.harm(Resource::Io, DAEMON), (66, 8_000));
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

/// What a pod waits for because isobar has squeezed it is no harm that others do.
#[test]
fn waits_of_a_squeezed_pod_are_no_harm_of_others() {
    let cpu = PressureSignal::Cpu(Percent(50_00));
    let disk = PressureSignal::Disk(Percent(50_00));
    #[rustfmt::skip]
    let table = [
        // the step on A, because of what, is it enforced; B's harm to others, of a CPU and of a disk
        (Phase::Squeezed, cpu,  true,  (40, 300)), // it holds up no request
        (Phase::Squeezed, disk, true,  (40, 0)), // it cuts the weight of the CPU, too
        (Phase::Squeezed, disk, false, (940, 300)), // as it would be
        (Phase::Marked,   cpu,  true,  (940, 300)),
    ];
    for (phase, on, is_enforced, want) in table {
        let mut node = Node::new();
        node.blame(IN_A, POD_B, 900);
        node.blame(DAEMON, POD_B, 40);
        node.read(POD_A, 10, 0, 600);
        node.read(POD_B, 10, 0, 0);
        let (scope, grace) = (ScopeName::Kubepods, Nanos(0));
        let threshold = Trigger::Pressure(PressureThreshold { scope, on, grace });
        let target = Target { uid: "a".into(), ..Target::default() };
        let action = made::action(StepKind::Squeeze, made::met(threshold));
        let action = Action { is_enforced, target, ..action };
        node.sample.in_force =
            vec![InForce { action, since: Nanos(0), held: None, phase, largest: None }];
        node.update();
        let harm = [Resource::Cpu, Resource::Io].map(|resource| node.harm(resource, "b").0);
        assert_eq!(harm, <[u64; 2]>::from(want), "{phase:?} {on:?} {is_enforced}");
    }
}

/// Whose IO the kernel does not count, and the kernel itself, have what no party has: a shell in a slice without
/// an io controller reads, and pods that do little wait with it.
#[test]
fn what_no_party_did_is_of_the_root() {
    let rate = |mib: u64| IoRate { read: Bytes(mib << 20), ..IoRate::default() };
    #[rustfmt::skip]
    let table = [
        // MiB that the node read, if that is known, and pod A; what A, B and the root do to others
        (Some(100), 3,     (46, 16, 2_496)),
        (Some(4),   3,     (1_170, 400, 0)), // all that was read
        (None,      3,     (1_170, 400, 0)), // not known
        (Some(4),   3_000, (1_248, 320, 0)), // it slept: of its counter of minutes no more than the node did
    ];
    for (whole, read, want) in table {
        let mut node = Node::new();
        node.snapshot.whole.io = whole.map(rate);
        node.read(POD_A, read, 0, 1_040);
        node.read(POD_B, 1, 0, 1_000);
        let daemon = node.scope(DAEMON);
        daemon.io_wait = Some(Waited { now: Nanos(560 * MS), total: Nanos(0) });
        Arc::make_mut(daemon.files.as_mut().unwrap()).io = None;
        node.update();
        let harm = |who| node.harm(Resource::Io, who).0;
        assert_eq!((harm("a"), harm("b"), harm("/")), want, "{whole:?} {read}");
    }
}

/// A cgroup's requests count before they are merged, and the node's after.
#[test]
fn who_sends_many_small_requests_keeps_what_it_did() {
    let mut node = Node::new();
    let whole = IoRate { written: Bytes(100 << 20), writes: 800, ..IoRate::default() };
    node.snapshot.whole.io = Some(whole);
    node.read(POD_A, 100, 25_600, 100);
    node.read(POD_B, 1, 16, 1_000);
    node.update();
    let harm = ["a", "b", "/"].map(|who| node.harm(Resource::Io, who).0);
    assert_eq!(harm, [997, 0, 0]);
}

/// What a pod did that has ended is the root's, for as long as it is remembered.
#[test]
fn what_ended_pods_did_is_of_the_root() {
    let mut node = Node::new();
    node.read(POD_A, 200, 0, 0);
    node.read(POD_B, 10, 0, 1_000);
    node.update();
    let gone = [POD_A, IN_A, BESIDE_A].map(|path| node.id(path));
    node.snapshot.scopes.retain(|id, _| !gone.contains(id));
    node.read(DAEMON, 0, 0, 1_000);
    for _ in 0..2 {
        node.update();
        assert!(!node.standing.io.pods.contains_key("a"), "it is gone");
    }
    let late = node.standing.io.outside[&CgroupPath::root()].late.0 / MS;
    assert_eq!(late, 1_049, "of 2,000 ms, after two seconds");
}

/// A wait is counted when it ends: by then who kept the disk busy may have stopped.
#[test]
fn a_wait_that_ends_is_shared_out_by_what_disks_did_before() {
    let mut node = Node::new();
    node.read(POD_A, 100, 0, 0);
    node.read(POD_B, 1, 0, 0);
    (0..8).for_each(|_| node.update());
    node.read(POD_A, 0, 0, 0);
    node.read(DAEMON, 0, 0, 16_000);
    node.update();
    let late = ["a", "b"].map(|uid| node.standing.io.pods[uid].late.0 / MS);
    assert_eq!(late, [5_275, 58], "a third of what is counted in this second");
}

/// Ten seconds after the pod has ended that a reader held up, the reader harms none.
#[test]
fn harm_of_a_disk_goes_on_no_longer_than_others_wait() {
    let mut node = Node::new();
    node.read(POD_A, 10, 0, 1_000);
    node.read(POD_B, 60, 0, 6_000);
    node.update();
    node.read(POD_B, 0, 0, 0);
    (0..10).for_each(|_| node.update());
    let entry = node.standing.io.pods["a"];
    let harm = [entry.harm, entry.harm_of(Resource::Io)].map(|harm| harm.others.0 / MS);
    assert_eq!(harm, [330, 14]);
}

/// Where the kernel counts no IO of any cgroup, no party is said to do no harm.
#[test]
fn harm_without_io_statistics_is_unknown() {
    let mut node = Node::new();
    for scope in node.snapshot.scopes.values_mut() {
        Arc::make_mut(scope.files.as_mut().unwrap()).io = None;
    }
    node.update();
    let io = &node.standing.io;
    assert_eq!((io.is_measured, io.is_paused, node.standing.cpu.is_measured), (false, true, true));
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
    let told = node.standing.cpu.outsiders(3, Resource::Cpu, |_| true);
    assert_eq!(told, [Outsider { path: CgroupPath(DAEMON.into()), harm: Nanos(800 * MS) }]);
}

/// Gone by the next reading: its path alone says that it was a pod's.
#[test]
fn harm_of_a_users_own_kubepods_that_is_gone() {
    const USER: &str = "/user.slice/user-1000.slice/user@1000.service";
    let fake = format!("{USER}/kubepods/podb");
    let mut node = Node::new();
    node.blame(DAEMON, &fake, 70);
    node.blame(&fake, POD_B, 30); // not its own
    node.update();
    assert_eq!(node.harm(Resource::Cpu, "b"), (30, 0));
    let told = node.standing.cpu.outsiders(3, Resource::Cpu, |_| true);
    assert_eq!(told, [Outsider { path: CgroupPath(USER.into()), harm: Nanos(70 * MS) }]);
}
