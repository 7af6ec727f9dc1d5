use super::*;
use crate::agent::recorder::writer::{Attempt, Writer};
use crate::record::journal::Journal;
use crate::record::reader::{Entry as Reading, Recording};
use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::sample::{Gap, GapReason};
use isobar_core::model::stall::OomKill;
use isobar_core::policy::engine::Engine;
use std::fs;
use std::path::Path;

fn where_possible(dir: &Path) -> Record {
    Record::WherePossible(dir.into(), Bounds::default())
}

fn entry(engine: &mut Engine, tick: u64) -> Decision {
    engine.step(Sample { tick, ..Sample::default() }).decision
}

fn records(recorder: &mut Recorder, n: u64) {
    let mut engine = Engine::default();
    for tick in 1..=n {
        let decision = entry(&mut engine, tick);
        recorder.tick(engine.standing(), &decision, &[], &[]);
    }
}

#[test]
fn record_falls_back_to_memory_where_files_cannot_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let (free, below_a_file) = (dir.path().join("free"), file.join("dir"));
    let mut first = Recorder::begin(where_possible(&free), Start::default());
    let first = first.as_mut().unwrap().as_mut().unwrap();
    #[rustfmt::skip]
    let table = [
        // directory, detail of the capability
        (below_a_file, "in memory, ten minutes at most: cannot record to"),
        (free.clone(), "another agent records there"),
    ];
    for (path, want) in table {
        let begun = Recorder::begin(where_possible(&path), Start::default());
        let mut recorder = begun.unwrap().unwrap();
        records(&mut recorder, 3);
        let Capability { state, detail, .. } = recorder.capability().clone();
        assert!(detail.contains(want) && state == CapabilityState::Absent, "{path:?}: {detail}");
        let asked_for = Record::To(path.join(""), Bounds::default());
        assert!(Recorder::begin(asked_for, Start::default()).is_err(), "{path:?} was named");
    }
    assert_eq!(first.capability().state, CapabilityState::Attached);
}

#[test]
fn record_to_a_file_is_for_one_agent() {
    let dir = tempfile::tempdir().unwrap();
    let begin = || {
        let to = Record::To(dir.path().join("node.isobar"), Bounds::default());
        Recorder::begin(to, Start::default()).map(|recorder| drop(recorder.unwrap()))
    };
    let to = Record::To(dir.path().join("node.isobar"), Bounds::default());
    let first = Recorder::begin(to, Start::default()).unwrap();
    let why = std::error::Error::source(&begin().unwrap_err()).unwrap().to_string();
    assert_eq!(why, "another agent records there");
    drop(first);
    // Its threads hold the lock until they have ended.
    let is_free = (0..100).any(|_| {
        thread::sleep(Duration::from_millis(50));
        begin().is_ok()
    });
    assert!(is_free);
}

fn kill(at: Moment) -> OomRecord {
    let kill = OomKill { at: at.boot, victim: CgroupId(7), ..OomKill::default() };
    OomRecord::of(&kill, at, None, |_| None)
}

/// A recorder whose orders are taken by the test alone: there is room for `n`.
fn with_room_for(n: usize) -> (Recorder, Receiver<Order>) {
    let (to, reports) = channel();
    let (orders, inbox) = sync_channel(n);
    to.send(Report::WantsStanding).unwrap();
    let recorder = Recorder {
        ring: None,
        orders,
        reports,
        shelf: Arc::new(Shelf::in_memory()),
        settings: Settings::default(),
        capability: failing(String::new()),
        wants_standing: false,
        n_waiting: 0,
        counts: Counts::default(),
        watch: Watch::default(),
        bounds: Bounds::default(),
        whole_since: None,
        turns: VecDeque::new(),
    };
    (recorder, inbox)
}

#[test]
fn hand_over_keeps_the_request_for_a_standing_until_one_is_taken() {
    #[rustfmt::skip]
    let table = [
        // room before the request is heard, orders taken after it, ticks then, is it answered?
        (1, 0, 0, true),  // with the tick itself
        (0, 0, 1, false), // that tick is lost
        (0, 1, 1, true),  // and the chapter after it has the standing
    ];
    for (room, taken, ticks, want) in table {
        let (mut recorder, inbox) = with_room_for(1);
        for _ in room..1 {
            let nothing = Turn::Over(Box::default());
            recorder.orders.try_send(Order::Turn(nothing)).unwrap();
        }
        records(&mut recorder, 1);
        assert_eq!(inbox.try_iter().take(taken).count(), taken);
        records(&mut recorder, ticks);
        let has_standing = |order| match order {
            Order::Tick(entry) => entry.standing.is_some(),
            Order::Chapter { .. } => true,
            Order::Turn(_) => false,
        };
        let row = (room, taken, ticks);
        assert_eq!(inbox.try_iter().any(has_standing), want, "{row:?}");
        assert_eq!(recorder.wants_standing, !want, "{row:?}");
    }
}

