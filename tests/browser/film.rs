//! The page of a recording: which moment is shown, how a reader gets to another one, and that it is
//! never taken for the present.

use std::fs;
use std::thread;
use std::time::Duration;

use isobar::record::reader::{Entry, Recording};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::binary::Program;
use crate::chromium::Browser;
use crate::kept::keep;
use crate::page::{SERIOUS, SHOWN, VIEWS, axe, browser, open_view};
use crate::server::{Server, anywhere, recording};

const TICK: &str =
    "return Number(document.getElementById('facts').textContent.match(/tick (\\d+)/)?.[1] ?? 0)";
const LEFT: &str = "\u{e012}";
const UP: &str = "\u{e013}";
const RIGHT: &str = "\u{e014}";

/// A server of a recording, and where its incidents are.
fn replaying(prefix: &'static str) -> (Server, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    keep(&recording(), dir.path());
    (Server::replaying(prefix, dir.path()), dir)
}

#[track_caller]
fn wait_for_tick(browser: &Browser, tick: u64) {
    browser.wait_until(&TICK.replace("return", &format!("return {tick} ===")));
}

fn text_of(browser: &Browser, id: &str) -> String {
    let text = browser.run(&format!("return document.getElementById('{id}').textContent"));
    text.as_str().unwrap_or_default().to_owned()
}

fn click(browser: &Browser, id: &str) {
    browser.run(&format!("document.getElementById('{id}').click()"));
}

#[test]
fn film_shows_a_moment_and_says_that_it_is_past() {
    let Some(browser) = browser() else { return };
    let (server, _dir) = replaying("/replay");
    browser.resize(1280, 800);
    browser.open(&format!("{}replay/#now?at=2026-11-22T10:13:50Z", server.url()));
    browser.wait_until(SHOWN);
    wait_for_tick(&browser, 45);
    #[rustfmt::skip]
    let table = [
        // where, what a reader finds there without scrolling
        ("film",     "Recorded 2026-11-22 10:13:49 UTC, not live"),
        ("link",     "recorded, not live"),
        ("headline", "Short of memory"),                // of what
        ("headline", "shop/leak took 80Mi"),            // because of whom
        ("holding",  "is due since 10:13:47"),          // since when
        ("relief",   "would stop the containers of shop/leak"), // what isobar did
        ("happened", "10:13:47"),
    ];
    for (id, want) in table {
        browser.wait_until(&format!(
            "return document.getElementById('{id}').textContent.includes('{want}')"
        ));
        let top = format!("return document.getElementById('{id}').getBoundingClientRect().top");
        assert!(browser.run(&top).as_f64().unwrap() < 700.0, "{id}");
    }
    // The node's three, and of all pods their memory and what is left of it.
    browser.wait_until("return document.querySelectorAll('#hour canvas').length === 5");
    // The headline is of memory, as is the list below it.
    assert_eq!(browser.run("return document.getElementById('windows')"), Value::Null);
    // It stays in sight.
    browser.run("scrollTo(0, document.body.scrollHeight)");
    let top = browser.run("return document.getElementById('moment').getBoundingClientRect().top");
    assert!((0.0..100.0).contains(&top.as_f64().unwrap()), "{top}");
    // Marks: a condition or threshold, two marks and two steps, an OOM kill, an incident.
    for (mark, n) in [("rect.lane-true", 1), ("text.action", 4), ("text.oomKill", 1)] {
        // They come as the recording is read to its end.
        browser.wait_until(&format!(
            "return document.querySelectorAll('.track {mark}').length >= {n}"
        ));
    }
    assert_eq!(browser.run("return document.querySelectorAll('.line button.incident').length"), 1);
    assert_eq!(browser.log("browser"), Vec::<Value>::new());
    let (asked, failed) = browser.requests(&server.url());
    assert_eq!(failed, Vec::<String>::new());
    let below = format!("{}replay/", server.url());
    assert!(asked.iter().all(|url| url.starts_with(&below)), "{asked:?}");
    assert!(!asked.iter().any(|url| url.contains("stream")), "nothing is live: {asked:?}");
}

#[test]
fn film_shows_what_the_kernel_did_apart_from_steps() {
    let Some(browser) = browser() else { return };
    let (server, _dir) = replaying("");
    browser.open(&format!("{}#now?at=2026-11-22T10:13:58Z", server.url()));
    let killed = "OOM killer killed process";
    browser.wait_until(&format!(
        "return document.getElementById('kernel')?.textContent.includes({killed:?}) ?? false"
    ));
    browser.wait_until("return document.querySelectorAll('#relief li time').length > 0");
    let relief = text_of(&browser, "relief");
    assert!(!relief.contains("killed process"), "{relief}");
    // Each line across a chart is told to who does not see it.
    #[rustfmt::skip]
    let table = [
        // second of the minute, chart, line
        (58, "Memory.",                "Threshold of the condition: 10 %"),
        (58, "Memory.",                "Threshold of system.memory.pressure: 60 %"),
        (50, "Memory, all pods.",      "Threshold of kubepods.memory.pressure: 60 %"),
        (50, "Memory left, all pods.", "threshold: now 48Mi"),
    ];
    for (second, chart, line) in table {
        browser.run(&format!("location.hash = '#now?at=2026-11-22T10:13:{second}Z'"));
        browser.wait_until(&format!(
            "return [...document.querySelectorAll('#hour [role=img]')] \
             .some(({{ariaLabel: told}}) => told.startsWith('{chart}') && told.includes('{line}'))"
        ));
    }
}

