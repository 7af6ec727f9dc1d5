use std::sync::Arc;

use super::*;
use crate::model::cgroup::{Cgroup, CgroupId, CgroupPath};
use crate::model::pod::{Place, QosClass};
use crate::model::psi::Pressures;
use crate::model::snapshot::{CpuWait, MemoryCauseWait, MemoryWait, Waited};
use crate::model::stall::Coverage;
use crate::model::units::{Bytes, Nanos};

fn scope(measured: Option<u16>, raw: Option<u16>) -> Scope {
    let union = measured.map(|m| Union { avg10: Percent(m), ..Union::default() });
    let line = |r| Line { avg10: Percent(r), ..Line::default() };
    let pressure = raw.map(|r| Pressure { some: Some(line(r)), full: None });
    let pressure = Pressures { cpu: pressure, memory: pressure, io: pressure, irq: None };
    Scope { pressure, contention: union, shortage: union, ..Scope::default() }
}

fn of(whole: Scope) -> Snapshot {
    Snapshot { whole, ..Snapshot::default() }
}

#[test]
fn cpu_names_who_is_throttled_most_and_by_what() {
    let throttled = |now: u64, quota: Option<u64>| {
        let own = Waited { now: Nanos(now), total: Nanos(now) };
        let mut files = Cgroup::default();
        files.cpu.quota = quota.map(Limit::At);
        files.cpu.period = Some(Micros(100_000));
        Scope {
            path: CgroupPath(format!("/a/{now}").into()),
            cpu: Some(CpuWait { throttled_own: Some(own), ..CpuWait::default() }),
            files: Some(Arc::new(files)),
            ..scope(None, None)
        }
    };
    let whole = Scope { cpu: throttled(9, None).cpu, ..scope(Some(1_00), Some(63_00)) };
    let named = |path: &str, scope| Scope { path: CgroupPath(path.into()), ..scope };
    let (a, b) = (throttled(300, Some(25_000)), throttled(200, Some(10_000)));
    #[rustfmt::skip]
    let table = [
        // cgroups, who is named
        (vec![throttled(2, Some(1)), throttled(7, Some(25_000)), throttled(0, Some(1))], "mostly of 7 by its own quota of 0.25 CPUs"),
        (vec![throttled(7, None)], "throttling"), // its quota is not known
        (vec![named("/s/a", a.clone()), named("/s/b", b), named("/s", throttled(500, None))], "mostly of a by its own quota of 0.25 CPUs"),
        (vec![named("/a.service", a.clone()), named("/a.service/x.slice", a)], "mostly of a.service by its own quota of 0.25 CPUs"),
    ];
    for (all, want) in table {
        let scopes = (1..).map(CgroupId).zip(all).collect();
        let snapshot = Snapshot { whole: whole.clone(), scopes, ..Snapshot::default() };
        let told = cpu(&snapshot).text;
        assert!(told.ends_with(want), "{told}");
    }
}

fn covers(memory_causes: bool) -> Coverage {
    Coverage { memory: true, memory_causes, ..Coverage::default() }
}

#[test]
fn memory_without_causes_is_a_lower_bound() {
    #[rustfmt::skip]
    let table = [
        // shortage, raw PSI, causes are known, mood, text
        (1_00,  20_00, true,  Mood::Calm,    "shortage 1.00 % (avg10), raw PSI some 20.00 %"),
        (1_00,  20_00, false, Mood::Unknown, "shortage of at least 1.00 % (avg10), raw PSI some 20.00 %"),
        (1_00,  4_00,  false, Mood::Calm,    "shortage of at least 1.00 % (avg10), raw PSI some 4.00 %"),
        (41_00, 60_00, false, Mood::Pressed, "shortage of at least 41.00 % (avg10), raw PSI some 60.00 %"),
        (6_00,  60_00, false, Mood::Unknown, "shortage of at least 6.00 % (avg10), raw PSI some 60.00 %"),
    ];
    for (shortage, raw, is_known, mood, text) in table {
        let whole = scope(Some(shortage), Some(raw));
        let got = memory(&Snapshot { covers: covers(is_known), ..of(whole) });
        assert_eq!(got.mood, mood, "{text}");
        assert!(got.text.starts_with(text), "{}", got.text);
    }
}

