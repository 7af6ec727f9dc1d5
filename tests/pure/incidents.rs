//! Incidents of nodes that do not exist: where they begin and end, what is taken out of the
//! recording, and that no name leads out of the directory.

mod io;
mod long;
mod missing;
mod set_back;
mod verbs;

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::program::{self, text};
use isobar::record::incident::freeze::{freeze, import};
use isobar::record::incident::retention::Retention;
use isobar::record::incident::shelf::{Draft, Shelf, ShelfError};
use isobar::record::incident::watch::{Seen, Turn, Watch};
use isobar::record::incident::{Incident, Kind, State, Trigger, is_name, name_of};
use isobar::record::journal::{Bounds, Journal, Ring, Start};
use isobar::record::reader::{Entry, Recording};
use isobar::record::replay::{Replay, Replayed};
use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::condition::Measure;
use isobar_core::model::limit::{LimitResult, LimitState, LimitWrite};
use isobar_core::model::node::NodeFacts;
use isobar_core::model::psi::{Line, Pressure};
use isobar_core::model::sample::{Moment, Sample};
use isobar_core::model::settings::{ConditionRule, Settings, WrittenLimit};
use isobar_core::model::stall::{KernelStalls, OomKill};
use isobar_core::model::units::{Nanos, Percent};
use isobar_core::policy::engine::{Engine, Standing};
use tempfile::TempDir;

const DAY: u64 = 86_400;
/// 2026-09-21, 14:13:20 UTC.
const BEGUN: u64 = 1_790_000_000;

fn at(second: u64) -> Moment {
    let boot = Nanos(second * Nanos::SECOND.0);
    Moment { boot, wall: Nanos(BEGUN * Nanos::SECOND.0 + boot.0) }
}

fn settings() -> Settings {
    let mut settings = Settings::default();
    for rule in settings.conditions.rules.values_mut() {
        *rule = ConditionRule { measure: Measure::RawSome, threshold: Percent(60_00) };
    }
    settings
}

/// Its CPUs are short from second 200 to second 260; the kernel kills at 230.
fn sample(second: u64) -> Sample {
    let mut sample = Sample { tick: second, at: at(second), ..Sample::default() };
    let share = Percent(if (200..260).contains(&second) { 90_00 } else { 5_00 });
    let line = Line { avg10: share, avg60: share, ..Line::default() };
    sample.node.pressure.cpu = Some(Pressure { some: Some(line), full: None });
    let mut kernel = KernelStalls { clock: sample.at.boot, ..KernelStalls::default() };
    if second == 230 {
        let kill = OomKill { at: sample.at.boot, victim_pid: Some(7), limit_known: true, ..kill() };
        kernel.oom_kills.push(kill);
    }
    sample.kernel = Some(kernel);
    sample
}

fn kill() -> OomKill {
    OomKill { victim: CgroupId(5), trigger: CgroupId(5), ..OomKill::default() }
}

/// Records so many seconds. The turns that a watch made of them, with their ticks.
fn recorded(path: &Path, seconds: u64) -> Vec<(u64, Turn)> {
    let standing = Standing::new(4);
    let mut engine = Engine::new(settings(), standing.clone());
    let start = Start { settings: settings(), standing, at: at(0), ..Start::default() };
    let mut journal = Journal::create(path, start, Bounds::default()).unwrap();
    let (mut watch, mut turns) = (Watch::new("worker-1".into(), "this boot".into()), Vec::new());
    for second in 1..=seconds {
        let sample = sample(second);
        let decision = engine.step(sample.clone()).decision;
        journal.write(&sample, &decision, engine.standing()).unwrap();
        let seen = Seen { sample: &sample, decision: &decision, kills: &[], limits: &[] };
        turns.extend(watch.tick(seen).map(|turn| (second, turn)));
    }
    turns
}

/// A recording with an incident, the incident as it was found, and a shelf for it.
fn scene(dir: &TempDir) -> (Ring, Incident, Shelf) {
    let path = dir.path().join("recording");
    let over = recorded(&path, 400).pop().unwrap();
    let (_, Turn::Over(incident)) = over else { panic!("it is not over: {over:?}") };
    (Ring::Files(path), *incident, Shelf::in_dir(dir.path().join("incidents")))
}

#[test]
fn watch_opens_and_closes() {
    let dir = TempDir::new().unwrap();
    let turns = recorded(&dir.path().join("r"), 400);
    let [(200, Turn::Open(open)), (over, Turn::Over(closed))] = &turns[..] else {
        panic!("{turns:?}")
    };
    assert_eq!(open.name, "20260921T141640Z-condition-SystemCPUContentionPressure");
    assert_eq!((open.state, open.end), (State::Open, None));
    // Cleared in second 260, and calm for 30 s.
    assert_eq!((*over, closed.end), (289, Some(at(289))));
    assert_eq!(closed.kinds, [Kind::Condition]);
}