#[test]
fn film_follows_a_link_although_the_moment_before_it_comes_late() {
    let Some(browser) = browser() else { return };
    let (server, _dir) = replaying("");
    browser.open(&server.url());
    wait_for_tick(&browser, 1);
    // What the page does when the moment before has come, ahead of the browser's event.
    browser.run(
        "const before = location.hash; location.hash = '#now?at=2026-11-22T10:13:50Z'; \
         history.replaceState(null, '', before)",
    );
    wait_for_tick(&browser, 45);
}

#[test]
fn film_steps_jumps_and_plays() {
    let Some(browser) = browser() else { return };
    let (server, _dir) = replaying("");
    browser.open(&server.url());
    wait_for_tick(&browser, 1);
    #[rustfmt::skip]
    let table = [
        // button, key, the tick after the button, the tick after the key
        ("tick-after",   RIGHT, 2,  3),
        ("tick-before",  LEFT,  2,  1),
        ("last",         "e",   63, 63),
        ("event-before", "N",   57, 50),
        ("event-before", "N",   49, 35),
        ("event-after",  "n",   49, 50),
        ("first",        "b",   1,  1),
    ];
    for (button, key, clicked, pressed) in table {
        click(&browser, button);
        wait_for_tick(&browser, clicked);
        browser.run("document.activeElement.blur()");
        browser.press(key);
        wait_for_tick(&browser, pressed);
    }
    // A key of the slider is a tick, as anywhere, and not a millisecond.
    browser.run("document.getElementById('scrubber').focus()");
    browser.press(UP);
    wait_for_tick(&browser, 2);
    let said = browser.run("return document.getElementById('scrubber').ariaValueText");
    assert_eq!(said, "2026-11-22 10:13:29 UTC, tick 2");

    browser.run("document.activeElement.blur()");
    browser.press(" ");
    browser.wait_until(&TICK.replace("return", "return 4 <="));
    browser.press(" ");
    browser.wait_until("return document.getElementById('play').textContent.includes('Play')");
    let paused_at = browser.run(TICK);
    thread::sleep(Duration::from_millis(1_300));
    assert_eq!(browser.run(TICK), paused_at);

    // Sixty times as fast it is at the end within a second, and stops there.
    browser.run(
        "const speed = document.querySelector('#film select'); speed.value = '60'; \
         speed.dispatchEvent(new Event('change', {bubbles: true}))",
    );
    click(&browser, "play");
    wait_for_tick(&browser, 63);
    browser.wait_until("return document.getElementById('play').textContent.includes('Play')");
    assert_eq!(browser.log("browser"), Vec::<Value>::new());
}

#[test]
fn film_that_plays_stops_where_a_reader_goes() {
    let Some(browser) = browser() else { return };
    let (server, _dir) = replaying("");
    browser.open(&format!("{}#now?at=2026-11-22T10:13:30Z", server.url()));
    browser.wait_until(SHOWN);
    browser.press("5");
    browser.wait_until("return document.getElementById('lanes') !== null");
    // A moment takes so long that a reader goes elsewhere while one is read.
    browser.run(
        "const ask = window.fetch; window.fetch = async (...of) => { \
             if (of[0].includes('snapshot')) await new Promise(done => setTimeout(done, 400)); \
             return ask(...of); \
         }; \
         const speed = document.querySelector('#film select'); speed.value = '10'; \
         speed.dispatchEvent(new Event('change', {bubbles: true}))",
    );
    let began = browser.run(TICK).as_u64().unwrap();
    #[rustfmt::skip]
    let table = [
        // how a reader goes elsewhere, the tick that is shown then
        ("history.back()",                                 began), // where it was played from
        ("location.hash = '#now?at=2026-11-22T10:13:50Z'", 45),
    ];
    for (go, want) in table {
        click(&browser, "play");
        browser.wait_until(&TICK.replace("return", &format!("return {began} !==")));
        // The next moment is being read.
        thread::sleep(Duration::from_millis(250));
        browser.run(go);
        browser.wait_until("return document.getElementById('play').textContent.includes('Play')");
        wait_for_tick(&browser, want);
        thread::sleep(Duration::from_millis(2_000));
        assert_eq!(browser.run(TICK), want, "{go}: it plays on");
    }
}

