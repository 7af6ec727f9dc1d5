//! What is recorded is what is read: exactly, whatever happens on the node, and as far as it goes
//! whatever happens to the file.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

mod thinned;

use crate::busy::{Load, Node};
use crate::ticks::{Dice, anything};
use isobar::record::journal::{Bounds, Journal, Start};
use isobar::record::reader::{Entry, Recorded, Recording};
use isobar_core::model::decision::{Decision, Event};
use isobar_core::model::node::NodeFacts;
use isobar_core::model::sample::{Gap, GapReason, Sample};
use isobar_core::model::settings::Settings;
use isobar_core::model::units::{Bytes, Nanos};
use isobar_core::policy::engine::{Engine, Standing};
use proptest::prelude::*;
use tempfile::TempDir;

fn start(standing: Standing) -> Start {
    let facts = NodeFacts { name: "worker-1".into(), ..NodeFacts::default() };
    Start { facts, standing, ..Start::default() }
}

fn after(sample: &Sample) -> Standing {
    Standing { before: Some(sample.clone()), ..Standing::default() }
}

/// Records samples with a decision each, and a new header after each of `reloads`.
fn record(path: &Path, samples: &[Sample], reloads: &[u64]) {
    let mut journal = Journal::create(path, start(Standing::default()), Bounds::default()).unwrap();
    for sample in samples {
        journal.write(sample, &decision(sample), &after(sample)).unwrap();
        if reloads.contains(&sample.tick) {
            let settings = Settings { generation: sample.tick, ..Settings::default() };
            journal.reload(settings, &after(sample), sample.at).unwrap();
        }
    }
}

fn decision(sample: &Sample) -> Decision {
    let event = Event { reason: "A\"b".into(), message: "1.50 %".into(), is_warning: true };
    let mut decision = Decision { tick: sample.tick, ..Decision::default() };
    decision.assessment.events.push(event);
    decision
}

fn anything_for(n: u64, seed: u64) -> Vec<Sample> {
    let mut dice = Dice(seed);
    let mut sample = Sample::default();
    let mut next = || {
        sample = anything(&sample, &mut dice);
        sample.clone()
    };
    (0..n).map(|_| next()).collect()
}

/// Everything in it: frames, and what was told beside them.
fn read(path: &Path) -> (Vec<Recorded>, Vec<String>) {
    let (mut frames, mut told) = (Vec::new(), Vec::new());
    for entry in Recording::open(path).unwrap() {
        match entry.unwrap() {
            Entry::Frame(recorded) => frames.push(*recorded),
            Entry::Lost(text) | Entry::Notice(text) => told.push(text),
            Entry::Header(_) | Entry::Other(_) => {}
        }
    }
    (frames, told)
}

fn assert_same(frames: &[Recorded], samples: &[Sample]) {
    for (recorded, sample) in frames.iter().zip(samples) {
        assert_eq!(recorded.sample, *sample, "tick {}", sample.tick);
        let want = serde_json::to_string(&decision(sample)).unwrap();
        assert_eq!(recorded.decision, want, "tick {}", sample.tick);
    }
    assert_eq!(frames.len(), samples.len());
}

proptest! {
    #[test]
    fn journal_round_trip(
        seed in any::<u64>(), n in 1_u64..12, reload in 0_u64..12,
    ) {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("r");
        let samples = anything_for(n, seed);
        record(&path, &samples, &[reload]);
        let (frames, told) = read(&path);
        assert_same(&frames, &samples);
        prop_assert!(told.is_empty(), "{told:?}");
        // Decompressed by hand it is the same.
        let lines = zstd::decode_all(fs::File::open(&path).unwrap()).unwrap();
        fs::write(&path, lines).unwrap();
        let (plain, told) = read(&path);
        prop_assert!(plain == frames && told.is_empty(), "{told:?}");
    }

    #[test]
    fn recording_flipped_byte(
        seed in any::<u64>(), at in any::<prop::sample::Index>(), flip in 1_u8..,
    ) {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("r");
        let samples = anything_for(6, seed);
        record(&path, &samples, &[2, 4]);
        let mut bytes = fs::read(&path).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        fs::write(&path, bytes).unwrap();
        let Ok(recording) = Recording::open(&path) else { return Ok(()) };
        let entries: Vec<_> = recording.collect();
        let lost = entries.iter().any(|e| matches!(e, Err(_) | Ok(Entry::Lost(_))));
        if !lost {
            let frames = entries.into_iter().filter_map(|entry| match entry.unwrap() {
                Entry::Frame(recorded) => Some(*recorded),
                _ => None,
            });
            // A bit that stands for nothing may be either.
            assert_same(&frames.collect::<Vec<_>>(), &samples);
        }
    }
}

