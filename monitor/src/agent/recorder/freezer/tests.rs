use super::*;
use crate::record::incident::Kind;
use isobar_core::model::sample::Moment;

fn incident(name: &str, end: Option<u64>) -> Box<Incident> {
    let wall = clock::now().wall;
    let at = |second: u64| Moment { boot: Nanos(second * Nanos::SECOND.0), wall };
    let (begin, end, state) = (at(1), end.map(at), State::Open);
    Box::new(Incident { name: name.into(), begin, end, state, ..Incident::default() })
}

/// What is on the shelf once these orders have been taken.
fn after(shelf: &Arc<Shelf>, orders: Vec<Order>) -> Vec<Incident> {
    let (to, inbox) = sync_channel(orders.len());
    orders.into_iter().for_each(|order| to.send(order).unwrap());
    drop(to);
    Cold::new(Arc::clone(shelf), None).run(&inbox);
    shelf.list().unwrap()
}

#[test]
fn what_ends_while_nothing_is_recorded_is_over_and_frozen_later() {
    let dir = tempfile::tempdir().unwrap();
    let shelf = Arc::new(Shelf::in_dir(dir.path().into()));
    let ends =
        || vec![Order::Note(incident("2026-1", None)), Order::Freeze(incident("2026-1", Some(9)))];
    let left = after(&shelf, ends());
    assert!(left[0].end.is_some() && !left[0].goes_on("", left[0].begin), "{left:?}");
    assert_eq!(left[0].state, State::Open);
    // It has no tick in this recording, so its document is all that is kept.
    let again = Order::ReadFrom(Some(Ring::Files(dir.path().join("none"))));
    let left = after(&shelf, ends().into_iter().chain([again]).collect());
    assert_eq!(left[0].state, State::Frozen);
}

#[test]
fn freeze_reads_again_what_could_not_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("place");
    #[rustfmt::skip]
    let table = [
        // a file is in the way of the recording's directory, attempts, is the incident frozen?
        (true,  1,         State::Open),
        (true,  TRIES - 1, State::Open),
        (true,  TRIES,     State::Frozen), // without its ticks
        (false, 1,         State::Frozen), // it has no tick there, now and later
    ];
    for (is_in_the_way, n, want) in table {
        if is_in_the_way {
            std::fs::write(&place, "").unwrap();
        } else {
            std::fs::remove_file(&place).unwrap();
        }
        let ring = Some(Ring::Files(place.join("recording")));
        let shelf = Arc::new(Shelf::in_memory());
        let mut cold = Cold::new(Arc::clone(&shelf), ring);
        let over = incident("2026-1", Some(9));
        cold.note(&over);
        cold.freeze(*over, 0);
        (1..n).for_each(|_| cold.freeze_waiting());
        assert_eq!(shelf.list().unwrap()[0].state, want, "{is_in_the_way} {n}");
        assert_eq!(cold.waiting.len(), usize::from(want == State::Open), "{is_in_the_way} {n}");
    }
}

#[test]
fn no_more_wait_than_there_is_room_for_while_nothing_is_recorded() {
    let shelf = Arc::new(Shelf::in_memory());
    let end = |n: usize| Order::Freeze(incident(&format!("2026-{n:02}"), Some(9)));
    let left = after(&shelf, (0..WAITING + 3).map(end).collect());
    let frozen = left.iter().filter(|one| one.state == State::Frozen).map(|one| &*one.name);
    assert_eq!(frozen.collect::<Vec<_>>(), ["2026-00", "2026-01", "2026-02"]);
    assert_eq!(left.len(), WAITING + 3);
}

#[test]
fn a_directory_that_comes_late_has_what_an_agent_before_left_open() {
    let dir = tempfile::tempdir().unwrap();
    Shelf::in_dir(dir.path().into()).note(&incident("2026-1", None)).unwrap();
    let ring = Order::ReadFrom(Some(Ring::Files(dir.path().join("none"))));
    let orders =
        vec![ring, Order::Note(incident("2026-2", None)), Order::Settle(dir.path().into())];
    let left = after(&Arc::new(Shelf::in_memory()), orders);
    let states: Vec<_> = left.iter().map(|one| (one.name.as_str(), one.state)).collect();
    assert_eq!(states, [("2026-1", State::Frozen), ("2026-2", State::Open)]);
}

