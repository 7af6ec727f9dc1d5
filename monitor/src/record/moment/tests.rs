use super::*;
use crate::record::journal::{Bounds, Journal, Start};
use crate::record::replay::Replay;
use isobar_core::model::cgroup::{Cgroup, CgroupId, CgroupPath};
use isobar_core::model::stall::{KernelStalls, OomKill};
use isobar_core::policy::engine::Engine;

/// The wall clock where it is right, in seconds, when the kernel's has none.
const RIGHT: u64 = 1_000_000;

/// One run of an agent: its boot, the seconds of its ticks since that, and how far the wall clock is from
/// the kernel's.
struct Ran(u64, std::ops::RangeInclusive<u64>, fn(u64) -> u64);

impl Ran {
    fn at(&self, boot: u64) -> Moment {
        let [boot, wall] = [boot, boot + self.2(boot)].map(|at| Nanos(at * Nanos::SECOND.0));
        Moment { boot, wall }
    }
}

/// Each run is a segment.
fn record(path: &Path, runs: &[Ran]) {
    for run in runs {
        let facts = NodeFacts { boot_id: run.0.to_string(), ..NodeFacts::default() };
        let at = run.at(run.1.start() - 1);
        let settings = Settings { generation: run.0, ..Settings::default() };
        let start = Start { facts, settings, at, ..Start::default() };
        let mut journal = Journal::create(path, start, Bounds::default()).unwrap();
        let mut engine = Engine::default();
        for boot in run.1.clone() {
            let sample = Sample { tick: boot, at: run.at(boot), ..Sample::default() };
            let decision = engine.step(sample.clone()).decision;
            journal.write(&sample, &decision, engine.standing()).unwrap();
        }
    }
}

/// From a mark, and from the header of the chapter.
fn found(path: &Path, wall: Nanos) -> [Option<(String, u64)>; 2] {
    let near = at(path, wall).unwrap().map(|tick| {
        let settings_of = tick.settings.generation.to_string();
        assert_eq!(settings_of, tick.facts.boot_id, "settings are those of the run");
        (tick.facts.boot_id, tick.snapshot.tick)
    });
    let mut replay = Replay::new(Recording::open_at(path, wall).unwrap(), None);
    let mut far = None;
    while let Some(step) = replay.step_before(wall).unwrap() {
        far = Some((replay.facts().unwrap().boot_id.clone(), step.snapshot.tick));
    }
    [near, far]
}

/// The ticks of a range.
fn ranged(path: &Path, begin: Nanos, end: Nanos) -> Vec<u64> {
    let tick = |entry| match entry {
        Ok(Entry::Frame(recorded)) if (begin..=end).contains(&recorded.sample.at.wall) => {
            Some(recorded.sample.tick)
        }
        _ => None,
    };
    Recording::open_between(path, begin, end).unwrap().filter_map(tick).collect()
}

fn before_1971(boot: u64) -> u64 {
    if boot <= 30 { 0 } else { RIGHT + 1_000 }
}

fn ahead(boot: u64) -> u64 {
    if boot <= 510 { RIGHT + 7_200 } else { RIGHT }
}

fn ahead_for_long(boot: u64) -> u64 {
    if (520..=600).contains(&boot) { RIGHT + 7_200 } else { RIGHT }
}

