use std::path::Path;
use std::sync::Arc;

use isobar_core::model::cgroup::{Cgroup, CgroupId, CgroupPath};
use isobar_core::model::condition::{Measure, ScopeName};
use isobar_core::model::decision::{
    Action, InForce, OutcomeResult, Phase, Release, ReleaseReason, Relief, StepKind, Target,
    Trigger, made,
};
use isobar_core::model::psi::{Line, Pressure};
use isobar_core::model::sample::Sample;
use isobar_core::model::settings::ConditionRule;
use isobar_core::model::threshold::{PressureSignal, PressureThreshold};
use isobar_core::model::units::Percent;
use isobar_core::policy::engine::Standing;

use super::*;
use crate::record::journal::{Bounds, Journal, Start};

/// Judged on raw PSI alone, at a line of `percent`.
fn settings(percent: u16) -> Settings {
    let mut settings = Settings::default();
    for rule in settings.conditions.rules.values_mut() {
        let threshold = Percent(percent * 100);
        *rule = ConditionRule { measure: Measure::RawSome, threshold };
    }
    settings
}

/// The CPUs are ever shorter, by ten percent a second.
fn sample(tick: u64) -> Sample {
    let mut sample = Sample { tick, ..Sample::default() };
    let now = Nanos(tick * Nanos::SECOND.0);
    sample.at = Moment { boot: now, wall: now };
    let share = Percent(u16::try_from(tick.min(9) * 10_00).unwrap());
    let line = Line { avg10: share, avg60: share, ..Line::default() };
    sample.node.pressure.cpu = Some(Pressure { some: Some(line), full: None });
    sample
}

fn record(path: &Path, settings: &Settings, standing: &Standing, n: u64) {
    let (settings, standing) = (settings.clone(), standing.clone());
    let mut engine = Engine::new(settings.clone(), standing.clone());
    let start = Start { settings, standing, ..Start::default() };
    let mut journal = Journal::create(path, start, Bounds::default()).unwrap();
    for sample in (1..=n).map(sample) {
        let decision = engine.step(sample.clone()).decision;
        journal.write(&sample, &decision, engine.standing()).unwrap();
    }
}

#[test]
fn changed_at_judges_by_the_recorded_settings_until_then() {
    let (dir, standing) = (tempfile::tempdir().unwrap(), Standing::new(4));
    let path = dir.path().join("r");
    let (recorded, other) = (settings(60), settings(20));
    record(&path, &recorded, &standing, 12);
    // the first second of the other settings
    for begin in [0, 4, 9, 13] {
        let wall = Nanos(begin * Nanos::SECOND.0);
        let mut engine = Engine::new(recorded.clone(), standing.clone());
        let recording = Recording::open(&path).unwrap();
        let replay = Replay::changed_at(recording, wall, always(other.clone()));
        let mut differ = Vec::new();
        for replayed in replay {
            let Replayed::Tick(judged) = replayed.unwrap() else { continue };
            if judged.tick == begin.max(1) {
                engine = engine.with_settings(other.clone());
            }
            let want = canonical(&engine.step(sample(judged.tick)).decision).unwrap();
            assert_eq!(judged.text, want, "begin {begin}, tick {}", judged.tick);
            differ.extend((judged.text != judged.recorded).then_some(judged.tick));
        }
        assert_eq!(differ.is_empty(), begin > 12, "begin {begin}: {differ:?}");
        assert!(differ.iter().all(|tick| *tick >= begin), "begin {begin}: {differ:?}");
    }
}

#[test]
fn changed_at_changes_what_was_reloaded_too() {
    let (dir, standing) = (tempfile::tempdir().unwrap(), Standing::new(4));
    let path = dir.path().join("r");
    let mut engine = Engine::new(settings(80), standing.clone());
    let start = Start { settings: settings(80), standing, ..Start::default() };
    let mut journal = Journal::create(&path, start, Bounds::default()).unwrap();
    for sample in (1..=8).map(sample) {
        if sample.tick == 4 {
            engine = engine.with_settings(settings(20));
            journal.reload(engine.settings().clone(), engine.standing(), sample.at).unwrap();
        }
        let decision = engine.step(sample.clone()).decision;
        journal.write(&sample, &decision, engine.standing()).unwrap();
    }
    drop(journal);
    // What changes nothing gives the same, before the reload and after it.
    let other = Box::new(Settings::clone);
    let replay = Replay::changed_at(Recording::open(&path).unwrap(), Nanos(0), other);
    let ticks = replay.filter_map(|replayed| match replayed.unwrap() {
        Replayed::Tick(judged) => Some(judged),
        Replayed::Notice(_) => None,
    });
    let differ: Vec<_> = ticks.filter(|judged| judged.text != judged.recorded).collect();
    assert!(differ.is_empty(), "{differ:?}");
}

#[test]
fn replay_with_other_steps_enforced_begins_without_what_was_only_observed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    let relief = serde_json::json!({"lastId": 7, "victims": [[Nanos::SECOND, "u1"]]});
    let relief = serde_json::from_value(relief).unwrap();
    let standing = Standing { relief, ..Standing::new(4) };
    let mut enforcing = settings(60);
    enforcing.relief.enforce = StepKind::ALL.into();
    record(&path, &settings(60), &standing, 1);
    #[rustfmt::skip]
    let table = [
        // other settings, victims that count against the budget
        (None,               1),
        (Some(settings(20)), 1),
        (Some(enforcing),    0),
    ];
    for (row, (other, want)) in table.into_iter().enumerate() {
        let mut replay = Replay::new(Recording::open(&path).unwrap(), other);
        replay.step_before(Nanos(u64::MAX)).unwrap().unwrap();
        let relief = serde_json::to_value(&replay.engine().unwrap().standing().relief).unwrap();
        assert_eq!(relief["victims"].as_array().map(Vec::len), Some(want), "row {row}: {relief}");
    }
}

