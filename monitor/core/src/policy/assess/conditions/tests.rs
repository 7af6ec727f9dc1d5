//! KEP-4205's table, dwell times, staleness, what cannot be judged, and properties.

mod told;

use proptest::prelude::*;

use super::*;
use crate::model::cgroup::{CgroupId, CgroupPath};
use crate::model::condition::{Measure, Resource, ScopeName};
use crate::model::pod::Place;
use crate::model::psi::{Line, Pressure, Pressures};
use crate::model::settings::ConditionRule;
use crate::model::snapshot::{Bounds, Scope, Union};
use crate::model::stall::Coverage;
use crate::model::units::Percent;
use crate::policy::scope;

const MEMORY: ConditionName =
    ConditionName { scope: ScopeName::System, resource: Resource::Memory };

fn seconds(n: u64) -> Nanos {
    Nanos(n * Nanos::SECOND.0)
}

fn at(second: u64) -> Moment {
    Moment { boot: seconds(second), wall: seconds(second) }
}

/// Judges the node's memory on raw PSI `some` at 60 %, and nothing else.
fn settings() -> Conditions {
    let rule = ConditionRule { measure: Measure::RawSome, threshold: Percent(60_00) };
    let rules = BTreeMap::from([(MEMORY.name().to_owned(), rule)]);
    Conditions { rules, ..Conditions::default() }
}

/// The node at a second, its memory pressure as given: ten seconds, then a minute.
fn snapshot(second: u64, averages: Option<(u16, u16)>) -> Snapshot {
    let line = averages.map(|(avg10, avg60)| Line {
        avg10: Percent(avg10),
        avg60: Percent(avg60),
        ..Line::default()
    });
    let memory = line.map(|some| Pressure { some: Some(some), full: Some(some) });
    let whole =
        Scope { pressure: Pressures { memory, ..Pressures::default() }, ..Scope::default() };
    Snapshot { at: at(second), interval: seconds(1), whole, ..Snapshot::default() }
}

/// One judgement: the condition, and the reasons of its events.
fn step(
    settings: &Conditions,
    snapshot: &Snapshot,
    standing: &mut ConditionStanding,
) -> (Condition, Vec<String>) {
    let (conditions, events) = judge(settings, snapshot, standing);
    let [condition] = <[_; 1]>::try_from(conditions).expect("one rule");
    (condition, events.into_iter().map(|event| event.reason).collect())
}

#[test]
fn judge_kep_4205() {
    let threshold = Percent(60_00);
    #[rustfmt::skip]
    let table = [
        // held before, avg60, avg10, phase
        (false, 59_99, 99_00, Phase::Calm),      // a short spike is not contention
        (false, 60_00, 59_99, Phase::High),
        (false, 60_00, 60_00, Phase::Contended), // equality counts as high
        (true,  75_00, 80_00, Phase::Contended),
        (true,  75_00, 40_00, Phase::Easing),
        (true,  75_00, 60_00, Phase::Contended), // contended wins where both rules fit
        (true,  59_99, 95_00, Phase::Cleared),   // the minute alone clears
    ];
    for (holds, avg60, avg10, want) in table {
        let bounds = |average| Bounds::exact(Percent(average));
        let averaged = Averaged { avg10: bounds(avg10), avg60: bounds(avg60) };
        let last = if holds { Status::True } else { Status::False };
        let got = phase(threshold, averaged, last);
        assert_eq!(got, Some(want), "held {holds} avg60 {avg60} avg10 {avg10}");
    }
}

#[test]
fn condition_is_unknown_while_averages_warm_up() {
    use Status::{False, True, Unknown};
    let cpu = ConditionName { scope: ScopeName::System, resource: Resource::Cpu };
    let rule = ConditionRule { measure: Measure::Contention, threshold: Percent(50_00) };
    let rules = BTreeMap::from([(cpu.name().to_owned(), rule)]);
    let settings = Conditions { rules, ..Conditions::default() };
    type Row<'a> = (u16, u16, Status, &'a [(u64, Status)]);
    #[rustfmt::skip]
    let table: &[Row<'_>] = &[
        // contention and raw PSI since long, status before, (second since the start, status)
        (93_00, 97_00, Unknown, &[(1, Unknown), (46, Unknown), (50, True), (400, True)]),
        (0,     97_00, Unknown, &[(1, Unknown), (42, Unknown), (44, False)]), // throttled
        (0,     1_00,  Unknown, &[(1, False)]), // PSI has seen the minute
        (49_00, 49_00, Unknown, &[(1, Unknown), (300, False)]),
        (93_00, 97_00, True,    &[(1, True), (29, True), (32, Unknown), (50, True)]), // until stale
    ];
    for &(contention, raw, before, seconds_seen) in table {
        let mut standing = ConditionStanding::default();
        let held = Held { status: before, judged: Some(at(0)), ..Held::new(at(0)) };
        standing.0.insert(cpu.name().into(), held);
        for &(second, want) in seconds_seen {
            let average = Percent(contention);
            let seen = (second < 300).then(|| seconds(second));
            let union = Union { avg10: average, avg60: average, seen, ..Union::default() };
            let mut snapshot = snapshot(second, None);
            let line = Line { avg10: Percent(raw), avg60: Percent(raw), ..Line::default() };
            snapshot.whole.pressure.cpu = Some(Pressure { some: Some(line), full: None });
            snapshot.whole.contention = Some(union);
            snapshot.covers = Coverage { waits: true, throttling: true, ..Coverage::default() };
            let (got, _) = step(&settings, &snapshot, &mut standing);
            assert_eq!(got.status, want, "{contention} of {raw}, after {second} s: {:?}", got.why);
            assert_eq!(got.avg60, Some(average));
        }
    }
}

