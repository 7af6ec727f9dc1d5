//! Files of format version 4 open in every later version with the same result. Their figures are
//! written down here as they were on the day on which the files were made: 47 ticks of two pods that
//! contend for a CPU, from the middle of a run, and an incident of a pod that leaks.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;

use crate::judged::DIFFERENCE;
use crate::program::{isobar, text};
use crate::sampling::data;
use isobar::record::incident::Kind;
use isobar::record::incident::freeze::import;
use isobar::record::incident::shelf::Shelf;
use isobar::record::moment;
use isobar::record::reader::{Entry, Recording};
use isobar_core::model::condition::Status;
use isobar_core::model::units::{MilliCpu, Nanos, Percent};
use serde_json::Value;

/// The wall clock counts from here, in ns.
const DAY: u64 = 1_795_342_000_000_000_000;
const PODS: &str = "/kubepods.slice";

fn recording() -> PathBuf {
    data("recordings/judged-contended-6.1-v4.isobar")
}

fn incident() -> PathBuf {
    data("recordings/incident-leak-6.12-v4.isobar")
}

/// The lines of a file by kind, and how many of them have waits by pair in columns.
fn lines(file: PathBuf) -> BTreeMap<String, usize> {
    let whole = zstd::decode_all(File::open(file).unwrap()).unwrap();
    let mut n = BTreeMap::new();
    for line in text(&whole).lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if line["kind"] == "header" {
            assert_eq!(line["version"], 4, "it is kept to show that this version is read");
        }
        *n.entry(line["kind"].as_str().unwrap().to_owned()).or_default() += 1;
        *n.entry("pairs".to_owned()).or_default() += usize::from(line["pairs"].is_object());
    }
    n
}

#[test]
fn files_are_what_they_are_kept_for() {
    #[rustfmt::skip]
    let table: [(PathBuf, &[(&str, usize)]); 2] = [
        // file, lines by kind
        (recording(), &[("header", 1), ("mark", 2), ("pairs", 47), ("tick", 47)]),
        (incident(),  &[("header", 2), ("incident", 1), ("mark", 2), ("pairs", 63), ("tick", 63)]),
    ];
    for (file, want) in table {
        let want = want.iter().map(|(kind, n)| ((*kind).to_owned(), *n)).collect();
        assert_eq!(lines(file.clone()), want, "{}", file.display());
    }
}

#[test]
fn replay_gives_the_same_bytes() {
    let same = "47 decisions compared, all the same\n";
    for (file, want) in [(recording(), same), (incident(), DIFFERENCE)] {
        let got = isobar(&["replay", "--check"]).arg(&file).output().unwrap();
        let told = text(&got.stdout) + &text(&got.stderr);
        assert!(told.starts_with(want), "{}: {told}", file.display());
    }
}

#[test]
fn samples_have_their_waits() {
    #[rustfmt::skip]
    let table = [
        // file, pairs of all ticks, time that was waited in them
        (recording(), 619, Nanos(332_535_005_590)),
        (incident(),  652, Nanos(19_087_319_819)),
    ];
    for (file, want, waited) in table {
        let (mut n, mut sum) = (0, Nanos(0));
        for entry in Recording::open(&file).unwrap() {
            let Entry::Frame(recorded) = entry.unwrap() else { continue };
            for pair in recorded.sample.kernel.unwrap().matrix {
                (n, sum) = (n + 1, sum.plus(pair.time));
            }
        }
        assert_eq!((n, sum), (want, waited), "{}", file.display());
    }
}