#[test]
fn recording_cut_off() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("r");
    let samples = anything_for(5, 3);
    let mut ends = Vec::new();
    let mut journal =
        Journal::create(&path, start(Standing::default()), Bounds::default()).unwrap();
    for sample in &samples {
        journal.write(sample, &decision(sample), &after(sample)).unwrap();
        ends.push(fs::metadata(&path).unwrap().len());
    }
    drop(journal);
    let whole = fs::read(&path).unwrap();
    for end in ends[2]..whole.len() as u64 {
        let (kept, rest) = whole.split_at(usize::try_from(end).unwrap());
        fs::write(&path, kept).unwrap();
        let (frames, told) = read(&path);
        let n = ends.iter().filter(|e| **e <= end).count();
        assert!(frames.len() >= n, "{} of {n} frames at byte {end}: {told:?}", frames.len());
        assert_same(&frames, &samples[..frames.len()]);
        // Between two frames of zstd nothing shows that there was more.
        let is_seen = !rest.starts_with(&0xFD2F_B528_u32.to_le_bytes());
        assert_eq!(told.len(), usize::from(is_seen), "the cut at byte {end}: {told:?}");
    }
}

#[test]
fn recording_damaged_chapter() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("r");
    let samples = anything_for(9, 5);
    let mut journal =
        Journal::create(&path, start(Standing::default()), Bounds::default()).unwrap();
    let mut ends = Vec::new();
    for sample in &samples {
        journal.write(sample, &decision(sample), &after(sample)).unwrap();
        if sample.tick % 3 == 0 {
            journal.reload(Settings::default(), &after(sample), sample.at).unwrap();
        }
        ends.push(usize::try_from(fs::metadata(&path).unwrap().len()).unwrap());
    }
    drop(journal);
    let mut bytes = fs::read(&path).unwrap();
    // The second chapter holds ticks 4 to 6.
    bytes[ends[3] + 1..ends[4]].fill(0xff);
    fs::write(&path, bytes).unwrap();
    let (frames, told) = read(&path);
    let ticks: Vec<_> = frames.iter().map(|f| f.sample.tick).collect();
    assert_eq!(ticks, [1, 2, 3, 4, 7, 8, 9], "{told:?}");
    assert!(!told.is_empty());
}

/// 512 MiB a day.
const BYTES_PER_TICK: u64 = (512 << 20) / 86_400;
/// A header comes once in as many.
const CHAPTER: u64 = 300;

/// What a node takes on which all cgroups wait: more than fits in a day, and no more than it does.
const BYTES_PER_PRESSED_TICK: u64 = 18_000;

#[test]
fn journal_bytes_a_day() {
    #[rustfmt::skip]
    let table = [
        // load, bytes that a tick may take
        (Load::Fifth,   BYTES_PER_TICK),
        (Load::Pressed, BYTES_PER_PRESSED_TICK),
    ];
    for (load, most) in table {
        let tick = bytes_a_tick(load);
        assert!(tick <= most, "{load:?}: {tick} bytes for a tick, {most} may be");
    }
}

/// With its part of a header and of marks.
fn bytes_a_tick(load: Load) -> u64 {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("r");
    let mut node = Node::new(load);
    let mut engine = Engine::new(Settings::default(), Standing::new(8));
    // A day is made of cgroups that have been seen before.
    for _ in 0..40 {
        engine.step(node.tick());
    }
    let size = || fs::metadata(&path).unwrap().len();
    let mut journal =
        Journal::create(&path, start(engine.standing().clone()), Bounds::default()).unwrap();
    let (n, begun) = (60, size());
    for _ in 0..n {
        let sample = node.tick();
        let decision = engine.step(sample.clone()).decision;
        journal.write(&sample, &decision, engine.standing()).unwrap();
    }
    let ticks = size() - begun;
    let at = engine.standing().before.as_ref().unwrap().at;
    journal.reload(Settings::default(), engine.standing(), at).unwrap();
    let header = size() - begun - ticks;
    ticks / n + header / CHAPTER
}

/// Ticks ten seconds apart, each of which changes everything.
fn noisy(n: u64) -> Vec<Sample> {
    let mut samples = anything_for(1, 11);
    let mut dice = Dice(12);
    for tick in 2..=n {
        let mut sample = samples[0].clone();
        sample.tick = tick;
        sample.at.boot = Nanos(tick * 10 * Nanos::SECOND.0);
        let noise = |dice: &mut Dice| format!("{:x}", dice.throw());
        let detail = (0..1_200).map(|_| noise(&mut dice)).collect();
        sample.gaps = vec![Gap { object: "/x".into(), why: GapReason::Failed, detail }];
        samples.push(sample);
    }
    for sample in &mut samples {
        sample.at.wall = Nanos(1_790_000_000_000_000_000 + sample.at.boot.0);
    }
    samples
}

fn names(dir: &TempDir) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string();
    let mut all: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| name(e).unwrap()).collect();
    all.sort_by_key(|name| (name.len(), name.clone()));
    all
}

