//! Recordings that a stranger made to take memory: whatever is in one, it takes some hundred
//! megabytes at most, and ends with an error or a recorded gap.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use crate::dice::Dice;
use crate::program::{self, text};
use isobar::record::incident::freeze::{KIND, Line, import};
use isobar::record::incident::retention::Retention;
use isobar::record::incident::shelf::Shelf;
use isobar::record::incident::{Incident, Kind, State};
use isobar::record::journal::{Journal, Start};
use isobar::record::reader::{Entry, Recording};
use isobar_core::model::decision::Decision;
use isobar_core::model::sample::{Gap, GapReason, Sample};
use isobar_core::model::units::Nanos;
use isobar_core::policy::engine::Standing;
use tempfile::TempDir;
use zstd::stream::write::Encoder;

const MIB: usize = 1 << 20;

/// Writes compressed lines, however many, without holding them.
fn compressed(path: &Path, write: impl FnOnce(&mut Encoder<'_, File>)) {
    let mut encoder = Encoder::new(File::create(path).unwrap(), 1).unwrap();
    write(&mut encoder);
    encoder.finish().unwrap();
    let packed = fs::metadata(path).unwrap().len();
    assert!(packed < 8 << 20, "{packed} bytes are no bomb");
}

fn header(standing: &str) -> String {
    let opening = r#"{"kind":"header","format":"isobar-recording","version":4,"isobar":"0.1.0""#;
    let at = r#""at":{"boot":5,"wall":1790000000000000000},"continues":false"#;
    format!("{opening},{at},\"standing\":{{{standing}}}}}\n")
}

const AT: &str = r#""at":{"boot":9,"wall":1790000005000000000}"#;

/// A sample with something in it that no isobar has written.
fn sample(more: &str) -> String {
    let rest = r#""cause":"timer","node":{},"cgroups":{},"kernel":null,"gaps":[]"#;
    format!("{{{more}\"tick\":1,{AT},{rest}}}")
}

/// A first tick with these cgroups.
fn tick(cgroups: &str) -> String {
    let (sample, decision) = (sample(""), format!("{{\"tick\":1,{AT}}}"));
    let parts = format!(r#""sample":{{"set":{sample}}},"cgroups":{{"set":{{{cgroups}}}}}"#);
    format!("{{\"kind\":\"tick\",{parts},\"decision\":{decision}}}\n")
}

/// Empty cgroups by id, of which each takes a kilobyte of memory and some ten bytes of text.
fn cgroups(ids: std::ops::Range<usize>) -> String {
    ids.map(|id| format!("\"{id}\":{{}}")).collect::<Vec<_>>().join(",")
}

/// What a verb says of a file, its exit code, and the most memory that was seen resident, in MiB.
fn told(verb: &[&str], file: &Path) -> (String, Option<i32>, u64) {
    let mut command = program::isobar(verb);
    let mut child = command.arg(file).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let now = fs::read_to_string(&status).unwrap_or_default();
        let line = now.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        peak = peak.max(kib.unwrap_or(0) >> 10);
        sleep(Duration::from_millis(2));
    }
    let ended = child.wait_with_output().unwrap();
    (text(&ended.stderr), ended.status.code(), peak)
}

#[test]
fn verbs_take_bounded_memory_whatever_the_file() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    compressed(&path("long"), |to| {
        to.write_all(header("").as_bytes()).unwrap();
        (0..300).for_each(|_| to.write_all(&vec![b'a'; MIB]).unwrap());
    });
    compressed(&path("wide"), |to| {
        let before = format!(r#""before":{{"cgroups":{{{}}}}}"#, cgroups(0..1_000_000));
        to.write_all(header(&before).as_bytes()).unwrap();
    });
    compressed(&path("deep"), |to| {
        let numbers = "0,".repeat(8 * MIB);
        let before = format!(r#""before":{}"#, sample(&format!(r#""mood":[{numbers}0],"#)));
        to.write_all(header(&before).as_bytes()).unwrap();
    });
    compressed(&path("named"), |to| {
        let (name, numbers) = ("n".repeat(MIB / 4), "0,".repeat(200_000));
        let before = sample(&format!(r#""mood":{{"{name}":[{numbers}0]}},"#));
        to.write_all(header(&format!(r#""before":{before}"#)).as_bytes()).unwrap();
    });
    compressed(&path("hidden"), |to| {
        to.write_all(header("").as_bytes()).unwrap();
        let all = format!(r#""cgroups":{{{}}}"#, cgroups(0..1_000_000));
        let line = tick("").replacen(r#""cgroups":{}"#, &all, 1);
        to.write_all(line.as_bytes()).unwrap();
    });
    compressed(&path("growing"), |to| {
        to.write_all(header("").as_bytes()).unwrap();
        let n = 40_000;
        (0..20).for_each(|i| to.write_all(tick(&cgroups(i * n..(i + 1) * n)).as_bytes()).unwrap());
    });
    compressed(&path("unknown"), |to| {
        to.write_all(header("").as_bytes()).unwrap();
        let line = format!("{{\"kind\":\"weather\",\"is\":\"{}\"}}\n", "fair".repeat(MIB / 4));
        (0..200).for_each(|_| to.write_all(line.as_bytes()).unwrap());
    });
    // In each tick another cgroup, with the longest name that is read, and one beyond that.
    let coming_and_going = |to: &mut Encoder<'_, File>, name: usize| {
        to.write_all(header("").as_bytes()).unwrap();
        for id in 100..3_100 {
            let path = format!("/{id:0>name$}");
            let memory = r#""memory":{"current":4096,"stat":{"anon":4096}}"#;
            let line = tick(&format!(r#""{id}":{{"path":"{path}",{memory}}}"#));
            let gone = format!(r#""cgroups":{{"gone":["{}"],"set""#, id - 1);
            let line = line.replacen(r#""cgroups":{"set""#, &gone, 1);
            let at = format!(r#""at":{{"boot":{id}000000000,"wall":179000{id:04}000000000}}"#);
            to.write_all(line.replace(AT, &at).as_bytes()).unwrap();
        }
    };
    compressed(&path("gone"), |to| coming_and_going(to, 24_000));
    compressed(&path("gone far"), |to| coming_and_going(to, 25_000));
    let ever = ["--begin", "2026-09-21T00:00:00Z", "-f"];
    let [status, dump] =
        [["status"].as_slice(), &["dump", "-o", "perfetto"]].map(|verb| [verb, &ever].concat());
    #[rustfmt::skip]
    let table: [(&str, &[&str], u64, &str); 12] = [
        // file, verb, MiB that it may take, what is said of it
        ("long",    &["replay"],                                        200, "a line of more than 64 MiB"),
        ("wide",    &["replay"],                                        400, "the sample would take more than 128 MiB of memory"),
        ("deep",    &["replay"],                                        300, "it would take more than 256 MiB of memory"),
        ("named",   &["replay"],                                        400, "its names would take too much memory"),
        ("hidden",  &["replay"],                                        300, "cgroups outside of its own changes"),
        ("growing", &["replay"],                                        600, "the sample would take more than 128 MiB of memory"),
        ("unknown", &["status", "-f"],                                  100, "has no tick of this time"),
        ("unknown", &["dump", "--begin", "2026-09-21T15:00:00Z", "-f"], 100, "has no tick of these times"),
        ("gone far", &["allocatable", "--advise", "-f"],                100, "a text of more than 24 KiB"),
        ("gone",    &["allocatable", "--advise", "-f"],                 400, ""),
        ("gone",    &status,                                            400, ""),
        ("gone",    &dump,                                              400, ""),
    ];
    for (name, verb, most, want) in table {
        let (said, code, peak) = told(verb, &path(name));
        println!("{name}: at most {peak} MiB");
        assert!(said.contains(want), "{name}: {said}");
        // Damage is a gap unless nothing else is there.
        assert!(matches!(code, Some(0 | 3)), "{name}: {code:?}");
        assert!((1..most).contains(&peak), "{name}: {peak} MiB");
    }
}

#[test]
fn header_with_a_cgroup_twice_is_refused() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("r");
    for (ids, is_read) in [(["1", "2"], true), (["1", "1"], false), (["1", "01"], false)] {
        let all = ids.map(|id| format!("\"{id}\":{{}}")).join(",");
        let before = sample("").replace(r#""cgroups":{}"#, &format!(r#""cgroups":{{{all}}}"#));
        fs::write(&path, header(&format!(r#""before":{before}"#))).unwrap();
        match Recording::open(&path) {
            Ok(_) => assert!(is_read, "{ids:?}"),
            Err(why) => {
                let want = format!("cannot apply a line: {:?} occurs twice", ids[1]);
                assert!(!is_read && why.to_string().ends_with(&want), "{ids:?}: {why}");
            }
        }
    }
}

/// What waits for the first tick is what is needed of it, however many lines stand before it.
#[test]
fn open_at_keeps_no_lines_before_the_first_tick() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("r");
    let weather = "{\"kind\":\"weather\"}\n";
    #[rustfmt::skip]
    let table = [
        // what stands a thousand times between header and tick, entries that are kept
        (weather,      0),
        ("hello\n",    65), // reasons, until the state is lost
        (&header(""),  0),
        (&format!("{}{weather}hello\n", header("")), 65),
    ];
    for (line, most) in table {
        for begun in [header(""), String::new()] {
            let many = line.repeat(1_000);
            let end = format!("{}{}{}", header(""), tick(""), header(""));
            fs::write(&path, format!("{begun}{many}{end}")).unwrap();
            let Ok(recording) = Recording::open_at(&path, Nanos(u64::MAX)) else {
                assert!(begun.is_empty() && line == weather || line == "hello\n", "{line}");
                continue;
            };
            let entries: Vec<_> = recording.map(Result::unwrap).collect();
            let others = entries.iter().filter(|one| !matches!(one, Entry::Frame(_))).count();
            assert!(others <= most + 2, "{others} entries of {line}");
            let ticks = entries.iter().filter(|one| matches!(one, Entry::Frame(_))).count();
            assert_eq!(ticks, 1, "{line}");
        }
    }
}

/// The last chapters of an agent that ended at once, again and again, have no tick.
#[test]
fn open_at_passes_over_chapters_without_a_tick() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("r");
    #[rustfmt::skip]
    let table = [
        // chapters without a tick, whether the tick before them is found
        (1,     true),
        (900,   true),
        (1_100, false),
    ];
    for (n, is_found) in table {
        let chapter = |wall: usize| {
            let text = header("").replace("1790000000000000000", &format!("179{wall:016}"));
            zstd::encode_all(text.as_bytes(), 1).unwrap()
        };
        let first = zstd::encode_all(format!("{}{}", header(""), tick("")).as_bytes(), 1).unwrap();
        let rest = (0..n).flat_map(|i| chapter(6_000_000_000 + i));
        fs::write(&path, first.into_iter().chain(rest).collect::<Vec<_>>()).unwrap();
        let found = Recording::open_at(&path, Nanos(u64::MAX));
        match found {
            Ok(recording) => {
                let has_tick =
                    recording.map(Result::unwrap).any(|one| matches!(one, Entry::Frame(_)));
                assert!(is_found && has_tick, "{n}");
            }
            Err(why) => {
                let want = "1000 chapters before this moment are without a tick of it";
                assert!(!is_found && why.to_string().contains(want), "{n}: {why}");
            }
        }
    }
}

/// An incident's file with so many ticks of so many bytes, each as the last but one.
fn incident(path: &Path, n: u64, size: usize) {
    let file = File::options().read(true).write(true).create_new(true).open(path).unwrap();
    let mut journal = Journal::to_file(path, file, Start::default()).unwrap();
    let mut dice = Dice(7);
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";
    let mut letter = || char::from(LETTERS[usize::try_from(dice.below(64)).unwrap()]);
    let noise = |_| (0..size).map(|_| letter()).collect::<String>();
    let details = [0, 1].map(noise);
    for (tick, detail) in (1..=n).zip(details.iter().cycle()) {
        let mut sample = Sample { tick, ..Sample::default() };
        sample.at.boot = Nanos(tick * Nanos::SECOND.0);
        sample.at.wall = Nanos(1_790_000_000_000_000_000 + sample.at.boot.0);
        let gap = Gap { object: "/x".into(), why: GapReason::Failed, detail: detail.clone() };
        sample.gaps = vec![gap];
        let standing = Standing { before: Some(sample.clone()), ..Standing::default() };
        journal.write(&sample, &Decision { tick, ..Decision::default() }, &standing).unwrap();
    }
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    let incident = Incident { name, state: State::Frozen, ..Incident::default() };
    journal.conclude(&Line { kind: KIND.into(), incident }).unwrap();
}

#[test]
fn import_leaves_the_incidents_that_are_kept() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    let (small, huge, packed) = (path("2026-small"), path("2026-huge"), path("packed"));
    incident(&small, 4, 1 << 10);
    incident(&huge, 96, 1 << 20);
    // A small file may hold much: what is written of it counts.
    let mut whole = zstd::Decoder::new(File::open(&huge).unwrap()).unwrap();
    let mut again = Encoder::new(File::create(&packed).unwrap(), 1).unwrap();
    again.window_log(23).unwrap();
    std::io::copy(&mut whole, &mut again).unwrap();
    again.finish().unwrap();
    let size = |path: &Path| fs::metadata(path).unwrap().len();
    assert!(size(&huge) > 64 << 20 && size(&packed) < 16 << 20, "{}", size(&packed));
    let shelf_dir = dir.path().join("shelf");
    let shelf = Shelf::in_dir(shelf_dir.clone());
    let keep = |n: usize, size: u64| {
        let name = format!("2026-{n:04}");
        let (kinds, state) = (vec![Kind::Kill], State::Frozen);
        let one = Incident { name, kinds, size, state, ..Incident::default() };
        shelf.note(&one).unwrap();
    };
    #[rustfmt::skip]
    let table = [
        // file, incidents that are kept, bytes of each, what is said
        (&huge,  0,                      0,          "an incident of more than 64 MiB is not imported"),
        (&packed, 0,                     0,          "an incident of more than 64 MiB is not imported"),
        (&small, 1,                      256 << 20,  "1 incidents of 256Mi are kept, and the oldest would be removed"),
        (&small, Retention::USUAL.n,     1,          "remove some with `isobar incidents rm`"),
        (&small, Retention::USUAL.n - 1, 1,          ""),
    ];
    for (file, n, size, want) in table {
        let _ = fs::remove_dir_all(&shelf_dir);
        (0..n).for_each(|n| keep(n, size));
        match import(file, &shelf, Nanos(0)) {
            Ok(kept) => assert!(want.is_empty() && kept.name == "2026-small", "{want}"),
            Err(why) => assert!(!want.is_empty() && why.to_string().contains(want), "{why}"),
        }
        let kept = n + usize::from(want.is_empty());
        assert_eq!(shelf.list().unwrap().len(), kept);
        let drafts = fs::read_dir(&shelf_dir).into_iter().flatten().flatten();
        let drafts = drafts.filter(|one| one.file_name().as_encoded_bytes().starts_with(b"draft"));
        assert_eq!(drafts.count(), 0, "nothing is left of {}", file.display());
    }
    let imported = program::isobar(&["incidents", "import", "--dir"])
        .args([dir.path(), &huge])
        .output()
        .unwrap();
    assert_eq!(imported.status.code(), Some(3), "{}", text(&imported.stderr));
}
