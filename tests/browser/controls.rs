//! What is inside the views, used as a reader would: by Tab and Enter, by buttons and by the pointer.

use serde_json::Value;

use crate::chromium::Browser;
use crate::page::browser;
use crate::server::{Server, anywhere};
use crate::views::find;

const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";

/// Presses Tab until the focus is on what a selector finds.
#[track_caller]
fn tab_to(browser: &Browser, selector: &str) {
    for _ in 0..150 {
        browser.press(TAB);
        let is_there = format!("return document.activeElement.matches({selector:?})");
        if browser.run(&is_there) == Value::Bool(true) {
            return;
        }
    }
    panic!("Tab never reaches {selector}; it is at {}", at(browser));
}

fn at(browser: &Browser) -> Value {
    browser.run("return document.activeElement.outerHTML.slice(0, 200)")
}

#[test]
fn controls_are_reached_by_tab_and_used_by_enter() {
    let Some(browser) = browser() else { return };
    let (server, short) = (Server::start(anywhere(), ""), Server::recorded());
    #[rustfmt::skip]
    let table = [
        // node, view, panel and words that it has first, what is reached, what is true after Enter
        (&short,  "cgroups",    "tree",     "66666666",       "#tree .twig[aria-expanded=false]",
         "return document.activeElement.ariaExpanded === 'true' \
          && document.querySelector('#tree').textContent.includes('container ')"),
        (&server, "blame",      "matrix",   "backup-nightly", "#matrix button.cell:not([aria-pressed=true])",
         "return document.querySelectorAll('#evidence tbody tr').length === 1"),
        (&server, "blame",      "evidence", "Waited",         "#evidence button.sort",
         "return document.querySelector('#evidence th[aria-sort=descending]') !== null"),
        (&server, "time",       "cpus",     "cpu7",           ".chart .behind summary",
         "return document.querySelector('.chart .behind[open] tbody tr') !== null"),
        (&server, "conditions", "lanes",    "Over time",      "#lanes button",
         "return location.hash.includes('end=')"),
    ];
    for (server, view, panel, words, selector, after) in table {
        browser.open("about:blank");
        find(&browser, &server.url(), view, panel, words);
        tab_to(&browser, selector);
        browser.press(ENTER);
        browser.wait_until(after);
    }
    assert_eq!(browser.log("browser"), Vec::<Value>::new());
}

#[test]
fn lanes_tell_the_rule_that_fired() {
    let Some(browser) = browser() else { return };
    let server = Server::recorded();
    find(&browser, &server.url(), "conditions", "lanes", "kubepods.memory.exhaustion");
    let rule = "memory lasts another";
    tab_to(&browser, "#lanes .lane [aria-label*='kubepods.memory.exhaustion']");
    let label = browser.run("return document.activeElement.ariaLabel");
    assert!(label.as_str().unwrap().contains(rule), "{label}");
    browser.wait_until(&format!(
        "const told = document.activeElement.closest('.lane').querySelector('.lane-told'); \
         return told.checkVisibility() && told.textContent.includes('{rule}')"
    ));
    browser.wait_until(&format!(
        "return [...document.querySelectorAll('#lanes rect title')]\
         .some(title => title.textContent.includes('{rule}'))"
    ));
    browser.run("document.querySelector('#lanes .behind').open = true");
    browser.wait_until(&format!(
        "return [...document.querySelectorAll('#lanes td[data-label=\"It began because\"]')]\
         .some(cell => cell.textContent.includes('{rule}'))"
    ));
}

#[test]
fn matrix_is_of_ten_seconds_a_minute_or_ten() {
    let Some(browser) = browser() else { return };
    let server = Server::start(anywhere(), "");
    find(&browser, &server.url(), "blame", "matrix", "backup-nightly");
    // The made-up node says of each fifth of a second that it was a second.
    #[rustfmt::skip]
    let table = [
        // button, the panel says, the sum of the pair that cost most is of so many ticks at least
        ("1 min",  "Summed by this page from each tick", 12),
        ("10 min", "the six pairs of each minute",       12),
        ("10 s",   "Summed by this page from each tick", 1),
    ];
    for (button, says, ticks) in table {
        browser.run(&format!(
            "[...document.querySelectorAll('#matrix .tools button')]\
             .find(one => one.textContent === '{button}').click()"
        ));
        browser.wait_until(&format!(
            "const panel = document.getElementById('matrix'); \
             const pressed = [...panel.querySelectorAll('.tools button[aria-pressed=true]')]; \
             const waited = [...document.querySelectorAll('#evidence tbody tr')]\
                 .find(row => row.textContent.includes('backup-nightly'))\
                 ?.querySelector('[data-label=Waited]').textContent ?? ''; \
             const [figure, unit] = waited.split(' '); \
             const seconds = figure * ({{ms: 1e-3, s: 1, min: 60}}[unit] ?? 0); \
             return pressed.length === 1 && pressed[0].textContent === '{button}' \
                 && panel.textContent.includes('{says}') \
                 && panel.querySelector('.matrix button.cell') !== null \
                 && seconds >= 0.905 * {ticks}"
        ));
    }
}

