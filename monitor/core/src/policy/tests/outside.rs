//! Memory that parties outside pods take, and who pays beside them.

use super::family::steady;
use super::node::{Growth, Kib, MIB, Node, Party, Policy};
use crate::model::decision::{Order, StepKind};
use crate::model::pod::QosClass;

fn service(name: &str, held: Kib, growth: Growth) -> Party {
    let path = format!("/system.slice/{name}");
    Party { path, growth, is_guilty: growth != Growth::Steady, ..steady(held) }
}

fn pod(at: usize, request: Kib, held: Kib, growth: Growth) -> Party {
    let class = if request == 0 { QosClass::BestEffort } else { QosClass::Burstable };
    let slice = if request == 0 { "besteffort" } else { "burstable" };
    let path = format!("/kubepods/{slice}/pod{at}");
    Party { path, class: Some(class), request, growth, ..steady(held) }
}

/// The uids of those that isobar ends.
fn ended(node: Node, seconds: u64) -> Vec<String> {
    let mut ended = Vec::new();
    node.run_and_tell(Policy::Engine(Order::Cause), seconds, |action| {
        ended.extend(action.step.is_final().then(|| action.target.uid.clone()));
    });
    ended
}

/// The pod takes more than the service, and has requested it.
#[test]
fn leak_of_a_service_is_the_cause_beside_growth_that_was_promised() {
    #[rustfmt::skip]
    let table = [
        // MiB that the pod takes in a second and until then, its request; the service's a second; a steady pod's
        (16, 420, 440, 8, 180),
        (16, 420, 440, 8, 40),
        (12, 420, 700, 4, 180),
        (20, 500, 520, 6, 100),
    ];
    for row @ (rate, until, request, leak, held) in table {
        let parties = vec![
            pod(0, request * MIB, 60 * MIB, Growth::WarmUp(rate * MIB, until * MIB)),
            service("backup.service", 100 * MIB, Growth::Leak(leak * MIB)),
            pod(1, 0, held * MIB, Growth::Steady),
        ];
        // Until the kernel has taken the service, which is marked.
        let ended = ended(Node::of(1_000 * MIB, 130 * MIB, parties), 45);
        assert_eq!(ended, Vec::<String>::new(), "{row:?}");
    }
}

/// Each of them takes less than the pod, so none of them alone is worth a squeeze.
#[test]
fn many_outside_pods_that_grow_alike_are_the_cause() {
    #[rustfmt::skip]
    let table = [
        // services, what each takes in a second, what the pod takes; the most that are wrongly ended
        (30, 1_360,   2 * MIB, 1),
        (12, 3 * MIB, 4 * MIB, 0),
        (60, 700,     MIB,     10), // more than are squeezed in time
    ];
    for (n, rate, own, most) in table {
        let scope =
            |at: usize| service(&format!("docker-{at}.scope"), 40 * MIB, Growth::Leak(rate));
        let warm_up = pod(0, 0, 100 * MIB, Growth::WarmUp(own, 4_000 * MIB));
        let others = (1..4).map(|at| pod(at, 0, 300 * MIB, Growth::Steady));
        let parties = (0..n).map(scope).chain([warm_up]).chain(others).collect();
        let (mut ended, mut marked) = (Vec::new(), Vec::new());
        let node = Node::of(4_096 * MIB, 500 * MIB, parties);
        let toll = node.run_and_tell(Policy::Engine(Order::Cause), 60, |action| {
            let list = if action.step.is_final() { &mut ended } else { &mut marked };
            list.push(action.target.uid.clone());
        });
        assert!(toll.wrong <= most, "{n} {rate} {own}: {toll:?}");
        assert!(!ended.contains(&"0".into()), "{n} {rate} {own}: {ended:?}");
        assert!(marked.iter().any(|uid| uid.starts_with("/system.slice/docker-")), "{marked:?}");
    }
}

/// A leak that comes in steps goes on between them, beside one that has what it needs.
#[test]
fn leak_in_steps_has_not_stopped() {
    for (period, rate) in [(15, 32), (20, 40), (12, 24)] {
        let leak = Growth::Steps(period * 1_000, rate * MIB);
        let until = 2_200 * MIB;
        let parties = vec![
            Party { is_guilty: true, ..pod(0, 512 * MIB, 4_000 * MIB, leak) },
            pod(1, 0, 1_000 * MIB, Growth::WarmUpLater(60_000, 30 * MIB, until)),
            pod(2, 0, 3_000 * MIB, Growth::Steady),
        ];
        let used = 4_000 + 2_200 + 3_000 + rate * 285 / period as Kib;
        let base = 16_384 * MIB - used * MIB - 100 * MIB;
        let node = Node::of(16_384 * MIB, base, parties);
        let ended = ended(node, 420);
        assert!(ended.first().is_some_and(|uid| uid == "0"), "{period} {rate}: {ended:?}");
    }
}

