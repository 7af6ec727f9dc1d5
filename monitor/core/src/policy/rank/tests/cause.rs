//! The order `cause`: who took it, whatever its class and size.

use super::*;
use crate::model::units::Bytes;

const MIB: u64 = 1 << 20;

/// What it took and what its end gives back, in MiB; `None` is unknown.
fn took(taken: Option<u64>, frees: Option<u64>, pod: Contender) -> Contender {
    let bytes = |mib: Option<u64>| mib.map(|mib| Bytes(mib * MIB));
    Contender { taken: bytes(taken), frees: bytes(frees), ..pod }
}

fn ranked(pods: &[Contender], signal: &str, missing: u64) -> Ranking {
    let need = Need {
        shortfall: Shortfall { missing: Bytes(missing * MIB), is_thrashing: false },
        ..Need::default()
    };
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

#[test]
fn cause_is_qos_for_all_else() {
    let all = [
        took(Some(9), None, pod("web", QosClass::Burstable, 0, "0", "1")),
        took(Some(0), None, pod("batch", QosClass::BestEffort, 0, "0", "1")),
        took(Some(0), None, pod("db", QosClass::Guaranteed, 0, "0", "1")),
    ];
    for signal in ["system.cpu.pressure", "pid.available", "nodefs.available"] {
        let got = ranked(&all, signal, 0);
        assert_eq!(names(&got), ["batch", "web", "db"], "{signal}");
    }
    // A file that says nothing of what was taken cannot be ranked by it.
    let untold = all.map(|one| Contender { taken: None, ..one });
    let got = ranking(&untold, "memory.available", Order::Cause);
    assert_eq!((names(&got), got.order), (vec!["batch", "web", "db"], Order::Qos));
}
