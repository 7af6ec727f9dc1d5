//! A recording on the screen: ticks in both directions, and what came before.

use std::cell::Cell;

use isobar::record::journal::{Bounds, Journal, Start};
use isobar_core::model::decision::Event as Change;
use isobar_core::model::sample::Sample;
use isobar_core::model::settings::Settings;
use isobar_core::policy::engine::Engine;

use super::*;

#[test]
fn film_goes_both_ways() {
    use Order::*;
    #[rustfmt::skip]
    let table: [(&[Order], &[&str]); 9] = [
        // orders, ticks and answers; the first is where it was opened
        (&[],                               &["34"]),
        (&[Next, Next],                     &["34", "35", "36"]),
        (&[Previous, Previous, Next],       &["34", "33", "32", "33"]),
        (&[First, Next],                    &["34", "1", "2"]),
        (&[First, Previous, Next],          &["34", "1", "the first tick", "2"]),
        (&[Last, Next, Previous],           &["34", "63", "the last tick", "62"]),
        (&[NextEvent, NextEvent],           &["34", "49", "57"]),
        (&[PreviousEvent, PreviousEvent, PreviousEvent, PreviousEvent, PreviousEvent],
                                            &["34", "22", "3", "2", "1", "no event before this"]),
        (&[Last, NextEvent, Previous],      &["34", "63", "no event after this", "62"]),
    ];
    for (orders, want) in table {
        assert_eq!(ticks_of(told(SHORT, orders)), want, "{orders:?}");
    }
}

#[test]
fn film_stays_within_its_range() {
    use Order::*;
    let last = SHORT.plus(Nanos(9 * Nanos::SECOND.0 / 2));
    #[rustfmt::skip]
    let table: [(&[Order], &[&str]); 5] = [
        // orders, ticks and answers; the first is the first of the range
        (&[Previous, Next],           &["35", "the first tick", "36"]),
        (&[Last, Next, Previous],     &["35", "50", "the last tick", "49"]),
        (&[Last, First],              &["35", "50", "35"]),
        (&[NextEvent, NextEvent],     &["35", "49", "no event after this"]),
        (&[Last, PreviousEvent, PreviousEvent],
                                      &["35", "50", "49", "no event before this"]),
    ];
    for (orders, want) in table {
        let range = Scene::Range(Range { begin: SHORT, end: last });
        assert_eq!(ticks_of(filmed(range, orders)), want, "{orders:?}");
    }
    let empty = Range { begin: SHORT, end: SHORT.plus(Nanos(1)) };
    let why = Film::open(recording(), Scene::Range(empty)).err().unwrap().to_string();
    assert!(why.contains("has no tick of these times: it begins at 2026-11-22"), "{why}");
}

#[test]
fn film_says_that_a_moment_is_not_recorded() {
    let later = SHORT.plus(Nanos(3_600 * Nanos::SECOND.0));
    let opened =
        told(later, &[]).into_iter().fold(screen(Showing::Recording, (80, 24)), State::after);
    let said = "paused at 2026-11-22 10:13:59, tick 63 (no tick of 2026-11-22 11:13:47Z)";
    assert!(shown(&opened).lines().next().unwrap().ends_with(said), "{}", shown(&opened));
    let gone_on = told(later, &[Order::Previous]);
    assert_eq!(ticks_of(gone_on), ["63", "no tick of 2026-11-22 11:13:47Z", "62"]);
}

/// The numbers of the ticks that are shown, and the answers where nothing is.
fn ticks_of(events: Vec<Event>) -> Vec<String> {
    let shown = |event| match event {
        Event::Tick(view) => Some(view.snapshot.tick.to_string()),
        Event::Silent(why) => Some(why).filter(|why| why != "searching"),
        _ => None,
    };
    events.into_iter().filter_map(shown).collect()
}