#[test]
fn what_could_not_be_written_is_moved_once_it_can() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("incidents");
    // In the way of the directory.
    std::fs::write(&place, "").unwrap();
    let shelf = Arc::new(Shelf::in_dir(place.clone()));
    let left = after(&shelf, vec![Order::Note(incident("2026-1", None))]);
    assert_eq!(left.len(), 1);
    std::fs::remove_file(&place).unwrap();
    assert_eq!(after(&shelf, vec![]), left);
    assert_eq!(Shelf::in_dir(place).list().unwrap(), left, "it outlives the agent");
}

#[test]
fn is_told_spares_a_long_recording_from_being_read_at_each_trigger() {
    let at = |second: u64| {
        let boot = Nanos(second * Nanos::SECOND.0);
        Moment { boot, wall: boot }
    };
    #[rustfmt::skip]
    let table = [
        // told until, second of the newest trigger, is that enough?
        (120,   121,   false), // a short span is read at once
        (700,   720,   false),
        (720,   721,   true),
        (720,   899,   true),
        (720,   900,   false), // longer by a quarter
        (2_000, 2_499, true),
    ];
    for (to, newest, want) in table {
        let told = Incident { to: at(to), ..Incident::default() };
        let (who, text) = <(String, String)>::default();
        let (at, kind, at_own_limit) = (at(newest), Kind::Condition, false);
        let newest = Trigger { at, kind, who, text, at_own_limit };
        assert_eq!(is_told(&told, Some(&newest)), want, "{to} {newest:?}");
    }
}

#[test]
fn tell_reads_the_recording_for_an_open_incident_each_half_minute() {
    let read_at = Nanos(1_000 * Nanos::SECOND.0);
    #[rustfmt::skip]
    let table = [
        // the one that was read for, seconds ago, seconds to the next reading
        (None,           0,  0),
        (Some("2026-1"), 0,  30),
        (Some("2026-1"), 29, 1),
        (Some("2026-1"), 30, 0),
        (Some("2026-0"), 1,  0), // another one
    ];
    for (name, ago, want) in table {
        let mut cold = Cold::new(Arc::new(Shelf::in_memory()), None);
        cold.read = name.map(|name| (name.into(), read_at));
        cold.untold = Some(*incident("2026-1", None));
        let left = cold.tell(read_at.plus(Nanos(ago * Nanos::SECOND.0)));
        let want_left = if want == 0 { AGAIN } else { Nanos(want * Nanos::SECOND.0) };
        assert_eq!(left, want_left, "{name:?} {ago}");
        assert_eq!(cold.untold.is_some(), want > 0, "it is told later: {name:?} {ago}");
        assert_eq!(cold.shelf.list().unwrap().len(), usize::from(want == 0), "{name:?} {ago}");
    }
}

#[test]
fn prune_removes_none_for_a_clock_that_is_ahead() {
    const DAY: u64 = 86_400 * Nanos::SECOND.0;
    let days = |n: u64| Nanos(n * DAY);
    #[rustfmt::skip]
    let table = [
        // in memory, boot of the incident, how long it was up then and at last, is the incident left?
        (true,  "now",    (0, 0),  true),
        (false, "now",    (0, 0),  true),
        (false, "before", (1, 20), true),
        (false, "before", (1, 60), false),
    ];
    for (is_in_memory, boot_id, (then, last), want) in table {
        let dir = tempfile::tempdir().unwrap();
        let shelf = match is_in_memory {
            true => Shelf::in_memory(),
            false => Shelf::in_dir(dir.path().into()),
        };
        shelf.prune("before", Moment { boot: days(last), ..Moment::default() }).unwrap();
        // By the clock as it is, it ended a year ago.
        let now = clock::now();
        let boot = if boot_id == "now" { now.boot } else { days(then) };
        let begin = Moment { boot, wall: now.wall.since(days(365)) };
        let (name, state, boot_id) = ("2026".to_owned(), State::Frozen, boot_id.into());
        let old = Incident { name, state, boot_id, begin, ..Incident::default() };
        shelf.note(&old).unwrap();
        let shelf = Arc::new(shelf);
        let cold = Cold { boot_id: "now".into(), ..Cold::new(Arc::clone(&shelf), None) };
        cold.prune();
        assert_eq!(shelf.list().unwrap().len(), usize::from(want), "{is_in_memory} {old:?}");
    }
}