/// A step with this number against a pod, in force.
fn in_force(id: u64, step: StepKind, uid: &str) -> InForce {
    let threshold = PressureThreshold {
        scope: ScopeName::System,
        on: PressureSignal::Memory(Percent(60_00)),
        grace: Nanos(0),
    };
    let target = Target { uid: uid.into(), ..Target::default() };
    let action = made::action(step, made::met(Trigger::Pressure(threshold)));
    let action = Action { id, target, is_enforced: true, ..action };
    InForce { action, since: Nanos(0), held: None, phase: Phase::Ending, largest: None }
}

#[test]
fn replay_with_other_settings_knows_nothing_of_what_the_recorded_agent_took_alone() {
    let dir = tempfile::tempdir().unwrap();
    #[rustfmt::skip]
    let table = [
        // from which tick on a victim is in force; other settings; victims that count against the budget
        (3, None,               1),
        (3, Some(settings(20)), 0),
        (1, Some(settings(20)), 1), // of before
    ];
    for (row, (from, other, want)) in table.into_iter().enumerate() {
        let path = dir.path().join(row.to_string());
        let settings = settings(60);
        let mut engine = Engine::new(settings.clone(), Standing::new(4));
        let start = Start { settings, standing: Standing::new(4), ..Start::default() };
        let mut journal = Journal::create(&path, start, Bounds::default()).unwrap();
        for mut sample in (1..=5).map(sample) {
            let is_there = sample.tick >= from;
            sample.in_force.extend(is_there.then(|| in_force(4, StepKind::Evict, "u1")));
            let decision = engine.step(sample.clone()).decision;
            journal.write(&sample, &decision, engine.standing()).unwrap();
        }
        drop(journal);
        let mut replay = Replay::new(Recording::open(&path).unwrap(), other);
        while replay.step_before(Nanos(u64::MAX)).unwrap().is_some() {}
        let relief = serde_json::to_value(&replay.engine().unwrap().standing().relief).unwrap();
        let victims = relief["victims"].as_array().map(Vec::len);
        assert_eq!(victims, Some(want), "row {row}: {relief}");
    }
}

#[test]
fn own_steps_are_told_by_their_own_numbers() {
    use StepKind::{Evict, Squeeze};
    let relief = serde_json::from_value(serde_json::json!({"lastId": 7})).unwrap();
    let standing = Standing { relief, ..Standing::new(4) };
    let mut own = Own::of(&Engine::new(settings(20), standing));
    own.put_in(&mut sample(1));
    let relief = |all: &[(u64, StepKind, &str)]| {
        let actions = all.iter().map(|(id, step, uid)| in_force(*id, *step, uid).action);
        Relief { actions: actions.collect(), ..Relief::default() }
    };
    let decided = |all: &[(u64, StepKind, &str)]| {
        canonical(&Decision { relief: relief(all), ..Decision::default() }).unwrap()
    };
    let now = Nanos(1);
    own.note(&decided(&[(8, Squeeze, "u1"), (9, Evict, "u2")]), &relief(&[(8, Evict, "u3")]), now);
    // Each took one of them a tick later than the other.
    let later = relief(&[(9, Squeeze, "u2"), (10, Squeeze, "u1")]);
    own.note(&decided(&[(10, Evict, "u3")]), &later, now);
    let mut sample = sample(2);
    sample.in_force = [6, 8, 9, 10].map(|id| in_force(id, Evict, "u")).into();
    sample.outcomes =
        [7, 9, 10, 11].map(|action| made::outcome(action, OutcomeResult::Done)).into();
    own.put_in(&mut sample);
    let ids: Vec<_> = sample.in_force.iter().map(|entry| entry.action.id).collect();
    let outcomes: Vec<_> = sample.outcomes.iter().map(|outcome| outcome.action).collect();
    assert_eq!((ids, outcomes), (vec![6, 10, 8], vec![7, 8]));
}

#[test]
fn own_marks_count_as_in_force_until_they_are_released() {
    use StepKind::Mark;
    let mut own = Own::of(&Engine::new(settings(20), Standing::new(4)));
    let group = |id: u64| (CgroupId(id), Arc::new(Cgroup::default()));
    let marked = |id: u64, cgroup: u64| {
        let mut mark = in_force(id, Mark, &cgroup.to_string()).action;
        (mark.target.cgroup, mark.target.path) =
            (Some(CgroupId(cgroup)), Some(CgroupPath::default()));
        mark
    };
    let mut relief = Relief { actions: vec![marked(1, 7), marked(2, 8)], ..Relief::default() };
    own.note("{}", &relief, Nanos(1));
    let mut in_force = |relief: &Relief, cgroups: &[u64]| {
        let mut sample = sample(2);
        sample.cgroups = cgroups.iter().map(|id| group(*id)).collect();
        own.put_in(&mut sample);
        own.note("{}", relief, Nanos(2));
        sample.in_force.iter().map(|entry| entry.action.id).collect::<Vec<_>>()
    };
    let none = Relief::default();
    assert_eq!(in_force(&none, &[7, 8]), [1, 2]);
    // One target is gone.
    relief = Relief { releases: vec![release(2)], ..Relief::default() };
    assert_eq!(in_force(&relief, &[8]), [2]);
    assert_eq!(in_force(&none, &[7, 8]), [0_u64; 0]);
}

fn release(action: u64) -> Release {
    let (target, why) = (Target::default(), ReleaseReason::Over);
    Release { action, step: StepKind::Mark, target, why, is_enforced: true }
}
