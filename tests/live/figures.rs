//! One tick of an agent, as each of those who tell it does: the page's document, `/metrics`,
//! `status`, `top` and `explain`.

use std::process::{Child, Stdio};

use serde_json::Value;

use crate::host::{Agent, Group, alone, last_cpu, scope};
use crate::program::{isobar, text};

/// Looks that may come to a tick that ended meanwhile: a loaded machine is slow to start programs.
const LOOKS: usize = 240;

/// What programs ask for, and what people do.
const VERBS: [&[&str]; 6] = [
    &["top", "--once", "-o", "json"],
    &["status", "-o", "json"],
    &["explain", "-o", "json"],
    &["top", "--once", "--rows", "10000"],
    &["status", "-o", "wide"],
    &["explain"],
];

struct Told {
    /// `/metrics` of the tick before.
    before: String,
    metrics: String,
    page: Value,
    /// Of `top`, `status` and `explain`.
    json: [Value; 3],
    text: [String; 3],
}

/// `None` if one of them told of another tick.
fn told(agent: &Agent) -> Option<Told> {
    let first = agent.snapshot();
    let before = agent.get("/metrics").unwrap();
    if agent.snapshot()["tick"] != first["tick"] {
        return None;
    }
    let page = agent.next(&first);
    let address = agent.address().to_string();
    let begin = |verb: &[&str]| -> Child {
        let mut isobar = isobar(&[verb, &["--agent", &address]].concat());
        isobar.stdout(Stdio::piped()).spawn().unwrap()
    };
    let begun = VERBS.map(begin);
    let metrics = agent.get("/metrics").unwrap();
    let said = begun.map(|child| text(&child.wait_with_output().unwrap().stdout));
    let tick = page["tick"].as_u64()?;
    let is_one = first["tick"] == tick - 1 && agent.snapshot()["tick"] == tick;
    let [top, status, explain, texts @ ..] = is_one.then_some(said)?;
    let json = [top, status, explain].map(|one| serde_json::from_str(&one).unwrap());
    Some(Told { before, metrics, page, json, text: texts })
}

/// The value of the series `name` that has all of `labels`.
fn series(metrics: &str, name: &str, labels: &[&str]) -> Option<f64> {
    let mut lines = metrics.lines().filter(|line| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{'))
            && labels.iter().all(|label| line.contains(label))
    });
    lines.next()?.rsplit_once(' ')?.1.parse().ok()
}

/// Nanoseconds, of a figure in seconds.
fn nanos(seconds: f64) -> f64 {
    (seconds * 1e9).round()
}

fn shown(percent: &Value) -> String {
    format!("{:.2}", percent.as_f64().unwrap())
}

