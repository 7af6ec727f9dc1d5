//! The screen as it stands on a terminal, from recorded ticks: what keys, seconds and missing
//! answers make of it.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::sample::{Resident, Runner};
use isobar_core::model::snapshot::{Blame, IoRate};
use isobar_core::model::units::{Bytes, Moment, Nanos};
use isobar_core::view::View;
use isobar_core::view::lead::Lead;
use jiff::tz::TimeZone;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::at::Scene;
use super::super::range::Range;
use super::draw::draw;
use super::film::Film;
use super::rows::Column;
use super::state::{Event, Order, Pane, Showing, State, Wish};

mod film;

/// 63 ticks of a pod that takes all memory of the pods; at the 34th it runs short.
fn recording() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    root.join("tests/data/recordings/judged-leak-6.12.isobar")
}

/// When the 34th tick was, in nanoseconds since 1970.
const SHORT: Nanos = Nanos(1_795_342_427_200_000_000);

/// What a film tells when it is opened at `at` and given `orders`.
fn told(at: Nanos, orders: &[Order]) -> Vec<Event> {
    filmed(Scene::Moment(at), orders)
}

fn filmed(scene: Scene, orders: &[Order]) -> Vec<Event> {
    played(Film::open(recording(), scene).unwrap(), orders)
}

/// What it tells, where each order is given when the one before was obeyed.
fn played(film: Film, orders: &[Order]) -> Vec<Event> {
    let (to, from) = channel();
    let (order, ordered) = channel();
    let left = RefCell::new((Some(order), orders.iter(), false));
    film.run(&ordered, |event| {
        let (order, left, is_sought) = &mut *left.borrow_mut();
        let is_last = match &event {
            Event::Tick(_) => !*is_sought,
            Event::Silent(why) => why != "searching",
            Event::Past(_) | Event::Earlier(..) => true,
            _ => false,
        };
        *is_sought = matches!(event, Event::History(_)) || *is_sought && !is_last;
        if is_last {
            *order = order.take().zip(left.next()).map(|(order, one)| {
                order.send(one.clone()).unwrap();
                order
            });
        }
        to.send(event).is_ok()
    });
    drop(to);
    from.into_iter().collect()
}

fn view_at(at: Nanos) -> View {
    let tick = told(at, &[]).into_iter().find_map(|event| match event {
        Event::Tick(view) => Some(*view),
        _ => None,
    });
    let relief = Capability::new("relief", CapabilityState::Off, "observing");
    View { capabilities: vec![relief], ..tick.unwrap() }
}

fn screen(showing: Showing, size: (u16, u16)) -> State {
    let mut state = State::new(showing, Duration::from_secs(1), true);
    state.zone = TimeZone::UTC;
    state.after(Event::Size(size.0, size.1)).after(clock(100))
}

/// So many seconds after the start of the machine at which the screen is.
fn clock(seconds: u64) -> Event {
    let since = Nanos(seconds * Nanos::SECOND.0);
    Event::Clock(Moment { boot: since, wall: SHORT.plus(since) })
}

fn tick(view: View) -> Event {
    Event::Tick(Box::new(view))
}

/// Attached to an agent, at the tick at which memory runs short.
fn live(size: (u16, u16)) -> State {
    screen(Showing::Present, size).after(tick(view_at(SHORT)))
}