#[test]
fn mood_knows_of_the_last_interval_before_the_average_does() {
    #[rustfmt::skip]
    let table = [
        // seconds, waited in them, avg10, mood, what is told of the average
        (1,  50_00, 0,     Mood::Waits,   "0.00 % (avg10; 50.00 % in the last tick)"),
        (1,  49_99, 0,     Mood::Calm,    "0.00 % (avg10; 49.99 % in the last tick)"),
        (1,  99_00, 9_90,  Mood::Waits,   "9.90 % (avg10)"),
        (1,  0,     40_00, Mood::Pressed, "40.00 % (avg10)"),
        (5,  80_00, 3_00,  Mood::Pressed, "3.00 % (avg10; 80.00 % in the last tick)"),
        (60, 39_99, 0,     Mood::Waits,   "0.00 % (avg10; 39.99 % in the last tick)"),
    ];
    for (seconds, now, avg10, mood, told) in table {
        let mut whole = scope(Some(avg10), None);
        whole.contention.as_mut().unwrap().now = Percent(now);
        let interval = Nanos(seconds * Nanos::SECOND.0);
        let got = cpu(&Snapshot { interval, ..of(whole) });
        assert_eq!(got.mood, mood, "{seconds} s, {now}, {avg10}");
        assert!(got.text.contains(told), "{}", got.text);
    }
}

