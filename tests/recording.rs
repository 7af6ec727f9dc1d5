//! What is recorded is what is read: exactly, whatever happens on the node, and as far as it goes
//! whatever happens to the file.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "made_up/busy.rs"]
mod busy;
#[path = "made_up/ticks.rs"]
mod ticks;

use std::fs;
use std::path::Path;

use busy::Node;
use isobar::model::decision::{Decision, Event};
use isobar::model::node::NodeFacts;
use isobar::model::sample::Sample;
use isobar::model::settings::Settings;
use isobar::policy::engine::{Engine, Standing};
use isobar::record::journal::{Bounds, Journal, Start};
use isobar::record::reader::{Entry, Recorded, Recording};
use proptest::prelude::*;
use tempfile::TempDir;
use ticks::{Dice, anything};

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
    Decision { tick: sample.tick, events: vec![event], ..Decision::default() }
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
            Entry::Header(_) => {}
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
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_sequence_of_samples_is_read_as_it_was_written(
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
    fn a_flipped_byte_is_told_or_harmless_and_never_a_panic(
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
        prop_assert!(lost, "byte {at} was flipped, and nobody noticed");
    }
}

#[test]
fn a_file_cut_off_anywhere_is_read_up_to_its_last_whole_line() {
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
        fs::write(&path, &whole[..usize::try_from(end).unwrap()]).unwrap();
        let (frames, told) = read(&path);
        let n = ends.iter().filter(|e| **e <= end).count();
        assert!(frames.len() >= n, "{} of {n} frames at byte {end}: {told:?}", frames.len());
        assert_same(&frames, &samples[..frames.len()]);
        assert_eq!(told.len(), 1, "the cut at byte {end} is told once: {told:?}");
    }
}

#[test]
fn of_a_chapter_that_is_damaged_the_others_are_read() {
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

#[test]
fn a_node_of_500_cgroups_fills_no_more_than_it_may() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("r");
    let mut node = Node::new();
    let mut engine = Engine::new(Settings::default(), Standing::new(8));
    // What is written before there is something to compare with is not what a day is made of.
    for _ in 0..20 {
        engine.step(node.tick());
    }
    let mut journal =
        Journal::create(&path, start(engine.standing().clone()), Bounds::default()).unwrap();
    let (n, mut used) = (610, 0);
    for _ in 0..n {
        let sample = node.tick();
        let decision = engine.step(sample.clone()).decision;
        let begun = isobar::clock::used_by_this_process();
        journal.write(&sample, &decision, engine.standing()).unwrap();
        used += isobar::clock::used_by_this_process().since(begun).0;
    }
    drop(journal);
    // One header in 600 ticks is what a day has.
    let size = fs::metadata(&path).unwrap().len() / n;
    eprintln!("{size} bytes and {} us of CPU time for a tick", used / n / 1_000);
    assert!(size <= BYTES_PER_TICK, "{size} bytes for a tick, {BYTES_PER_TICK} may be");
}