/// Between its steps memory is not foretold to run out, and with the next one it does.
#[test]
fn leak_in_steps_stays_marked() {
    for (period, rate, left) in [(18, 200, 950), (15, 260, 1_250), (25, 180, 870)] {
        let mut leak =
            service("cache.service", 1_900 * MIB, Growth::Steps(period * 1_000, rate * MIB));
        leak.is_guilty = true;
        let parties = vec![leak, pod(1, 0, 300 * MIB, Growth::Steady)];
        let node = Node::of(4_096 * MIB, (4_096 - 2_200 - left) * MIB, parties);
        let toll = node.run(Policy::Engine(Order::Cause), 130);
        assert!(toll.wrong == 0 && toll.right > 0, "{period} {rate}: {toll:?}");
    }
}

/// The agent has not watched for ten seconds yet, and less than a twentieth of the memory is left.
#[test]
fn leak_is_marked_in_the_first_seconds() {
    for (left, rate) in [(700, 150), (500, 90), (760, 250)] {
        let parties = vec![
            service("backup.service", 3_000 * MIB, Growth::Leak(rate * MIB)),
            pod(1, 0, 1_500 * MIB, Growth::Steady),
            pod(2, 0, 2_500 * MIB, Growth::Steady),
        ];
        let node = Node::of(16_384 * MIB, (16_384 - 7_000 - left) * MIB, parties);
        let toll = node.run(Policy::Engine(Order::Cause), 14);
        assert!(toll.wrong == 0 && toll.right > 0, "{left} {rate}: {toll:?}");
    }
}

/// The kernel compares the largest process, not the mean.
#[test]
fn service_with_helpers_is_taken_by_the_kernel() {
    for (held, helpers, innocent) in [(2_048, 9, 450), (1_500, 40, 900), (2_400, 3, 800)] {
        let leak = service("backup.service", held * MIB, Growth::Leak(10 * MIB));
        let leak = Party { n_helpers: helpers, ..leak };
        let parties = vec![leak, pod(1, 0, innocent * MIB, Growth::Steady)];
        let base = (4_096 - held - innocent - 250) * MIB;
        let toll = Node::of(4_096 * MIB, base, parties).run(Policy::Engine(Order::Cause), 40);
        assert!(toll.wrong == 0 && toll.right > 0, "{held} {helpers}: {toll:?}");
    }
}

/// The kernel would take a pod: none of the service's processes is as large. So the service takes no more;
/// where the kubelet's threshold was met before that, one pod pays, and no second one.
#[test]
fn service_of_many_processes_is_squeezed() {
    #[rustfmt::skip]
    let table: [(_, _, _, &[&str]); 4] = [
        // processes, MiB a second that they take, MiB that each pod holds, pods that end
        (250,   30, 450,   &[]),
        (60,    45, 1_200, &[]),
        (250,   10, 450,   &["1"]),
        (1_000, 4,  300,   &["1"]),
    ];
    for row @ (n, rate, innocent, want) in table {
        let service = service("batch.service", 1_500 * MIB, Growth::Leak(rate * MIB));
        let parties = vec![
            Party { n_alike: n, ..service },
            pod(1, 0, innocent * MIB, Growth::Steady),
            pod(2, 300 * MIB, innocent * MIB, Growth::Steady),
        ];
        let base = (8_192 - 1_500 - 2 * innocent - 600) * MIB;
        let (mut squeezed, mut ended) = (Vec::new(), Vec::new());
        let node = Node::of(8_192 * MIB, base, parties);
        let toll = node.run_and_tell(Policy::Engine(Order::Cause), 300, |action| {
            let uid = action.target.uid.clone();
            match action.step {
                StepKind::Squeeze => squeezed.push(uid),
                step if step.is_final() => ended.push(uid),
                _ => {}
            }
        });
        // What is started again takes the same memory, and pays again.
        ended.dedup();
        assert_eq!(
            (&*squeezed, toll.out_of_memory),
            (&["/system.slice/batch.service".into()][..], 0)
        );
        assert_eq!(ended, want, "{row:?}");
    }
}

/// Each of the replicas is too small to end the shortage, and not all of them need to.
#[test]
fn one_pod_pays_and_no_group_that_took_nothing() {
    for (n, innocent) in [(30, 900), (20, 700)] {
        let service = service("batch.service", 1_500 * MIB, Growth::Leak(10 * MIB));
        let replica = |at| Party { owner: Some("web"), ..pod(at, 0, 60 * MIB, Growth::Steady) };
        let mut parties = vec![
            Party { n_alike: 250, ..service },
            pod(1, 0, innocent * MIB, Growth::Steady),
            pod(2, 300 * MIB, innocent * MIB, Growth::Steady),
        ];
        parties.extend((3..3 + n).map(replica));
        let held: Kib = parties.iter().map(|party| party.held).sum();
        let node = Node::of(8_192 * MIB, 7_592 * MIB - held, parties);
        let mut ended = Vec::new();
        node.run_and_tell(Policy::Engine(Order::Cause), 300, |action| {
            let uids = action.target.uids().cloned();
            ended.extend(uids.filter(|_| action.step.is_final()));
        });
        ended.dedup();
        assert_eq!(ended, ["1"], "{n} {innocent}");
    }
}