#[test]
fn condition_phases() {
    let mut standing = ConditionStanding::default();
    let (none, known): (&[&str], &[&str]) = (&[], &["PressureKnown"]);
    type Row<'a> = (u64, Option<(u16, u16)>, Status, Phase, u64, &'a [&'a str]);
    #[rustfmt::skip]
    let table: &[Row<'_>] = &[
        // second, (avg10, avg60), status, phase, since, events
        (1,  None,                 Status::Unknown, Phase::Unknown,   1,  none),
        (2,  Some((99_00, 10_00)), Status::False,   Phase::Calm,      2,  known),
        (3,  Some((59_99, 60_00)), Status::False,   Phase::High,      2,  &["PressureHigh"]),
        (4,  Some((59_99, 61_00)), Status::False,   Phase::High,      2,  none),
        (5,  Some((60_00, 60_00)), Status::True,    Phase::Contended, 5,  &["PressureContended"]),
        (6,  Some((80_00, 75_00)), Status::True,    Phase::Contended, 5,  none),
        (7,  Some((40_00, 75_00)), Status::True,    Phase::Easing,    5,  &["PressureTrendingLower"]),
        (8,  Some((30_00, 70_00)), Status::True,    Phase::Easing,    5,  none),
        (9,  Some((60_00, 75_00)), Status::True,    Phase::Contended, 5,  &["PressureHigh"]),
        (10, None,                 Status::True,    Phase::Unknown,   5,  none), // kept until stale
        (39, None,                 Status::True,    Phase::Unknown,   5,  none), // 30 s: not yet
        (40, None,                 Status::Unknown, Phase::Unknown,   40, &["PressureUnknown"]),
        (41, None,                 Status::Unknown, Phase::Unknown,   40, none),
        (42, Some((40_00, 75_00)), Status::False,   Phase::High,      42, &["PressureKnown", "PressureHigh"]),
        (43, Some((90_00, 75_00)), Status::True,    Phase::Contended, 43, &["PressureContended"]),
        (44, None,                 Status::True,    Phase::Unknown,   43, none),
        (45, Some((95_00, 59_99)), Status::False,   Phase::Cleared,   45, &["PressureCleared"]),
        (46, Some((95_00, 59_99)), Status::False,   Phase::Calm,      45, none),
    ];
    for &(second, averages, status, phase, since, events) in table {
        let (got, reasons) = step(&settings(), &snapshot(second, averages), &mut standing);
        assert_eq!((got.status, got.phase), (status, phase), "second {second}");
        assert_eq!(got.since, at(since), "second {second}");
        assert_eq!(reasons, events, "second {second}");
        assert_eq!(got.why.is_none(), averages.is_some(), "second {second}");
    }
}

#[test]
fn condition_dwell() {
    let settings = Conditions { raise_after: seconds(3), clear_after: seconds(2), ..settings() };
    let mut standing = ConditionStanding::default();
    let (high, low) = (Some((90_00, 90_00)), Some((90_00, 10_00)));
    #[rustfmt::skip]
    let table = [
        // second, averages, status, phase
        (1,  high, Status::False, Phase::High),
        (3,  high, Status::False, Phase::High),
        (4,  low,  Status::False, Phase::Calm), // broken after two seconds
        (5,  high, Status::False, Phase::High),
        (7,  high, Status::False, Phase::High),
        (8,  high, Status::True,  Phase::Contended), // three seconds are enough
        (9,  low,  Status::True,  Phase::Easing),
        (10, high, Status::True,  Phase::Contended),
        (11, low,  Status::True,  Phase::Easing),
        (12, None, Status::True,  Phase::Unknown), // not measured: nothing lasts
        (13, low,  Status::True,  Phase::Easing),
        (15, low,  Status::False, Phase::Cleared),
    ];
    for (second, averages, status, phase) in table {
        let (got, _) = step(&settings, &snapshot(second, averages), &mut standing);
        assert_eq!((got.status, got.phase), (status, phase), "second {second}");
    }
}

/// Every condition by every measure, at 60 %.
fn judge_all(measure: Measure, snapshot: &Snapshot) -> Vec<Condition> {
    let rule = ConditionRule { measure, threshold: Percent(60_00) };
    let rules = ConditionName::ALL.into_iter().map(|name| (name.name().to_owned(), rule)).collect();
    let settings = Conditions { rules, ..Conditions::default() };
    judge(&settings, snapshot, &mut ConditionStanding::default()).0
}

/// A node whose every figure is at 100 %.
fn all_contended() -> Snapshot {
    let line = Line { avg10: Percent::FULL, avg60: Percent::FULL, ..Line::default() };
    let file = Some(Pressure { some: Some(line), full: Some(line) });
    let union = Union { avg10: Percent::FULL, avg60: Percent::FULL, ..Union::default() };
    let whole = Scope {
        path: CgroupPath::root(),
        pressure: Pressures { cpu: file, memory: file, io: file, irq: None },
        contention: Some(union),
        shortage: Some(union),
        ..Scope::default()
    };
    let path = CgroupPath("/kubepods.slice".into());
    let pods = Scope { path, place: Place::Kubepods, ..whole.clone() };
    let covers = Coverage::ALL;
    let scopes = BTreeMap::from([(CgroupId(2), pods)]);
    Snapshot { at: at(1), whole, scopes, covers, ..Snapshot::default() }
}

#[test]
fn condition_unknown_with_reason() {
    #[rustfmt::skip]
    let table = [
        // measure, which of the six hold; the others are Unknown
        (Measure::RawSome,    [true,  true,  true,  true,  true,  true]),
        (Measure::RawFull,    [false, true,  true,  true,  true,  true]), // CPU full of the node is always 0
        (Measure::Contention, [true,  false, false, true,  false, false]),
        (Measure::Shortage,   [false, true,  false, false, true,  false]),
    ];
    for (measure, want) in table {
        for (condition, holds) in judge_all(measure, &all_contended()).iter().zip(want) {
            let status = if holds { Status::True } else { Status::Unknown };
            assert_eq!(condition.status, status, "{measure:?} {}", condition.name);
            assert_eq!(condition.why.is_none(), holds, "{measure:?} {}", condition.name);
        }
    }
}

#[test]
fn condition_raw_full() {
    use Status::{False, True};
    #[rustfmt::skip]
    let table = [
        // threshold, avg10 and avg60 of `full`, status; `None`: not judged
        (90_00, 100_00, 100_00, Some(True)),
        (10,    10,     16,     Some(True)),
        (5_00,  4_00,   4_00,   Some(False)),
        (5_00,  6_00,   4_00,   Some(False)),
        (5_00,  4_00,   6_00,   Some(False)), // high, not yet contended
        (0,     100_00, 100_00, None),        // switched off
    ];
    for (threshold, avg10, avg60, want) in table {
        let mut snapshot = all_contended();
        let line = Line { avg10: Percent(avg10), avg60: Percent(avg60), ..Line::default() };
        let full = Some(Pressure { some: None, full: Some(line) });
        let pods = snapshot.scopes.get_mut(&CgroupId(2)).unwrap();
        for scope in [&mut snapshot.whole, pods] {
            (scope.pressure.memory, scope.pressure.io) = (full, full);
        }
        let rule = ConditionRule { measure: Measure::RawFull, threshold: Percent(threshold) };
        let is_theirs = |name: &ConditionName| name.resource != Resource::Cpu;
        let theirs = ConditionName::ALL.into_iter().filter(is_theirs);
        let rules = theirs.map(|name| (name.name().to_owned(), rule)).collect();
        let settings = Conditions { rules, ..Conditions::default() };
        let (got, _) = judge(&settings, &snapshot, &mut ConditionStanding::default());
        let got: Vec<_> = got.iter().map(|condition| condition.status).collect();
        let want = want.map_or_else(Vec::new, |status| vec![status; 4]);
        assert_eq!(got, want, "threshold {threshold} avg10 {avg10} avg60 {avg60}");
    }
}

#[test]
fn condition_without_kubepods() {
    let snapshot = Snapshot { scopes: BTreeMap::new(), ..all_contended() };
    for condition in judge_all(Measure::RawSome, &snapshot) {
        let is_pods = condition.name.scope == ScopeName::Kubepods;
        let status = if is_pods { Status::Unknown } else { Status::True };
        assert_eq!(condition.status, status, "{}", condition.name);
        let why = is_pods.then_some(scope::NO_KUBEPODS);
        assert_eq!(condition.why.as_deref(), why, "{}", condition.name);
    }
}

#[test]
fn condition_shortage_bounds() {
    #[rustfmt::skip]
    let table = [
        // causes are told, shortage over both windows, PSI some over a minute, status
        (true,  70_00, 90_00, Status::True),
        (true,  10_00, 90_00, Status::False),
        (false, 70_00, 90_00, Status::True),    // a lower bound at the threshold is enough
        (false, 10_00, 59_99, Status::False),   // nothing to miss
        (false, 10_00, 60_00, Status::Unknown), // either may be true
    ];
    for (memory_causes, shortage, some, want) in table {
        let mut snapshot = all_contended();
        snapshot.covers.memory_causes = memory_causes;
        let share = Percent(shortage);
        snapshot.whole.shortage = Some(Union { avg10: share, avg60: share, ..Union::default() });
        let line = Line { avg60: Percent(some), ..Line::default() };
        snapshot.whole.pressure.memory = Some(Pressure { some: Some(line), full: None });
        let all = judge_all(Measure::Shortage, &snapshot);
        let condition = all.iter().find(|c| c.name == MEMORY).unwrap();
        assert_eq!(condition.status, want, "causes {memory_causes} {shortage} {some}");
    }
}

#[test]
fn condition_waits_left_off() {
    #[rustfmt::skip]
    let table = [
        // waits, throttling, memory, why
        (false, false, false, "the kernel side is missing"),
        (false, false, true,  "what the agent says of sched_switch tells why"),
        (true,  false, true,  "cannot tell throttling from contention"),
    ];
    for (waits, throttling, memory, why) in table {
        let covers =
            Coverage { waits, throttling, memory, memory_causes: memory, oom_kills: memory };
        let mut snapshot = Snapshot { covers, ..all_contended() };
        snapshot.whole.contention = None;
        let all = judge_all(Measure::Contention, &snapshot);
        let cpu = all.iter().find(|one| one.name.resource == Resource::Cpu).unwrap();
        assert_eq!(cpu.status, Status::Unknown, "{why}");
        assert!(cpu.why.as_ref().unwrap().ends_with(why), "{:?} {why}", cpu.why);
    }
}

#[test]
fn condition_without_rule() {
    let mut standing = ConditionStanding::default();
    step(&settings(), &snapshot(1, Some((90_00, 90_00))), &mut standing);
    let none = Conditions { rules: BTreeMap::new(), ..Conditions::default() };
    let (conditions, events) = judge(&none, &snapshot(2, Some((90_00, 90_00))), &mut standing);
    assert_eq!(conditions, []);
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(standing, ConditionStanding::default());
}

/// Readings at seconds that may stand still and run backwards.
fn readings() -> impl Strategy<Value = Vec<(u64, Option<(u16, u16)>)>> {
    let near = 59_90_u16..60_10;
    let average = prop_oneof![near, Just(0), Just(100_00)];
    let averages = proptest::option::of((average.clone(), average));
    proptest::collection::vec((0..200_u64, averages), 1..60)
}

proptest! {
    #[test]
    fn condition_flips_are_told(
        readings in readings(),
        raise in 0..4_u64,
        clear in 0..4_u64,
        in_order: bool,
    ) {
        let settings =
            Conditions { raise_after: seconds(raise), clear_after: seconds(clear), ..settings() };
        let mut readings = readings;
        if in_order {
            readings.sort_by_key(|(second, _)| *second);
        }
        let mut standing = ConditionStanding::default();
        let mut before = Status::Unknown;
        for (second, averages) in readings {
            let (now, events) = step(&settings, &snapshot(second, averages), &mut standing);
            if averages.is_none() {
                prop_assert!(now.status == before || now.status == Status::Unknown);
                prop_assert_eq!(now.phase, Phase::Unknown);
            }
            if now.status != before {
                prop_assert!(!events.is_empty(), "{before:?} to {:?}", now.status);
                prop_assert_eq!(now.since, at(second));
            }
            if averages.is_some() {
                prop_assert!(now.status != Status::Unknown);
            }
            before = now.status;
        }
    }

    #[test]
    fn condition_standing_json_round_trip(readings in readings()) {
        let mut standing = ConditionStanding::default();
        for (second, averages) in readings {
            step(&settings(), &snapshot(second, averages), &mut standing);
        }
        let json = serde_json::to_string(&standing).unwrap();
        prop_assert_eq!(serde_json::from_str::<ConditionStanding>(&json).unwrap(), standing);
    }
}
