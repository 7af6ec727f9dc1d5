//! Each signal at its threshold, grace, what is not measured, and properties.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::model::cgroup::{CgroupId, CgroupPath};
use crate::model::pod::Place;
use crate::model::psi::{Line, Pressure};
use crate::model::snapshot::{Scope, Union};
use crate::model::units::{Bytes, Percent};

const BOTH: [ScopeName; 2] = [ScopeName::System, ScopeName::Kubepods];

fn seconds(n: u64) -> Nanos {
    Nanos(n * Nanos::SECOND.0)
}

fn union(avg10: u16) -> Option<Union> {
    Some(Union { avg10: Percent(avg10), ..Union::default() })
}

fn scope_with(cpu: u16, memory: u16, disk: u16) -> Scope {
    let full = Line { avg10: Percent(disk), ..Line::default() };
    let mut scope = Scope { contention: union(cpu), shortage: union(memory), ..Scope::default() };
    scope.pressure.io = Some(Pressure { some: None, full: Some(full) });
    scope
}

fn outlook(scope: ScopeName, lasts: Option<u64>, refaults: Option<u64>) -> Outlook {
    let lasts = lasts.map(seconds);
    let growth = Some(Bytes(1));
    Outlook { scope, left: Some(Bytes(0)), growth, lasts, efficiency: None, refaults }
}

#[test]
fn pressure_met_at_threshold() {
    use PressureSignal::{Cpu, Disk, Exhaustion, Memory, Refaults};
    use ScopeName::{Kubepods, System};
    let path = CgroupPath("/kubepods".into());
    let pods = Scope { path, place: Place::Kubepods, ..scope_with(20_00, 30_00, 40_00) };
    let snapshot = Snapshot {
        whole: scope_with(50_00, 60_00, 70_00),
        scopes: BTreeMap::from([(CgroupId(2), pods)]),
        ..Snapshot::default()
    };
    let outlooks =
        [outlook(System, Some(10), Some(1_000)), outlook(Kubepods, Some(20), Some(2_000))];
    let at = |s| Exhaustion(seconds(s));
    #[rustfmt::skip]
    let table = [
        // scope, threshold, measured if met
        (System,   Cpu(Percent(50_00)),    Some(50_00)), // equality is enough
        (System,   Cpu(Percent(50_01)),    None),
        (Kubepods, Cpu(Percent(20_00)),    Some(20_00)),
        (System,   Memory(Percent(60_00)), Some(60_00)),
        (Kubepods, Memory(Percent(30_01)), None),
        (System,   Disk(Percent(69_99)),   Some(70_00)),
        (Kubepods, Disk(Percent(70_00)),   None),
        (System,   at(10),                 Some(10 * Nanos::SECOND.0)),
        (System,   at(9),                  None),
        (Kubepods, at(20),                 Some(20 * Nanos::SECOND.0)),
        (System,   Refaults(1_000),        Some(1_000)),
        (System,   Refaults(1_001),        None),
        (Kubepods, Refaults(2_000),        Some(2_000)),
    ];
    for (scope, on, want) in table {
        let threshold = PressureThreshold { scope, on, grace: Nanos(0) };
        let got =
            judge(&[threshold], &snapshot, &outlooks, &BOTH, &mut PressureStanding::default());
        let got = got.first().map(|met| (met.measured, met.is_due));
        assert_eq!(got, want.map(|measured| (measured, true)), "{}", threshold.name());
        let nothing = Snapshot::default();
        let got = judge(&[threshold], &nothing, &[], &BOTH, &mut PressureStanding::default());
        assert_eq!(got, [], "{}: what is not measured is not met", threshold.name());
    }
}

#[test]
fn pressure_unmeasured_is_not_unmet() {
    use PressureSignal::{Cpu, Disk, Exhaustion, Memory, Refaults};
    let snapshot = |whole| Snapshot { whole, ..Snapshot::default() };
    let (nothing, calm) = (snapshot(Scope::default()), snapshot(scope_with(0, 0, 0)));
    let all = outlook(ScopeName::System, None, Some(0)); // it does not grow
    let unlimited = Outlook { left: None, ..all };
    let just_begun = Outlook { growth: None, refaults: None, ..all };
    let (cpu, memory) = (Cpu(Percent(1)), Memory(Percent(1)));
    let (disk, ends, back) = (Disk(Percent(1)), Exhaustion(seconds(1)), Refaults(1));
    #[rustfmt::skip]
    let table = [
        // threshold, of the node, outlook, is measured
        (cpu,    &nothing, Some(&all),        false),
        (cpu,    &calm,    None,              true),
        (memory, &nothing, Some(&all),        false),
        (memory, &calm,    None,              true),
        (disk,   &nothing, Some(&all),        false),
        (disk,   &calm,    None,              true),
        (ends,   &calm,    None,              false),
        (ends,   &calm,    Some(&unlimited),  false),
        (ends,   &calm,    Some(&just_begun), false),
        (ends,   &nothing, Some(&all),        true),
        (back,   &calm,    None,              false),
        (back,   &calm,    Some(&just_begun), false),
        (back,   &nothing, Some(&all),        true),
    ];
    for (on, snapshot, outlook, is_measured) in table {
        let threshold = PressureThreshold { scope: ScopeName::System, on, grace: Nanos(0) };
        let outlooks: Vec<_> = outlook.copied().into_iter().collect();
        let got: Vec<_> = unmeasured(&[threshold], snapshot, &outlooks).collect();
        let want = (!is_measured).then_some(Trigger::Pressure(threshold));
        assert_eq!(got, Vec::from_iter(want), "{on:?} {outlook:?}");
    }
}

