//! Ranges of a recording are what the same verbs show of its moments.

use std::fs;

use isobar::record::incident::words::precise;
use isobar_core::model::units::Nanos;
use serde_json::Value;

use crate::program::{self, text};
use crate::sampling::data;

const LEAK: &str = "recordings/judged-leak-6.12.isobar";
const CONTENDED: &str = "recordings/judged-contended-6.1.isobar";
const SHORTAGE: &str = "recordings/judged-shortage-6.12.isobar";

fn isobar(arguments: &[&str], recording: &str) -> String {
    let got = program::isobar(arguments).arg("-f").arg(data(recording)).output().unwrap();
    let is_well = matches!(got.status.code(), Some(0 | 10));
    assert!(is_well, "{arguments:?}: {}", text(&got.stderr));
    text(&got.stdout)
}

fn lines(arguments: &[&str], recording: &str) -> Vec<Value> {
    let printed = isobar(&[arguments, &["-o", "ndjson"]].concat(), recording);
    printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Without a tick: all of it.
const ALL: [&str; 2] = ["--begin", "2026-11-22T10:00:00Z"];

/// The moment of a document, as `--at` takes it.
fn moment(document: &Value) -> String {
    let at = if document["at"].is_null() { &document["decision"]["at"] } else { &document["at"] };
    // To the millisecond: the tick is no later than the next one.
    precise(Nanos(at["wall"].as_u64().unwrap() + 1_000_000))
}

#[test]
fn range_of_status_has_every_change() {
    for recording in [LEAK, SHORTAGE] {
        let standing = |view: &Value| {
            let assessment = &view["decision"]["assessment"];
            let of = |all: &Value, field| -> Vec<Value> {
                all.as_array().unwrap().iter().map(|one: &Value| one[field].clone()).collect()
            };
            let conditions = of(&assessment["conditions"], "status");
            let word = |one: &Value| match one["isShort"] == true && one["mood"] != "pressed" {
                true => "short".into(),
                false => one["mood"].clone(),
            };
            let words: Vec<Value> = view["verdict"].as_array().unwrap().iter().map(word).collect();
            (words, conditions, assessment["nodePressure"].clone())
        };
        let mut views = lines(&[&["top"][..], &ALL].concat(), recording);
        let n = views.len();
        views.dedup_by_key(|view| standing(view));
        let want: Vec<_> = views.iter().map(|view| &view["tick"]).collect();
        let got = lines(&[&["status"][..], &ALL].concat(), recording);
        let got: Vec<_> = got.iter().map(|status| &status["tick"]).collect();
        assert_eq!(got, want, "{recording}");
        assert!(want.len() > 3 && want.len() < n / 2, "{} of {n} ticks", want.len());
    }
}

#[test]
fn range_shows_what_its_moments_show() {
    #[rustfmt::skip]
    let table = [
        // verb, fields that both have
        ("status",  &["tick", "headline", "verdict", "conditions", "nodePressure", "capabilities", "foresight"][..]),
        ("explain", &["explanation", "decision"]),
        ("rank",    &["candidates", "spared", "loss", "order", "signal"]),
    ];
    for (verb, fields) in table {
        let all = lines(&[&[verb][..], &ALL].concat(), LEAK);
        assert!(!all.is_empty(), "{verb}");
        for document in all {
            let at = moment(&document);
            let one = &lines(&[verb, "--at", &at], LEAK)[0];
            for field in fields {
                assert_eq!(document[field], one[field], "{verb} at {at}: {field}");
            }
        }
    }
}

#[test]
fn range_is_one_document() {
    let range = ["--begin", "2026-11-22T10:13:40Z", "--end", "2026-11-22T10:13:50Z"];
    #[rustfmt::skip]
    let table = [
        // verb, kind
        ("status",  "StatusList"),
        ("explain", "ExplanationList"),
        ("rank",    "RankingList"),
        ("top",     "SnapshotList"),
    ];
    for (verb, kind) in table {
        let verb = [&[verb][..], &range].concat();
        let want = lines(&verb, LEAK);
        let json = isobar(&[&verb[..], &["-o", "json"]].concat(), LEAK);
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["kind"], kind);
        assert_eq!(json["items"], Value::Array(want), "{verb:?}");
        let yaml = isobar(&[&verb[..], &["-o", "yaml"]].concat(), LEAK);
        assert_eq!(serde_saphyr::from_str::<Value>(&yaml).unwrap(), json, "{verb:?}");
    }
}

#[test]
fn range_over_two_agents_tells_of_each_what_it_was() {
    let agents = |recording: &str| {
        let views = lines(&[&["top"][..], &ALL].concat(), recording);
        let of = views.iter().map(|view| (view["facts"].clone(), view["started"].clone()));
        let mut all: Vec<_> = of.collect();
        all.dedup();
        all
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("recording");
    fs::copy(data(CONTENDED), &path).unwrap();
    fs::copy(data(LEAK), dir.path().join("recording.1")).unwrap();
    let want = [CONTENDED, LEAK].map(agents).concat();
    assert_eq!(want.len(), 2, "two agents: {want:?}");
    assert_eq!(agents(path.to_str().unwrap()), want);
}

#[test]
fn range_shows_the_decisions_that_were_recorded() {
    let recorded = zstd::decode_all(fs::File::open(data(LEAK)).unwrap()).unwrap();
    // As another version decided.
    let other = text(&recorded).replace("\"step\":\"stopContainers\"", "\"step\":\"evict\"");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("recording");
    fs::write(&path, other).unwrap();
    let explained = isobar(&[&["explain"][..], &ALL].concat(), path.to_str().unwrap());
    assert!(explained.contains("would evict shop/leak"), "{explained}");
    assert!(!explained.contains("would stop the containers"), "{explained}");
}
