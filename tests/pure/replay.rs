//! `isobar replay`, on recordings of nodes that do not exist: the same bytes by the same settings,
//! the difference by others, and a way out of whatever happened to the file.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::program::{self, text};
use crate::ticks::{Dice, anything};
use isobar::record::journal::{Bounds, Journal, Start};
use isobar::record::reader::Recording;
use isobar::record::replay::{Replay, Replayed};
use isobar_core::model::condition::{ConditionName, Measure};
use isobar_core::model::psi::{Line, Pressure};
use isobar_core::model::sample::Sample;
use isobar_core::model::settings::{ConditionRule, Settings};
use isobar_core::model::units::{Nanos, Percent};
use isobar_core::policy::engine::{Engine, Standing};
use proptest::prelude::*;
use serde_json::Value;
use tempfile::TempDir;

/// Judged on raw PSI alone, at a line of `percent`.
fn settings(percent: u16) -> Settings {
    let mut settings = Settings::default();
    for rule in settings.conditions.rules.values_mut() {
        let threshold = Percent(percent * 100);
        *rule = ConditionRule { measure: Measure::RawSome, threshold };
    }
    settings
}

/// Records and judges; `reloads` are the ticks after which other settings hold.
fn record(path: &Path, samples: &[Sample], reloads: &[(u64, Settings)]) {
    let standing = Standing::new(4);
    let mut engine = Engine::new(settings(60), standing.clone());
    let start = Start { settings: settings(60), standing, ..Start::default() };
    let mut journal = Journal::create(path, start, Bounds::default()).unwrap();
    for sample in samples {
        let decision = engine.step(sample.clone()).decision;
        journal.write(sample, &decision, engine.standing()).unwrap();
        for (_, settings) in reloads.iter().filter(|(tick, _)| *tick == sample.tick) {
            engine = engine.with_settings(settings.clone());
            journal.reload(settings.clone(), engine.standing(), sample.at).unwrap();
        }
    }
}

/// The CPUs of this node are ever shorter, until tick 8.
fn rising(n: u64) -> Vec<Sample> {
    let sample = |tick: u64| {
        let mut sample = Sample { tick, ..Sample::default() };
        sample.at.boot = Nanos(tick * Nanos::SECOND.0);
        sample.at.wall = Nanos(1_790_000_000_000_000_000 + sample.at.boot.0);
        let share = Percent(u16::try_from(tick.min(8) * 10_00).unwrap());
        let line = Line { avg10: share, avg60: share, ..Line::default() };
        sample.node.pressure.cpu = Some(Pressure { some: Some(line), full: None });
        sample
    };
    (1..=n).map(sample).collect()
}

/// The same of a file: what a kubelet's node is judged by, and raw PSI with a line of `percent`.
fn configuration(percent: u16) -> String {
    let cpu = format!("{{cpu: {{measure: raw, line: some, threshold: {percent}%}}}}");
    let head = "apiVersion: isobar/v1alpha1\nkind: MonitorConfiguration\n";
    format!("{head}conditions: {{system: {cpu}}}\n")
}

fn recorded(dir: &TempDir) -> PathBuf {
    let path = dir.path().join("rec");
    record(&path, &rising(12), &[]);
    path
}

fn isobar(path: &Path, more: &[&str]) -> Output {
    program::isobar(&["replay"]).arg(path).args(more).output().unwrap()
}

/// Ticks that come out the same, and those that do not.
fn judged(path: &Path, other: Option<Settings>) -> (Vec<u64>, Vec<u64>) {
    let (mut same, mut differ) = (Vec::new(), Vec::new());
    for replayed in Replay::new(Recording::open(path).unwrap(), other) {
        match replayed.unwrap() {
            Replayed::Tick(tick) if tick.recorded == tick.text => same.push(tick.tick),
            Replayed::Tick(tick) => differ.push(tick.tick),
            Replayed::Notice(_) => {}
        }
    }
    (same, differ)
}

proptest! {
    #[test]
    fn replay_same_bytes(
        seed in any::<u64>(), first in 1_u64..6, second in 6_u64..10,
    ) {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("rec");
        let (mut dice, mut sample) = (Dice(seed), Sample::default());
        let mut next = || {
            sample = anything(&sample, &mut dice);
            // Where the clock is set back a chapter begins, which takes a line more.
            sample.at.wall = Nanos(1_790_000_000_000_000_000 + sample.at.boot.0);
            sample.clone()
        };
        let samples: Vec<_> = (0..12).map(|_| next()).collect();
        record(&path, &samples, &[(first, settings(40)), (second, settings(20))]);
        prop_assert_eq!(judged(&path, None), ((1..=12).collect(), vec![]));
        // Without what came before the second header, and the third.
        let lines = text(&zstd::decode_all(fs::File::open(&path).unwrap()).unwrap());
        for from in [first, second] {
            let skip = usize::try_from(from + 1 + u64::from(from == second)).unwrap();
            let rest: Vec<_> = lines.lines().skip(skip).collect();
            fs::write(&path, rest.join("\n")).unwrap();
            prop_assert_eq!(judged(&path, None), ((from + 1..=12).collect(), vec![]));
        }
    }
}

