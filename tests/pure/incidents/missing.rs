//! Ticks that an incident's file does not have, and what belongs to an incident before it.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use isobar::record::incident::LeftOut;

use super::*;

/// The ticks of the scene, from the one to the other, appended to a recording as another run of an agent.
fn run(path: &Path, ticks: std::ops::RangeInclusive<u64>, change: impl Fn(&mut Sample)) {
    let standing = Standing::new(4);
    let mut engine = Engine::new(settings(), standing.clone());
    let begun = at(ticks.start() - 1);
    let start = Start { settings: settings(), standing, at: begun, ..Start::default() };
    let mut journal = Journal::create(path, start, Bounds::default()).unwrap();
    for second in ticks {
        let mut sample = sample(second);
        change(&mut sample);
        let decision = engine.step(sample.clone()).decision;
        journal.write(&sample, &decision, engine.standing()).unwrap();
    }
}

/// Whether the file of an incident decides as it was recorded.
fn replays(shelf: &Shelf, name: &str) -> bool {
    let recording = Recording::open_file(&shelf.open(name).unwrap()).unwrap();
    Replay::new(recording, None).all(|replayed| match replayed.unwrap() {
        Replayed::Tick(judged) => judged.recorded == judged.text,
        Replayed::Notice(_) => true,
    })
}

#[test]
fn freeze_reads_past_a_clock_that_was_wrong() {
    let dir = TempDir::new().unwrap();
    let (ring, incident, shelf) = scene(&dir);
    let path = dir.path().join("wrong");
    run(&path, 1..=400, |sample| {
        if sample.tick == 240 {
            sample.at.wall = sample.at.wall.plus(Nanos(DAY * Nanos::SECOND.0));
        }
    });
    let frozen =
        freeze(&Ring::Files(path), &shelf, incident.clone(), shelf.draft().unwrap(), || ());
    let frozen = frozen.unwrap();
    assert!(replays(&shelf, &frozen.name));
    let other = Shelf::in_dir(dir.path().join("other"));
    let usual = freeze(&ring, &other, incident, other.draft().unwrap(), || ()).unwrap();
    assert_eq!((frozen.ticks, frozen.to), (usual.ticks - 1, usual.to));
    let gaps: Vec<_> = frozen.left_out.iter().map(|gap| (gap.from.boot, gap.to.boot)).collect();
    assert_eq!(gaps, [(at(239).boot, at(240).boot)]);
}

#[test]
fn freeze_tells_when_no_agent_ran() {
    let dir = TempDir::new().unwrap();
    let (_, incident, shelf) = scene(&dir);
    let path = dir.path().join("two");
    run(&path, 1..=240, |_| {});
    run(&path, 259..=400, |_| {});
    let frozen =
        freeze(&Ring::Files(path), &shelf, incident, shelf.draft().unwrap(), || ()).unwrap();
    assert_eq!(frozen.left_out, [LeftOut { from: at(240), to: at(258) }]);
    let told = "Its file has no ticks from 14:17:20Z to 14:17:38Z.";
    assert!(frozen.summary.contains(told), "{}", frozen.summary);
}

/// A rule that a reload between two ticks removes.
#[test]
fn reload_leaves_no_tick_out_and_ends_what_is_judged_no_longer() {
    let dir = TempDir::new().unwrap();
    let (_, incident, shelf) = scene(&dir);
    let path = dir.path().join("reloaded");
    let standing = Standing::new(4);
    let mut engine = Engine::new(settings(), standing.clone());
    let start = Start { settings: settings(), standing, at: at(0), ..Start::default() };
    let mut journal = Journal::create(&path, start, Bounds::default()).unwrap();
    for second in 1..=400 {
        if second == 241 {
            let mut settings = settings();
            settings.conditions.rules.clear();
            engine = engine.with_settings(settings.clone());
            let between = Nanos(Nanos::SECOND.0 / 3);
            let Moment { boot, wall } = at(240);
            let now = Moment { boot: boot.plus(between), wall: wall.plus(between) };
            journal.reload(settings, engine.standing(), now).unwrap();
        }
        let sample = sample(second);
        let decision = engine.step(sample.clone()).decision;
        journal.write(&sample, &decision, engine.standing()).unwrap();
    }
    let frozen =
        freeze(&Ring::Files(path), &shelf, incident, shelf.draft().unwrap(), || ()).unwrap();
    assert!(replays(&shelf, &frozen.name));
    assert_eq!(frozen.left_out, []);
    let ends: Vec<_> = frozen.conditions.iter().map(|held| held.to).collect();
    assert_eq!(ends, [Some(at(241))]);
    assert!(frozen.summary.contains("It was calm again at"), "{}", frozen.summary);
}

#[test]
fn import_tells_of_ticks_that_are_lost() {
    let dir = TempDir::new().unwrap();
    let (ring, incident, shelf) = scene(&dir);
    let kinds = vec![Kind::Kill, Kind::Condition];
    let incident = Incident { kinds, ..incident };
    let frozen = freeze(&ring, &shelf, incident, shelf.draft().unwrap(), || ()).unwrap();
    let file = dir.path().join("incidents").join(format!("{}.isobar", frozen.name));
    // In the second chapter, which is the last.
    let half = fs::metadata(&file).unwrap().len() / 2;
    File::options().write(true).open(&file).unwrap().write_all_at(&[0xA5; 8], half).unwrap();
    let other = Shelf::in_dir(dir.path().join("other"));
    let imported = import(&file, &other, at(500).wall).unwrap();
    assert!((1..frozen.ticks).contains(&imported.ticks), "{}", imported.ticks);
    let gap = LeftOut { from: imported.to, to: frozen.to };
    assert_eq!(imported.left_out, [gap]);
    let told =
        "isobar decided on a step, and the ticks that have it are lost. Its file has no ticks";
    assert!(imported.summary.contains(told), "{}", imported.summary);
}

#[test]
fn freeze_counts_nothing_of_an_earlier_incident() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording");
    run(&path, 1..=400, |sample| {
        if sample.tick == 330 {
            let kill =
                OomKill { at: sample.at.boot, victim_pid: Some(8), limit_known: true, ..kill() };
            sample.kernel.as_mut().unwrap().oom_kills.push(kill);
        }
    });
    let incident = Incident {
        name: "2026-1".into(),
        begin: at(330),
        end: Some(at(360)),
        kinds: vec![Kind::OomKill],
        ..Incident::default()
    };
    let shelf = Shelf::in_dir(dir.path().join("incidents"));
    let frozen =
        freeze(&Ring::Files(path), &shelf, incident, shelf.draft().unwrap(), || ()).unwrap();
    // What leads to it has the kill in second 230, and the condition that held until 260.
    assert_eq!(frozen.from, at(210));
    let killed: Vec<_> = frozen.kills.iter().map(|kill| kill.pid).collect();
    assert_eq!((killed, frozen.conditions, frozen.is_about_cpu), (vec![Some(8)], vec![], false));
    assert_eq!(frozen.waits_from, Some(at(259)), "waits are counted since it was over");
}
