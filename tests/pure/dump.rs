//! Ranges of a recording in the formats of other tools.

use std::collections::BTreeSet;
use std::fs;

use isobar::record::journal::{Bounds, Journal, Start};
use isobar_core::model::sample::{Moment, Sample};
use isobar_core::model::units::Nanos;
use isobar_core::policy::engine::Engine;
use serde_json::Value;
use tempfile::TempDir;

use crate::program::{self, text};
use crate::promtool::promtool;
use crate::sampling::data;

const LEAK: &str = "recordings/judged-leak-6.12.isobar";

fn dump(more: &[&str]) -> String {
    let got = program::isobar(&["dump", "-f"]).arg(data(LEAK)).args(more).output().unwrap();
    assert_eq!(got.status.code(), Some(0), "{more:?}: {}", text(&got.stderr));
    text(&got.stdout)
}

#[test]
fn dump_lines_of_a_range() {
    #[rustfmt::skip]
    let table: [(&[&str], usize); 4] = [
        // range, ticks
        (&[],                                                                       63),
        (&["--begin", "2026-11-22T10:13:50Z"],                                      18),
        (&["--end", "2026-11-22T10:13:50Z"],                                        45),
        (&["--begin", "2026-11-22T10:13:40Z", "--end", "2026-11-22T10:13:50Z"],     27),
    ];
    for (range, want) in table {
        let printed = dump(range);
        let lines: Vec<Value> =
            printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), want, "{range:?}");
        assert_eq!(lines[0]["kind"], "Snapshot", "{range:?}");
    }
}

#[test]
fn dump_rows_have_every_column() {
    let printed = dump(&["-o", "csv"]);
    let mut rows = printed.lines().map(|line| line.trim_end().split(',').collect::<Vec<_>>());
    let head = rows.next().unwrap();
    let place = |name| head.iter().position(|column| *column == name).unwrap();
    let rows: Vec<_> = rows.collect();
    assert!(rows.iter().all(|row| row.len() == head.len()), "a row of another length");
    let ticks: BTreeSet<_> = rows.iter().map(|row| row[place("tick")]).collect();
    assert_eq!(ticks.len(), 63);
    let leak = rows.iter().filter(|row| row[place("name")] == "shop/leak");
    let most = leak.filter_map(|row| row[place("memory_working_set_bytes")].parse().ok()).max();
    assert_eq!(most.map(|bytes: u64| bytes >> 20), Some(191));
}

#[test]
fn dump_metrics_fill_a_prometheus() {
    let dir = tempfile::tempdir().unwrap();
    let (file, blocks) = (dir.path().join("om"), dir.path().join("blocks"));
    let printed = dump(&["-o", "openmetrics"]);
    assert!(printed.ends_with("# EOF\n"));
    let heads: Vec<_> = printed.lines().filter(|line| line.starts_with("# TYPE ")).collect();
    assert_eq!(heads.iter().collect::<BTreeSet<_>>().len(), heads.len(), "a family twice");
    assert!(!printed.contains("isobar_build_info"), "an agent that is not there");
    fs::write(&file, printed).unwrap();
    let (file, blocks) = (file.to_str().unwrap(), blocks.to_str().unwrap());
    promtool(&["tsdb", "create-blocks-from", "openmetrics", file, blocks], "");
}

#[test]
fn dump_trace_has_a_lane_for_each_cgroup() {
    let trace: Value = serde_json::from_str(&dump(&["-o", "perfetto"])).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).collect::<Vec<_>>();
    let lanes: BTreeSet<_> =
        of("M").iter().filter_map(|event| event["args"]["name"].as_str()).collect();
    assert!(lanes.contains("shop/leak") && lanes.contains("node isobar-guest"), "{lanes:?}");
    let named: BTreeSet<_> = of("M").iter().filter_map(|event| event["pid"].as_u64()).collect();
    for event in events {
        assert!(event["pid"].as_u64().is_some_and(|pid| named.contains(&pid)), "{event}");
        assert!(event["ts"].is_u64(), "{event}");
    }
    let instants: BTreeSet<_> = of("i").iter().filter_map(|event| event["name"].as_str()).collect();
    let of_conditions = |phase| {
        let all =
            of(phase).into_iter().map(|event| event["id2"]["local"].as_str().unwrap().to_owned());
        all.collect::<Vec<_>>()
    };
    let mut begun = of_conditions("b");
    assert!(begun.iter().any(|kind| kind == "MemoryPressure"), "{begun:?}");
    let mut ended = of_conditions("e");
    begun.sort_unstable();
    ended.sort_unstable();
    assert_eq!(begun, ended, "each slice has an end");
    // Of the process, not of the whole trace, so that they stand with it.
    assert!(of("i").iter().all(|event| event["s"] == "p"), "{instants:?}");
    assert_eq!(
        instants,
        BTreeSet::from(["OOM kill", "killContainers", "mark", "no action", "stopContainers"])
    );
}

#[test]
fn dump_refuses_what_has_no_ticks() {
    #[rustfmt::skip]
    let table: [(&[&str], &str); 3] = [
        // range, error
        (&["--begin", "2026-11-22T11:00:00Z"],                                   "has no tick of these times"),
        (&["--end", "2026-11-22T10:00:00Z", "-o", "openmetrics"],                "has no tick of these times"),
        (&["--begin", "2026-11-22T10:13:50Z", "--end", "2026-11-22T10:13:40Z"], "--begin is after --end"),
    ];
    for (range, want) in table {
        let got = program::isobar(&["dump", "-f"]).arg(data(LEAK)).args(range).output().unwrap();
        assert_eq!(got.status.code(), Some(3), "{range:?}");
        assert!(text(&got.stderr).contains(want), "{range:?}: {}", text(&got.stderr));
        assert_eq!(text(&got.stdout), "", "{range:?}");
    }
}

#[test]
fn dump_range_goes_past_a_clock_that_was_wrong() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording");
    let mut engine = Engine::default();
    let mut journal = Journal::create(&path, Start::default(), Bounds::default()).unwrap();
    for tick in 1..=60 {
        let boot = Nanos(tick * Nanos::SECOND.0);
        let day = Nanos(if tick == 20 { 86_400 * Nanos::SECOND.0 } else { 0 });
        let at = Moment { boot, wall: boot.plus(day) };
        let sample = Sample { tick, at, ..Sample::default() };
        let decision = engine.step(sample.clone()).decision;
        journal.write(&sample, &decision, engine.standing()).unwrap();
    }
    let mut command = program::isobar(&["dump", "--begin", "10", "--end", "40", "-f"]);
    let got = command.arg(&path).output().unwrap();
    let ticks = text(&got.stdout)
        .lines()
        .map(|line| {
            let view: Value = serde_json::from_str(line).unwrap();
            view["tick"].as_u64().unwrap()
        })
        .collect::<Vec<_>>();
    assert_eq!(ticks, (10..=40).filter(|tick| *tick != 20).collect::<Vec<_>>());
}