#[test]
fn journal_bounds() {
    let samples = noisy(240);
    let (mib, hour) = (Bytes(1 << 20), Nanos(3_600 * Nanos::SECOND.0));
    #[rustfmt::skip]
    let table = [
        // bytes, age, ticks that may be kept
        (mib,               hour,                        200_u64), // bytes decide
        (Bytes(1 << 30),    Nanos(hour.0 / 10),          37),      // age decides
        (Bytes(1 << 30),    Nanos(hour.0 * 24),          240),     // neither
    ];
    for (size, age, most) in table {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("r");
        let bounds = Bounds { size, age };
        let begun = Start { at: samples[0].at, ..start(Standing::default()) };
        let mut journal = Journal::create(&path, begun, bounds).unwrap();
        let mut largest = 0;
        for sample in &samples {
            journal.write(sample, &decision(sample), &after(sample)).unwrap();
            let files = fs::read_dir(dir.path()).unwrap();
            let total = files.map(|file| file.unwrap().metadata().unwrap().len()).sum::<u64>();
            largest = largest.max(total);
        }
        drop(journal);
        assert!(largest <= size.0, "{largest} bytes were there at once, {size:?} may be");
        let (frames, told) = read(&path);
        let n = frames.len() as u64;
        assert!(n <= most && n >= most.min(80) / 2, "{n} ticks are kept under {bounds:?}");
        assert!(told.is_empty(), "{told:?}");
        assert_same(&frames, &samples[samples.len() - frames.len()..]);
        let only = names(&dir).pop().unwrap();
        let (last, _) = read(&dir.path().join(only));
        assert!(frames.ends_with(&last), "a segment is read by itself, too");
    }
}

#[test]
fn journal_never_overwrites() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("r");
    let samples = noisy(6);
    record(&path, &samples[..3], &[]);
    let before = fs::read(&path).unwrap();
    record(&path, &samples[3..], &[]);
    assert_eq!(names(&dir), ["r", "r.1"]);
    assert_eq!(fs::read(&path).unwrap(), before, "a later run has a segment of its own");
    assert_same(&read(&path).0, &samples);
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "names and annotations of pods are not for everybody");

    let plain = zstd::decode_all(&before[..]).unwrap();
    #[rustfmt::skip]
    let table: [(&str, &[u8]); 6] = [
        // name of what recording goes on beside, what is in it
        ("r.2",     b""),          // killed before the first byte
        ("r.3",     &before[..9]), // or soon after
        ("r.backup", b"mine"),     // no name of ours
        ("r.07",    b"mine"),
        ("r.4",     b"mine"),      // ours, and its beginning is damaged
        ("r.5",     &plain),
    ];
    let create = |path: &Path| Journal::create(path, start(Standing::default()), Bounds::default());
    for (name, bytes) in table {
        fs::write(dir.path().join(name), bytes).unwrap();
        create(&path).unwrap();
        assert_eq!(fs::read(dir.path().join(name)).unwrap(), bytes, "{name}");
        for n in 4..20 {
            let _ = fs::remove_file(dir.path().join(format!("r.{n}")));
        }
    }
    let little = Bounds { size: Bytes(1_000), ..Bounds::default() };
    let too_small = Journal::create(&path, start(Standing::default()), little).unwrap_err();
    assert_eq!(too_small.to_string(), "a recording needs at least 1 MiB and 60 s");
    let nowhere = Path::new("/nonexistent/dir/r");
    assert_eq!(create(nowhere).unwrap_err().to_string(), "cannot record to /nonexistent/dir/r");
    let alone = dir.path().join("alone");
    fs::write(&alone, "mine").unwrap();
    let want = "exists and is no recording: choose another file, or move it";
    let why = create(&alone).unwrap_err().to_string();
    assert_eq!(why, format!("{} {want}", alone.display()));
    assert_eq!(fs::read(&alone).unwrap(), b"mine");
}

#[test]
fn journal_stops_once_full() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("gone/r");
    fs::create_dir(path.parent().unwrap()).unwrap();
    let bounds = Bounds { age: Bounds::LEAST_AGE, ..Bounds::default() };
    let mut journal = Journal::create(&path, start(Standing::default()), bounds).unwrap();
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
    let samples = noisy(8);
    let write = |sample| journal.write(sample, &decision(sample), &after(sample));
    let failures: Vec<_> = samples.iter().map(write).filter_map(Result::err).collect();
    assert_eq!(failures.len(), 1, "{failures:?}");
}

/// The agent was killed after it had begun a chapter, or has not yet read the next tick.
#[test]
fn open_at_passes_over_a_chapter_without_ticks() {
    let dir = TempDir::new().unwrap();
    let samples = noisy(6);
    for reloads in [&[3, 6][..], &[3], &[]] {
        let path = dir.path().join(format!("r{}", reloads.len()));
        record(&path, &samples, reloads);
        for (wall, last) in [(Nanos(u64::MAX), 6), (samples[5].at.wall, 6), (samples[1].at.wall, 2)]
        {
            let frames = Recording::open_at(&path, wall).unwrap().filter_map(|entry| match entry {
                Ok(Entry::Frame(frame)) => Some(frame.sample),
                _ => None,
            });
            let found = frames.take_while(|sample| sample.at.wall <= wall).last().unwrap();
            assert_eq!(found.tick, last, "{wall:?} {reloads:?}");
        }
    }
}
