use super::*;
use isobar_core::model::condition::{Condition, Measure, Phase, Resource, ScopeName};
use isobar_core::model::decision::Event as Change;
use isobar_core::model::decision::{Met, Relief};
use isobar_core::model::threshold::{PressureSignal, PressureThreshold};
use isobar_core::model::units::Percent;

/// The wall clock is set back by an hour at second 100.
fn at(second: u64) -> Moment {
    let wall = if second < 100 { second + 10_000 } else { second + 6_400 };
    Moment { boot: Nanos(second * Nanos::SECOND.0), wall: Nanos(wall * Nanos::SECOND.0) }
}

fn condition(status: Status, since: u64) -> Condition {
    Condition {
        name: ConditionName { scope: ScopeName::System, resource: Resource::Cpu },
        kind: "SystemCPUContentionPressure".into(),
        status,
        phase: Phase::Calm,
        measure: Measure::Contention,
        threshold: Percent(50_00),
        avg10: None,
        avg60: None,
        seen: None,
        since: at(since),
        judged: None,
        why: None,
    }
}

fn met(is_due: bool) -> Met {
    let on = PressureSignal::Cpu(Percent(40_00));
    let threshold = PressureThreshold { scope: ScopeName::System, on, grace: Nanos::SECOND };
    let since = at(98).boot;
    Met { threshold: Trigger::Pressure(threshold), since, is_due, measured: 1, missing: None }
}

fn put(spans: &mut Spans, second: u64, decision: Decision) {
    let decision = Decision { at: at(second), tick: second, ..decision };
    spans.put(at(second), Nanos::SECOND, second, Told::of(&decision, &[], &[], &[]));
}

#[test]
fn spans_say_what_held_from_when_to_when() {
    let mut spans = Spans::new(Room::OF_AGENT);
    let tick = |status, since, met: &[Met]| {
        let (conditions, met) = (vec![condition(status, since)], met.to_vec());
        let assessment = Assessment { conditions, met, ..Assessment::default() };
        Decision { assessment, ..Decision::default() }
    };
    put(&mut spans, 97, tick(Status::Unknown, 90, &[]));
    put(&mut spans, 98, tick(Status::False, 98, &[met(false)]));
    put(&mut spans, 99, tick(Status::False, 98, &[met(true)]));
    put(&mut spans, 101, tick(Status::True, 101, &[met(true)]));
    put(&mut spans, 102, tick(Status::True, 101, &[]));
    let known = |begin: u64, end: u64, now: u64| {
        let of = |span: &Span| {
            let seconds = |at: Moment| at.boot.0 / Nanos::SECOND.0;
            (span.state, seconds(span.begin), span.end.map(seconds))
        };
        spans.spans(at(begin).boot, at(end).boot, at(now).boot).iter().map(of).collect::<Vec<_>>()
    };
    let words = |begin, end| known(begin, end, 200);
    #[rustfmt::skip]
    assert_eq!(words(0, 200), [
        (State::Unknown, 90,  Some(98)),
        (State::Met,     98,  Some(99)),
        (State::False,   98,  Some(101)),
        (State::Due,     99,  Some(102)),
        (State::True,    101, None), // later, although the wall clock shows an earlier time
    ]);
    assert_eq!(words(99, 101), [(State::False, 98, Some(101)), (State::Due, 99, Some(102)),]);
    assert_eq!(
        known(98, 100, 100),
        [(State::Met, 98, Some(99)), (State::False, 98, None), (State::Due, 99, None)]
    );
}

#[test]
fn spans_keep_the_rule_and_the_figures_by_which_they_began() {
    let mut spans = Spans::new(Room::OF_AGENT);
    let tick = |avg60: u16, why: Option<String>, is_met: bool| {
        let phase = Phase::Contended;
        let (avg10, avg60) = (Some(Percent(90_00)), Some(Percent(avg60)));
        let judged = Condition { phase, avg10, avg60, ..condition(Status::True, 10) };
        let unknown = Condition { why, ..condition(Status::Unknown, 12) };
        let one = if avg60 == Some(Percent(0)) { unknown } else { judged };
        let met = if is_met { vec![met(false)] } else { vec![] };
        let assessment = Assessment { conditions: vec![one], met, ..Assessment::default() };
        Decision { assessment, ..Decision::default() }
    };
    put(&mut spans, 10, tick(51_00, None, false));
    put(&mut spans, 11, tick(88_00, None, true));
    put(&mut spans, 12, tick(0, Some("ä".repeat(1_000)), true));
    let told = spans.spans(at(0).boot, at(200).boot, at(200).boot);
    let why: Vec<_> = told.iter().map(|span| (span.state, span.why.as_deref().unwrap())).collect();
    let cut = "ä".repeat(WHY / 2);
    let met = "system.cpu.pressure is 0.01 % (avg10), at or above the threshold of 40.00 %, for ";
    let judged = "contention was 51.00 % over a minute and 90.00 % over ten seconds, the threshold \
                  is 50.00 %";
    // Not the figures that followed.
    assert!(why.contains(&(State::True, judged)), "{why:?}");
    assert!(why.iter().any(|(state, why)| *state == State::Met && why.starts_with(met)), "{why:?}");
    assert!(why.contains(&(State::Unknown, &*cut)), "{why:?}");
}