#[test]
fn table_is_sorted_by_a_heading() {
    let Some(browser) = browser() else { return };
    let server = Server::start(anywhere(), "");
    find(&browser, &server.url(), "health", "cost", "312 ns");
    const FIRST: &str = "const table = [...document.querySelectorAll('table')]\
         .find(one => one.querySelector('[data-label=\"Per run\"]')); \
         const heading = [...table.querySelectorAll('button.sort')]\
         .find(one => one.textContent === 'Per run'); ";
    #[rustfmt::skip]
    let table = [
        // after each click: the direction, the first figure
        ("descending", "540 ns"),
        ("ascending",  "312 ns"),
    ];
    for (direction, figure) in table {
        browser.run(&format!("{FIRST} heading.click()"));
        browser.wait_until(&format!(
            "{FIRST} return heading.closest('th').ariaSort === '{direction}' \
             && table.querySelector('tbody [data-label=\"Per run\"]').textContent === '{figure}'"
        ));
    }
}

#[test]
fn charts_share_one_cursor() {
    let Some(browser) = browser() else { return };
    let dir = tempfile::tempdir().unwrap();
    let server = Server::replaying("", dir.path());
    browser.resize(1280, 900);
    browser.open(&format!("{}#time?at=2026-11-22T10:13:55Z", server.url()));
    browser.wait_until("return document.querySelectorAll('.chart .u-over').length >= 4");
    let times = "[...document.querySelectorAll('.chart .u-legend')]\
                 .map(one => one.querySelector('.u-value').textContent)";
    browser.wait_until(&format!("return {times}.every(time => time === 'newest')"));
    browser.run(
        "const over = document.querySelector('.chart .u-over'); \
         const {left, top, width, height} = over.getBoundingClientRect(); \
         for (const kind of ['mouseenter', 'mousemove']) \
             over.dispatchEvent(new MouseEvent(kind, \
                 {clientX: left + width / 2, clientY: top + height / 2, bubbles: true}))",
    );
    browser.wait_until(&format!(
        "const all = {times}; return /^\\d\\d:\\d\\d:\\d\\d/.test(all[0]) \
         && all.every(time => time === all[0])"
    ));
}

/// What was measured before is none of now.
#[test]
fn charts_say_that_the_newest_step_was_not_measured() {
    let Some(browser) = browser() else { return };
    let server = Server::start(anywhere(), "");
    find(&browser, &server.url(), "now", "verdicts", "since ");
    browser.run(
        "const ask = window.fetch; window.fetch = async (...of) => { \
             const answer = await ask(...of); \
             if (!of[0].includes('api/v1/history?')) return answer; \
             const told = await answer.json(); \
             for (const {values, peaks} of Object.values(told.series)) { \
                 values[values.length - 1] = null; \
                 if (peaks) peaks[peaks.length - 1] = null; \
             } \
             return new Response(JSON.stringify(told)); \
         }",
    );
    browser.wait_until(
        "const told = document.querySelector('#hour [role=img]').ariaLabel; \
         return told.includes('contention: now not measured, lowest 4') \
         && !document.getElementById('verdicts').textContent.includes('since ')",
    );
    browser.wait_until(
        "return [...document.querySelectorAll('#hour .u-series:not(:first-child) .u-value')]\
         .every(({textContent: value}) => value === '–')",
    );
}

/// In one theme no two of them are the same, for each means one thing.
#[test]
fn colours_mean_one_thing() {
    let Some(browser) = browser() else { return };
    let server = Server::start(anywhere(), "");
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        find(&browser, &server.url(), "now", "headline", "pod 3f2a91c4");
        let names =
            ["calm", "waits", "pressed", "others", "own", "above", "third", "fourth", "raw"];
        let value = |name: &str| {
            let style = "getComputedStyle(document.documentElement)";
            browser.run(&format!("return {style}.getPropertyValue('--{name}').trim()")).to_string()
        };
        let mut values = names.map(|name| (value(name), name));
        values.sort();
        for pair in values.windows(2) {
            assert_ne!(pair[0].0, pair[1].0, "{scheme}: {} and {}", pair[0].1, pair[1].1);
        }
        #[rustfmt::skip]
        let table = [
            // what a word tells, its colour
            ("data-mood=calm",      "calm"),
            ("data-mood=waits",     "waits"),
            ("data-mood=pressed",   "pressed"),
            ("data-mood=unknown",   "quiet"),
            ("data-status=True",    "pressed"),
            ("data-status=False",   "quiet"),
            ("data-status=Unknown", "quiet"),
            ("data-state=attached", "calm"),
            ("data-state=blind",    "waits"),
            ("data-state=absent",   "quiet"),
            ("data-state=off",      "quiet"),
        ];
        for (of, name) in table {
            let colours = format!(
                "const [word, plain] = [1, 2].map(() => \
                     document.body.appendChild(document.createElement('i'))); \
                 word.className = 'state'; word.setAttribute(...'{of}'.split('=')); \
                 plain.style.color = 'var(--{name})'; \
                 return [word, plain].map(e => getComputedStyle(e).color)"
            );
            let colours = browser.run(&colours);
            assert_eq!(colours[0], colours[1], "{scheme}: {of} is as {name}");
        }
    }
}
