//! A recording on the screen: ticks in both directions, and what came before.

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
    assert!(why.ends_with("has no tick of these times"), "{why}");
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
        Event::Silent(why) => Some(why),
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
