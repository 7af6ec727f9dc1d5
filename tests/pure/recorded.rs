//! The API of a recording: any moment of it, and nothing that a request leaves behind.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use isobar::record::boot;
use isobar::record::incident::shelf::Shelf;
use isobar::record::journal::Ring;
use isobar::record::reader::Recording;
use isobar::record::replay::Replay;
use isobar::serve::film::Film;
use isobar::serve::film::reel::Reel;
use isobar::serve::publish::{Publisher, channel};
use isobar::serve::{replaying, router};
use isobar_core::model::cost::Cost;
use isobar_core::model::units::{Moment, Nanos};
use serde_json::Value;
use tower::ServiceExt as _;

use crate::http::{get, observing, text};
use crate::kept::keep;

fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/recordings").join(name)
}

/// A pod takes what all pods may have; isobar would have marked it at 10:13:30 and ended it at
/// 10:13:47, the kernel killed a process at 10:13:53. Its ticks are from 10:13:28.83 to 10:13:59.2.
pub(crate) fn leak() -> PathBuf {
    recorded("judged-leak-6.12.isobar")
}

pub(crate) async fn read(router: &Router, path: &str) -> Value {
    let response = get(router, path).await;
    assert_eq!(response.status(), 200, "{path}");
    serde_json::from_str(&text(response).await).unwrap()
}

pub(crate) async fn served(incidents: Option<Shelf>) -> Router {
    serving(&leak(), incidents).await
}

/// A server whose recording was read to its end.
pub(crate) async fn serving(file: &Path, incidents: Option<Shelf>) -> Router {
    let film = Film::open(file, None, incidents.map(Arc::new)).unwrap().unwrap();
    let router = replaying(film);
    while read(&router, "/api/v1/recording").await["isWhole"] == false {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    router
}

#[tokio::test]
async fn at_shows_the_tick_before_it() {
    let router = served(None).await;
    #[rustfmt::skip]
    let table = [
        // moment, tick
        ("",                                           1),
        ("at=2026-11-22T10:13:28.831Z",                1),
        ("at=2026-11-22T10:13:50Z",                    45),
        ("at=2026-11-22T10:13:50Z&then=next",          46),
        ("at=2026-11-22T10:13:50Z&then=previous",      44),
        ("at=1795342430",                              45),
        ("at=2026-11-22T10:13:28.831Z&then=previous",  1),  // there is none before it
        ("at=-0",                                      63),
        ("at=-0&then=next",                            63), // there is none after it
        ("at=2030-01-01T00:00:00Z",                    63),
        ("at=2026-11-22T10:13:40Z",                    18), // back again
    ];
    for (query, want) in table {
        for path in ["snapshot", "decisions", "conditions", "matrix", "cgroups"] {
            let answer = read(&router, &format!("/api/v1/{path}?{query}")).await;
            assert_eq!(answer["tick"], want, "{path} {query}");
        }
        let ticks = read(&router, &format!("/api/v1/recording/ticks?{query}")).await;
        assert_eq!(ticks["tick"], want, "{query}");
        let ticks = ticks["ticks"].as_array().unwrap();
        assert_eq!(ticks.last().unwrap()["tick"], want, "{query}");
        assert_eq!(ticks.len() as u64, want.min(60), "{query}");
    }
}

#[tokio::test]
async fn at_gives_the_same_again() {
    let (one, other) = (served(None).await, served(None).await);
    let moments = ["10:13:58", "10:13:30", "10:13:47.5", "10:13:53.2", "10:13:47.5"];
    for moment in moments {
        let path = format!("/api/v1/snapshot?at=2026-11-22T{moment}Z");
        let fresh = read(&served(None).await, &path).await;
        assert_eq!(read(&one, &path).await, fresh, "{moment}, after others");
    }
    for moment in moments.iter().rev() {
        let path = format!("/api/v1/history?at=2026-11-22T{moment}Z");
        assert_eq!(read(&one, &path).await, read(&other, &path).await, "{moment}");
    }
}

/// Two recordings of one boot with the same ticks, of which one tells something else of a pod.
#[tokio::test]
async fn at_is_tagged_by_what_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("other.isobar");
    let lines = zstd::decode_all(fs::File::open(leak()).unwrap()).unwrap();
    let renamed = String::from_utf8(lines).unwrap().replace("\"leak\"", "\"lead\"");
    fs::write(&other, zstd::encode_all(renamed.as_bytes(), 1).unwrap()).unwrap();
    let (one, other) = (served(None).await, serving(&other, None).await);
    for path in ["snapshot", "cgroups"] {
        let path = format!("/api/v1/{path}?at=2026-11-22T10:13:50Z");
        let tag = get(&one, &path).await.headers()["etag"].clone();
        for (router, want) in [(&one, 304), (&other, 200)] {
            let request = Request::builder().uri(&path).header("host", "localhost");
            let request = request.header("if-none-match", &tag).body(Body::empty()).unwrap();
            let answer = router.clone().oneshot(request).await.unwrap();
            assert_eq!(answer.status(), want, "{path}");
        }
    }
}