#[test]
fn tick_is_told_by_all_in_the_same_figures() {
    let _alone = alone();
    let agent = Agent::start(&[]);
    if !agent.sees_waits() {
        return;
    }
    let (Some(mut victim), Some(mut aggressor)) = (Group::make("waits"), Group::make("spins"))
    else {
        return;
    };
    let last = last_cpu();
    victim.run(&format!("exec nice -n 5 taskset -c {last} sh -c 'while :; do :; done'"));
    aggressor.spin(last);
    let is_theirs = |pair: &&Value| {
        pair["victimPath"] == victim.path() && pair["aggressorPath"] == aggressor.path()
    };
    let pair_in = |page: &Value| page["aggressions"].as_array()?.iter().find(is_theirs).cloned();
    let lost = |page: &Value| {
        let figures = page["headlineFigures"].as_array().unwrap().iter();
        let lost = figures.filter(|one| one["kind"] == "lost" && one["aggressor"].is_string());
        lost.cloned().collect::<Vec<_>>()
    };
    // A wait is told once it ends: beside other work that may be in a later tick.
    let seen = (0..LOOKS).find_map(|_| {
        let told = told(&agent).filter(|told| !lost(&told.page).is_empty())?;
        Some((pair_in(&told.page)?, told))
    });
    let (pair, Told { before, metrics, page, json: [top, status, explain], text }) =
        seen.expect("a tick that all have seen");

    // In words.
    for (of, one) in [("top", &top), ("status", &status), ("explain", &explain)] {
        assert_eq!(one["headline"], page["headline"], "{of}");
    }
    let headline = page["headline"].as_str().unwrap();
    for said in &text {
        assert!(said.contains(headline), "{said}");
    }

    // In figures.
    for figure in lost(&page) {
        let label = |name: &str| format!("{name}=\"{}\"", figure[name].as_str().unwrap());
        let labels = [label("victim"), label("aggressor")];
        let name = "isobar_headline_wait_seconds_per_second";
        let told = series(&metrics, name, &[&labels[0], &labels[1], "kind=\"lost\""]);
        let millis = figure["millisPerSecond"].as_u64().unwrap();
        assert_eq!(told, Some(millis as f64 / 1e3), "{figure}");
        assert!(headline.contains(&format!(" {millis} ms")), "{headline}: {figure}");
    }

    // The aggressor: what was lost to it, and how long was waited for it.
    let labels =
        [format!("aggressor=\"{}\"", aggressor.path()), format!("victim=\"{}\"", victim.path())];
    for (field, name) in [
        ("time", "isobar_aggression_seconds_total"),
        ("loss", "isobar_aggression_loss_seconds_total"),
    ] {
        let total =
            |metrics| nanos(series(metrics, name, &[&labels[0], &labels[1]]).unwrap_or(0.0));
        let gained = total(&metrics) - total(&before);
        // A nanosecond of either total is rounded.
        assert!((gained - pair[field].as_f64().unwrap()).abs() <= 2.0, "{field}: {gained}, {pair}");
    }
    assert_eq!(pair_in(&top), Some(pair.clone()));
    for path in [victim.path(), aggressor.path()] {
        let figures = [&top, &page].map(|view| scope(view, path).unwrap());
        for figure in ["cpuUsage", "cpu", "contention"] {
            assert_eq!(figures[0][figure], figures[1][figure], "{figure} of {path}");
        }
    }
    let row = text[0].lines().find(|line| {
        line.starts_with(victim.path()) && line.contains(&format!(" {}", aggressor.path()))
    });
    let row = row.unwrap_or_else(|| panic!("no such pair: {}", text[0]));
    let cells: Vec<_> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    let millis = |field: &str| format!("{} ms", pair[field].as_u64().unwrap() / 1_000_000);
    assert_eq!(cells[2..4], [millis("loss"), millis("time")], "{row}");

    // The conditions and their averages.
    let conditions = &page["decision"]["assessment"]["conditions"];
    assert_eq!(status["conditions"], *conditions);
    for (of, one) in [("top", &top), ("explain", &explain)] {
        assert_eq!(one["decision"]["assessment"]["conditions"], *conditions, "{of}");
    }
    let mut n_averages = 0;
    for condition in conditions.as_array().unwrap() {
        let kind = condition["type"].as_str().unwrap();
        // Below what is said of it.
        let row = text[1].lines().rfind(|line| line.starts_with(&format!("{kind} "))).unwrap();
        for (field, window) in [("avg10", "10s"), ("avg60", "60s")] {
            let labels = [format!("type=\"{kind}\""), format!("window=\"{window}\"")];
            let ratio =
                series(&metrics, "isobar_condition_average_ratio", &[&labels[0], &labels[1]]);
            let average = &condition[field];
            assert_eq!(ratio.is_some(), !average.is_null(), "{kind} {field}");
            let Some(ratio) = ratio else { continue };
            n_averages += 1;
            assert_eq!(format!("{:.2}", ratio * 100.0), shown(average), "{kind} {field}");
            assert!(row.contains(&format!(" {}", shown(average))), "{row}");
        }
    }
    assert!(n_averages > 0, "{conditions}");
    assert_eq!(explain["explanation"], page["explanation"]);
    for sentence in page["explanation"]["why"].as_array().unwrap() {
        let sentence = sentence.as_str().unwrap();
        for said in &text[1..] {
            assert!(said.contains(sentence), "{sentence}: {said}");
        }
    }

    // Contention.
    let contention = &page["whole"]["contention"];
    assert_eq!(top["whole"]["contention"], *contention);
    let total = series(&metrics, "isobar_cpu_contention_seconds_total", &["scope=\"system\""]);
    let total = nanos(total.unwrap());
    assert!((total - contention["total"].as_f64().unwrap()).abs() <= 2.0, "{total}, {contention}");
    let told = format!("contention {} %", shown(&contention["avg10"]));
    for said in &text[..2] {
        assert!(said.contains(&told), "{told}: {said}");
    }
    println!("tick {}: {told}, {row}", page["tick"]);
}