/// What the drill-down shows of a recording begins long before the moment at which it was opened.
#[test]
fn explained_cgroup_has_a_past() {
    let opened =
        told(SHORT, &[]).into_iter().fold(screen(Showing::Recording, (80, 24)), State::after);
    let asked = press(opened, "⏎");
    let id = asked.why.unwrap();
    assert_eq!(asked.trail.cgroup(id, 1).len(), 1, "the tick that is shown");
    let Some(Wish::Show(order)) = asked.wish.clone() else { panic!("{:?}", asked.wish) };
    let answer = || {
        let answer = told(SHORT, std::slice::from_ref(&order)).pop();
        answer.filter(|event| matches!(event, Event::Earlier(..))).unwrap()
    };
    let known = asked.after(answer());
    let mut orders = vec![Order::First];
    orders.resize(34, Order::Next);
    let watched = screen(Showing::Recording, (80, 24));
    let watched = told(SHORT, &orders).into_iter().fold(watched, State::after);
    for resource in 0..3 {
        let shares = known.trail.cgroup(id, resource);
        assert_eq!(shares.len(), 34, "every tick since the recording began");
        assert_eq!(shares, watched.trail.cgroup(id, resource), "as if all had been watched");
    }
    assert_eq!(known.after(answer()).trail.cgroup(id, 1).len(), 34, "the same again");

    // At another moment the past is another one.
    let mut known = press(live((80, 24)), "⏎").after(answer());
    known.showing = Showing::Recording;
    known.wish = None;
    let moved = known.after(Event::History(Vec::new()));
    assert_eq!(moved.wish, Some(Wish::Show(order.clone())));

    let why = "nothing is recorded: the agent was started with --no-record";
    let unknown = press(live((80, 24)), "⏎").after(Event::Earlier(id, Err(why.into())));
    assert!(shown(&unknown).contains("not known from before this screen: nothing is recorded"));
    assert!(!shown(&press(unknown, "⎋⏎")).contains("not known from before"));
}

/// A second between two ticks, but 20 minutes before the 101st; the fifth has an event.
fn with_a_pause(path: &Path) {
    let mut engine = Engine::default();
    let mut journal = Journal::create(path, Start::default(), Bounds::default()).unwrap();
    let at = |tick: u64| {
        let since = Nanos((tick + if tick > 100 { 1_200 } else { 0 }) * Nanos::SECOND.0);
        Moment { boot: since, wall: SHORT.plus(since) }
    };
    for tick in 1..=110 {
        if tick == 101 {
            journal.resume(Settings::default(), engine.standing(), at(100)).unwrap();
        }
        let sample = Sample { tick, at: at(tick), ..Sample::default() };
        let mut decision = engine.step(sample.clone()).decision;
        let change = Change { reason: "R".into(), message: "killed".into(), is_warning: true };
        decision.relief.events = if tick == 5 { vec![change] } else { Vec::new() };
        journal.write(&sample, &decision, engine.standing()).unwrap();
    }
}

#[test]
fn event_before_is_found_beyond_a_pause_and_a_calm_chapter() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("recording");
    with_a_pause(&path);
    let film = Film::open(path, Scene::Moment(Nanos(u64::MAX))).unwrap();
    let ticks = ticks_of(played(film, &[Order::PreviousEvent, Order::PreviousEvent]));
    assert_eq!(ticks, ["110", "5", "no event before this"]);
}

/// Opened at the 34th tick; `more` is ordered when the first answer to `first` is told.
fn interrupted(first: Order, more: &[Order]) -> Vec<Event> {
    let (order, ordered) = channel();
    order.send(first).unwrap();
    let (order, n_told) = (Cell::new(Some(order)), Cell::new(0));
    let (to, from) = channel();
    let film = Film::open(recording(), Scene::Moment(SHORT)).unwrap();
    film.run(&ordered, |event| {
        if n_told.replace(n_told.get() + 1) == 3 {
            let order = order.take().unwrap();
            more.iter().for_each(|one| order.send(one.clone()).unwrap());
        }
        to.send(event).is_ok()
    });
    drop(to);
    from.into_iter().collect()
}

#[test]
fn a_search_is_told_of_and_ended_by_the_newest_order() {
    use Order::*;
    let earlier = || Earlier(CgroupId(1), CgroupPath::root());
    #[rustfmt::skip]
    let table: [(Order, &[Order], &[&str]); 5] = [
        // the search, what is ordered meanwhile, ticks and answers
        (NextEvent,     &[],                          &["34", "49"]),
        (NextEvent,     &[Next],                      &["34", "35"]),
        (PreviousEvent, &[NextEvent, Next, Previous], &["34", "33"]),
        (NextEvent,     &[Next, earlier(), Last],     &["34", "63"]),
        (NextEvent,     &[earlier()],                 &["34", "49"]),
    ];
    for (first, more, want) in table {
        let events = interrupted(first.clone(), more);
        let is_told = matches!(&events[3], Event::Silent(why) if why == "searching");
        assert!(is_told, "{first:?}: {:?}", events[3]);
        let n_earlier = events.iter().filter(|event| matches!(event, Event::Earlier(..))).count();
        assert_eq!(n_earlier, usize::from(more.contains(&earlier())), "{first:?}, {more:?}");
        assert_eq!(ticks_of(events), want, "{first:?}, {more:?}");
    }
}