#[tokio::test]
async fn at_knows_nothing_of_later() {
    let router = served(None).await;
    #[rustfmt::skip]
    let table = [
        // moment, threshold in force, actions and kills so far, kernel's kills
        ("10:13:42", "",                            1, 0),
        ("10:13:46", "",                            2, 0),
        ("10:13:48", "allocatableMemory.available", 3, 0),
        ("10:13:52", "allocatableMemory.available", 4, 0),
        ("10:13:55", "",                            5, 1),
    ];
    for (moment, threshold, n, n_kills) in table {
        let at = format!("at=2026-11-22T{moment}Z");
        let told = read(&router, &format!("/api/v1/history/events?{at}")).await;
        let open = |span: &&Value| span["end"].is_null() && span["state"] == "due";
        let mut held = told["spans"].as_array().unwrap().iter().filter(open);
        let found = held.any(|span| span["name"] == threshold);
        assert_eq!(found, !threshold.is_empty(), "{moment}");
        let counts = |event: &&Value| event["kind"] == "action" || event["kind"] == "oomKill";
        assert_eq!(told["events"].as_array().unwrap().iter().filter(counts).count(), n, "{moment}");
        let view = read(&router, &format!("/api/v1/snapshot?{at}")).await;
        assert_eq!(view["recentOomKills"].as_array().unwrap().len(), n_kills, "{moment}");
        let history = read(&router, &format!("/api/v1/history?{at}&begin=-10s")).await;
        assert!(
            history["end"]["wall"].as_u64()
                <= Some(view["at"]["wall"].as_u64().unwrap() + 1_000_000_000)
        );
        let agent = read(&router, &format!("/api/v1/history?{at}&series=agent")).await;
        for (name, series) in agent["series"].as_object().unwrap() {
            let mut values = series["values"].as_array().unwrap().iter();
            assert!(values.all(Value::is_null), "{name} is not recorded");
        }
    }
}

#[tokio::test]
async fn recording_tells_its_whole_course() {
    let dir = tempfile::tempdir().unwrap();
    let incident = keep(&leak(), dir.path());
    let router = served(Some(Shelf::in_dir(dir.path().join("incidents")))).await;
    let about = read(&router, "/api/v1/recording").await;
    assert_eq!((&about["isServed"], &about["ticks"]), (&true.into(), &63.into()));
    let spans = about["spans"].as_array().unwrap();
    assert!(spans.iter().all(|span| span["end"].is_object()), "it has an end");
    let events = about["events"].as_array().unwrap();
    let n_of = |kind: &str| events.iter().filter(|event| event["kind"] == kind).count();
    assert_eq!((n_of("action"), n_of("outcome"), n_of("oomKill")), (4, 4, 1));
    let kept = read(&router, "/api/v1/incidents").await;
    assert_eq!(kept["incidents"][0]["name"], incident.name);
}

#[tokio::test]
async fn at_that_cannot_be_shown() {
    let (recorded, live) = (served(None).await, observing());
    #[rustfmt::skip]
    let table = [
        // server, path, status, words
        (&recorded, "/api/v1/snapshot?at=2026-11-22T10:13:28Z", 404, "begins later, at 2026-11-22T10:13:28.83"),
        (&recorded, "/api/v1/snapshot?at=soon",                 400, "at: expected now, a time ago"),
        (&recorded, "/api/v1/snapshot?at=-0&then=later",        400, "expected next or previous"),
        (&recorded, "/api/v1/history?at=-0&then=next",          400, "only begin, end, step, series, at"),
        (&recorded, "/metrics",                                 404, "isobar dump -o openmetrics"),
        (&live,     "/api/v1/snapshot?at=-10s",                 400, "nothing is recorded"),
        (&live,     "/api/v1/snapshot?at=10%20min%20ago",       400, "nothing is recorded"),
        (&live,     "/api/v1/snapshot?at=02:40",                400, "nothing is recorded"),
        (&live,     "/api/v1/history?at=-10s",                  400, "nothing is recorded"),
    ];
    for (router, path, status, words) in table {
        let response = get(router, path).await;
        assert_eq!(response.status().as_u16(), status, "{path}");
        let said = text(response).await;
        assert!(said.contains(words), "{path}: {said}");
    }
    for path in ["/", "/livez", "/readyz", "/api/v1/stream", "/stats/summary?at=-5s"] {
        assert_eq!(get(&recorded, path).await.status(), 200, "{path}");
    }
}