#[test]
fn replay_prints_recorded_bytes() {
    let dir = TempDir::new().unwrap();
    let path = recorded(&dir);
    let got = isobar(&path, &[]);
    assert_eq!((got.status.code(), text(&got.stderr)), (Some(0), String::new()));
    let head = "{\"apiVersion\":\"isobar/v1alpha1\",\"kind\":\"Decision\",";
    let lines = text(&got.stdout);
    let entries = Recording::open(&path).unwrap().filter_map(|entry| match entry.unwrap() {
        isobar::record::reader::Entry::Frame(frame) => Some(frame.decision),
        _ => None,
    });
    let want: String = entries.map(|decision| format!("{head}{}\n", &decision[1..])).collect();
    assert_eq!(lines, want);
    assert_eq!(lines.lines().count(), 12);

    let part = text(&isobar(&path, &["--from", "5", "--to", "7"]).stdout);
    let of = |line: &str| serde_json::from_str::<Value>(line).unwrap()["tick"].clone();
    assert_eq!(part.lines().map(of).collect::<Vec<_>>(), [5, 6, 7]);
    assert_eq!(part.lines().last(), lines.lines().nth(6), "what came before still counts");

    let table = text(&isobar(&path, &["-o", "table"]).stdout);
    assert!(table.starts_with("TICK  CONDITIONS"), "{table}");
    let name = ConditionName::ALL[0].name();
    assert_eq!(table.matches(name).count(), 7, "from tick 6 on: {table}");
}

#[test]
fn replay_check_difference() {
    let dir = TempDir::new().unwrap();
    let path = recorded(&dir);
    let same = isobar(&path, &["--check"]);
    assert_eq!(text(&same.stdout), "12 decisions compared, all the same\n");
    assert_eq!(same.status.code(), Some(0));
    let none = isobar(&path, &["--check", "--from", "100"]);
    assert_eq!(none.status.code(), Some(1), "nothing compared is nothing held");

    let lines = text(&zstd::decode_all(fs::File::open(&path).unwrap()).unwrap());
    let other: Vec<_> = lines
        .lines()
        .map(|line| match line.contains("\"decision\":{\"tick\":7,") {
            true => line.replacen("\"status\":\"True\"", "\"status\":\"False\"", 1),
            false => line.into(),
        })
        .collect();
    fs::write(&path, other.join("\n")).unwrap();
    let differs = isobar(&path, &["--check"]);
    let want = "tick 7 differs: /assessment/conditions/0/status\n  recorded  \"False\"\n  \
                now       \"True\"\n6 decisions before it are the same\n";
    assert_eq!(text(&differs.stdout), want);
    assert_eq!(differs.status.code(), Some(1));
    let line = isobar(&path, &["--check", "-o", "ndjson"]);
    let found: Value = serde_json::from_slice(&line.stdout).unwrap();
    assert_eq!(found["difference"]["path"], "/assessment/conditions/0/status", "{found}");
    assert_eq!((found["compared"].clone(), line.status.code()), (7.into(), Some(1)));
}

