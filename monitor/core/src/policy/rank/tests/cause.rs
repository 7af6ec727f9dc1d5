//! The order `cause`: who took it, whatever its class and size.

use super::*;
use crate::model::cgroup::Preference;

const MIB: u64 = 1 << 20;

/// What it took and what its end gives back, in MiB; `None` is unknown.
pub(super) fn took(taken: Option<u64>, frees: Option<u64>, pod: Contender) -> Contender {
    let bytes = |mib: Option<u64>| mib.map(|mib| mib * MIB);
    Contender { taken: bytes(taken), frees: bytes(frees), ..pod }
}

/// With so many MiB missing.
pub(super) fn ranked(pods: &[Contender], signal: &str, missing: u64) -> Ranking {
    ranked_for(pods, signal, missing * MIB)
}

fn ranked_for(pods: &[Contender], signal: &str, missing: u64) -> Ranking {
    let need = Need { shortfall: Shortfall { missing, is_thrashing: false }, ..Need::default() };
    let rules = settings::Ranking::default();
    Field::for_need(pods, purpose(signal), Order::Cause, &rules, &need).ranking(usize::MAX)
}

#[test]
fn cause_takers_first() {
    use QosClass::{BestEffort, Burstable, Guaranteed};
    let all = [
        took(Some(0), Some(900), pod("large", BestEffort, 0, "0", "900Mi")),
        took(Some(90), Some(120), pod("leak", Burstable, 100, "4Gi", "120Mi")),
        took(Some(30), Some(40), pod("some", BestEffort, -5, "0", "40Mi")),
        took(Some(5), Some(700), pod("over", Burstable, 0, "100Mi", "700Mi")),
        took(Some(0), Some(300), pod("within", Burstable, 0, "1Gi", "300Mi")),
        took(Some(80), Some(80), pod("promised", Guaranteed, 0, "1Gi", "500Mi")),
        took(Some(70), Some(1), pod("shared", BestEffort, 0, "0", "70Mi")),
    ];
    let got = ranked(&all, "memory.available", 80);
    // Takers by what they took, those that free enough first; then the kubelet's order.
    assert_eq!(names(&got), ["leak", "some", "shared", "large", "over", "within"]);
    let spared: Vec<_> = got.spared.iter().map(|one| (one.name.as_str(), one.why)).collect();
    assert_eq!(spared, [("promised", SparedReason::WithinRequest)]);
    assert_eq!(
        keys(&got.candidates[0]),
        "taker=true freesEnough=true taken=90Mi qos=Burstable priority=100 excess=-3976Mi \
         started=null uid=leak"
    );
    assert_eq!(
        keys(&got.candidates[3]),
        "taker=false freesEnough=true exceedsRequest=true priority=0 excess=900Mi \
         started=null uid=large"
    );
}

#[test]
fn cause_who_took_all_along_first() {
    let with = |name, taken, lasting| Contender {
        lasting: Some(lasting * MIB),
        ..took(Some(taken), Some(200), pod(name, QosClass::BestEffort, 0, "0", "200Mi"))
    };
    #[rustfmt::skip]
    let table = [
        // lately and all along, in MiB, of who starts and who leaks; who goes first, by which keys
        ([150, 80], [150, 80], "starts", "taken=150Mi"),
        ([150, 80], [70, 80],  "leaks",  "lasting=80Mi taken=80Mi"),
        ([150, 80], [80, 80],  "starts", "lasting=80Mi taken=150Mi"),
        ([150, 80], [90, 80],  "starts", "lasting=90Mi taken=150Mi"),
        // Who took no real part is no cause; who took one all along is, however little it took lately.
        ([150, 20], [10, 20],  "starts", "taken=150Mi"),
        ([150, 20], [60, 90],  "leaks",  "lasting=90Mi taken=20Mi"),
        ([150, 20], [90, 60],  "starts", "lasting=90Mi taken=150Mi"),
    ];
    for (lately, along, want, told) in table {
        let all = [with("starts", lately[0], along[0]), with("leaks", lately[1], along[1])];
        let got = ranked(&all, "memory.available", 100);
        assert_eq!(names(&got)[0], want, "{lately:?} {along:?}");
        let keys = keys(&got.candidates[0]);
        assert!(keys.starts_with(&format!("taker=true freesEnough=true {told} qos")), "{keys}");
    }
}