#[test]
fn pressure_takes_no_grace_in_an_emergency() {
    let on = PressureSignal::Exhaustion(seconds(10));
    let threshold = [PressureThreshold { scope: ScopeName::System, on, grace: seconds(5) }];
    #[rustfmt::skip]
    let table = [
        // how long memory lasts, whether little of it is left, whether it is due at once
        (3, true,  false),
        (2, true,  true),
        (0, true,  true),
        (2, false, false),
    ];
    for (lasts, is_low, is_due) in table {
        let outlooks = [outlook(ScopeName::System, Some(lasts), None)];
        let low = if is_low { &BOTH[..] } else { &[] };
        let mut standing = PressureStanding::default();
        let got = judge(&threshold, &Snapshot::default(), &outlooks, low, &mut standing);
        assert_eq!(got[0].is_due, is_due, "{lasts} {is_low}");
    }
}

#[test]
fn pressure_grace() {
    let on = PressureSignal::Memory(Percent(60_00));
    let threshold = [PressureThreshold { scope: ScopeName::System, on, grace: seconds(20) }];
    #[rustfmt::skip]
    let table = [
        // second, shortage, met since and due
        (0,  Some(60_00), Some((0, false))),
        (19, Some(90_00), Some((0, false))),
        (20, Some(60_00), Some((0, true))),
        (21, Some(59_99), None),
        (22, Some(60_00), Some((22, false))),
        (30, Some(60_00), Some((22, false))),
        (31, None,        None), // not measured: a second of the eight is taken back
        (32, Some(60_00), Some((24, false))),
        (43, Some(60_00), Some((24, false))),
        (44, Some(60_00), Some((24, true))),
        (48, None,        None), // four seconds
        (52, None,        None),
        (53, Some(60_00), Some((40, false))),
        (54, Some(59_99), None),
        (55, Some(60_00), Some((55, false))),
        (56, Some(60_00), Some((55, false))),
        (57, None,        None), // as long as it was met
        (58, Some(60_00), Some((58, false))),
        (60, None,        None),
        (61, Some(60_00), Some((61, false))),
        (62, None,        None),
        (63, Some(59_99), None),
        (70, Some(60_00), Some((70, false))),
        (5,  Some(60_00), Some((5, false))), // a clock that ran backwards
        (25, Some(60_00), Some((5, true))),
    ];
    let mut standing = PressureStanding::default();
    let mut before = 0_u64;
    for (second, shortage, want) in table {
        let whole = Scope { shortage: shortage.and_then(union), ..Scope::default() };
        let interval = seconds(u64::saturating_sub(second, before));
        let mut snapshot = Snapshot { whole, interval, ..Snapshot::default() };
        snapshot.at.boot = seconds(second);
        let got = judge(&threshold, &snapshot, &[], &BOTH, &mut standing);
        let got = got.first().map(|met| (met.since.0 / Nanos::SECOND.0, met.is_due));
        assert_eq!(got, want, "second {second}");
        before = second;
    }
}

proptest! {
    #[test]
    fn pressure_met_iff_numbers(
        readings in proptest::collection::vec(
            (0..100_u64, proptest::option::of(0..200_u16), proptest::option::of(0..20_u64)),
            1..40,
        ),
        at in 0..200_u16,
        within in 0..20_u64,
    ) {
        let (scope, grace) = (ScopeName::System, seconds(3));
        let memory = PressureSignal::Memory(Percent(at));
        let ends = PressureSignal::Exhaustion(seconds(within));
        let thresholds = [memory, ends].map(|on| PressureThreshold { scope, on, grace });
        let mut standing = PressureStanding::default();
        for (second, shortage, lasts) in readings {
            let whole = Scope { shortage: shortage.and_then(union), ..Scope::default() };
            let mut snapshot = Snapshot { whole, ..Snapshot::default() };
            snapshot.at.boot = seconds(second);
            let outlooks = [outlook(scope, lasts, None)];
            let met = judge(&thresholds, &snapshot, &outlooks, &BOTH, &mut standing);
            let is_met = |on| met.iter().any(|met| matches!(
                met.threshold, Trigger::Pressure(threshold) if threshold.on == on
            ));
            prop_assert_eq!(is_met(memory), shortage.is_some_and(|share| share >= at));
            prop_assert_eq!(is_met(ends), lasts.is_some_and(|lasts| lasts <= within));
            prop_assert!(met.iter().all(|met| met.since <= snapshot.at.boot));
        }
    }
}

#[test]
fn pressure_eased_in_last_interval() {
    use PressureSignal::{Cpu, Disk, Memory};
    let average = |now| Some(Union { now, avg10: Percent(84_00), ..Union::default() });
    let stalled = |now: Option<Percent>| {
        let union = now.and_then(average);
        let whole = Scope { disk_stalled: now, ..scope_with(84_00, 84_00, 84_00) };
        Snapshot {
            whole: Scope { contention: union, shortage: union, ..whole },
            ..Snapshot::default()
        }
    };
    let unions = [Cpu(Percent(30_00)), Memory(Percent(30_00)), Disk(Percent(30_00))];
    let system = |on| PressureThreshold { scope: ScopeName::System, on, grace: Nanos(0) };
    let cases = [(Some(29_99), true), (Some(30_00), false), (None, false)];
    for (now, want) in cases {
        for on in unions {
            let got =
                has_eased(&system(on), &stalled(now.map(Percent)), &GrowthStanding::default());
            assert_eq!(got, want, "{on:?} {now:?}");
        }
    }
}
