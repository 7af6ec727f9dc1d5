//! Incidents before and after the wall clock is set back, over times that it passes twice.

use serde_json::Value;

use super::*;

/// The clock is set back by so much in second 500, and CPUs are short again from second 700 to 760.
const BACK: Nanos = Nanos(300 * Nanos::SECOND.0);

fn set_back(second: u64) -> Sample {
    let mut now = sample(if (700..760).contains(&second) { second - 500 } else { second });
    (now.tick, now.at) = (second, at(second));
    now.kernel = Some(KernelStalls { clock: now.at.boot, ..KernelStalls::default() });
    if second >= 500 {
        now.at.wall = now.at.wall.since(BACK);
    }
    now
}

/// Records a boot; its incidents, each frozen when it was over.
fn frozen(dir: &Path) -> Vec<Incident> {
    let (path, shelf) = (dir.join("recording"), Shelf::in_dir(dir.join("incidents")));
    let (standing, boot_id) = (Standing::new(4), "this boot".to_owned());
    let mut engine = Engine::new(settings(), standing.clone());
    let facts = NodeFacts { boot_id: boot_id.clone(), ..NodeFacts::default() };
    let start = Start { facts, settings: settings(), standing, at: at(0) };
    let mut journal = Journal::create(&path, start, Bounds::default()).unwrap();
    let (mut watch, mut all) = (Watch::new("worker-1".into(), boot_id), Vec::new());
    for second in 1..=900 {
        let sample = set_back(second);
        let decision = engine.step(sample.clone()).decision;
        journal.write(&sample, &decision, engine.standing()).unwrap();
        let seen = Seen { sample: &sample, decision: &decision, kills: &[], limits: &[] };
        if let Some(Turn::Over(incident)) = watch.tick(seen) {
            let ring = Ring::Files(path.clone());
            all.push(freeze(&ring, &shelf, *incident, shelf.draft().unwrap(), || ()).unwrap());
        }
    }
    all
}

fn isobar(arguments: &[&str], dir: &Path) -> Value {
    let got = program::isobar(arguments).args(["-o", "json", "-f"]).arg(dir).output().unwrap();
    assert_eq!(got.status.code(), Some(0), "{arguments:?}: {}", text(&got.stderr));
    serde_json::from_slice(&got.stdout).unwrap()
}

#[test]
fn incidents_keep_their_order_and_span_where_the_clock_is_set_back() {
    let dir = TempDir::new().unwrap();
    let all = frozen(dir.path());
    let spans: Vec<_> = all
        .iter()
        .map(|one| [one.from, one.begin, one.end.unwrap()].map(|at| at.boot.0 / Nanos::SECOND.0))
        .collect();
    assert_eq!(spans, [[80, 200, 289], [580, 700, 789]]);
    let [first, second] = &all[..] else { panic!("{all:?}") };
    assert!(
        second.begin.wall > first.end.unwrap().wall && second.from.wall < first.end.unwrap().wall
    );
    for one in &all {
        assert_eq!((one.ticks, &one.left_out[..]), (210, &[][..]), "{}", one.summary);
        assert!(one.summary.contains(", after 1m29s."), "{}", one.summary);
        let shown = isobar(&["incidents", "show", &one.name], dir.path());
        assert_eq!(shown["incident"]["summary"], one.summary.as_str());
    }
}

#[test]
fn incidents_ls_has_the_newest_first_where_the_clock_is_set_back() {
    let dir = TempDir::new().unwrap();
    let shelf = Shelf::in_dir(dir.path().join("incidents"));
    let keep = |boot_id: &str, boot: u64, wall: u64| {
        let begin = Moment { boot: at(boot).boot, wall: at(wall).wall };
        let (name, boot_id, state) = (format!("2026-{wall}"), boot_id.into(), State::Frozen);
        shelf.note(&Incident { name, boot_id, state, begin, ..Incident::default() }).unwrap();
    };
    #[rustfmt::skip]
    let all = [
        // boot, second of it, second of the wall clock
        ("a", 50,  9_000), // ahead
        ("a", 100, 1_000),
        ("",  0,   1_500),
        ("b", 5,   0),     // behind
        ("b", 700, 3_000),
    ];
    all.iter().for_each(|(boot_id, boot, wall)| keep(boot_id, *boot, *wall));
    let listed = isobar(&["incidents", "ls"], dir.path());
    let listed: Vec<_> = listed["incidents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(listed, ["2026-3000", "2026-0", "2026-1500", "2026-1000", "2026-9000"]);
    let latest = isobar(&["incidents", "show", "latest"], dir.path());
    assert_eq!(latest["incident"]["name"], "2026-3000");
}