#[test]
fn watch_tells_a_drifted_limit_once() {
    let limit = |result, live: &str| LimitState {
        write: LimitWrite {
            what: WrittenLimit::Allocatable,
            cgroup: CgroupPath("/kubepods".into()),
            file: "memory.max".into(),
            value: "1".into(),
        },
        before: None,
        live: Some(live.into()),
        result,
        detail: "another process wrote 2".into(),
    };
    let [kept, drifted] =
        [LimitResult::Kept, LimitResult::Drifted].map(|result| [limit(result, "1")]);
    let [failed, unheld] = ["2", "1"].map(|live| [limit(LimitResult::Failed, live)]);
    #[rustfmt::skip]
    let table = [
        // limits, triggers since the beginning
        (&failed,  0), // it never stood
        (&kept,    0),
        (&drifted, 1),
        (&drifted, 1), // a look lasts ten ticks
        (&kept,    1),
        (&drifted, 2), // again
        (&kept,    2),
        (&unheld,  2), // it stands, and no other writer is at work
        (&failed,  3), // left to the other writer
        (&failed,  3),
    ];
    let mut watch = Watch::new(String::new(), String::new());
    let mut triggers = 0;
    for (second, (limits, want)) in table.into_iter().enumerate() {
        let sample = sample(second as u64 + 1);
        let decision = Engine::new(settings(), Standing::new(4)).step(sample.clone()).decision;
        let seen = Seen { sample: &sample, decision: &decision, kills: &[], limits };
        if let Some(Turn::Open(incident)) = watch.tick(seen) {
            triggers = incident.triggers.len();
        }
        assert_eq!(triggers, want, "second {second}");
    }
}

#[test]
fn name_of_is_safe_whoever_it_is_about() {
    #[rustfmt::skip]
    let table = [
        // who, end of the name
        ("shop/web-1",             "shop_web-1"),
        ("/kubepods/pod1",         "kubepods_pod1"),
        ("../../etc/passwd",       ".._.._etc_passwd"),
        ("a\n\x1b[2J",             "a___2J"),
        ("\u{202e}cod",            "cod"),
        ("",                       "unknown"),
        ("///",                    "unknown"),
    ];
    for (who, want) in table {
        let (text, at_own_limit) = Default::default();
        let trigger = Trigger { at: at(0), kind: Kind::Kill, who: who.into(), text, at_own_limit };
        let name = name_of(&trigger);
        assert_eq!(name, format!("20260921T141320Z-kill-{want}"), "{who:?}");
        assert!(is_name(&name), "{name}");
    }
    for hostile in ["", ".", "..", "../lock", "a/b", "2/../x", "x", "2\0", &"2".repeat(121)] {
        assert!(!is_name(hostile), "{hostile:?}");
    }
}

#[test]
fn freeze_keeps_a_span_that_replays() {
    let dir = TempDir::new().unwrap();
    let (ring, incident, shelf) = scene(&dir);
    let mut n_rests = 0;
    let rest = || n_rests += 1;
    let frozen = freeze(&ring, &shelf, incident, shelf.draft().unwrap(), rest).unwrap();
    // Two minutes before, and until it was calm.
    assert_eq!((frozen.from, frozen.to, frozen.ticks), (at(80), at(289), 210));
    assert!(n_rests >= frozen.ticks, "{n_rests}");
    let want = "On worker-1 at 2026-09-21 14:16:40Z, SystemCPUContentionPressure became True: PSI cpu \
        some was 90.00 % over a minute and 90.00 % over ten seconds, the threshold is 60.00 %. \
        SystemCPUContentionPressure was True from 14:16:40Z to 14:17:40Z (1m0s); PSI cpu some reached \
        90.00 % over a minute. At 14:17:10Z the kernel's OOM killer killed process 7 of a cgroup that \
        is gone; isobar had not foreseen it; why isobar did not prevent it: it saw no shortage of \
        memory before the kill. isobar took no step. It was calm again at 14:18:09Z, after 1m29s.";
    assert_eq!(frozen.summary, want);
    let found = shelf.find(&frozen.name).unwrap();
    assert_eq!(found, frozen);
    let file = dir.path().join(format!("incidents/{}.isobar", frozen.name));
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let got = program::isobar(&["replay", "--check"]).arg(&file).output().unwrap();
    assert_eq!(text(&got.stdout), "210 decisions compared, all the same\n");
    assert_eq!(text(&got.stderr), "", "a reader that knows no incidents passes over the last line");
}

