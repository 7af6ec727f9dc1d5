//! A moment that is shown from the mark before it is the one that the engine comes to from the header
//! of the chapter.

use std::fs;
use std::path::Path;

use crate::sampling::data;
use isobar::record::journal::{Bounds, Journal, Start};
use isobar::record::moment::{self, Tick};
use isobar::record::reader::{Entry, Recording};
use isobar::record::replay::Replay;
use isobar::serve::film::reel::Reel;
use isobar_core::model::decision::Ranking;
use isobar_core::model::sample::Moment;
use isobar_core::model::units::Nanos;
use isobar_core::policy::engine::Engine;
use tempfile::TempDir;

/// Records the ticks of a recording as this version does: the first chapter is short, the second has
/// marks.
pub(crate) fn anew(recording: &Path, to: &Path) -> Vec<Moment> {
    let (mut journal, mut engine, mut ticks) = (None, Engine::default(), Vec::new());
    for entry in Recording::open(recording).unwrap() {
        match entry.unwrap() {
            Entry::Header(header) if journal.is_none() => {
                engine = Engine::new(header.settings.clone(), header.standing.clone());
                let start = Start {
                    facts: header.facts,
                    settings: header.settings,
                    standing: header.standing,
                    at: header.at,
                };
                journal = Some(Journal::create(to, start, Bounds::default()).unwrap());
            }
            Entry::Frame(recorded) => {
                ticks.push(recorded.sample.at);
                let decision = engine.step(recorded.sample.clone()).decision;
                let journal = journal.as_mut().unwrap();
                journal.write(&recorded.sample, &decision, engine.standing()).unwrap();
            }
            _ => {}
        }
    }
    ticks
}

/// The moment as the engine comes to it, and how many ticks it took.
fn by_the_engine(path: &Path, wall: Nanos) -> (Tick, usize) {
    let mut replay = Replay::new(Recording::open_at(path, wall).unwrap(), None);
    let mut steps = Vec::new();
    while let Some(step) = replay.step_before(wall).unwrap() {
        steps.push(step);
    }
    let oom_kills = steps.iter().rev().flat_map(|step| step.oom_kills.iter().rev());
    let (oom_kills, n) = (oom_kills.cloned().collect(), steps.len());
    let last = steps.pop().unwrap();
    let facts = replay.facts().unwrap().clone();
    let (snapshot, decision) = (last.snapshot, last.decision);
    let settings = replay.engine().unwrap().settings().clone();
    (Tick { facts, settings, oom_kills, snapshot, decision }, n)
}

#[test]
fn at_is_what_the_engine_comes_to() {
    let dir = TempDir::new().unwrap();
    let mut n_kills = 0;
    for entry in fs::read_dir(data("recordings")).unwrap() {
        let kept = entry.unwrap().path();
        let again = dir.path().join(kept.file_name().unwrap());
        let ticks = anew(&kept, &again);
        // What an earlier version wrote in another way, this one decides anew.
        let kept = Some(&kept).filter(|kept| !kept.ends_with("incident-leak-6.12.isobar"));
        for path in kept.into_iter().chain([&again]) {
            // Each third tick, the first and the last ones among them.
            for at in ticks.iter().step_by(3).chain(ticks.iter().rev().take(2)) {
                let (want, _) = by_the_engine(path, at.wall);
                let got = moment::at(path, at.wall).unwrap();
                n_kills += want.oom_kills.len();
                assert_eq!(got, Some(want), "{} at {at:?}", path.display());
            }
        }
        let before = moment::at(&again, ticks[0].wall.since(Nanos(1))).unwrap();
        assert_eq!(before, None, "no tick is as early");
    }
    assert!(n_kills > 0, "one of the recordings has OOM kills");
}

#[test]
fn open_near_begins_at_a_mark() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording");
    let ticks = anew(&data("recordings/judged-leak-6.12.isobar"), &path);
    let last = ticks.last().unwrap().wall;
    let frames = |recording: Recording| {
        recording.filter(|entry| matches!(entry, Ok(Entry::Frame(_)))).count()
    };
    let (near, marked) = Recording::open_near(&path, last).unwrap();
    let marked = marked.unwrap();
    assert!(ticks.contains(&marked.begun) && marked.before.at.wall < last, "{:?}", marked.begun);
    let (near, far) = (frames(near), frames(Recording::open_at(&path, last).unwrap()));
    assert!(near <= 20 && far > 20, "{near} ticks from the mark, {far} from the header");

    // A mark that is damaged is passed over.
    let mut bytes = fs::read(&path).unwrap();
    let magic = 0xFD2F_B528_u32.to_le_bytes();
    let frame = bytes.windows(4).rposition(|four| four == magic).unwrap();
    bytes[frame + 700..frame + 720].fill(0xff);
    fs::write(&path, bytes).unwrap();
    assert!(Recording::open_near(&path, last).unwrap().1.is_none());
}