#[test]
fn spans_end_where_no_agent_ran() {
    #[rustfmt::skip]
    let table = [
        // ticks (second, number) in which it is True since second 10, spans
        (&[(20, 1), (21, 2), (30, 3)][..],         &[(10, None)][..]),                // a late tick
        (&[(20, 1), (21, 2), (40, 3)],             &[(10, Some(21)), (40, None)]),    // none for long
        (&[(20, 8), (21, 9), (24, 1), (25, 2)],    &[(10, Some(21)), (24, None)]),    // another agent
    ];
    for (ticks, want) in table {
        let mut spans = Spans::new(Room::OF_AGENT);
        for (second, tick) in ticks {
            let conditions = vec![condition(Status::True, 10)];
            let assessment = Assessment { conditions, ..Assessment::default() };
            let decision = Decision { assessment, at: at(*second), ..Decision::default() };
            spans.put(at(*second), Nanos::SECOND, *tick, Told::of(&decision, &[], &[], &[]));
        }
        let seconds = |at: Moment| at.boot.0 / Nanos::SECOND.0;
        let all = spans.spans(Nanos(0), at(99).boot, at(99).boot);
        let all: Vec<_> =
            all.iter().map(|one| (seconds(one.begin), one.end.map(seconds))).collect();
        assert_eq!(all, want, "{ticks:?}");
    }
}

#[test]
fn pauses_are_the_last_times_without_a_tick() {
    let mut spans = Spans::new(Room::OF_AGENT);
    let (n, apart) = (PAUSES as u64 + 3, 60);
    for pause in 0..=n {
        for second in [0, 1] {
            put(&mut spans, pause * apart + second, Decision::default());
        }
    }
    let seconds = |at: Moment| at.boot.0 / Nanos::SECOND.0;
    let told = |begin: u64, end: u64, now: u64| {
        let all = spans.pauses(at(begin).boot, at(end).boot, at(now).boot);
        all.iter().map(|one| (seconds(one.begin), seconds(one.end))).collect::<Vec<_>>()
    };
    let last = n * apart;
    let all: Vec<_> = (3..n).map(|one| (one * apart + 1, (one + 1) * apart)).collect();
    assert_eq!(told(0, last + 2, last + 2), all);
    #[rustfmt::skip]
    let table = [
        // begin, end, the moment, pauses
        (last - 120, last + 2,  last,     &[(last - 119, last - 60), (last - 59, last)][..]),
        (last - 120, last + 2,  last - 1, &[(last - 119, last - 60)]), // not over yet
        (last - 60,  last + 2,  last,     &[(last - 59, last)]),
        (last - 70,  last - 60, last,     &[(last - 119, last - 60)]),
        (last,       last + 2,  last,     &[]),
    ];
    for (begin, end, now, want) in table {
        assert_eq!(told(begin, end, now), want, "{begin} {end} {now}");
    }
}

#[test]
fn events_are_bounded_and_in_order() {
    let mut spans = Spans::new(Room::OF_AGENT);
    for second in 0..600 {
        let message = if second == 599 { "ä".repeat(TEXT) } else { format!("{second}") };
        let change = Change { reason: "R".into(), message, is_warning: false };
        let relief = Relief { events: vec![change], ..Relief::default() };
        put(&mut spans, second, Decision { relief, ..Decision::default() });
    }
    let all = spans.events(at(0).boot, at(600).boot, at(600).boot);
    assert_eq!((all.len(), all[0].tick, all[511].tick), (Room::OF_AGENT.told, 88, 599));
    assert_eq!(all[511].text.len(), TEXT);
    let then = spans.events(at(0).boot, at(600).boot, at(200).boot);
    assert_eq!(then.last().map(|event| event.tick), Some(200), "later ticks tell nothing of it");
    let known = spans.known_since();
    assert_eq!(known.spans, Some(at(0)));
    let since = known.events.unwrap().boot;
    assert_eq!(
        since,
        at(87).boot.plus(Nanos(1)),
        "event 87 has gone, and others of its tick may have"
    );
    assert!(all.is_sorted_by_key(|event| event.at.boot));
}

#[test]
fn known_since_is_when_the_last_span_ended_that_has_gone() {
    let mut spans = Spans::new(Room { told: 2, minutes: 1 });
    assert_eq!(spans.known_since(), KnownSince::default(), "nothing is known");
    #[rustfmt::skip]
    let table = [
        // second, status, since when spans are known
        (10, Status::True,  10),
        (11, Status::False, 10),
        (12, Status::True,  10),
        (13, Status::False, 11), // the first one has gone
        (14, Status::True,  12),
    ];
    for (second, status, want) in table {
        let conditions = vec![condition(status, second)];
        let assessment = Assessment { conditions, ..Assessment::default() };
        put(&mut spans, second, Decision { assessment, ..Decision::default() });
        let KnownSince { spans: held, events, .. } = spans.known_since();
        assert_eq!((held, events), (Some(at(want)), Some(at(10))), "second {second}");
    }
}
