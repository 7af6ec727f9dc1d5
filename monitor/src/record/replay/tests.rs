use std::path::Path;

use isobar_core::model::condition::Measure;
use isobar_core::model::decision::StepKind;
use isobar_core::model::psi::{Line, Pressure};
use isobar_core::model::sample::Sample;
use isobar_core::model::settings::ConditionRule;
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
        let replay = Replay::changed_at(Recording::open(&path).unwrap(), wall, other.clone());
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
