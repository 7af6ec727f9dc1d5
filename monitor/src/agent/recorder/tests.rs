use super::*;
use crate::agent::recorder::writer::Writer;
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
        recorder.tick(engine.standing(), &decision, Vec::new(), &[]);
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
        (below_a_file, "in memory, the last ten minutes: cannot record to"),
        (free.clone(), "another agent records there"),
    ];
    for (path, want) in table {
        let begun = Recorder::begin(where_possible(&path), Start::default());
        let mut recorder = begun.unwrap().unwrap();
        records(&mut recorder, 3);
        let Capability { state, detail, .. } = recorder.capability().clone();
        assert!(detail.contains(want) && state == CapabilityState::Off, "{path:?}: {detail}");
        let asked_for = Record::To(path.join(""), Bounds::default());
        assert!(Recorder::begin(asked_for, Start::default()).is_err(), "{path:?} was named");
    }
    assert_eq!(first.capability().state, CapabilityState::Attached);
}

#[test]
fn tick_pauses_the_recording_while_the_disk_is_slow() {
    let (to, reports) = channel();
    let writer = Writer::open(where_possible(Path::new("/dev/null/no")), Start::default(), to);
    let shelf = Arc::clone(writer.unwrap().unwrap().shelf());
    // Nothing takes these orders.
    let (orders, inbox) = sync_channel(2);
    let mut recorder = Recorder {
        ring: None,
        orders,
        reports,
        shelf,
        settings: Settings::default(),
        capability: off(String::new()),
        wants_standing: false,
        n_waiting: 0,
        n_lost: 0,
    };
    records(&mut recorder, 5);
    assert_eq!(recorder.n_waiting, 3);
    assert!(recorder.capability().detail.contains("the disk is slow"), "{recorder:?}");
    let ticks = inbox.try_iter().filter(|order| matches!(order, Order::Tick(_))).count();
    assert_eq!(ticks, 2);
    records(&mut recorder, 1);
    let next = inbox.try_recv();
    let is_new_chapter = matches!(next, Ok(Order::Chapter { continues: false, .. }));
    assert!(is_new_chapter, "what comes after lost ticks begins with the standing between");
    assert_eq!((recorder.n_waiting, recorder.n_lost), (0, 4));
}
