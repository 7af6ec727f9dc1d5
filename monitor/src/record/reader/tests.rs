use super::*;
use crate::record::journal::{Bounds, Journal, Start};
use isobar_core::model::decision::Decision;
use isobar_core::model::sample::Sample;
use isobar_core::model::units::Nanos;
use isobar_core::policy::engine::Standing;

/// Three segments of two ticks each.
fn record(path: &Path) {
    for n in [1, 3, 5] {
        let at = |tick: u64| Moment { boot: seconds(tick), wall: seconds(tick) };
        let start = Start { at: at(n - 1), ..Start::default() };
        let mut journal = Journal::create(path, start, Bounds::default()).unwrap();
        for tick in [n, n + 1] {
            let sample = Sample { tick, at: at(tick), ..Sample::default() };
            let standing = Standing { before: Some(sample.clone()), ..Standing::default() };
            journal.write(&sample, &Decision::default(), &standing).unwrap();
        }
    }
}

fn seconds(n: u64) -> Nanos {
    Nanos(n * Nanos::SECOND.0)
}

#[test]
fn open_passes_over_segments_whose_beginning_is_damaged() {
    #[rustfmt::skip]
    let table = [
        // damaged, ticks of the others, notices, reports of missing ticks
        (vec![],           vec![1, 2, 3, 4, 5, 6], 0, 0),
        (vec!["r"],        vec![3, 4, 5, 6],       1, 0),
        (vec!["r", "r.1"], vec![5, 6],             2, 0),
        (vec!["r.1"],      vec![1, 2, 5, 6],       0, 1),
        (vec!["r.2"],      vec![1, 2, 3, 4],       0, 1),
    ];
    for (damaged, want, n_notices, n_lost) in table {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r");
        record(&path);
        for name in &damaged {
            let file = dir.path().join(name);
            let mut bytes = fs::read(&file).unwrap();
            bytes[..16].fill(b'\n');
            fs::write(file, bytes).unwrap();
        }
        // From the beginning, and from a moment in what is damaged.
        let all = [Recording::open(&path), Recording::open_at(&path, seconds(0))];
        for recording in all {
            let (mut ticks, mut notices, mut lost) = (Vec::new(), 0, 0);
            for entry in recording.unwrap() {
                match entry.unwrap() {
                    Entry::Frame(recorded) => ticks.push(recorded.sample.tick),
                    Entry::Notice(_) => notices += 1,
                    Entry::Lost(_) => lost += 1,
                    Entry::Header(_) | Entry::Other(_) => {}
                }
            }
            assert_eq!((&ticks, notices, lost), (&want, n_notices, n_lost), "{damaged:?}");
        }
    }
}

#[test]
fn open_reads_on_at_the_next_chapter_behind_a_damaged_beginning() {
    let at = |tick: u64| Moment { boot: seconds(tick), wall: seconds(tick) };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    let mut journal = Journal::create(&path, Start::default(), Bounds::default()).unwrap();
    for tick in 1..=4 {
        let sample = Sample { tick, at: at(tick), ..Sample::default() };
        let standing = Standing { before: Some(sample.clone()), ..Standing::default() };
        journal.write(&sample, &Decision::default(), &standing).unwrap();
        if tick == 2 {
            journal.reload(Default::default(), &standing, at(tick)).unwrap();
        }
    }
    drop(journal);
    let whole = fs::read(&path).unwrap();
    for (damaged, with) in [(0..4, 0), (0..16, b'\n'), (30..60, 0)] {
        let mut bytes = whole.clone();
        bytes[damaged.clone()].fill(with);
        fs::write(&path, bytes).unwrap();
        for recording in [Recording::open(&path), Recording::open_at(&path, seconds(0))] {
            let (mut ticks, mut lost) = (Vec::new(), Vec::new());
            for entry in recording.unwrap() {
                match entry.unwrap() {
                    Entry::Frame(recorded) => ticks.push(recorded.sample.tick),
                    Entry::Lost(why) => lost.push(why),
                    _ => {}
                }
            }
            assert_eq!((&ticks[..], lost.len()), (&[3, 4][..], 1), "{damaged:?}: {lost:?}");
        }
    }
}

#[test]
fn open_refuses_what_has_no_recording_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    for name in ["r", "r.1"] {
        fs::write(dir.path().join(name), "names of my cats\n").unwrap();
        let why = Recording::open(&path).err();
        assert!(matches!(why, Some(ReadError::NotARecording(_))), "{name}: {why:?}");
    }
}
