//! What is kept of the oldest segments, for want of room, replays as it was decided.

use super::*;
use isobar::record::replay::{Replay, Replayed};

/// Ticks of a segment of an eighth of 2 MiB, at least.
const SEGMENT: usize = 20;

/// Records 600 ticks in 2 MiB, by so many agents one after the other. Out: the ticks that are kept,
/// each of which replays as it was decided, and how many are missing in each gap between them.
fn recorded(dir: &TempDir, agents: usize) -> (Vec<u64>, Vec<u64>) {
    let path = dir.path().join("r");
    let bounds = Bounds { size: Bytes(2 << 20), ..Bounds::default() };
    let mut engine = Engine::new(Settings::default(), Standing::new(8));
    for part in noisy(600).chunks(600 / agents) {
        let begun = start(engine.standing().clone());
        let mut journal = Journal::create(&path, begun, bounds).unwrap();
        for sample in part {
            let decision = engine.step(sample.clone()).decision;
            journal.write(sample, &decision, engine.standing()).unwrap();
        }
    }
    let (mut ticks, mut missing) = (Vec::new(), Vec::new());
    for replayed in Replay::new(Recording::open(&path).unwrap(), None) {
        match replayed.unwrap() {
            Replayed::Tick(judged) => {
                assert_eq!(judged.text, judged.recorded, "tick {}", judged.tick);
                ticks.push(judged.tick);
            }
            Replayed::Notice(text) => {
                let n = text.split_once(" ticks are not in the recording");
                missing.extend(n.map(|(n, _)| n.parse::<u64>().unwrap()));
            }
        }
    }
    let all = ticks.len() as u64 + missing.iter().sum::<u64>();
    assert_eq!(all, 601 - ticks[0], "each is there, or told to be missing");
    (ticks, missing)
}

#[test]
fn thinned_segments_replay_and_leave_the_newest_whole() {
    for agents in [1, 3] {
        let dir = TempDir::new().unwrap();
        // A killed agent left it, before the first byte.
        fs::write(dir.path().join("r.thinner"), "").unwrap();
        let (ticks, missing) = recorded(&dir, agents);
        assert!(!names(&dir).contains(&"r.thinner".into()));
        // A quarter of the room, of which a thinned one takes half of a whole one or more.
        assert!((2..=5).contains(&missing.len()), "{agents}: {missing:?}");
        let newest = &ticks[ticks.len() - 4 * SEGMENT..];
        assert!(newest.windows(2).all(|pair| pair[1] == pair[0] + 1), "{agents}: {ticks:?}");
    }
}

#[test]
fn thinned_segments_are_deleted_where_there_is_no_room_for_what_is_kept() {
    let dir = TempDir::new().unwrap();
    let others = dir.path().join("r.thinner");
    fs::write(&others, "mine").unwrap();
    let (ticks, missing) = recorded(&dir, 1);
    assert_eq!(fs::read(&others).unwrap(), b"mine");
    assert!(missing.is_empty(), "{missing:?}");
    assert!(ticks.len() > 6 * SEGMENT, "{ticks:?}");
}
