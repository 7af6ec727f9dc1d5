//! The page of a live agent, which goes back in what the agent has recorded, and returns.

use std::thread;
use std::time::Duration;

use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::snapshot::{Scope, Snapshot};
use serde_json::{Value, json};

use crate::chromium::Browser;
use crate::kept::keep;
use crate::made_up;
use crate::page::{SERIOUS, SHOWN, axe, browser};
use crate::server::{Server, recording};

const LINK: &str = "return document.getElementById('link').dataset.link";
const TICK: &str =
    "return Number(document.getElementById('facts').textContent.match(/tick (\\d+)/)?.[1] ?? 0)";

fn wait_for_link(browser: &Browser, link: &str) {
    browser.wait_until(&LINK.replace("return", &format!("return '{link}' ===")));
}

/// Opens a view at the end of the recording, once the agent has come beyond that.
fn open_late(browser: &Browser, server: &Server, view: &str) {
    browser.open(&server.url());
    browser.wait_until(&format!("{} > 60", TICK));
    browser.open("about:blank");
    browser.open(&format!("{}#{view}?at=2026-11-22T10:13:58Z", server.url()));
    wait_for_link(browser, "recorded");
}

fn click(browser: &Browser, selector: &str) {
    browser.run(&format!("document.querySelector('{selector}').click()"));
}

#[test]
fn live_page_goes_back_and_returns() {
    let Some(browser) = browser() else { return };
    let dir = tempfile::tempdir().unwrap();
    keep(&recording(), dir.path());
    let server = Server::going_back("/node", dir.path());
    browser.resize(1280, 800);
    browser.open(&format!("{}node/", server.url()));
    browser.wait_until(SHOWN);
    wait_for_link(&browser, "live");
    browser.wait_until("return document.querySelector('button.incident') !== null");
    for mark in ["live", "paused", "live"] {
        let found = browser.run("return document.querySelector('#film .badge').textContent");
        assert_eq!(found, mark);
        click(&browser, "#pause");
        wait_for_link(&browser, if mark == "paused" { "live" } else { "paused" });
    }
    click(&browser, "#pause");
    wait_for_link(&browser, "live");
    #[rustfmt::skip]
    let table = [
        // what is pressed, the tick that is shown then
        ("button.incident", 3),
        ("#tick-after",     4),
        ("#event-after",    21),
        ("#event-after",    22),
        ("#tick-before",    21),
    ];
    for (selector, tick) in table {
        click(&browser, selector);
        wait_for_link(&browser, "recorded");
        browser.wait_until(&TICK.replace("return", &format!("return {tick} ===")));
    }
    let film = browser.run("return document.getElementById('film').textContent");
    assert!(film.as_str().unwrap().contains("not live"), "{film}");
    let hash = browser.run("return location.hash");
    assert!(hash.as_str().unwrap().contains("at=2026-11-22T10:13:4"), "{hash}");

    click(&browser, "#to-live");
    wait_for_link(&browser, "live");
    assert_eq!(browser.run("return location.hash"), "#now");
    // A link from the present leads to this moment, whenever it is opened.
    browser.run("navigator.clipboard.writeText = async (text) => { window.copied = text }");
    click(&browser, "#share");
    let copied = "return /\\/node\\/#now\\?at=\\d{4}-.*Z$/.test(window.copied)";
    browser.wait_until(copied);
    // And by keys alone.
    browser.run("document.activeElement.blur()");
    browser.press("b");
    browser.wait_until(&TICK.replace("return", "return 1 ==="));
    browser.press("e");
    wait_for_link(&browser, "live");

    assert_eq!(browser.log("browser"), Vec::<Value>::new());
    let (asked, failed) = browser.requests(&server.url());
    assert_eq!(failed, Vec::<String>::new());
    let below = format!("{}node/", server.url());
    assert!(asked.iter().all(|url| url.starts_with(&below)), "{asked:?}");
}

#[test]
fn live_page_without_a_recording_says_so() {
    let Some(browser) = browser() else { return };
    let server = Server::recorded();
    browser.open(&server.url());
    browser.wait_until(
        "return document.getElementById('no-film')?.textContent.includes('nothing is recorded') ?? false",
    );
    assert_eq!(browser.run("return document.getElementById('film')"), Value::Null);
}