fn failed() -> JournalError {
    JournalError::Foreign("recording".into())
}

#[test]
fn attempt_is_waited_for_while_a_disk_hangs() {
    let (go_on, hangs) = channel::<()>();
    let work = move || {
        let _ = hangs.recv();
        Err(failed())
    };
    let mut attempt = Attempt::of(work);
    for _ in 0..2 {
        assert!(attempt.answer(Duration::from_millis(20)).is_none());
        assert!(attempt.is_under_way(), "and none is begun beside it");
    }
    drop(go_on);
    assert!(attempt.answer(Duration::from_secs(60)).is_some());
    assert!(!attempt.is_under_way());
}

#[test]
fn chapter_has_files_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let (to, _reports) = channel();
    let opened = Writer::open(where_possible(dir.path()), Start::default(), to);
    let (mut writer, _) = opened.unwrap().unwrap();
    writer.fail(&failed(), Moment::default());
    let (settings, standing) = <(Box<Settings>, Box<Standing>)>::default();
    let at = Moment::default();
    writer.take(Order::Chapter { settings, standing, at, continues: false });
    assert_eq!(writer.capability().state, CapabilityState::Attached, "{:?}", writer.capability());
}

#[test]
fn reload_alone_begins_segments() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("recording");
    let bounds = Bounds { age: Bounds::LEAST_AGE, ..Bounds::default() };
    let mut journal = Journal::create(&path, Start::default(), bounds).unwrap();
    for second in 0..200 {
        let now = Nanos(second * Nanos::SECOND.0);
        let at = Moment { boot: now, wall: now };
        journal.reload(Settings::default(), &Standing::default(), at).unwrap();
    }
    let kept = journal.ring().segments().unwrap().0;
    assert!((8..=10).contains(&kept.len()) && !kept.contains(&path), "{kept:?}");
}

#[test]
fn tick_pauses_the_recording_while_the_disk_is_slow() {
    let (mut recorder, inbox) = with_room_for(2);
    records(&mut recorder, 2);
    // What happens in a tick that is lost.
    let mut engine = Engine::default();
    let decision = entry(&mut engine, 3);
    recorder.tick(engine.standing(), &decision, &[kill(Moment::default())], &[]);
    records(&mut recorder, 2);
    assert_eq!(recorder.n_waiting, 3);
    assert!(recorder.capability().detail.contains("the disk is slow"), "{recorder:?}");
    let ticks = inbox.try_iter().filter(|order| matches!(order, Order::Tick(_))).count();
    assert_eq!(ticks, 2);
    records(&mut recorder, 1);
    let next = inbox.try_recv();
    let is_new_chapter = matches!(next, Ok(Order::Chapter { continues: false, .. }));
    assert!(is_new_chapter, "what comes after lost ticks begins with the standing between");
    assert_eq!((recorder.n_waiting, recorder.counts.lost), (0, 4));
    let next = inbox.try_recv();
    assert!(
        matches!(next, Ok(Order::Turn(Turn::Open(_)))),
        "the incident is not lost with its tick"
    );
}