#[test]
fn cpu_explains_difference_to_raw_psi() {
    #[rustfmt::skip]
    let table = [
        // contention, raw PSI, throttled ns, mood
        (Some(41_00), Some(63_00), 5, Mood::Pressed),
        (Some(41_00), Some(63_00), 0, Mood::Pressed),
        (Some(1_00),  Some(63_00), 5, Mood::Calm),
        (Some(5_00),  Some(6_99),  5, Mood::Waits),
        (Some(9_00),  Some(3_00),  0, Mood::Waits),
        (Some(40_00), None,        0, Mood::Pressed),
        (None,        Some(39_99), 0, Mood::Waits),
        (None,        None,        0, Mood::Unknown),
    ];
    let told = table.map(|(measured, raw, throttled, mood)| {
        let throttled_own = Waited { now: Nanos(throttled), total: Nanos(throttled) };
        let cpu_wait = Some(CpuWait { throttled_own: Some(throttled_own), ..CpuWait::default() });
        let got = cpu(&of(Scope { cpu: cpu_wait, ..scope(measured, raw) }));
        assert_eq!(got.mood, mood, "{measured:?} {raw:?}");
        got.text
    });
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn judge_names_pods_below_their_requests() {
    let pod = |uid: &str, share, used| {
        let place = Place::Pod { uid: uid.into(), class: QosClass::Burstable };
        let below = Union { avg10: Percent(share), ..Union::default() };
        Scope {
            place,
            below_request: Some(below),
            cpu_usage: Some(MilliCpu(used)),
            cpu_request: Some(MilliCpu(500)),
            ..scope(None, None)
        }
    };
    let [a, b, calm] = [("a", 10_00, 120), ("b", 38_25, 7), ("c", 9_99, 0)]
        .map(|(uid, share, used)| pod(uid, share, used));
    let told = [vec![&calm], vec![&calm, &a], vec![&a, &b, &calm]].map(|pods| {
        let scopes = pods.into_iter().cloned().zip(1..).map(|(pod, id)| (CgroupId(id), pod));
        let whole = scope(Some(60_00), Some(60_00));
        let snapshot = Snapshot { whole, scopes: scopes.collect(), ..Snapshot::default() };
        judge(&snapshot, &Assessment::default())[0].text.clone()
    });
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn judge_tells_what_a_hypervisor_took() {
    let told = [None, Some(9_99), Some(10_00)].map(|stolen| {
        let whole = Scope { stolen: stolen.map(Percent), ..scope(Some(60_00), Some(60_00)) };
        let snapshot = Snapshot { whole, ..Snapshot::default() };
        let text = judge(&snapshot, &Assessment::default())[0].text.clone();
        text.split_once("; the hypervisor kept ").map(|(_, told)| told.to_owned())
    });
    let want = "10.00 % of the CPU time that this node wanted lately (steal): no pod is to blame for that \
                part";
    assert_eq!(told, [None, None, Some(want.into())]);
}

#[test]
fn cpu_compares_with_raw_psi_once_ten_seconds_were_measured() {
    #[rustfmt::skip]
    let table = [
        // seconds seen, raw PSI
        (Some(1),  Some(97_00)),
        (Some(9),  None),
        (Some(10), Some(97_00)),
        (None,     Some(97_00)),
    ];
    let told = table.map(|(seen, raw)| {
        let mut scope = scope(Some(93_00), raw);
        let union = scope.contention.as_mut().unwrap();
        union.seen = seen.map(|seconds| Nanos(seconds * Nanos::SECOND.0));
        let got = cpu(&of(scope));
        assert_eq!(got.mood, Mood::Pressed, "{seen:?}");
        got.text
    });
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn memory_names_longest_cause_that_is_no_shortage() {
    #[rustfmt::skip]
    let table = [
        // cause, ns, what the sentence ends in
        (MemoryCause::OwnLimit, 7, "mostly own limits"),
        (MemoryCause::AncestorLimit, 7, "mostly the limits of their pods or slices"),
        (MemoryCause::Refault,  7, "mostly refaults"),
        (MemoryCause::Global,   7, "of no known cause"), // shortage cannot explain what is no shortage
        (MemoryCause::OwnLimit, 0, "of no known cause"),
    ];
    for (cause, ns, want) in table {
        let union = Waited { now: Nanos(ns), total: Nanos(ns) };
        let wait = MemoryCauseWait { union, ..MemoryCauseWait::default() };
        let waits = MemoryWait { causes: [(cause, wait)].into(), ..MemoryWait::default() };
        let whole = Scope { memory: Some(waits), ..scope(Some(1_00), Some(20_00)) };
        let got = memory(&Snapshot { covers: covers(true), ..of(whole) });
        assert!(got.text.ends_with(want), "{cause:?} {ns}: {}", got.text);
    }
}

#[test]
fn memory_waits_where_cache_is_read_back_at_no_limit() {
    use MemoryCause::{Global, KernelThread, OwnHigh, OwnLimit, Refault, SomeLimit};
    const SECOND: u64 = Nanos::SECOND.0;
    let waits = |causes: &[(MemoryCause, u64)]| {
        let cause = |&(cause, ns)| {
            let union = Waited { now: Nanos(ns), total: Nanos(ns) };
            (cause, MemoryCauseWait { union, ..MemoryCauseWait::default() })
        };
        let causes = causes.iter().map(cause).collect();
        Some(MemoryWait { causes, ..MemoryWait::default() })
    };
    let reads = (Refault, SECOND / 5);
    #[rustfmt::skip]
    let table = [
        // stalls of a pod, its own PSI, percent of its limit that it uses, who reclaims, shortage of the
        // node, mood, whether the pod is named
        (vec![reads],                         24_00, 20, KernelThread, 0,     Mood::Waits,   true),
        (vec![reads],                         24_00, 20, Global,       0,     Mood::Waits,   true),
        (vec![reads],                         40_00, 20, KernelThread, 6_00,  Mood::Pressed, true),
        (vec![reads],                         4_00,  20, KernelThread, 0,     Mood::Calm,    true),
        (vec![reads],                         6_00,  20, KernelThread, 41_00, Mood::Pressed, true),
        (vec![reads],                         60_00, 94, KernelThread, 0,     Mood::Calm,    false), // dropped at its limit a moment ago
        (vec![reads],                         60_00, 20, Refault,      0,     Mood::Calm,    false), // none
        (vec![reads, (OwnLimit, 1)],          60_00, 20, KernelThread, 0,     Mood::Calm,    false),
        (vec![reads, (OwnHigh, 1)],           60_00, 20, KernelThread, 0,     Mood::Calm,    false),
        (vec![reads, (SomeLimit, 1)],         60_00, 20, KernelThread, 0,     Mood::Calm,    false),
        (vec![(Refault, SECOND / 20 - 1000)], 60_00, 20, KernelThread, 0,     Mood::Calm,    false),
    ];
    for (causes, share, used, reclaiming, shortage, mood, is_named) in table {
        let place = Place::Pod { uid: "a".into(), class: QosClass::Burstable };
        let pod = Scope { place, memory: waits(&causes), ..scope(None, Some(share)) };
        let (current, max) = (Some(Bytes(used << 20)), Some(Limit::At(100 << 20)));
        let files = MemoryFiles { current, max, ..MemoryFiles::default() };
        let container = Arc::new(Cgroup { memory: files, ..Cgroup::default() });
        let parent = Some(CgroupId(2));
        let container = Scope { files: Some(container), parent, ..Scope::default() };
        let memory_waits = waits(&[(reclaiming, 1), (Refault, SECOND / 5)]);
        let whole = Scope { memory: memory_waits, ..scope(Some(shortage), Some(70_00)) };
        let scopes = [(CgroupId(2), pod), (CgroupId(3), container)].into();
        let interval = Nanos::SECOND;
        let snapshot = Snapshot { scopes, interval, covers: covers(true), ..of(whole) };
        let got = memory(&snapshot);
        assert_eq!(got.mood, mood, "{causes:?} {share}");
        let told = format!(
            "; pod a waited {} % of the last 10 s (its raw PSI) and reads back page cache that was dropped, \
             at no limit of its own",
            Percent(share)
        );
        assert_eq!(got.text.ends_with(&told), is_named, "{}", got.text);
    }
}

#[test]
fn resource_names_are_those_of_json() {
    for (resource, name) in Resource::ALL.into_iter().zip(Resource::NAMES) {
        assert_eq!(serde_json::to_value(resource).unwrap(), name);
    }
}
