//! An incident that lasts for an hour and longer.

use super::*;
use crate::dice::Dice;
use isobar_core::model::sample::{Gap, GapReason};
use isobar_core::view::OomRecord;

/// Its CPUs are short from second 200 on, for two hours; the kernel kills at 2,500 and at 5,000. A tick
/// takes half a kilobyte.
fn sample_of_hours(second: u64, dice: &mut Dice) -> Sample {
    let share = Percent(if (200..7_400).contains(&second) { 90_00 } else { 5_00 });
    let mut sample = Sample { tick: second, ..sample(second) };
    let line = Line { avg10: share, avg60: share, ..Line::default() };
    sample.node.pressure.cpu = Some(Pressure { some: Some(line), full: None });
    let noise: String = (0..64).map(|_| format!("{:016x}", dice.below(u64::MAX))).collect();
    sample.gaps = vec![Gap { object: "noise".into(), why: GapReason::Failed, detail: noise }];
    let kernel = sample.kernel.get_or_insert_default();
    kernel.oom_kills.clear();
    if [2_500, 5_000].contains(&second) {
        kernel.oom_kills.push(OomKill { at: sample.at.boot, limit_known: true, ..kill() });
    }
    sample
}

#[test]
fn incident_lasts_until_calm_or_an_hour_and_its_file_is_bounded() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording");
    let standing = Standing::new(4);
    let mut engine = Engine::new(settings(), standing.clone());
    let start = Start { settings: settings(), standing, at: at(0), ..Start::default() };
    let mut journal = Journal::create(&path, start, Bounds::default()).unwrap();
    let (mut watch, mut turns, mut dice) =
        (Watch::new("worker-1".into(), String::new()), Vec::new(), Dice(7));
    // Another that loses ticks after half an hour.
    let mut brief = Watch::new("worker-1".into(), String::new());
    brief.record_keeps(Nanos(1_800 * Nanos::SECOND.0));
    let mut brief_end = None;
    for second in 1..=5_200 {
        let sample = sample_of_hours(second, &mut dice);
        let decision = engine.step(sample.clone()).decision;
        journal.write(&sample, &decision, engine.standing()).unwrap();
        let kills = &sample.kernel.as_ref().unwrap().oom_kills;
        let kills: Vec<_> =
            kills.iter().map(|one| OomRecord::of(one, at(0), None, |_| None)).collect();
        let seen = Seen { sample: &sample, decision: &decision, kills: &kills, limits: &[] };
        turns.extend(watch.tick(seen).map(|turn| (second, turn)));
        if let Some(Turn::Over(one)) = brief.tick(seen) {
            brief_end = brief_end.or(one.end);
        }
    }
    assert_eq!(brief_end, Some(at(1_100)), "it ends before its beginning is lost");
    let found: Vec<_> =
        turns.iter().map(|(at, turn)| (*at, matches!(turn, Turn::Over(_)))).collect();
    // One story for an hour; what the kernel kills after it is another one, and is over.
    assert_eq!(found, [(200, false), (2_500, false), (3_800, true), (5_000, false), (5_030, true)]);
    let Turn::Over(long) = turns[2].1.clone() else { unreachable!() };
    assert_eq!((long.kinds.clone(), long.is_cut), (vec![Kind::OomKill, Kind::Condition], true));
    drop(journal);

    let ring = Ring::Files(path);
    let shelf = Shelf::in_memory();
    let kept = freeze(&ring, &shelf, *long, Draft::in_memory().unwrap(), || ()).unwrap();
    assert_eq!((kept.from, kept.to, kept.kills.len()), (at(80), at(3_800), 1));
    assert!((1 << 20..4 << 20).contains(&kept.size), "{}", kept.size);
    let gaps: Vec<_> = kept.left_out.iter().map(|gap| (gap.from, gap.to)).collect();
    let [(_, before_kill), (after_kill, before_end)] = gaps[..] else { panic!("{gaps:?}") };
    assert_eq!((before_kill, after_kill, before_end), (at(2_379), at(2_560), at(3_499)));
    for want in [
        "Its file has no ticks from 14:56:00Z to 15:11:39Z.",
        "The record ends at 15:16:40Z, and it was not over.",
    ] {
        assert!(kept.summary.contains(want), "{want}: {}", kept.summary);
    }
    let file = dir.path().join("file");
    let mut ticks = shelf.open(&kept.name).unwrap();
    std::io::copy(&mut ticks, &mut fs::File::create(&file).unwrap()).unwrap();
    let got = program::isobar(&["replay", "--check"]).arg(&file).output().unwrap();
    let want = format!("{} decisions compared, all the same\n", kept.ticks);
    assert_eq!(text(&got.stdout), want, "{}", text(&got.stderr));
    let imported = import(&file, &Shelf::in_memory(), at(0).wall).unwrap();
    assert_eq!((imported.left_out, imported.ticks), (kept.left_out, kept.ticks));
}