#[test]
fn live_page_that_goes_back_fits_and_has_no_serious_findings_of_axe() {
    let (Some(browser), Some(axe)) = (browser(), axe()) else { return };
    let dir = tempfile::tempdir().unwrap();
    keep(&recording(), dir.path());
    let server = Server::going_back("", dir.path());
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        let at = "?at=2026-11-22T10:13:58Z";
        let hashes = ["#now".into(), "#now?at=2026-11-22T10:13:46Z".into()];
        let asked = ["whatif", "allocatable"].map(|view| format!("#{view}{at}"));
        for hash in hashes.into_iter().chain(asked) {
            browser.open("about:blank");
            browser.open(&format!("{}{hash}", server.url()));
            browser.wait_until("return document.querySelector('button.incident') !== null");
            browser.wait_until("return document.querySelector('main section') !== null");
            if !hash.starts_with("#now") {
                wait_for_link(&browser, "recorded");
                browser.wait_until("return document.querySelector('#compare, #advise') !== null");
                click(&browser, "#compare, #advise");
                let answer = "return document.querySelector('#difference, #recommended') !== null";
                browser.wait_until(answer);
            }
            for width in [360, 1280] {
                browser.resize(width, 800);
                let over = browser.run(
                    "const page = document.documentElement; \
                     return page.scrollWidth - page.clientWidth",
                );
                assert_eq!(over, 0, "{hash} at {width} pixels");
            }
            browser.run(&format!("{axe}; return 1"));
            let found = browser.run_async(SERIOUS);
            assert_eq!(found, json!([]), "{hash} {scheme}");
        }
    }
}

#[test]
fn live_page_tells_what_other_settings_would_have_changed() {
    let Some(browser) = browser() else { return };
    let dir = tempfile::tempdir().unwrap();
    keep(&recording(), dir.path());
    let server = Server::going_back("", dir.path());
    open_late(&browser, &server, "whatif");
    browser.wait_until("return document.getElementById('compare') !== null");
    // By keys alone: a field, another value, Enter.
    browser.run(
        "document.querySelector('[name=\"signal 1\"]').focus(); document.activeElement.select()",
    );
    browser.press("1Ki\u{e007}");
    browser.wait_until("return document.getElementById('difference') !== null");
    let told = browser.run("return document.getElementById('difference').textContent");
    let told = told.as_str().unwrap();
    for want in ["stopContainers", "shop/leak", "would have gone on differently", "later"] {
        assert!(told.replace("stop containers", "stopContainers").contains(want), "{want}: {told}");
    }
    let lanes = browser.run("return document.querySelectorAll('#difference .lane').length");
    assert!(lanes.as_u64() >= Some(6), "{lanes}");
    // A threshold of 1Ki is never met: no pod is ended for it.
    assert!(told.contains("ended then: ") && told.contains("ended otherwise: none"), "{told}");
    let marks = "return document.querySelectorAll('#ended + .lanes svg .lane-true').length";
    assert!(browser.run(marks).as_u64() >= Some(1), "a mark for each step: {told}");
    assert_eq!(browser.log("browser"), Vec::<Value>::new());
}

#[test]
fn live_page_compares_with_the_settings_of_the_moment() {
    let Some(browser) = browser() else { return };
    let dir = tempfile::tempdir().unwrap();
    keep(&recording(), dir.path());
    let server = Server::going_back("", dir.path());
    open_late(&browser, &server, "whatif");
    let order = "document.querySelector('[name=order]')";
    browser.wait_until(&format!("return {order}?.value === 'cause'"));
    let type_it =
        "document.querySelector('[name=\"signal 1\"]').focus(); document.activeElement.select()";
    browser.run(type_it);
    browser.press("1Ki");
    browser.wait_until("return document.querySelectorAll('.fields .changed').length === 1");
    // Before that moment the agent ranked by another order.
    browser.run(
        "const ask = window.fetch; window.fetch = async (...of) => { \
             const answer = await ask(...of); \
             if (!/settings.*10:13:4/.test(of[0])) return answer; \
             const told = await answer.json(); \
             told.settings.ranking.order = 'qos'; \
             return new Response(JSON.stringify(told)); \
         }",
    );
    let moments = [("10:13:57", "cause", 1, false), ("10:13:45", "qos", 0, true)];
    for (moment, want, n_typed, is_told) in moments {
        browser.run(&format!("location.hash = '#whatif?at=2026-11-22T{moment}Z'"));
        browser.wait_until(&format!(
            "return document.querySelector('#what-if .why').textContent.includes('{}') \
             && {order}.value === '{want}' \
             && document.querySelectorAll('.fields .changed').length === {n_typed} \
             && (document.getElementById('taken-back') !== null) === {is_told}",
            &moment[2..7],
        ));
    }
}