/// Each character is a key; these stand for others: `⏎` Enter, `⎋` Esc, `⇥` Tab, `↓`, `↑`, `→`, `←`,
/// `⇟` and `⇞` pages, `⤒` and `⤓` Home and End, `⌫` Backspace.
fn press(state: State, keys: &str) -> State {
    keys.chars().fold(state, |state, key| {
        let code = match key {
            '⏎' => KeyCode::Enter,
            '⎋' => KeyCode::Esc,
            '⇥' => KeyCode::Tab,
            '↓' => KeyCode::Down,
            '↑' => KeyCode::Up,
            '→' => KeyCode::Right,
            '←' => KeyCode::Left,
            '⇟' => KeyCode::PageDown,
            '⇞' => KeyCode::PageUp,
            '⤒' => KeyCode::Home,
            '⤓' => KeyCode::End,
            '⌫' => KeyCode::Backspace,
            c => KeyCode::Char(c),
        };
        state.after(Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
    })
}

/// The characters on the terminal, without blanks at the ends of lines.
fn shown(state: &State) -> String {
    let (columns, lines) = state.size;
    let mut terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
    terminal.draw(|frame| draw(state, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..columns).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    let lines: Vec<_> = (0..lines).map(|y| line(y).trim_end().to_owned()).collect();
    lines.join("\n")
}

#[test]
fn draw_of_each_pane() {
    const WIDE: (u16, u16) = (80, 24);
    const NARROW: (u16, u16) = (60, 20);
    #[rustfmt::skip]
    let table = [
        // snapshot, size, keys
        ("cgroups",           WIDE,   ""),
        ("cgroups_narrow",    NARROW, ""),
        ("sorted_by_memory",  WIDE,   "<<"),
        ("sorted_upwards",    WIDE,   "<<r"),
        ("sorted_by_name",    NARROW, "<"),
        ("tree",              WIDE,   "t↓↓-"),
        ("filter_is_typed",   WIDE,   "/WEB"),
        ("filter_is_kept",    WIDE,   "/web⏎t"),
        ("filter_of_nothing", WIDE,   "/xyz⏎"),
        ("why",               WIDE,   "⏎"),
        ("why_narrow",        NARROW, "⏎⇟"),
        ("decision",          WIDE,   "2"),
        ("decision_below",    WIDE,   "2⤓"),
        ("conditions",        WIDE,   "3"),
        ("conditions_narrow", NARROW, "3"),
        ("help",              WIDE,   "?"),
        ("low",               (40, 8), ""),
    ];
    for (name, size, keys) in table {
        insta::assert_snapshot!(name, shown(&press(live(size), keys)));
    }
}

#[test]
fn draw_of_what_is_not_new() {
    let size = (80, 8);
    let no_agent = || Event::Silent("no agent listens on 127.0.0.1:9797".into());
    let next = || tick(view_at(SHORT.plus(Nanos::SECOND)));
    #[rustfmt::skip]
    let table = [
        // what happened, screen
        ("nothing yet",               screen(Showing::Present, size)),
        ("no answer yet",             screen(Showing::Present, size).after(no_agent())),
        ("two seconds later",         live(size).after(clock(102))),
        ("the same tick again",       live(size).after(clock(109)).after(tick(view_at(SHORT)))),
        ("a newer tick",              live(size).after(clock(109)).after(next())),
        ("the agent is gone",         live(size).after(clock(165)).after(no_agent())),
        ("paused, then a newer tick", press(live(size), " ").after(clock(103)).after(next())),
        ("and gone on",               press(press(live(size), " ").after(next()), " ")),
    ];
    let told = table.map(|(what, state)| {
        let lines: Vec<_> = shown(&state).lines().take(3).map(str::to_owned).collect();
        format!("{what}:\n{}\n", lines.join("\n").trim_end())
    });
    insta::assert_snapshot!("not_new", told.join("\n"));
}

#[test]
fn draw_of_recording() {
    let orders = [Order::Previous, Order::NextEvent];
    let opened = screen(Showing::Recording, (80, 24));
    let state = told(SHORT, &orders).into_iter().fold(opened, State::after);
    insta::assert_snapshot!("recording", shown(&state));
    insta::assert_snapshot!("recording_conditions", shown(&press(state, "3")));
}

#[test]
fn draw_fits_any_terminal() {
    let view = view_at(SHORT);
    for columns in [1, 2, 5, 11, 12, 30, 39, 60, 80, 300] {
        for lines in [1, 2, 3, 5, 8, 15, 24, 100] {
            for keys in ["", "t", "/a", "⏎", "⏎⤓", "2", "3⇟", "?"] {
                let state = screen(Showing::Present, (columns, lines)).after(tick(view.clone()));
                let text = shown(&press(state, keys));
                let has_verdict = text.contains("Short of") || columns < 12 || lines < 3;
                assert!(has_verdict, "{columns} columns, {lines} lines, keys {keys}: {text}");
            }
        }
    }
}

#[test]
fn draw_shows_the_sorted_column_of_any_width() {
    for columns in [40, 60, 80, 100] {
        for n in 0..Column::ALL.len() {
            for (keys, sign) in [("s".repeat(n), '▼'), (format!("{}r", "s".repeat(n)), '▲')] {
                let state = press(live((columns, 12)), &keys);
                let sorted = state.list.sort;
                let sign = if sorted == Column::Name && n > 0 {
                    ['▲', '▼'][usize::from(sign == '▲')]
                } else {
                    sign
                };
                let text = shown(&state);
                let heading = sorted.heading(Lead::Took);
                let found = [format!("{sign}{heading}"), format!("{heading}{sign}")];
                assert!(
                    found.iter().any(|found| text.contains(found)),
                    "{columns} {sorted:?}: {text}"
                );
            }
        }
    }
}

#[test]
fn draw_tells_own_tasks_and_the_root_cgroup_by_name() {
    let mut view = view_at(SHORT);
    let leak = view.snapshot.scopes.iter().find(|(_, scope)| scope.path.0.ends_with("66.slice"));
    let leak = *leak.unwrap().0;
    let root = CgroupId(1);
    for (victim, aggressor) in [(leak, leak), (root, leak)] {
        let [victim_path, aggressor_path] =
            [victim, aggressor].map(|id| (id == root).then(CgroupPath::root));
        let time = Nanos(5 * Nanos::SECOND.0);
        let loss = Some(Nanos(0));
        let pair = Blame { victim, victim_path, aggressor, aggressor_path, time, loss };
        view.snapshot.aggressions.push(pair);
    }
    let text = shown(&press(screen(Showing::Present, (80, 40)).after(tick(view)), "⏎"));
    assert!(text.contains("%  its own tasks") && text.contains("%  the root cgroup"), "{text}");
}

#[test]
fn draw_names_who_does_the_io_and_has_the_memory() {
    const MIB: u64 = 1 << 20;
    let mut view = view_at(SHORT);
    let (id, leak) =
        view.snapshot.scopes.iter_mut().find(|(_, one)| one.path.0.ends_with("66.slice")).unwrap();
    let (read, written) = (Bytes(178 * MIB), Bytes(2 * MIB));
    leak.io = Some(IoRate { read, written, reads: 712, writes: 5 });
    let runner = Runner {
        pid: 51,
        name: "dd".into(),
        cgroup: Some(*id),
        io: Some(Bytes(170 * MIB)),
        ..Runner::default()
    };
    let memory = Some(Resident { held: Bytes(70 * MIB), growth: Bytes(9 * MIB) });
    let name = "python".into();
    view.snapshot.runners =
        vec![Runner { pid: 52, name, memory, io: None, ..runner.clone() }, runner];
    let state = || screen(Showing::Present, (100, 24)).after(tick(view.clone()));
    insta::assert_snapshot!("io_done", shown(&press(state(), "sssssss")));
    insta::assert_snapshot!("why_io", shown(&press(state(), "⏎")));

    let mut bare = view_at(SHORT);
    bare.snapshot.scopes.clear();
    let nameless = |one: &Runner| Runner { cgroup: None, is_of_machine: true, ..one.clone() };
    bare.snapshot.runners = view.snapshot.runners.iter().map(nameless).collect();
    insta::assert_snapshot!("bare", shown(&screen(Showing::Present, (60, 20)).after(tick(bare))));
}

#[test]
fn draw_shows_long_headlines_where_there_is_room() {
    for (lines, is_whole) in [(19, false), (20, true)] {
        let mut view = view_at(SHORT);
        view.headline = format!("{} end.", "word ".repeat(30));
        let text = shown(&screen(Showing::Present, (60, lines)).after(tick(view)));
        assert_eq!(text.contains("end."), is_whole, "{lines} lines: {text}");
    }
}

#[test]
fn draw_keeps_control_characters_from_the_terminal() {
    let mut view = view_at(SHORT);
    for scope in view.snapshot.scopes.values_mut() {
        let hostile = format!("{}/a\x1b[2J\u{202e}b\nc", scope.path);
        (scope.path, scope.name) = (CgroupPath(Arc::from(hostile.as_str())), None);
        scope.name = Some(hostile);
    }
    view.headline = "\x1b]0;title\x07".into();
    view.facts.name = "node\r".into();
    for keys in ["", "t", "⏎", "/\u{1b}", "2", "3"] {
        let state = screen(Showing::Present, (80, 24)).after(tick(view.clone()));
        let text = shown(&press(state, keys));
        let is_hostile = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!text.contains(is_hostile), "{keys:?}: {text:?}");
    }
}

#[test]
fn press_changes_pane_and_choice() {
    let list = Some(Pane::Cgroups);
    #[rustfmt::skip]
    let table = [
        // keys, pane, chosen row, sorted by, first line of a text
        ("",        list,                   0, Column::Lead, 0),
        ("⇥",       Some(Pane::Decision),   0, Column::Lead, 0),
        ("⇥⇥",      Some(Pane::Conditions), 0, Column::Lead, 0),
        ("⇥⇥⇥",     list,                   0, Column::Lead, 0),
        ("↓",       list,                   1, Column::Lead, 0),
        ("↓↑",      list,                   0, Column::Lead, 0),
        ("⤓",       list,                   2, Column::Lead, 0),
        ("⇟⇟↓",     list,                   2, Column::Lead, 0),
        ("⤓⤒",      list,                   0, Column::Lead, 0),
        ("↓r",      list,                   1, Column::Lead, 0), // the same cgroup, in the middle
        ("⤓r",      list,                   0, Column::Lead, 0), // the same cgroup, now first
        ("s",       list,                   0, Column::Wait, 0),
        ("<<",      list,                   0, Column::Held, 0),
        ("2↓↓↓",    Some(Pane::Decision),   0, Column::Lead, 3),
        ("2↓↓1",    list,                   0, Column::Lead, 0),
        ("↓⏎",      None,                   1, Column::Lead, 0),
        ("↓⏎⎋",     list,                   1, Column::Lead, 0),
        ("?↓",      list,                   0, Column::Lead, 0), // the key ends the help
    ];
    for (keys, pane, row, sort, scroll) in table {
        let state = press(live((80, 16)), keys);
        let got_pane = state.why.is_none().then_some(state.pane);
        let got = (got_pane, state.chosen_of(&state.rows()), state.list.sort, state.scroll);
        assert_eq!(got, (pane, row, sort, scroll), "{keys}");
    }
}

#[test]
fn press_asks_for_what_it_cannot_do() {
    use Order::*;
    let (live, film) = (Showing::Present, Showing::Recording);
    let show = |order| Some(Wish::Show(order));
    #[rustfmt::skip]
    let table = [
        // of what, keys, wish
        (live, "q",   Some(Wish::Quit)),
        (live, "⏎q",  Some(Wish::Quit)),
        (live, "/q",  None), // a part of a name
        (live, "→n",  None),
        (film, "→",   show(Next)),
        (film, "t←",  show(Previous)),
        (film, "3→",  show(Next)),
        (film, "n",   show(NextEvent)),
        (film, "N",   show(PreviousEvent)),
        (film, "b",   show(First)),
        (film, "e",   show(Last)),
    ];
    for (showing, keys, want) in table {
        let state = screen(showing, (80, 24)).after(tick(view_at(SHORT)));
        assert_eq!(press(state, keys).wish, want, "{showing:?} {keys}");
    }
}

#[test]
fn pass_plays_a_recording_on() {
    let next = Some(Wish::Show(Order::Next));
    let opened = screen(Showing::Recording, (80, 24)).after(tick(view_at(SHORT)));
    assert!(opened.is_paused, "the moment that was asked for stays");
    let playing = press(opened, " ").after(clock(101));
    assert_eq!(playing.wish, next);
    let mut asked = playing;
    asked.wish = None;
    let asked = asked.after(clock(102));
    assert_eq!(asked.wish, None, "it was asked for already");
    let answered = asked.after(tick(view_at(SHORT.plus(Nanos::SECOND))));
    assert_eq!(answered.after(clock(103)).wish, next);

    let ended = press(screen(Showing::Recording, (80, 24)), " ");
    let ended = ended.after(Event::Silent("the last tick".into())).after(clock(200));
    assert_eq!((ended.is_paused, ended.wish), (true, None));
}