#[test]
fn film_is_dragged() {
    let Some(browser) = browser() else { return };
    let (server, _dir) = replaying("");
    browser.open(&server.url());
    wait_for_tick(&browser, 1);
    // As a pointer does it: through all places between.
    browser.run(
        "const slider = document.getElementById('scrubber'); \
         for (let to = 0; to <= 21_000; to += 500) { slider.value = to; \
         slider.dispatchEvent(new Event('input', {bubbles: true})); }",
    );
    assert!(text_of(&browser, "film").contains("10:13:49 UTC"), "at once, before it is loaded");
    wait_for_tick(&browser, 44);
    let (asked, _) = browser.requests(&server.url());
    let n = asked.iter().filter(|url| url.contains("snapshot")).count();
    assert!(n < 10, "{n} moments were asked for");
}

#[test]
fn film_link_shares_the_moment() {
    let Some(browser) = browser() else { return };
    let (server, _dir) = replaying("");
    browser.open(&server.url());
    wait_for_tick(&browser, 1);
    // A mark that is taken back, another one, and the step that would end it.
    for event in [3, 4, 21, 22, 23, 34] {
        browser.press("n");
        wait_for_tick(&browser, event);
    }
    browser.wait_until("return location.hash.startsWith('#now?at=2026-11-22T10:13:47')");
    let (tick, link) = (browser.run(TICK), browser.run("return location.href"));
    // Views keep the moment, and the back button leads from view to view, not from tick to tick.
    browser.press("5");
    browser.wait_until("return document.getElementById('lanes') !== null");
    assert_eq!(browser.run(TICK), tick);
    browser.run("history.back()");
    browser.wait_until(SHOWN);
    assert_eq!(browser.run(TICK), tick);
    browser.open("about:blank");
    browser.open(link.as_str().unwrap());
    wait_for_tick(&browser, tick.as_u64().unwrap());
    // A link that is typed into the same page.
    browser.run("location.hash = '#decisions?at=2026-11-22T10:13:48.2Z'");
    browser.wait_until(
        "return document.getElementById('candidates')?.textContent.includes('shop/leak') ?? false",
    );
    wait_for_tick(&browser, 38);
    // Before the recording it is its begin, after it its end.
    for (at, tick) in [("2020-01-01T00:00:00Z", 1), ("2030-01-01T00:00:00Z", 63)] {
        browser.run(&format!("location.hash = '#now?at={at}'"));
        wait_for_tick(&browser, tick);
    }
}

#[test]
fn film_fits_and_has_no_serious_findings_of_axe() {
    let (Some(browser), Some(axe)) = (browser(), axe()) else { return };
    let (server, _dir) = replaying("");
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        // The views that differ from an agent's.
        for view in ["now", "time", "allocatable", "health"] {
            browser.open("about:blank");
            browser.open(&format!("{}#{view}?at=2026-11-22T10:13:50Z", server.url()));
            browser.wait_until("return document.querySelector('main section') !== null");
            browser.run("document.querySelector('#film .behind').open = true");
            browser
                .wait_until("return document.querySelector('#film .behind tbody button') !== null");
            for width in [360, 1280] {
                browser.resize(width, 800);
                let over = browser.run(
                    "const page = document.documentElement; \
                     return page.scrollWidth - page.clientWidth",
                );
                assert_eq!(over, 0, "{view} at {width} pixels");
            }
            browser.run(&format!("{axe}; return 1"));
            let found = browser.run_async(SERIOUS);
            assert_eq!(found, json!([]), "{view} {scheme}");
        }
    }
}

#[test]
fn film_of_the_program_and_its_end() {
    let Some(browser) = browser() else { return };
    let dir = tempfile::tempdir().unwrap();
    fs::copy(recording(), dir.path().join("recording")).unwrap();
    let at = ["--at", "2026-11-22T10:13:50Z"];
    let replay =
        Program::start(&["replay", dir.path().to_str().unwrap(), at[0], at[1]], anywhere());
    browser.open(&replay.url());
    wait_for_tick(&browser, 45);
    drop(replay);
    browser.press(RIGHT);
    browser.wait_until(
        "return document.querySelector('#film [role=alert]')?.textContent.includes('does not answer') ?? false",
    );
}

/// A line that begins where it ends.
#[test]
fn film_of_one_tick() {
    let Some(browser) = browser() else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("recording");
    let whole = fs::read(recording()).unwrap();
    let ticks_of_first = |bytes: usize| {
        fs::write(&file, &whole[..bytes]).unwrap();
        Recording::open(&file).map_or(0, |entries| {
            entries.filter(|entry| matches!(entry, Ok(Entry::Frame(_)))).count()
        })
    };
    let ticks = (0..whole.len()).step_by(64).map(ticks_of_first).find(|ticks| *ticks > 0);
    assert_eq!(ticks, Some(1));
    let replay = Program::start(&["replay", dir.path().to_str().unwrap()], anywhere());
    browser.open(&replay.url());
    browser.wait_until(SHOWN);
    for key in VIEWS {
        open_view(&browser, key);
    }
    assert_eq!(browser.log("browser"), Vec::<Value>::new());
}