/// An agent that is at the last tick of the recording, and has it as its own.
pub(crate) fn recording_agent(ring: Option<&Ring>) -> Router {
    let mut replay = Replay::new(Recording::open(&leak()).unwrap(), None);
    let (to, latest) = channel();
    let mut publisher: Option<Publisher> = None;
    while let Some(step) = replay.step_before(Nanos(u64::MAX)).unwrap() {
        let facts = replay.facts().unwrap().clone();
        let started = boot::begun(&Ring::Files(leak()), &facts.boot_id, step.snapshot.at);
        let own = publisher.get_or_insert_with(|| Publisher::new(facts, started, to.clone()));
        own.show_recording(ring, None);
        own.publish(step, Vec::new(), Cost::default());
    }
    router(latest)
}

#[tokio::test]
async fn agent_shows_what_it_has_recorded() {
    let in_memory = Ring::One(Arc::new(fs::File::open(leak()).unwrap()));
    let recorded = served(None).await;
    for ring in [Ring::Files(leak()), in_memory] {
        let agent = recording_agent(Some(&ring));
        let about = read(&agent, "/api/v1/recording").await;
        assert_eq!(
            (&about["isServed"], &about["isLive"]),
            (&true.into(), &true.into()),
            "{ring:?}"
        );
        let opened = read(&recorded, "/api/v1/recording").await;
        assert_eq!((&about["begin"], &about["end"]), (&opened["begin"], &opened["end"]));
        for moment in ["10:13:50", "10:13:30", "10:13:55"] {
            for path in ["snapshot", "recording/ticks"] {
                let path = format!("/api/v1/{path}?at=2026-11-22T{moment}Z");
                assert_eq!(read(&agent, &path).await, read(&recorded, &path).await, "{path}");
            }
            // Its own history, as it was then.
            let path = format!("/api/v1/history/events?at=2026-11-22T{moment}Z");
            let events = read(&agent, &path).await;
            let late = |event: &Value| event["tick"].as_u64() > events["tick"].as_u64();
            assert!(!events["events"].as_array().unwrap().iter().any(late), "{moment}");
        }
        assert_eq!(read(&agent, "/api/v1/snapshot").await["tick"], 63, "the present is as it was");
    }
    let about = read(&recording_agent(None), "/api/v1/recording").await;
    assert_eq!(about["isServed"], false);
    assert!(about["problem"].as_str().unwrap().contains("--no-record"), "{about}");
}

/// What was recorded after the last moment was read is found.
#[tokio::test]
async fn agent_shows_what_it_records_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("recording");
    let whole = fs::read(leak()).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let agent = recording_agent(Some(&Ring::Files(file.clone())));
    let before = read(&agent, "/api/v1/snapshot?at=-0").await["tick"].as_u64().unwrap();
    assert!(before < 63, "{before}");
    fs::write(&file, &whole).unwrap();
    for path in ["snapshot?at=-0", "snapshot?at=-0&then=next"] {
        assert_eq!(read(&agent, &format!("/api/v1/{path}")).await["tick"], 63, "{path}");
    }
}

/// What an agent knows of the last 30 s that starts three seconds after the last tick of a recording,
/// once `is_enough`.
async fn refilled(boot_id: Option<&str>, is_enough: impl Fn(usize) -> bool) -> [Vec<Value>; 2] {
    let mut replay = Replay::new(Recording::open(&leak()).unwrap(), None);
    let mut last = None;
    while let Some(step) = replay.step_before(Nanos(u64::MAX)).unwrap() {
        last = Some(step);
    }
    let mut facts = replay.facts().unwrap().clone();
    if let Some(other) = boot_id {
        facts.boot_id = other.into();
    }
    let mut step = last.unwrap();
    let later = |at: Nanos| at.plus(Nanos(3 * Nanos::SECOND.0));
    let Moment { boot, wall } = step.snapshot.at;
    let started = Moment { boot: later(boot), wall: later(wall) };
    (step.snapshot.at, step.decision.at) = (started, started);
    let (to, latest) = channel();
    let mut publisher = Publisher::new(facts, started, to);
    publisher.refill(leak());
    publisher.publish(step, Vec::new(), Cost::default());
    let router = router(latest);
    let query = "/api/v1/history?begin=-30s&step=1s&series=system.memory.available,agent.cpu";
    for _ in 0..3_000 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let known = read(&router, query).await;
        let values = ["system.memory.available", "agent.cpu"]
            .map(|name| known["series"][name]["values"].as_array().unwrap().clone());
        if is_enough(values[0].iter().filter(|value| !value.is_null()).count()) {
            return values;
        }
    }
    panic!("the history was not refilled");
}