#[test]
fn replay_other_configuration() {
    let dir = TempDir::new().unwrap();
    let path = recorded(&dir);
    let (same, differ) = judged(&path, Some(Settings { generation: 99, ..settings(60) }));
    assert_eq!((same.len(), differ), (12, vec![]), "a number of its own changes nothing");

    let path = dir.path().join("by-a-file");
    let by_file = isobar::config::settings(&configuration(60), "sixty", dir.path()).unwrap();
    let standing = Standing::default();
    let mut engine = Engine::new(by_file.clone(), standing.clone());
    let start = Start { settings: by_file, standing, ..Start::default() };
    let mut journal = Journal::create(&path, start, Bounds::default()).unwrap();
    for sample in rising(12) {
        let decision = engine.step(sample.clone()).decision;
        journal.write(&sample, &decision, engine.standing()).unwrap();
    }
    let config = dir.path().join("other.yaml");
    fs::write(&config, configuration(40)).unwrap();
    let config = config.to_str().unwrap();
    // The line lies at 60, which tick 6 reaches; at 40 tick 4 does.
    let got = isobar(&path, &["--config", config, "-o", "ndjson"]);
    assert_eq!(got.status.code(), Some(0), "{}", text(&got.stderr));
    let lines: Vec<Value> =
        text(&got.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ticks: Vec<_> = lines.iter().map(|line| line["tick"].as_u64().unwrap()).collect();
    assert_eq!(ticks, [4, 5], "the verdict differs there alone");
    assert_eq!(lines[0]["kind"], "Difference");
    assert_eq!(lines[0]["recorded"]["assessment"]["conditions"][0]["status"], "False");
    assert_eq!(lines[0]["otherwise"]["assessment"]["conditions"][0]["status"], "True");

    let table = text(&isobar(&path, &["--config", config, "-o", "table"]).stdout);
    let row: Vec<_> = table.lines().map(|line| line.split_whitespace().take(2).collect()).collect();
    let n_rows = |tick| row.iter().filter(|row: &&Vec<_>| row[0] == tick).count();
    assert_eq!((n_rows("4"), n_rows("5")), (2, 0), "once, where it begins: {table}");

    fs::write(config, "kind: Nothing\n").unwrap();
    assert_eq!(isobar(&path, &["--config", config]).status.code(), Some(3));
    assert_eq!(isobar(&path, &["--config", config, "--check"]).status.code(), Some(2));
}

#[test]
fn replay_refuses() {
    let dir = TempDir::new().unwrap();
    let whole = fs::read(recorded(&dir)).unwrap();
    let plain = text(&zstd::decode_all(&whole[..]).unwrap());
    let newer = plain.replacen("\"version\":4", "\"version\":5", 1).into_bytes();
    let older = plain.replacen("\"version\":4", "\"version\":2", 1).into_bytes();
    let foreign = zstd::encode_all(&b"hello\n"[..], 1).unwrap();
    #[rustfmt::skip]
    let table: [(&str, &[u8], &str); 10] = [
        // what, bytes, what is said
        ("nothing",               b"",                 "is empty: nothing was recorded"),
        ("text",                  b"hello\n",          "is no recording: `isobar run --record FILE`"),
        ("no line",               b"hello",            "is no recording"),
        ("JSON of others",        b"{\"kind\":\"header\"}\n", "is no recording"),
        ("zstd of others",        &foreign,            "is no recording"),
        ("a newer version",       &newer,              "has format version 5, this isobar reads versions 3 to 4"),
        ("an older version",      &older,              "has format version 2, this isobar reads versions 3 to 4: replay it with"),
        ("half a magic number",   &whole[..3],         "the recording is unreadable"),
        ("half a header",         &whole[..40],        "it ends in the middle"),
        ("bytes",                 &[0xff, 0, 1, 2, 10], "is no recording"),
    ];
    for (what, bytes, want) in table {
        let path = dir.path().join("other");
        fs::write(&path, bytes).unwrap();
        let got = isobar(&path, &["--check"]);
        let said = text(&got.stderr);
        assert_eq!(got.status.code(), Some(3), "{what}: {said}");
        assert!(said.contains(want) && said.lines().count() == 1, "{what}: {said}");
        assert!(got.stdout.is_empty(), "{what}");
    }
    let missing = isobar(&dir.path().join("none"), &[]);
    assert_eq!(missing.status.code(), Some(3), "{}", text(&missing.stderr));
    assert_eq!(isobar(dir.path(), &[]).status.code(), Some(3), "a directory");
}

#[test]
fn replay_cut_off() {
    let dir = TempDir::new().unwrap();
    let path = recorded(&dir);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 20]).unwrap();
    let got = isobar(&path, &["--check"]);
    assert_eq!(text(&got.stdout), "11 decisions compared, all the same\n");
    assert_eq!(got.status.code(), Some(0));
    let said = text(&got.stderr);
    assert!(
        said.contains("it ends in the middle: the agent still writes, or was killed"),
        "{said}"
    );
}

#[test]
fn replay_other_version() {
    let dir = TempDir::new().unwrap();
    let path = recorded(&dir);
    let lines = text(&zstd::decode_all(fs::File::open(&path).unwrap()).unwrap());
    assert_eq!(lines.matches("\"isobar\":\"0.1.0\"").count(), 1);
    for older in ["0.0.9", "0.1", "0.0.10", "0.1.0-rc.1"] {
        let older = format!("\"isobar\":\"{older}\"");
        fs::write(&path, lines.replace("\"isobar\":\"0.1.0\"", &older)).unwrap();
        let got = isobar(&path, &["--check"]);
        assert_eq!(text(&got.stdout), "12 decisions compared, all the same\n");
        assert_eq!(text(&got.stderr), "", "{older}");
    }
    let newer = lines.replace("\"isobar\":\"0.1.0\"", "\"isobar\":\"0.10.0\"");
    let more = newer.replace("\"cause\":", "\"mood\":1,\"cause\":").replacen(
        "{\"kind\":\"tick\",",
        "{\"kind\":\"weather\"}\n{\"kind\":\"tick\",",
        3,
    );
    fs::write(&path, more).unwrap();
    let got = isobar(&path, &["--check"]);
    assert_eq!(text(&got.stdout), "12 decisions compared, all the same\n");
    let said = text(&got.stderr);
    assert_eq!(said.matches("recorded by isobar 0.10.0").count(), 1, "{said}");
}

#[test]
fn replay_reader_leaves() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("rec");
    record(&path, &rising(400), &[]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_isobar"));
    command.arg("replay").arg(&path).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut replay = command.spawn().unwrap();
    let mut first = String::new();
    BufReader::new(replay.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let ended = replay.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), text(&ended.stderr)), (Some(0), String::new()));
}