/// What a tenth of noise decided: of two leaks alike the lower class goes first, then the lower priority.
#[test]
fn cause_by_class_and_priority_where_takers_took_alike() {
    use QosClass::{BestEffort, Burstable};
    let with = |name, class, priority, taken, lasting| Contender {
        lasting: Some(lasting * MIB),
        ..took(Some(taken), Some(200), pod(name, class, priority, "0", "200Mi"))
    };
    let less = "amongLargest=false taken=87Mi qos=BestEffort priority=0";
    #[rustfmt::skip]
    let table = [
        // of the other leak, beside one of 100 MiB that is Burstable and of priority 100; who goes first, the
        // other's keys
        ((BestEffort, 100, 88, 88),  "other", "amongLargest=true qos=BestEffort priority=100 taken=88Mi"),
        ((Burstable,   99, 88, 88),  "other", "amongLargest=true qos=Burstable priority=99 taken=88Mi"),
        ((Burstable,  100, 88, 88),  "leak",  "taken=88Mi qos=Burstable priority=100"),
        ((Burstable,  101, 110, 110), "leak", "amongLargest=true qos=Burstable priority=101 taken=110Mi"),
        ((BestEffort,   0, 87, 87),  "leak",  "taken=87Mi qos=BestEffort priority=0"),
        ((BestEffort,   0, 150, 60), "leak",  "lasting=60Mi taken=150Mi qos=BestEffort priority=0"),
        ((BestEffort,   0, 150, 90), "other", "amongLargest=true qos=BestEffort priority=0 lasting=90Mi"),
    ];
    for ((class, priority, taken, lasting), want, told) in table {
        let all = [
            with("leak", Burstable, 100, 100, 100),
            with("other", class, priority, taken, lasting),
        ];
        let got = ranked(&all, "memory.available", 100);
        assert_eq!(names(&got)[0], want, "{class:?} {priority} {taken} {lasting}");
        let other = got.candidates.iter().find(|one| one.name == "other").map(keys).unwrap();
        assert!(other.starts_with(&format!("taker=true freesEnough=true {told}")), "{other}");
    }
    // A third one shows who is smaller; one to be avoided, or whose end frees too little, is no measure.
    let mut all = vec![
        with("leak", Burstable, 100, 100, 100),
        with("other", BestEffort, 100, 88, 88),
        with("less", BestEffort, 0, 87, 87),
    ];
    let got = ranked(&all, "memory.available", 100);
    assert_eq!(names(&got), ["other", "leak", "less"]);
    assert!(keys(&got.candidates[2]).contains(less), "{}", keys(&got.candidates[2]));
    let avoid = Some(Preference::Avoid);
    all.push(Contender { preference: avoid, ..with("avoid", BestEffort, 0, 300, 300) });
    assert_eq!(names(&ranked(&all, "memory.available", 100)), ["other", "leak", "less", "avoid"]);
    all.pop();
    all.push(Contender { frees: Some(0), ..with("shared", BestEffort, 0, 300, 300) });
    assert_eq!(names(&ranked(&all, "memory.available", 100)), ["other", "leak", "less", "shared"]);
}

#[test]
fn cause_compares_groups_by_what_they_took_all_along() {
    let owner = Owner { kind: "ReplicaSet".into(), name: "web".into(), uid: "web".into() };
    let with = |name: &str, taken, lasting| Contender {
        lasting: Some(lasting * MIB),
        ..took(Some(taken), Some(40), pod(name, QosClass::BestEffort, 0, "0", "40Mi"))
    };
    #[rustfmt::skip]
    let table = [
        // MiB of each of ten pods that start together, lately and all along; who goes first before a leak of 160
        (20, 20, "ReplicaSet/web"),
        (20, 12, "leak"),
    ];
    for (taken, lasting, want) in table {
        let one = |i| Contender {
            owner: Some(owner.clone()),
            ..with(&format!("web{i}"), taken, lasting)
        };
        let leak = Contender { frees: Some(600 * MIB), ..with("leak", 160, 160) };
        let all: Vec<_> = (0..10).map(one).chain([leak]).collect();
        assert_eq!(names(&ranked(&all, "memory.available", 100))[0], want, "{lasting}");
    }
}