/// Of the last tick that is no later.
fn ranked(path: &Path, wall: Nanos) -> (Moment, Ranking) {
    let mut reel = Reel::open_at(path, wall).unwrap();
    reel.run_to(wall).unwrap();
    let (step, ranking) =
        reel.rank(None).unwrap_or_else(|| panic!("{} at {wall:?}", path.display()));
    (step.snapshot.at, ranking)
}

/// Of a recording that is being written, and of one that another agent goes on with.
#[test]
fn rank_whatever_follows_the_last_tick() {
    let dir = TempDir::new().unwrap();
    let (whole, cut) = (data("recordings/judged-leak-6.12.isobar"), dir.path().join("cut"));
    let lines = String::from_utf8(zstd::decode_all(fs::File::open(&whole).unwrap()).unwrap());
    let lines = lines.unwrap();
    let header = lines.lines().next().unwrap();
    let mut changed: serde_json::Value = serde_json::from_str(header).unwrap();
    changed["continues"] = true.into();
    changed["settings"]["ranking"]["order"] = "qos".into();
    let until = |n: usize| lines.split_inclusive('\n').take(n).collect::<String>();
    let torn = &until(41)[..until(41).len() - 300];
    let mut open = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    std::io::Write::write_all(&mut open, torn.as_bytes()).unwrap();
    std::io::Write::flush(&mut open).unwrap();
    #[rustfmt::skip]
    let table = [
        // what follows 37 ticks, bytes
        ("nothing",                      until(40).into_bytes()),
        ("half a line",                  torn.into()),
        ("half a line, an open frame",   open.get_ref().clone()),
        ("a line that is none",          (until(40) + "{}\n").into()),
        ("the header of another agent",  (until(40) + header + "\n").into()),
        ("a header with other settings", format!("{}{changed}\n", until(40)).into()),
    ];
    let mut ticks = Recording::open(&whole).unwrap().filter_map(|entry| match entry.unwrap() {
        Entry::Frame(recorded) => Some(recorded.sample.at.wall),
        _ => None,
    });
    let want = ranked(&whole, ticks.nth(36).unwrap());
    for (what, bytes) in table {
        fs::write(&cut, bytes).unwrap();
        assert_eq!(ranked(&cut, Nanos(u64::MAX)), want, "{what}");
    }
}

#[test]
fn kills_are_told_by_the_agent_that_saw_them() {
    let dir = TempDir::new().unwrap();
    let (whole, two) = (data("recordings/judged-leak-6.12.isobar"), dir.path().join("two"));
    let text = zstd::decode_all(fs::File::open(&whole).unwrap()).unwrap();
    let text = String::from_utf8(text).unwrap();
    let mut reel = Reel::open_at(&whole, Nanos(0)).unwrap();
    let kills = std::iter::from_fn(|| Some(reel.step(Nanos(u64::MAX)).unwrap()?.oom_kills.len()));
    let n = 1 + kills.take_while(|n| *n == 0).count();
    let is_tick = |line: &str| line.starts_with(r#"{"kind":"tick""#);
    let run = |n: usize| {
        let mut left = n;
        let lines = text.split_inclusive('\n').filter(|line| !line.contains(r#""kind":"lost""#));
        let taken = lines.take_while(|line| {
            let goes_on = left > 0;
            left -= usize::from(goes_on && is_tick(line));
            goes_on
        });
        taken.collect::<String>()
    };

    // The first agent ends with the tick that tells of a kill, the next one sees none in two ticks.
    fs::write(&two, run(n) + &run(2)).unwrap();
    for (ticks, want) in [(n, true), (n + 2, false)] {
        let mut reel = Reel::open_at(&two, Nanos(0)).unwrap();
        for tick in 0..ticks {
            assert!(reel.step(Nanos(u64::MAX)).unwrap().is_some(), "tick {tick} of {ticks}");
        }
        let kills = reel.view().unwrap().recent_oom_kills;
        assert_eq!(!kills.is_empty(), want, "{ticks} ticks: {kills:?}");
    }
}