#[test]
fn record_goes_on_in_files_with_what_was_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let (place, aside) = (dir.path().join("place"), dir.path().join("aside"));
    fs::write(&place, "").unwrap();
    let (to, reports) = channel();
    let opened = Writer::open(where_possible(&place), Start::default(), to);
    let (mut writer, _) = opened.unwrap().unwrap();
    let freezer =
        Freezer::begin(Arc::clone(writer.shelf()), writer.ring().cloned(), String::new(), None);
    writer.freeze_with(freezer.unwrap());
    let mut engine = Engine::default();
    let mut wants_standing = false;
    let mut tick = |writer: &mut Writer, from: u64, to: u64| {
        for tick in from..to {
            let now = Nanos(tick * Nanos::SECOND.0);
            let at = Moment { boot: now, wall: now };
            let sample = Sample { tick, at, ..Sample::default() };
            let decision = engine.step(sample.clone()).decision;
            let standing = wants_standing.then(|| engine.standing().clone());
            writer.take(Order::Tick(Box::new(Entry { sample, decision, standing })));
            let asked = reports.try_iter().filter(|one| matches!(one, Report::WantsStanding));
            wants_standing = asked.count() > 0;
        }
    };
    // Two attempts fail on the way.
    tick(&mut writer, 1, 130);
    fs::rename(&place, &aside).unwrap();
    tick(&mut writer, 130, 200);
    assert_eq!(writer.capability().state, CapabilityState::Attached, "{:?}", writer.capability());
    // A file that fails, and one that can be written again.
    let begun = writer.ring().cloned();
    writer.fail(&failed(), Moment::default());
    fs::rename(&place, aside.with_extension("2")).unwrap();
    fs::write(&place, "").unwrap();
    tick(&mut writer, 200, 210);
    let held = writer.ring().unwrap().segments().unwrap().0.len();
    assert_eq!(held, 1, "{:?}", writer.ring());
    fs::remove_file(&place).unwrap();
    fs::rename(aside.with_extension("2"), &place).unwrap();
    let held = writer.ring().unwrap().segments().unwrap().0.len();
    assert!(held > 1, "the files from before can still be read: {:?}", writer.ring());
    tick(&mut writer, 210, 300);
    assert_eq!(writer.capability().state, CapabilityState::Attached, "{:?}", writer.capability());
    drop(writer);

    let Some(Ring::Files(file)) = begun else { panic!("{begun:?}") };
    let recording = Recording::open(&file).unwrap();
    let mut engine: Option<Engine> = None;
    let mut ticks = Vec::new();
    for entry in recording {
        match entry.unwrap() {
            Reading::Header(header) if header.continues && engine.is_some() => {}
            Reading::Header(header) => engine = Some(Engine::new(header.settings, header.standing)),
            Reading::Frame(frame) => {
                ticks.push(frame.sample.tick);
                let step = engine.as_mut().unwrap().step(frame.sample);
                let again = serde_json::to_string(&step.decision).unwrap();
                assert_eq!(again, frame.decision, "tick {ticks:?}");
            }
            Reading::Lost(lost) => panic!("{lost:?}"),
            Reading::Notice(_) | Reading::Other(_) => {}
        }
    }
    // Tick 200 is the first after the failure, and came with no standing.
    let missing: Vec<_> = (1..300).filter(|tick| !ticks.contains(tick)).collect();
    assert!(
        missing.len() <= 2 && missing.iter().all(|tick| (200..203).contains(tick)),
        "{missing:?}"
    );
}

/// A recording of 1 MiB, in which a tick takes 8 KB: it has every tick of some 100 seconds.
#[test]
fn an_incident_ends_before_a_small_recording_has_lost_its_beginning() {
    let dir = tempfile::tempdir().unwrap();
    let to =
        Record::To(dir.path().join("r"), Bounds { size: Bounds::LEAST_SIZE, ..Bounds::default() });
    let mut recorder = Recorder::begin(to, Start::default()).unwrap().unwrap();
    let shelf = Arc::clone(recorder.shelf());
    let (mut engine, mut seed) = (Engine::default(), 1_u64);
    let mut name = || {
        seed = seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        format!("{:08x}", seed >> 32)
    };
    let ended = || shelf.list().unwrap().into_iter().find(|one| one.end.is_some() && one.ticks > 0);
    let mut frozen = None;
    for tick in 1..=450 {
        let now = Nanos(tick * Nanos::SECOND.0);
        let at = Moment { boot: now, wall: now };
        let (object, why) = (String::new(), GapReason::Gone);
        let detail = (0..2_000).map(|_| name()).collect();
        let gaps = vec![Gap { object, why, detail }];
        let decision = engine.step(Sample { tick, at, gaps, ..Sample::default() }).decision;
        let kills = if tick >= 300 { vec![kill(at)] } else { Vec::new() };
        recorder.tick(engine.standing(), &decision, &kills, &[]);
        // What is frozen is read from the recording meanwhile.
        thread::sleep(Duration::from_millis(if tick < 300 { 10 } else { 100 }));
        frozen = ended();
        if frozen.is_some() {
            break;
        }
    }
    let frozen = frozen.unwrap();
    assert!(frozen.is_cut && frozen.from <= frozen.begin, "{}", frozen.summary);
}