#[test]
fn live_page_advises_what_to_reserve() {
    let Some(browser) = browser() else { return };
    let dir = tempfile::tempdir().unwrap();
    keep(&recording(), dir.path());
    let server = Server::going_back("", dir.path());
    open_late(&browser, &server, "allocatable");
    browser.wait_until("return document.getElementById('advise') !== null");
    click(&browser, "#advise");
    browser.wait_until("return document.getElementById('recommended') !== null");
    let told = browser.run("return document.getElementById('advice').textContent");
    let advised = ["systemReserved: memory", "240Mi", "/isobar", "little record"];
    let previewed = ["in force, memory", "256Mi", "shop/leak 196252Ki", "isobar replay FILE"];
    for want in advised.into_iter().chain(previewed) {
        assert!(told.as_str().unwrap().contains(want), "{want}: {told}");
    }
    assert_eq!(browser.log("browser"), Vec::<Value>::new());
}

#[test]
fn live_page_says_what_is_not_known_of_a_moment() {
    let Some(browser) = browser() else { return };
    let dir = tempfile::tempdir().unwrap();
    keep(&recording(), dir.path());
    // As after a restart: the history begins a second after isobar would have acted.
    let server = Server::knowing(36, "", dir.path());
    let due = "threshold allocatableMemory.available is due since";
    #[rustfmt::skip]
    let table = [
        // view, second, panel, what it says, and what it does not
        ("now",        47, "holding",  due,                                                  "none"),
        ("now",        47, "relief",   "What happened in this time is not known.",           "Steps in"),
        ("now",        47, "happened", "What had happened by then is not known.",            "Nothing"),
        ("conditions", 47, "lanes",    "Which conditions and thresholds held in this time",  "Nothing held"),
        ("conditions", 47, "events",   "What happened in this time is not known.",           "Nothing happened"),
        ("conditions", 47, "oom",      "OOM kills before this moment are not known.",        "since the agent started."),
        ("decisions",  47, "actions",  "What happened in this time is not known.",           "No action"),
        // The agent knows of this one, but not of the whole hour before it.
        ("conditions", 48, "events",   "What happened before ",                              "Nothing happened"),
    ];
    for (view, second, panel, says, not) in table {
        browser.open("about:blank");
        browser.open(&format!("{}#{view}?at=2026-11-22T10:13:{second}.900Z", server.url()));
        wait_for_link(&browser, "recorded");
        browser.wait_until(&format!(
            "const told = document.getElementById('{panel}')?.textContent ?? ''; \
             return told.includes('{says}') && !told.includes('{not}')"
        ));
    }
    // The part of the line of which nothing is known does not look calm.
    let part =
        "return document.querySelector('.track .lane-unknown').getBoundingClientRect().width";
    assert!(browser.run(part).as_f64() > Some(100.0), "{}", browser.run(part));

    browser.open(&format!("{}#blame?at=2026-11-22T10:13:47.900Z", server.url()));
    browser.wait_until("return document.getElementById('matrix') !== null");
    browser.run(
        "[...document.querySelectorAll('#matrix .tools button')]\
         .find(one => one.textContent === '10 min').click()",
    );
    browser.wait_until(
        "const told = document.getElementById('matrix').textContent; \
         return told.includes('Which cgroups made others wait in this time is not known.') \
         && !told.includes('No cgroup waited')",
    );
    assert_eq!(browser.log("browser"), Vec::<Value>::new());
}