#[test]
fn cause_frees_a_part_of_what_it_took() {
    let leak = took(Some(80), Some(80), pod("leak", QosClass::BestEffort, 0, "0", "90Mi"));
    #[rustfmt::skip]
    let table = [
        // MiB that another one took of shared memory, and its end frees; what it uses; who goes first
        (200, 200, "300Mi", "other"),
        (200,  25, "300Mi", "other"),
        (200,  24, "300Mi", "leak"),
        (200,   5, "40Mi",  "other"), // most of it was swapped out since
        (200,   4, "40Mi",  "leak"),
    ];
    for (taken, frees, usage, want) in table {
        let other = pod("other", QosClass::BestEffort, 0, "0", usage);
        let all = [took(Some(taken), Some(frees), other), leak.clone()];
        // How long memory lasts is no amount: nothing is known to be missing.
        let got = ranked(&all, "system.memory.exhaustion", 0);
        assert_eq!(names(&got)[0], want, "{taken} {frees} {usage}");
    }
}

#[test]
fn cause_groups_those_who_took_it() {
    let owner = Owner { kind: "Job".into(), name: "batch".into(), uid: "batch".into() };
    let one = |(i, taken): (usize, &u64)| Contender {
        owner: Some(owner.clone()),
        ..took(Some(*taken), Some(40), pod(&format!("b{i}"), QosClass::BestEffort, 0, "0", "40Mi"))
    };
    #[rustfmt::skip]
    let table: [(&[u64], &str, &[&str]); 4] = [
        // MiB that pods of one owner took; the first candidate and its members
        (&[9, 9, 9, 9],   "Job/batch", &["b0", "b1", "b2", "b3"]),
        (&[0, 30, 0, 2],  "b1",        &[]),
        (&[0, 30, 20, 2], "Job/batch", &["b1", "b2"]),
        (&[0, 0, 0, 0],   "b0",        &[]), // no one of them caused it
    ];
    for (taken, want, members) in table {
        let all: Vec<_> = taken.iter().enumerate().map(one).collect();
        let got = ranked(&all, "memory.available", 20);
        assert_eq!(names(&got)[0], want, "{taken:?}");
        assert_eq!(got.candidates[0].members, members, "{taken:?}");
    }
}

#[test]
fn cause_is_who_grew_where_none_holds_what_was_promised() {
    // It uses a little more than it requests, and nothing is missing yet.
    let grew = took(Some(300), Some(410), pod("grew", QosClass::Burstable, 0, "405Mi", "410Mi"));
    let (shortfall, lost) = (Shortfall::default(), Lost::established(300 * MIB));
    let (pods, need) =
        need::causes(vec![grew], (shortfall, Resource::Memory), &lost, &Snapshot::default());
    let rules = settings::Ranking::default();
    let field = Field::for_need(&pods, purpose("memory.available"), Order::Cause, &rules, &need);
    assert_eq!(field.takers(1).len(), 1, "{need:?}");
}