#[test]
fn at_finds_each_tick_whatever_the_wall_clock_did() {
    let right = |boot, seconds| Ran(boot, seconds, |_| RIGHT);
    #[rustfmt::skip]
    let table = [
        ("a boot whose clock begins in 1970", vec![right(1, 300..=500), Ran(2, 20..=90, before_1971)]),
        ("set back in the first chapter",     vec![Ran(1, 501..=563, ahead)]),
        ("set back, behind another segment",  vec![right(1, 300..=490), Ran(1, 501..=563, ahead)]),
        ("set back in a mark",                vec![Ran(1, 500..=563, ahead)]),
        ("set back in the last ticks",        vec![Ran(1, 501..=513, ahead)]),
        ("set back behind the last mark",     vec![Ran(1, 480..=514, ahead)]),
        ("set back before an agent ended",    vec![Ran(1, 480..=512, ahead), right(1, 564..=600)]),
        ("a segment follows",                 vec![Ran(1, 501..=563, ahead), right(1, 564..=600)]),
        ("ahead, and set back",               vec![Ran(1, 501..=700, ahead_for_long)]),
    ];
    for (what, runs) in table {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("recording");
        record(&path, &runs);
        for run in &runs {
            for boot in run.1.clone().step_by(4).chain([509, 510, 511, 599, 600, 601]) {
                if !run.1.contains(&boot) {
                    continue;
                }
                let (wall, want) = (run.at(boot).wall, Some((run.0.to_string(), boot)));
                assert_eq!(found(&path, wall), [want.clone(), want], "{what}, {boot} of {}", run.0);
                assert_eq!(ranged(&path, wall, wall), [boot], "{what}, {boot} of {}", run.0);
            }
        }
        // What is asked for without a moment is the last tick.
        let last = runs.last().map(|run| (run.0.to_string(), *run.1.end()));
        assert_eq!(found(&path, Nanos(u64::MAX)), [last.clone(), last], "{what}");
    }
}

#[test]
fn at_a_time_of_which_nothing_is_recorded_is_the_tick_before() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("recording");
    let runs = [Ran(1, 300..=500, |_| RIGHT), Ran(2, 20..=90, before_1971)];
    record(&path, &runs);
    let wall = Nanos((RIGHT + 700) * Nanos::SECOND.0);
    let last = Some(("1".to_owned(), 500));
    assert_eq!(found(&path, wall), [last.clone(), last]);
}

#[test]
fn a_range_has_all_its_ticks_whatever_the_wall_clock_did() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("recording");
    let runs = [Ran(1, 501..=560, ahead), Ran(1, 561..=700, |_| RIGHT)];
    record(&path, &runs);
    let wall = |seconds: u64| Nanos((RIGHT + seconds) * Nanos::SECOND.0);
    #[rustfmt::skip]
    let table = [
        // the range, its ticks
        (505,   550,   (511..=550).collect::<Vec<_>>()),
        (540,   600,   (540..=600).collect()),
        (0,     7_705, (501..=505).chain(511..=700).collect()),
        (650,   7_705, (501..=505).chain(650..=700).collect()),
        (7_000, 9_000, (501..=510).collect()),
    ];
    for (begin, end, want) in table {
        assert_eq!(ranged(&path, wall(begin), wall(end)), want, "{begin}..{end}");
    }
}

#[test]
fn at_names_who_was_killed_where_the_cgroup_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("recording");
    let at = |seconds: u64| Moment {
        boot: Nanos(seconds * Nanos::SECOND.0),
        wall: Nanos(seconds * Nanos::SECOND.0),
    };
    let victim = CgroupPath("/system.slice/backup.service".into());
    let start = Start { at: at(0), ..Start::default() };
    let mut journal = Journal::create(&path, start, Bounds::default()).unwrap();
    let mut engine = Engine::default();
    for tick in 1..=60 {
        let kill = OomKill { victim: CgroupId(7), at: at(tick).boot, ..OomKill::default() };
        let oom_kills = if tick == 20 || tick == 50 { vec![kill] } else { Vec::new() };
        let cgroup = Cgroup { path: victim.clone(), ..Cgroup::default() };
        let is_there = tick != 20 && tick < 50;
        let sample = Sample {
            tick,
            at: at(tick),
            cgroups: is_there.then(|| (CgroupId(7), cgroup.into())).into_iter().collect(),
            kernel: Some(KernelStalls { oom_kills, ..KernelStalls::default() }),
            ..Sample::default()
        };
        let decision = engine.step(sample.clone()).decision;
        journal.write(&sample, &decision, engine.standing()).unwrap();
    }
    drop(journal);
    // The tick of a kill, those after it, and those that a mark has.
    for (tick, want) in [(19, 0), (20, 1), (21, 1), (48, 1), (50, 2), (52, 2), (60, 2)] {
        let found = super::at(&path, at(tick).wall).unwrap().unwrap();
        let paths: Vec<_> = found.oom_kills.iter().map(|one| one.victim_path.clone()).collect();
        assert_eq!(paths, vec![Some(victim.clone()); want], "tick {tick}");
    }
}