#[test]
fn import_makes_the_same_of_an_export() {
    let dir = TempDir::new().unwrap();
    let (ring, incident, shelf) = scene(&dir);
    let frozen = freeze(&ring, &shelf, incident, shelf.draft().unwrap(), || ()).unwrap();
    let file = dir.path().join(format!("incidents/{}.isobar", frozen.name));
    let other = Shelf::in_dir(dir.path().join("other"));
    assert_eq!(import(&file, &other, at(0).wall).unwrap().summary, frozen.summary);
    let again = import(&file, &other, at(0).wall).unwrap_err().to_string();
    assert!(again.ends_with("exists already"), "{again}");

    let foreign = dir.path().join("foreign");
    let whole = fs::read(&file).unwrap();
    let lines = text(&zstd::decode_all(&whole[..]).unwrap());
    let hostile = lines.replace(&frozen.name, "../../escaped");
    let no_incident = fs::read(dir.path().join("recording")).unwrap();
    #[rustfmt::skip]
    let table: [(&str, &[u8], &str); 5] = [
        // what, bytes, error
        ("another file",        b"hello\n",              "is no recording"),
        ("an empty file",       b"",                     "is empty"),
        ("a recording",         &no_incident,            "has no incident in it"),
        ("cut off",             &whole[..whole.len() / 2], "has no incident in it"),
        ("a name that leads out", hostile.as_bytes(),    "no usable name"),
    ];
    for (what, bytes, want) in table {
        fs::write(&foreign, bytes).unwrap();
        let error = import(&foreign, &other, at(0).wall).unwrap_err().to_string();
        assert!(error.contains(want), "{what}: {error}");
    }
    assert_eq!(other.list().unwrap().len(), 1);
}

#[test]
fn shelf_keeps_the_newest() {
    let dir = TempDir::new().unwrap();
    let shelf = Shelf::in_dir(dir.path().join("incidents"));
    let keep_of = |kind: Kind, n: usize, imported: Option<Nanos>| {
        let (begin, state, kinds) = (at(n as u64), State::Frozen, vec![kind]);
        let name = format!("2026-{n:04}");
        let boot_id = "this boot".into();
        let incident =
            Incident { name, boot_id, begin, state, kinds, imported, ..Incident::default() };
        shelf.keep(incident, shelf.draft().unwrap()).unwrap();
    };
    let keep = |n, imported| keep_of(Kind::OomKill, n, imported);
    let most = Retention::USUAL.n;
    (0..most + 5).for_each(|n| keep(n, None));
    let names = || shelf.list().unwrap().into_iter().map(|one| one.name).collect::<Vec<_>>();
    let prune = |second| shelf.prune("this boot", at(second)).unwrap();
    prune(2_000);
    assert_eq!((names().len(), names()[0].as_str()), (most, "2026-0005"));
    // A condition that comes and goes takes no more than half.
    (1_000..1_000 + most).for_each(|n| keep_of(Kind::Condition, n, None));
    prune(2_000);
    let (gentle, all) = (most / 2, names());
    assert_eq!((all.len(), all[most - gentle].as_str()), (most, "2026-1100"));
    assert_eq!(all[0], "2026-0105", "half is left for kills");
    keep(1, Some(at(20 * DAY).wall));
    prune(31 * DAY);
    assert_eq!(names(), ["2026-0001"], "what was imported is never too old");
    shelf.remove("2026-0001").unwrap();
    fs::write(dir.path().join("incidents/2026-1.json"), "{").unwrap();
    assert_eq!(names(), Vec::<String>::new(), "a damaged document hides no other");
    for name in ["../lock", "2026-none"] {
        assert!(shelf.remove(name).unwrap_err().to_string().contains("there is no incident"));
    }
}

#[test]
fn recording_opens_at_any_moment() {
    let dir = TempDir::new().unwrap();
    let path: PathBuf = dir.path().join("recording");
    recorded(&path, 700);
    #[rustfmt::skip]
    let table = [
        // milliseconds, the tick that is shown
        (0,         None),
        (1_000,     Some(1)),
        (15_500,    Some(15)),  // the next chapter has begun, and its first tick has not come
        (299_000,   Some(299)),
        (300_000,   Some(300)), // the same of a mark
        (300_500,   Some(300)),
        (301_000,   Some(301)),
        (320_500,   Some(320)),
        (650_000,   Some(650)),
        (5_000_000, Some(700)),
    ];
    let whole = fs::read(&path).unwrap();
    for cut in [whole.len(), whole.len() - 3] {
        fs::write(&path, &whole[..cut]).unwrap();
        for (ms, want) in table {
            let wall = at(0).wall.plus(Nanos(ms * 1_000_000));
            let mut replay = Replay::new(Recording::open_at(&path, wall).unwrap(), None);
            let mut last = None;
            let mut n = 0;
            while let Some(step) = replay.step_before(wall).unwrap() {
                (last, n) = (Some(step.decision.tick), n + 1);
            }
            assert_eq!(last, want, "{ms} ms");
            assert!(n <= 300, "no more than a chapter is judged for {ms} ms: {n}");
        }
    }
}