#[test]
fn cause_is_who_holds_what_others_were_promised() {
    use QosClass::{BestEffort, Burstable};
    let starts = || took(Some(300), Some(330), pod("starts", Burstable, 0, "420Mi", "330Mi"));
    let beyond = |usage: u64| {
        took(Some(300), Some(410), pod("starts", Burstable, 0, "405Mi", &format!("{usage}Mi")))
    };
    let over = |frees| took(Some(0), Some(frees), pod("over", Burstable, 0, "1Mi", "330Mi"));
    let takes_more = || took(Some(300), Some(300), pod("more", Burstable, 0, "8Gi", "300Mi"));
    let small_over = || took(Some(0), Some(80), pod("over", Burstable, 0, "1Mi", "90Mi"));
    let within = || took(Some(0), Some(400), pod("within", Burstable, 0, "1Gi", "400Mi"));
    let grew = |name, taken| took(Some(taken), Some(90), pod(name, BestEffort, 0, "0", "90Mi"));
    // Twelve that grew by 30 MiB each, and of what they request 10 MiB each are still to come.
    let beside_many = |taken| {
        let one = |at| pod(&format!("one{at}"), Burstable, 0, "340Mi", "330Mi");
        let many = (0..12).map(|at| took(Some(30), Some(330), one(at)));
        let holder = pod("over", Burstable, 0, "1Mi", "330Mi");
        many.chain([took(Some(taken), Some(330), holder)]).collect::<Vec<_>>()
    };
    let critical = |one| Contender { spared: Some(SparedReason::Critical), ..one };
    #[rustfmt::skip]
    let table = [
        // pods, 20 MiB being missing; who frees so much holds what takers were promised, all of it or together
        (vec![starts(), over(330), within()],                Some(110)),
        (vec![starts(), over(109), within()],                None), // the promise cannot be kept by ending it
        (vec![starts(), over(60), over(55)],                 Some(20)),  // both together can keep it
        (vec![starts(), over(60), over(45)],                 None),
        (vec![starts(), over(105), over(9), over(9)],        None), // two of them are worth no end
        (vec![starts(), over(30), over(30), over(30), over(30)], None),  // too many would pay
        (vec![starts(), within()],                           None),
        (vec![starts(), critical(over(330))],                None),
        (vec![critical(starts()), over(330)],                Some(110)),
        (vec![beyond(410), over(330)],                       Some(20)),  // a little beyond
        (vec![beyond(410)],                                  None), // nobody else holds it
        (vec![beyond(506), over(330)],                       Some(20)),  // less than a quarter beyond
        (vec![beyond(507), over(330)],                       None),
        (vec![beyond(500), small_over()],                    None), // and more than any other one
        (vec![beyond(500), critical(over(330))],             None),
        (vec![beyond(500), over(9)],                         None), // its end would not free what that took
        (vec![beyond(500), beyond(500), beyond(500), over(330), over(331)], Some(20)),
        (vec![beyond(500), beyond(500), beyond(500), beyond(500), over(330)], None), // they took more than that
        // One within its request does not pay instead where the promise cannot be kept.
        (vec![beyond(500), takes_more(), over(330)],         None),
        (vec![beyond(410), Contender { priority: 1_000, ..over(330) }], Some(20)),
        (vec![starts(), over(330), grew("leaks", 80)],       None), // who grew above its request is the cause
        (vec![over(330), within()],                          None), // nobody grew
        (beside_many(8),                                     Some(140)), // it held that before it grew
        (vec![grew("leaks", 300), over(330)],                None),
    ];
    for (pods, want) in table {
        let names: Vec<_> = pods.iter().map(|one| one.name.clone()).collect();
        let shortfall = Shortfall { missing: 20 * MIB, is_thrashing: false };
        let (pods, need) = need::causes(
            pods,
            (shortfall, Resource::Memory),
            &Lost::established(300 * MIB),
            &Snapshot::default(),
        );
        assert_eq!(need.promised.map(|least| least / MIB), want, "{names:?}");
        let rules = settings::Ranking::default();
        let memory = purpose("memory.available");
        let field = Field::for_need(&pods, memory, Order::Cause, &rules, &need);
        let first = field.takers(1).first().map(|one| one.name.clone());
        assert_eq!(first.as_deref() == Some("over"), want.is_some(), "{names:?}: {first:?}");
        if want.is_some() {
            let told = keys(&field.ranking(1).candidates[0]);
            assert!(
                told.starts_with("holdsPromised=true freesEnough=true qos=Burstable"),
                "{told}"
            );
        }
    }
}

