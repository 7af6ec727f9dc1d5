//! The order `cause` where work waits: who makes others wait, whatever its class.

use super::cause::{ranked, took};
use super::*;

#[test]
fn cause_is_harm_where_work_waits() {
    let with = |name: &str, ms, taken| Contender {
        harm: harm(ms, 0),
        ..took(Some(taken), Some(100), pod(name, QosClass::BestEffort, 0, "0", "100Mi"))
    };
    let all = [with("grew", 10, 90), with("thrashes", 400, 0), with("helps", 150, 0)];
    let got = ranked(&all, "system.memory.pressure", 0);
    assert_eq!(names(&got), ["thrashes", "helps", "grew"]);
    // Without measured harm it is what they took.
    let all = all.map(|one| Contender { harm: None, ..one });
    assert_eq!(names(&ranked(&all, "system.memory.pressure", 0))[0], "grew");
}

/// Who makes others wait for a CPU or a disk goes first, whatever its class, but not who runs within its
/// request for the CPU.
#[test]
fn cause_is_harm_for_cpus_and_disks() {
    let with = |name: &str, class, usage: &str, ms| Contender {
        harm: harm(ms, 0),
        ..pod(name, class, 0, "500m", usage)
    };
    let all = [
        with("small", QosClass::BestEffort, "600m", 60),
        with("hog", QosClass::Burstable, "1900m", 900),
        with("promised", QosClass::Burstable, "400m", 950),
        with("db", QosClass::Guaranteed, "500m", 990),
    ];
    let got = ranked(&all, "kubepods.cpu.pressure", 0);
    assert_eq!(names(&got), ["hog", "small", "promised"]);
    assert_eq!(got.spared[0].why, SparedReason::WithinRequest);
    assert_eq!(
        keys(&got.candidates[0]),
        "taker=true harm=900 qos=Burstable priority=0 excess=1400m started=null uid=hog"
    );
    assert_eq!(
        keys(&got.candidates[1]),
        "taker=false exceedsRequest=true priority=0 harm=60 excess=100m started=null uid=small"
    );
    let got = ranked(&all, "system.disk.pressure", 0);
    // Their harm is within an eighth: by class.
    assert_eq!(names(&got), ["promised", "hog", "db", "small"]);
    // Beside a party outside pods that does so much more, none is a cause.
    for (outside_ms, want) in [(3_600, vec!["promised", "hog", "db"]), (4_000, vec![])] {
        let outside_harm = Some(Nanos(outside_ms * 1_000_000));
        let (need, rules) =
            (Need { outside_harm, ..Need::default() }, settings::Ranking::default());
        let io = purpose("system.disk.pressure");
        let field = Field::for_need(&all, io, Order::Cause, &rules, &need);
        let takers = field.takers(usize::MAX);
        let takers: Vec<_> = takers.iter().map(|taker| taker.name.as_str()).collect();
        assert!(field.is_of_causes());
        assert_eq!(takers, want, "{outside_ms}");
    }
    // One of three readers and one alone harm each other equally: the larger share goes first.
    let of_disk = |(name, part, ms): (&str, u64, u64), class| Contender {
        harm: harm(ms, 0),
        part: Some(Nanos(part * 1_000_000)),
        ..pod(name, class, 0, "-", "1Mi")
    };
    #[rustfmt::skip]
    let table = [
        // part of all waiting and harm to others of a BestEffort pod and a Burstable one, the latter's keys
        ([("one", 1_000, 750), ("three", 3_000, 750)],  "diskShare=1500"),
        ([("one", 1_000, 500), ("two", 1_005, 500)],    "amongLargest=true qos=Burstable priority=0 diskShare=1000"),
        // A database waits for its own requests; a writer that never waits does most harm.
        ([("db", 1_230, 369),  ("writer", 1_200, 1_200)], "diskShare=1200"),
    ];
    for (at, (both, key)) in table.into_iter().enumerate() {
        let of = [QosClass::BestEffort, QosClass::Burstable];
        let all = [of_disk(both[0], of[0]), of_disk(both[1], of[1])];
        let got = ranked(&all, "system.disk.pressure", 0);
        let first = if at == 1 { both[0].0 } else { both[1].0 };
        assert_eq!(got.candidates[0].name, first);
        let keys = got.candidates.iter().find(|one| one.name == both[1].0).map(keys).unwrap();
        assert!(keys.starts_with(&format!("taker=true {key} harm=")), "{keys}");
    }
    // A party waits for the disk that it fills alone: who does a twentieth of that beside it is no cause.
    for (part, want) in [(24, vec![]), (25, vec!["db"])] {
        let all = [Contender { part: Some(Nanos(part)), ..all[3].clone() }];
        let largest_part = Nanos(100);
        let (need, rules) =
            (Need { largest_part, ..Need::default() }, settings::Ranking::default());
        let io = purpose("system.disk.pressure");
        let takers = Field::for_need(&all, io, Order::Cause, &rules, &need).takers(usize::MAX);
        let takers: Vec<_> = takers.iter().map(|taker| taker.name.as_str()).collect();
        assert_eq!(takers, want, "{part}");
    }
    // Without measured harm it is as `qos`.
    let all = all.map(|one| Contender { harm: None, ..one });
    let got = ranked(&all, "kubepods.cpu.pressure", 0);
    assert_eq!(names(&got), ["small", "hog", "promised", "db"]);
}