#[test]
fn moments_are_shown_from_a_mark() {
    #[rustfmt::skip]
    let table = [
        // wall clock, tick, tick of the mark, pairs, waited by them, CPUs used by pods, contention of pods avg10, total, condition
        (282_486_290_930, 4,  None,     13, 6_992_380_338, 998,   79_96, 2_398_016_663,  Status::False),
        (301_530_879_360, 23, None,     14, 7_236_890_099, 1_008, 99_25, 21_458_086_501, Status::False),
        (302_520_549_880, 24, Some(23), 12, 6_899_592_879, 996,   99_42, 22_446_198_705, Status::False),
        (308_531_505_120, 30, Some(23), 13, 7_103_265_747, 993,   99_65, 28_450_164_872, Status::False),
        (321_600_447_130, 43, Some(23), 15, 6_335_610_335, 955,   99_93, 41_518_111_356, Status::True),
        (322_606_273_710, 44, Some(43), 13, 6_993_307_442, 993,   99_93, 42_518_086_046, Status::True),
        (328_613_502_260, 50, Some(43), 12, 7_288_305_660, 1_016, 99_83, 48_574_000_326, Status::True),
    ];
    for (wall, tick, mark, pairs, waited, used, avg10, total, status) in table {
        let wall = Nanos(DAY + wall);
        let (_, marked) = Recording::open_near(&recording(), wall).unwrap();
        assert_eq!(marked.as_ref().map(|marked| marked.before.tick), mark, "tick {tick}");
        let begun = marked.map(|marked| marked.begun.wall);
        assert_eq!(begun, mark.map(|_| Nanos(DAY + 282_486_290_930)), "tick {tick}");
        let got = moment::at(&recording(), wall).unwrap().unwrap();
        assert_eq!((got.snapshot.tick, got.decision.tick), (tick, tick));
        let blames = &got.snapshot.aggressions;
        let sum = blames.iter().fold(Nanos(0), |sum, blame| sum.plus(blame.time));
        assert_eq!((blames.len(), sum), (pairs, Nanos(waited)), "tick {tick}");
        let pods = got.snapshot.scopes.values().find(|scope| &*scope.path.0 == PODS).unwrap();
        let contention = pods.contention.unwrap();
        assert_eq!(pods.cpu_usage, Some(MilliCpu(used)), "tick {tick}");
        assert_eq!((contention.avg10, contention.total), (Percent(avg10), Nanos(total)));
        let conditions = &got.decision.assessment.conditions;
        let one = conditions.iter().find(|one| one.kind == "KubepodsCPUContentionPressure");
        assert_eq!(one.unwrap().status, status, "tick {tick}");
    }
}

#[test]
fn incident_is_told_the_same() {
    let told = import(&incident(), &Shelf::in_memory(), Nanos(0)).unwrap();
    assert_eq!(told.name, "20261122T101330Z-exhaustion-kubepods.memory.exhaustion");
    assert_eq!(told.kinds, [Kind::Kill, Kind::Condition, Kind::Exhaustion]);
    let at = |ns| Nanos(DAY + ns);
    assert_eq!((told.ticks, told.end), (63, None));
    assert_eq!((told.from.wall, told.to.wall), (at(408_830_166_414), at(439_207_517_504)));
    let triggers: Vec<_> =
        told.triggers.iter().map(|one| (one.at.wall, one.who.as_str())).collect();
    #[rustfmt::skip]
    assert_eq!(triggers, [
        (at(410_831_411_487), "kubepods.memory.exhaustion"),
        (at(423_920_540_230), "kubepods.memory.exhaustion"),
        (at(427_127_436_863), "shop/leak"),
        (at(427_127_436_863), "MemoryPressure"),
        (at(431_229_439_656), "shop/leak"),
    ]);
    let [kill] = &told.kills[..] else { panic!("{:?}", told.kills) };
    assert_eq!((kill.victim.as_str(), kill.pid), ("shop/leak", Some(165)));
    assert_eq!(kill.foreseen, Some(Nanos(9_210_749_555)));
    let waits: Vec<_> =
        told.waits.iter().map(|one| (&*one.sufferer, &*one.aggressor, one.time.0)).collect();
    assert_eq!(waits[0], ("isobar", "shop/web", 2_962_966_515));
    assert_eq!(waits[2], ("shop/leak", "isobar", 4_078_709_001));
    let steps = told.deeds.iter().filter(|deed| deed.is_step).map(|deed| deed.action);
    assert_eq!(steps.collect::<Vec<_>>(), [1, 2]);
    assert_eq!(
        told.taken.as_deref(),
        Some("shop/leak took 88Mi of the 88Mi that were lost in 11s")
    );
}