#[test]
fn live_page_asks_a_busy_agent_again() {
    let Some(browser) = browser() else { return };
    let dir = tempfile::tempdir().unwrap();
    keep(&recording(), dir.path());
    let server = Server::going_back("", dir.path());
    browser.run_first(
        "window.busy = {recording: 4, snapshot: 2}; const ask = window.fetch; \
         window.fetch = async (...of) => { \
             const name = of[0].match(/api\\/v1\\/(recording|snapshot)(\\?|$)/)?.[1]; \
             if (!name || window.busy[name]-- <= 0) return ask(...of); \
             const [status, headers] = [503, {'Retry-After': '1'}]; \
             return new Response('{\"message\": \"other moments are being read\"}', {status, headers}); \
         }",
    );
    browser.open(&format!("{}#now", server.url()));
    wait_for_link(&browser, "live");
    browser.wait_until(
        "const told = document.getElementById('no-film')?.textContent ?? ''; \
         return told.includes('asks it again') && !told.includes('nothing is recorded')",
    );
    browser.wait_until("return document.getElementById('film') !== null");
    assert_eq!(browser.run("return document.getElementById('no-film')"), Value::Null);
    browser.run("location.hash = '#now?at=2026-11-22T10:13:40Z'");
    browser.wait_until("return document.getElementById('busy') !== null");
    wait_for_link(&browser, "recorded");
    browser.wait_until(&TICK.replace("return", "return 18 ==="));
    assert_eq!(
        browser.run("return document.querySelector('#busy, #film [role=alert]')"),
        Value::Null
    );
}

/// A node on which each tick has a service of its own.
fn renamed(tick: u64) -> Snapshot {
    let mut snapshot = made_up::snapshot(tick);
    let path = CgroupPath(format!("/tick-{tick}.service").into());
    snapshot.scopes.insert(CgroupId(77), Scope { path, ..snapshot.scopes[&CgroupId(22)].clone() });
    snapshot
}

#[test]
fn paused_page_asks_for_nothing_of_the_present() {
    let Some(browser) = browser() else { return };
    // Without a recording: what is there already stays.
    let server = Server::of(renamed);
    browser.open(&format!("{}#cgroups", server.url()));
    let named =
        "Number(document.getElementById('tree')?.textContent.match(/tick-(\\d+)\\./)?.[1] ?? 0)";
    browser.wait_until(&format!("return {named} > 0"));
    click(&browser, "#pause");
    wait_for_link(&browser, "paused");
    let paused_at = browser.run(TICK).as_u64().unwrap();
    thread::sleep(Duration::from_millis(4_500));
    let shown = browser.run(&format!("return {named}")).as_u64().unwrap();
    assert!((1..=paused_at).contains(&shown), "{shown} beside tick {paused_at}");
    browser.press("5");
    browser.wait_until(
        "return document.getElementById('lanes')?.textContent.includes('keeps no recording') ?? false",
    );

    // With one: all is of the moment at which it was paused, and from there a reader goes back.
    let dir = tempfile::tempdir().unwrap();
    keep(&recording(), dir.path());
    let server = Server::going_back("", dir.path());
    browser.open(&format!("{}#now", server.url()));
    wait_for_link(&browser, "live");
    browser.wait_until("return document.querySelector('button.incident') !== null");
    click(&browser, "#pause");
    wait_for_link(&browser, "paused");
    browser.requests(&server.url());
    browser.press("3");
    browser.wait_until("return document.getElementById('tree') !== null");
    thread::sleep(Duration::from_millis(4_500));
    let (asked, failed) = browser.requests(&server.url());
    assert_eq!(failed, Vec::<String>::new());
    let documents = ["cgroups", "history", "settings"].map(|one| format!("/api/v1/{one}"));
    let of_now =
        |url: &&String| documents.iter().any(|one| url.contains(one)) && !url.contains("at=");
    assert_eq!(asked.iter().filter(of_now).collect::<Vec<_>>(), Vec::<&String>::new());
    assert!(asked.iter().any(|url| url.contains("cgroups?at=")), "{asked:?}");
}

#[test]
fn page_that_was_kept_holds_one_stream() {
    let Some(browser) = browser() else { return };
    let dir = tempfile::tempdir().unwrap();
    keep(&recording(), dir.path());
    let server = Server::going_back("", dir.path());
    browser.open(&server.url());
    wait_for_link(&browser, "live");
    browser.run(
        "window.opened = []; const Before = EventSource;
         window.EventSource = class extends Before { constructor(...all) { super(...all); opened.push(this) } };
         window.away = () => dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }));
         window.back = () => dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }));
         away(); back()",
    );
    // The next attempt is due while the page is away.
    browser.run("opened[0].dispatchEvent(new Event('error')); away(); back()");
    thread::sleep(Duration::from_millis(2_500));
    let states =
        browser.run("return opened.map((stream) => stream.readyState === EventSource.CLOSED)");
    assert_eq!(states, json!([true, false]));
}