#[tokio::test]
async fn refill_gives_the_history_what_was_recorded() {
    let [memory, cost] = refilled(None, |n_known| n_known > 1).await;
    let is_known: Vec<_> = memory.iter().map(|value| !value.is_null()).collect();
    assert!(is_known[..26].iter().all(|is| *is), "{memory:?}");
    assert_eq!(is_known[26..], [true, false, false, true], "no tick for three seconds: {memory:?}");
    assert!(cost[..29].iter().all(Value::is_null), "the cost of an agent is not recorded");
}

#[tokio::test]
async fn refill_leaves_other_boots_out() {
    let started = std::cell::Cell::new(0);
    let [memory, _] = refilled(Some("another boot"), |_| {
        started.set(started.get() + 1);
        started.get() == 25
    })
    .await;
    assert_eq!(memory.iter().filter(|value| !value.is_null()).count(), 1, "{memory:?}");
}

/// Two agents, one after the other, before the node restarts with another kernel, and two after it.
#[tokio::test]
async fn at_in_several_runs() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["contended-6.1", "throttled-6.1", "leak-6.12", "shortage-6.12"];
    let mut n_ticks = 0;
    for (n, name) in names.iter().enumerate() {
        let from = recorded(&format!("judged-{name}.isobar"));
        n_ticks +=
            read(&serving(&from, None).await, "/api/v1/recording").await["ticks"].as_u64().unwrap();
        let to = if n == 0 { "recording".into() } else { format!("recording.{n}") };
        fs::copy(from, dir.path().join(to)).unwrap();
    }
    let router = serving(&dir.path().join("recording"), None).await;
    let about = read(&router, "/api/v1/recording").await;
    assert_eq!((&about["ticks"], &about["problem"]), (&n_ticks.into(), &Value::Null));

    // Forward through all of it, and back again.
    let mut at = about["begin"]["wall"].as_u64().unwrap();
    let (mut forward, mut back) = (Vec::new(), Vec::new());
    for (then, seen) in [("next", &mut forward), ("previous", &mut back)] {
        for _ in 1..n_ticks {
            let path = format!("/api/v1/snapshot?at={}&then={then}", timestamp(at));
            let view = read(&router, &path).await;
            at = view["at"]["wall"].as_u64().unwrap();
            let kernel = view["facts"]["kernel"].to_string();
            seen.push((at, kernel, view["tick"].as_u64(), view["started"]["boot"].as_u64()));
        }
    }
    forward.pop();
    back.pop();
    back.reverse();
    assert_eq!(forward, back);
    let kernels: BTreeSet<_> = forward.iter().map(|(_, kernel, ..)| kernel).collect();
    let begun: BTreeSet<_> = forward.iter().map(|(.., begun)| begun).collect();
    assert_eq!((kernels.len(), begun.len()), (2, 2), "{kernels:?} {begun:?}");

    // The same, and of the boot, where only a part of it is read.
    let file = dir.path().join("recording");
    for (at, .., begun) in &forward {
        let mut reel = Reel::open_at(&file, Nanos(*at)).unwrap();
        reel.run_to(Nanos(*at)).unwrap();
        let started = reel.view().unwrap().started;
        assert_eq!(Some(started.boot.0), *begun, "{}", timestamp(*at));
    }

    // The history goes on over the agent's restart, and not over the node's.
    let known = |history: &Value| {
        let values = history["series"]["system.cpu.some"]["values"].as_array().unwrap();
        values.iter().filter(|value| !value.is_null()).count()
    };
    for moment in ["10:13:06", "10:14:57"] {
        let query = format!("at=2026-11-22T{moment}Z&begin=-10m&series=system.cpu.some");
        let n = known(&read(&router, &format!("/api/v1/history?{query}")).await);
        assert!((70..120).contains(&n), "{moment}: {n} seconds of two agents");
    }
}

fn timestamp(wall: u64) -> jiff::Timestamp {
    jiff::Timestamp::from_nanosecond(wall.into()).unwrap()
}
