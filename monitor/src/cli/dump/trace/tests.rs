use super::*;
use isobar_core::model::decision::NodePressure;
use isobar_core::model::snapshot::{MemoryCauseWait, MemoryWait};
use isobar_core::model::units::MilliCpu;

/// What a trace says of these ticks: the second, its sort, and the CPU that a pod used.
fn told(ticks: &[(u64, Option<u64>, bool)]) -> Vec<(u64, String, Option<u64>)> {
    let mut out = Vec::new();
    let mut trace = Trace::new(&mut out);
    for (second, used, is_pressed) in ticks {
        let at = Nanos(second * Nanos::SECOND.0);
        let mut view = View::default();
        view.snapshot.at = Moment { boot: at, wall: at };
        let pod = |used| Scope { cpu_usage: Some(MilliCpu(used)), ..Scope::default() };
        view.snapshot.scopes = used.iter().map(|used| (CgroupId(7), pod(*used))).collect();
        let pressed = is_pressed.then_some(NodePressure::MemoryPressure);
        view.decision.assessment.node_pressure = pressed.into_iter().collect();
        trace.tick(&view).unwrap();
    }
    trace.end().unwrap();
    let trace: Value = serde_json::from_slice(&out).unwrap();
    let events = trace["traceEvents"].as_array().unwrap().iter();
    let events = events.filter(|event| event["ph"] != "M").map(|event| {
        let second = event["ts"].as_u64().unwrap() / 1_000_000;
        (second, event["ph"].as_str().unwrap().to_owned(), event["args"]["used"].as_u64())
    });
    events.collect()
}

#[test]
fn counter_ends_where_it_is_measured_no_more() {
    let (mut out, pod) = (Vec::new(), Scope::default());
    let mut trace = Trace::new(&mut out);
    #[rustfmt::skip]
    let ticks = [
        // what was measured of two values
        [Some(5), Some(6)],
        [Some(7), None],
        [None,    None],
        [None,    None],
        [None,    Some(1)],
    ];
    for (at, [a, b]) in (0..).zip(ticks) {
        let values = [("a", a), ("b", b)];
        trace.at.wall = Nanos(at * 1_000);
        trace.counter(CgroupId(7), &pod, trace.at.wall, "c", &values).unwrap();
    }
    trace.end().unwrap();
    let trace: Value = serde_json::from_slice(&out).unwrap();
    let events = trace["traceEvents"].as_array().unwrap().iter();
    let of = |phase: &str| events.clone().filter(|event| event["ph"] == phase).collect::<Vec<_>>();
    let counters: Vec<_> = of("C").into_iter().map(|event| &event["args"]).collect();
    let want = [
        json!({"a": 5, "b": 6}),
        json!({"a": 7, "b": 0}),
        json!({"a": 0, "b": 0}),
        json!({"b": 1}),
    ];
    assert_eq!(counters, want.iter().collect::<Vec<_>>());
    let spans = ["b", "e"].map(|phase| {
        let span = |event: &Value| {
            (event["args"]["value"].as_str().unwrap().to_owned(), event["ts"].as_u64().unwrap())
        };
        of(phase).into_iter().map(span).collect::<Vec<_>>()
    });
    let span = |value: &str, at| (value.to_owned(), at);
    assert_eq!(spans[0], [span("b", 1), span("a", 2)]);
    assert_eq!(spans[1], [span("b", 4), span("a", 4)], "the last ends with the trace");
    let ids: BTreeSet<_> =
        of("b").iter().map(|event| event["id2"]["local"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 2, "each is a lane of its own");
}

#[test]
fn trace_shows_nothing_longer_than_it_is_known() {
    type Row<'a> = (&'a [(u64, Option<u64>, bool)], &'a [(u64, &'a str, Option<u64>)]);
    #[rustfmt::skip]
    let table: [Row<'_>; 6] = [
        // second, CPU of a pod, whether memory is pressed; second, sort and value of events
        (&[(1, Some(5), false), (2, Some(6), false)], &[(1, "C", Some(5)), (2, "C", Some(6))]),
        (&[(1, Some(5), false), (2, None, false), (3, None, false)], &[(1, "C", Some(5)), (2, "C", Some(0))]), // the pod is gone
        (&[(1, Some(0), false), (2, None, false)],    &[]),
        (&[(1, Some(5), false), (2, Some(6), false), (13, Some(7), false)], &[(1, "C", Some(5)), (2, "C", Some(6)), (3, "C", Some(0)), (3, "b", None), (13, "e", None), (13, "C", Some(7))]), // a pause
        (&[(1, None, true), (11, None, true)],        &[(1, "b", None), (11, "e", None)]),
        (&[(1, None, true), (2, None, true), (13, None, true)], &[(1, "b", None), (2, "e", None), (3, "b", None), (13, "e", None), (13, "b", None), (13, "e", None)]), // a pause
    ];
    for (ticks, want) in table {
        let want: Vec<_> = want.iter().map(|(at, sort, n)| (*at, (*sort).to_owned(), *n)).collect();
        assert_eq!(told(ticks), want, "{ticks:?}");
    }
}

#[test]
fn waits_for_memory_are_unknown_where_they_are_not_measured() {
    const MILLIS: Nanos = Nanos(1_000_000);
    let measured = |causes: &[MemoryCause]| {
        let wait = Waited { now: MILLIS, ..Waited::default() };
        let wait = MemoryCauseWait { union: wait, ..MemoryCauseWait::default() };
        let causes = causes.iter().map(|cause| (*cause, wait)).collect();
        Some(MemoryWait { causes, ..MemoryWait::default() })
    };
    let (mut out, global) = (Vec::new(), [MemoryCause::Global]);
    let mut trace = Trace::new(&mut out);
    #[rustfmt::skip]
    let ticks = [
        // waits for memory by cause
        None, // none was shown yet
        measured(&global),
        measured(&[]), // it is 0
        None, // the probes are lost
        None,
        measured(&[]), // a probe that is loaded anew has counted nothing
    ];
    for (at, memory) in (0..).zip(ticks) {
        let pod = Scope { memory, ..Scope::default() };
        trace.at.wall = Nanos(at * 1_000);
        trace.scope(CgroupId(7), &pod, trace.at.wall).unwrap();
    }
    trace.end().unwrap();
    let trace: Value = serde_json::from_slice(&out).unwrap();
    let events = trace["traceEvents"].as_array().unwrap().iter();
    let events = events.filter(|event| event["ph"] != "M").map(|event| {
        let (ts, ph) = (event["ts"].as_u64().unwrap(), event["ph"].as_str().unwrap());
        (ts, ph, event["args"].clone())
    });
    let (name, slice) = (MemoryCause::Global.name(), json!({"value": MemoryCause::Global.name()}));
    let want = [
        (1, "C", json!({name: 1})),
        (2, "C", json!({name: 0})),
        (3, "b", slice.clone()),
        (5, "e", slice),
    ];
    assert_eq!(events.collect::<Vec<_>>(), want);
}
