//! Redaction replaces whatever a user or a cluster chose: a marker is planted in every text that a
//! type takes, and found nowhere in what is given away.

mod named;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use self::named::{pod, runner, sample, settings};
use crate::kept::keep;
use crate::program::{self, text};
use crate::sampling::data;
use isobar::record::incident::Incident;
use isobar::record::incident::redact::{Names, redact};
use isobar::record::incident::shelf::Shelf;
use isobar::record::journal::{Bounds, Journal, Start};
use isobar::record::reader::{Entry, Recording};
use isobar_core::model::cgroup::CgroupPath;
use isobar_core::model::decision::{Action, Decision, Hold};
use isobar_core::model::node::NodeFacts;
use isobar_core::model::sample::{Gap, GapReason, Sample};
use isobar_core::model::settings::Node;
use isobar_core::model::workload::Pod;
use isobar_core::policy::engine::Engine;
use isobar_core::recording::format::Header;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tempfile::TempDir;

/// In all names of these tests, and in no word that stays.
const MARKER: &str = "acme";
const LEAK: &str = "recordings/judged-leak-6.12.isobar";

/// The places of all texts in a document: a pointer, and whether the text is the last key of it.
fn texts(value: &Value, at: &str, all: &mut Vec<(String, bool)>) {
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::String(_) => all.push((at.into(), false)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, one)| texts(one, &format!("{at}/{i}"), all));
        }
        Value::Object(fields) => {
            for (key, one) in fields {
                let at = format!("{at}/{}", escaped(key));
                texts(one, &at, all);
                all.push((at, true));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn with(document: &Value, at: &str, is_key: bool, text: &str) -> Value {
    let mut planted = document.clone();
    if !is_key {
        *planted.pointer_mut(at).unwrap() = text.into();
        return planted;
    }
    let (above, key) = at.rsplit_once('/').unwrap();
    let key = key.replace("~1", "/").replace("~0", "~");
    let Value::Object(fields) = planted.pointer_mut(above).unwrap() else { panic!("{at}") };
    let value = fields.remove(&key).unwrap();
    fields.insert(text.into(), value);
    planted
}

/// Plants a marker in each text that the type reads back, and tells how many there are. What is no
/// text to the type, such as a variant or the name of a field, stays.
fn planted<T: Serialize + DeserializeOwned>(what: &T) -> (T, usize) {
    let mut document = serde_json::to_value(what).unwrap();
    let mut all = Vec::new();
    texts(&document, "", &mut all);
    let mut n = 0;
    // Keys last of all: they change the pointers below them, which come before them.
    for (at, is_key) in all {
        for text in [format!("{MARKER}-{n}"), format!("/{MARKER}-{n}")] {
            let other = with(&document, &at, is_key, &text);
            let read = serde_json::from_value::<T>(other.clone());
            let is_kept = |read: &T| serde_json::to_string(read).unwrap().contains(&text);
            if read.is_ok_and(|read| is_kept(&read)) {
                (document, n) = (other, n + 1);
                break;
            }
        }
    }
    (serde_json::from_value(document).unwrap(), n)
}

/// A document without its texts.
fn shape(value: &Value) -> Value {
    match value {
        Value::String(_) => "text".into(),
        Value::Array(items) => items.iter().map(shape).collect(),
        // Other names may have another order.
        Value::Object(fields) => {
            let mut all: Vec<_> = fields.values().map(|one| shape(one).to_string()).collect();
            all.sort();
            all.into()
        }
        other => other.clone(),
    }
}

/// A header in mid-life, after steps were taken, and with all that one can have.
fn header() -> Header {
    let mut engine = Engine::default();
    let mut found: Option<(usize, Header, Action)> = None;
    let mut like = None;
    for entry in Recording::open(&data(LEAK)).unwrap() {
        match entry.unwrap() {
            Entry::Header(header) if found.is_none() && like.is_none() => {
                engine = Engine::new(header.settings, header.standing);
            }
            Entry::Frame(recorded) => {
                let decision = engine.step(recorded.sample).decision;
                like = decision.relief.actions.into_iter().next().or(like);
                let Some(like) = &like else { continue };
                let standing = engine.standing();
                let size = serde_json::to_string(&standing.relief).unwrap().len();
                if found.as_ref().is_none_or(|(most, ..)| size > *most) {
                    let settings = engine.settings().clone();
                    let header =
                        Header { settings, standing: standing.clone(), ..Header::default() };
                    found = Some((size, header, like.clone()));
                }
            }
            _ => {}
        }
    }
    let (_, mut header, like) = found.unwrap();
    header.settings = settings(header.settings);
    header.standing.before = header.standing.before.map(|before| sample(before, &like));
    header.facts = NodeFacts {
        name: "acme-worker-1".into(),
        kernel: "6.12.0".into(),
        boot_id: "acme-boot".into(),
        n_cpus: 2,
    };
    header
}

#[test]
fn names_replace_every_text_of_a_header() {
    let (planted, n) = planted(&header());
    assert!(n > 150, "{n} texts");
    let before = serde_json::to_value(&planted).unwrap();
    let after = serde_json::to_value(Names::default().of(&planted).unwrap()).unwrap();
    let left: Vec<_> = {
        let mut all = Vec::new();
        texts(&after, "", &mut all);
        all.into_iter().map(|(at, _)| at).filter(|at| {
            let text = after.pointer(at).and_then(Value::as_str).unwrap_or_default();
            at.contains(MARKER) || text.contains(MARKER)
        })
    }
    .collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(shape(&after), shape(&before), "and nothing else is changed");
}

/// The recording of a leak, with the marker in names of all kinds, and a label that spares one pod.
fn recorded(path: &Path) {
    let (mut journal, mut engine) = (None, Engine::default());
    for entry in Recording::open(&data(LEAK)).unwrap() {
        match entry.unwrap() {
            Entry::Header(header) if journal.is_none() => {
                let Node { cgroup_driver, cgroup_root, .. } = header.settings.node.clone();
                let mut settings = settings(header.settings);
                settings.node = Node { cgroup_driver, cgroup_root, ..settings.node };
                let facts = NodeFacts { name: "acme-worker".into(), ..header.facts };
                engine = Engine::new(settings.clone(), header.standing.clone());
                let start = Start { facts, settings, standing: header.standing, at: header.at };
                journal = Some(Journal::create(path, start, Bounds::default()).unwrap());
            }
            Entry::Frame(recorded) => {
                let sample = renamed(recorded.sample);
                let decision = engine.step(sample.clone()).decision;
                let journal = journal.as_mut().unwrap();
                journal.write(&sample, &decision, engine.standing()).unwrap();
            }
            _ => {}
        }
    }
}

fn renamed(mut sample: Sample) -> Sample {
    for one in sample.cgroups.values_mut() {
        let path = one.path.0.replace("/system.slice/", "/system.slice/acme-");
        Arc::make_mut(one).path = CgroupPath(path.into());
    }
    for (n, one) in Arc::make_mut(sample.pods.as_mut().unwrap()).values_mut().enumerate() {
        let like = pod(&one.uid, &format!("acme-{}", one.name));
        let is_spared = !one.name.contains("leak");
        let Pod { name, namespace, labels, annotations, owner, priority_class, .. } = like;
        one.annotations.extend(annotations);
        one.labels.extend(labels);
        if is_spared {
            one.labels.insert("acme.example/keep".into(), "true".into());
        }
        (one.name, one.namespace, one.owner) = (name, namespace, owner);
        (one.priority_class, one.tolerations) = (priority_class, like.tolerations);
        one.containers.iter_mut().for_each(|one| one.name = format!("acme-main-{n}"));
        one.volumes = like.volumes;
    }
    let why = GapReason::Failed;
    let detail = "acme-web did not answer".to_owned();
    sample.gaps.push(Gap { object: "/acme.slice".into(), why, detail });
    sample.runners = vec![runner()];
    sample
}

/// What is decided in each tick, without names; uids are numbered as they come.
fn decided(path: &Path) -> Vec<Value> {
    let mut all = Vec::new();
    let mut known: Vec<String> = Vec::new();
    let mut number = |uid: &String| {
        known.iter().position(|one| one == uid).unwrap_or_else(|| {
            known.push(uid.clone());
            known.len() - 1
        })
    };
    for entry in Recording::open(path).unwrap() {
        let Entry::Frame(recorded) = entry.unwrap() else { continue };
        let decision: Decision = serde_json::from_str(&recorded.decision).unwrap();
        let (assessment, relief) = (&decision.assessment, &decision.relief);
        let steps: Vec<_> =
            relief.actions.iter().map(|one| (one.id, one.step, number(&one.target.uid))).collect();
        let held = relief.held.as_ref().map(Hold::name);
        let ranked = decision.ranking.as_ref().map(|ranking| {
            let uids: Vec<_> = ranking.candidates.iter().map(|one| number(&one.uid)).collect();
            let spared: BTreeSet<_> =
                ranking.spared.iter().map(|one| format!("{:?}", one.why)).collect();
            (uids, spared, ranking.n_candidates, ranking.n_spared)
        });
        let statuses: Vec<_> = assessment.conditions.iter().map(|one| one.status).collect();
        let met: Vec<_> = assessment.met.iter().map(|met| met.threshold.name()).collect();
        all.push(serde_json::json!([decision.tick, steps, held, ranked, statuses, met]));
    }
    all
}

#[test]
fn what_is_given_away_has_no_name() {
    let dir = TempDir::new().unwrap();
    let recording = dir.path().join("recording");
    recorded(&recording);
    let kept: Incident = keep(&recording, dir.path());
    let shelf = Shelf::in_dir(dir.path().join("incidents"));
    let whole = dir.path().join(format!("incidents/{}.isobar", kept.name));
    let has = |bytes: &[u8], name: &str| bytes.windows(name.len()).any(|at| at == name.as_bytes());
    let unpacked = |path: &Path| zstd::decode_all(File::open(path).unwrap()).unwrap();
    assert!(has(&unpacked(&whole), MARKER), "what is tested has the marker in it");

    let copy = dir.path().join("copy.isobar");
    let file = File::options().read(true).write(true).create_new(true).open(&copy).unwrap();
    let told = redact(shelf.open(&kept.name).unwrap(), file, &copy).unwrap();
    assert!(!serde_json::to_string(&told).unwrap().contains(MARKER), "{told:#?}");
    let bytes = unpacked(&copy);
    for name in [MARKER, "shop", "leak", "worker", "66666666-6666-4666"] {
        assert!(!has(&bytes, name), "{name} in the ticks");
    }
    let (before, after) = (decided(&whole), decided(&copy));
    assert!(after.iter().any(|one| !one[1].as_array().unwrap().is_empty()), "it has steps");
    assert!(after.iter().any(|one| one.to_string().contains("OptedOut")), "and spares a pod");
    assert_eq!(before, after, "the same is decided under other names");
    let replayed = program::isobar(&["replay", "--check"]).arg(&copy).output().unwrap();
    assert_eq!(replayed.status.code(), Some(0), "{}", text(&replayed.stdout));

    let page = dir.path().join("page.html");
    let mut export =
        program::isobar(&["incidents", "export", "latest", "--html", "--redact", "-o"]);
    let got = export.arg(&page).arg("--dir").arg(dir.path()).output().unwrap();
    assert_eq!(got.status.code(), Some(0), "{}", text(&got.stderr));
    assert!(!has(&fs::read(&page).unwrap(), MARKER));
}

/// What another version did is told, not what this one would have done.
#[test]
fn what_is_given_away_has_the_steps_that_were_taken() {
    let dir = TempDir::new().unwrap();
    let whole = data("recordings/incident-leak-6.12-v4.isobar");
    let copy = dir.path().join("copy.isobar");
    let file = File::options().read(true).write(true).create_new(true).open(&copy).unwrap();
    redact(File::open(&whole).unwrap(), file, &copy).unwrap();
    let steps = |path: &Path| -> Vec<_> {
        let all = decided(path).into_iter();
        all.map(|one| [one[0].clone(), one[1].clone(), one[2].clone()]).collect()
    };
    let (before, after) = (steps(&whole), steps(&copy));
    assert!(before.iter().any(|[_, steps, _]| !steps.as_array().unwrap().is_empty()));
    assert_eq!(before, after);
}

/// Also where conditions are True, whose taints have names that are made of parts.
#[test]
fn what_is_given_away_of_this_version_replays() {
    for name in ["judged-shortage-6.12", "judged-contended-6.1-v4"] {
        let dir = TempDir::new().unwrap();
        let kept: Incident = keep(&data(&format!("recordings/{name}.isobar")), dir.path());
        let shelf = Shelf::in_dir(dir.path().join("incidents"));
        let copy = dir.path().join("copy.isobar");
        let file = File::options().read(true).write(true).create_new(true).open(&copy).unwrap();
        redact(shelf.open(&kept.name).unwrap(), file, &copy).unwrap();
        let whole = dir.path().join(format!("incidents/{}.isobar", kept.name));
        for file in [&whole, &copy] {
            let replayed = program::isobar(&["replay", "--check"]).arg(file).output().unwrap();
            assert_eq!(replayed.status.code(), Some(0), "{name}: {}", text(&replayed.stdout));
        }
        assert_eq!(decided(&whole), decided(&copy), "{name}");
    }
}