#[test]
fn shelf_settles_in_a_directory_once_it_can_be_written() {
    let dir = TempDir::new().unwrap();
    let (ring, incident, _) = scene(&dir);
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let shelf = Shelf::in_dir(file.join("incidents"));
    let name = incident.name.clone();
    assert!(shelf.draft().is_err() && shelf.note(&incident).is_err());
    shelf.note_in_memory(&incident);
    assert_eq!(shelf.list().unwrap().len(), 1, "also while the directory cannot be listed");
    let kept = freeze(&ring, &shelf, incident, Draft::in_memory().unwrap(), || ()).unwrap();
    assert_eq!((shelf.list().unwrap(), kept.state), (vec![kept.clone()], State::Frozen));
    let bytes = |shelf: &Shelf| {
        let mut all = Vec::new();
        shelf.open(&name).unwrap().read_to_end(&mut all).unwrap();
        all
    };
    let ticks = bytes(&shelf);
    assert!(shelf.settle(&file.join("incidents")).is_err(), "it is still a file");
    assert_eq!(shelf.list().unwrap().len(), 1);

    fs::remove_file(&file).unwrap();
    shelf.settle(&file.join("incidents")).unwrap();
    let other = Shelf::in_dir(file.join("incidents"));
    assert_eq!((other.list().unwrap(), bytes(&other)), (vec![kept.clone()], ticks));
    shelf.remove(&name).unwrap();
    assert_eq!(shelf.list().unwrap(), []);

    // One without a directory gets it then. Another that finds no place there stays as it is.
    let shelf = Shelf::in_memory();
    let long = Incident { name: format!("0{name}"), summary: "x".repeat(5 << 20), ..kept.clone() };
    for one in [&long, &kept] {
        shelf.note_in_memory(one);
    }
    let later = dir.path().join("later");
    assert!(matches!(shelf.settle(&later), Err(ShelfError::TooLong { .. })));
    assert_eq!(Shelf::in_dir(later).list().unwrap(), [kept]);
    assert_eq!(shelf.find(&long.name).unwrap(), long);
}

#[test]
fn incident_keeps_its_ticks_when_the_clock_is_set_back() {
    let dir = TempDir::new().unwrap();
    let (ring, incident, _) = scene(&dir);
    let Ring::Files(path) = &ring else { unreachable!() };
    let back = Nanos(3_600 * Nanos::SECOND.0);
    let set = dir.path().join("set");
    let begin = incident.begin.boot;
    let (mut engine, mut journal) = (Engine::default(), None::<Journal>);
    let start = |boot_id: &str, at| {
        let facts = NodeFacts { boot_id: boot_id.into(), ..NodeFacts::default() };
        Start { facts, at, ..Start::default() }
    };
    // An earlier boot that lasted for longer, its clock was ahead, too.
    let soon = Moment { wall: at(0).wall.since(Nanos(600 * Nanos::SECOND.0)), ..at(900) };
    let earlier = Sample { at: soon, ..sample(9) };
    let mut before = Journal::create(&set, start("earlier", soon), Bounds::default()).unwrap();
    let decision = engine.step(earlier.clone()).decision;
    before.write(&earlier, &decision, &Standing::default()).unwrap();
    drop(before);
    for entry in Recording::open(path).unwrap() {
        let Entry::Frame(frame) = entry.unwrap() else { continue };
        let mut sample = frame.sample;
        // Five seconds into it.
        if sample.at.boot > begin.plus(Nanos(5 * Nanos::SECOND.0)) {
            sample.at.wall = sample.at.wall.since(back);
        }
        let start = start("this boot", sample.at);
        let journal =
            journal.get_or_insert_with(|| Journal::create(&set, start, Bounds::default()).unwrap());
        let decision = engine.step(sample.clone()).decision;
        journal.write(&sample, &decision, engine.standing()).unwrap();
    }
    drop(journal);
    let shelf = Shelf::in_dir(dir.path().join("other"));
    let usual = freeze(&ring, &shelf, incident.clone(), shelf.draft().unwrap(), || ()).unwrap();
    let end = incident.end.map(|end| Moment { wall: end.wall.since(back), ..end });
    let incident = Incident { end, ..incident };
    let frozen =
        freeze(&Ring::Files(set), &shelf, incident, shelf.draft().unwrap(), || ()).unwrap();
    assert_eq!((frozen.ticks, frozen.from.boot), (usual.ticks, usual.from.boot));
}