/// Of what is used up, who uses a quarter of what the largest does goes first, in the kubelet's order;
/// who uses less than an eighth of what is missing, last.
#[test]
fn cause_is_use_for_disks_and_pids() {
    use QosClass::{BestEffort, Burstable, Guaranteed};
    #[rustfmt::skip]
    let table = [
        // signal, missing, pods, in which order
        ("pid.available", 400, vec![
            pod("batch", BestEffort, 0,   "-", "5"),
            pod("bomb",  Burstable,  9,   "-", "1500"),
            pod("java",  BestEffort, 0,   "-", "300"),
        ], vec!["bomb", "java", "batch"]),
        ("pid.available", 400, vec![
            pod("bomb",  Burstable,  9,   "-", "1500"),
            pod("java",  BestEffort, 0,   "-", "375"),
        ], vec!["java", "bomb"]), // its priority is lower, as the kubelet has it
        ("nodefs.available", 8 * MIB, vec![
            pod("batch", BestEffort, 0,   "0",     "512Ki"),
            pod("logs",  Burstable,  0,   "0",     "900Mi"),
            pod("db",    Burstable,  -10, "950Mi", "960Mi"),
        ], vec!["logs", "db", "batch"]),
        ("nodefs.available", 8 * MIB, vec![
            pod("within", Guaranteed, 0,  "1Gi", "900Mi"),
            pod("logs",   Guaranteed, 0,  "0",   "90Mi"),
        ], vec!["logs"]),
        ("nodefs.inodesFree", 80, vec![
            pod("batch",   BestEffort, 0, "0", "9"),
            pod("files",   Guaranteed, 0, "0", "70000"),
            pod("unknown", BestEffort, 0, "0", "-"),
        ], vec!["files", "batch", "unknown"]),
        // No use is known: as `qos`.
        ("nodefs.available", 8 * MIB, vec![
            pod("b", Burstable,  0, "0", "-"),
            pod("a", BestEffort, 0, "0", "-"),
        ], vec!["a", "b"]),
    ];
    let frees_it = |one: Contender| Contender { frees: one.usage.map(Quantity::to_u64), ..one };
    for (signal, missing, pods, want) in table {
        let pods: Vec<_> = pods.into_iter().map(frees_it).collect();
        assert_eq!(names(&ranked_for(&pods, signal, missing)), want, "{signal}");
    }
}

/// Growth within a request for disk space was promised; inodes cannot be.
#[test]
fn cause_of_a_full_disk_is_beyond_its_request() {
    use QosClass::Burstable;
    let with = |name, request, usage, taken| {
        let pod = pod(name, Burstable, 0, request, usage);
        Contender { taken: Some(taken), frees: pod.usage.map(Quantity::to_u64), ..pod }
    };
    #[rustfmt::skip]
    let table = [
        // signal, pods, who pays first
        ("nodefs.available",  [with("grows", "1Gi", "400Mi", 90 * MIB), with("idle",  "0", "60Gi",  0)],      "idle"),
        ("nodefs.available",  [with("grows", "1Gi", "1200Mi", 90 * MIB), with("idle", "0", "60Gi",  0)],      "grows"),
        ("nodefs.inodesFree", [with("many",  "1Gi", "500000", 500_000), with("few",   "0", "30000", 20_000)], "many"),
    ];
    for (signal, pods, want) in table {
        let shortfall = Shortfall { missing: 1_000, is_thrashing: false };
        let resource = purpose(signal).resource;
        let lost = Lost::established(pods.iter().filter_map(|one| one.taken).sum());
        let (pods, need) =
            need::causes(pods.into(), (shortfall, resource), &lost, &Snapshot::default());
        let rules = settings::Ranking::default();
        let field = Field::for_need(&pods, purpose(signal), Order::Cause, &rules, &need);
        let first = field.takers(1).first().map(|one| one.name.clone());
        assert_eq!(first.as_deref(), Some(want), "{signal}");
    }
}

#[test]
fn cause_is_qos_where_no_figure_says_who_took_it() {
    let all = [
        pod("web", QosClass::Burstable, 0, "0", "1"),
        pod("batch", QosClass::BestEffort, 0, "0", "1"),
        pod("db", QosClass::Guaranteed, 0, "0", "1"),
    ];
    let got = ranking(&all, "memory.available", Order::Cause);
    assert_eq!((names(&got), got.order), (vec!["batch", "web", "db"], Order::Qos));
    assert_eq!(names(&ranked(&all, "system.cpu.pressure", 0)), ["batch", "web", "db"]);
}
