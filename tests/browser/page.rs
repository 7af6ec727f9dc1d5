//! The page as a whole: live, stale, paused, below a prefix, narrow, by keyboard, with hostile names.

use std::ops::RangeInclusive;
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::chromium::Browser;
use crate::made_up;
use crate::server::{Server, anywhere};

/// A browser; `None`, with the reason printed, where there is none and none was promised.
pub(crate) fn browser() -> Option<Browser> {
    match Browser::start() {
        Ok(browser) => Some(browser),
        Err(why) if std::env::var("CI").is_ok_and(|ci| ci == "true") => panic!("no browser: {why}"),
        Err(why) => {
            println!("skipped: no browser: {why}");
            None
        }
    }
}

pub(crate) const SHOWN: &str = "return document.querySelector('#headline') !== null";
const LINK: &str = "return document.getElementById('link').dataset.link";
/// The keys of the views.
pub(crate) const VIEWS: RangeInclusive<char> = '1'..='9';
const TICK: &str =
    "return Number(document.getElementById('facts').textContent.match(/tick (\\d+)/)?.[1] ?? 0)";

/// By its key.
pub(crate) fn open_view(browser: &Browser, key: char) {
    browser.press(&key.to_string());
    browser.wait_until(&format!(
        "return document.querySelectorAll('nav a')[{key} - 1].ariaCurrent === 'page' \
         && document.querySelector('main :is(section, p)') !== null"
    ));
}

#[test]
fn page_answers_at_first_sight() {
    let Some(browser) = browser() else { return };
    let server = Server::start(anywhere(), "");
    browser.resize(1280, 800);
    browser.open(&server.url());
    browser.wait_until(SHOWN);

    let before = browser.run(TICK).as_u64().unwrap();
    browser.wait_until(&TICK.replace("return", &format!("return {before} <")));
    assert_eq!(browser.run(LINK), "live");

    #[rustfmt::skip]
    let table = [
        // where, what a reader finds there without scrolling
        ("headline",   "pod 3f2a91c4"),                  // who waits
        ("headline",   "mostly while backup-nightly"),   // because of whom
        ("verdicts",   "since "),                        // since when
        ("verdicts",   "the difference is throttling"),  // of what
        ("aggressors", "backup-nightly"),
        ("sufferers",  "1.6 s own quota"),
        ("relief",     "No action"),                     // what isobar does
        ("why",        "No condition holds"),            // why
    ];
    for (id, want) in table {
        browser.wait_until(&format!(
            "return document.getElementById('{id}').textContent.includes('{want}')"
        ));
        let top = format!("return document.getElementById('{id}').getBoundingClientRect().top");
        assert!(browser.run(&top).as_f64().unwrap() < 700.0, "{id}");
    }
    browser.wait_until("return document.querySelectorAll('#hour canvas').length === 3");
}

#[test]
fn page_hostile_name() {
    let Some(browser) = browser() else { return };
    let server = Server::start(anywhere(), "");
    let name = made_up::HOSTILE.trim_start_matches('/');
    for (view, id) in [("cgroups", "tree"), ("blame", "evidence")] {
        browser.open(&format!("{}#{view}", server.url()));
        browser.wait_until(&format!(
            "return document.getElementById('{id}')?.innerText.includes('{name}') ?? false"
        ));
    }
    assert_eq!(browser.run("return document.images.length"), 1, "an image that is not the logo");
    // Every row and name is there, and still nothing was run.
    assert_eq!(browser.log("browser"), Vec::<Value>::new());
}

#[test]
fn page_after_a_restart() {
    let Some(browser) = browser() else { return };
    let server = Server::start(anywhere(), "");
    let address = server.address;
    browser.open(&server.url());
    browser.wait_until(SHOWN);
    drop(server);
    browser
        .wait_until("return /^stale for \\d+ s/.test(document.getElementById('link').textContent)");
    browser.wait_until("return document.querySelector('#stale')?.getAttribute('role') === 'alert'");

    let _server = Server::start(address, "");
    browser.wait_until(&format!("{LINK} === 'live'"));
    assert_eq!(browser.run("return document.querySelector('#stale')"), Value::Null);
}

#[test]
fn page_on_a_phone() {
    let Some(browser) = browser() else { return };
    let server = Server::recorded();
    browser.open(&server.url());
    browser.wait_until(SHOWN);
    for width in [360, 640, 768, 1280] {
        browser.resize(width, 740);
        for key in VIEWS {
            open_view(&browser, key);
            thread::sleep(Duration::from_millis(300));
            let over = browser.run(
                "const page = document.documentElement; return page.scrollWidth - page.clientWidth",
            );
            assert_eq!(over, 0, "view {key} at {width} pixels");
        }
    }
    open_view(&browser, '1');
    let spoken = browser.run("return [...document.querySelectorAll('[aria-live]')].map(e => e.id)");
    assert_eq!(spoken, json!(["announce"]));
}

#[test]
fn page_prefix_and_pause() {
    let Some(browser) = browser() else { return };
    let server = Server::start(anywhere(), "/api/v1/nodes/worker-07/proxy");
    let url = format!("{}api/v1/nodes/worker-07/proxy/", server.url());
    browser.open(&url);
    browser.wait_until(SHOWN);
    browser.wait_until("return document.querySelectorAll('#hour canvas').length === 3");

    browser.press("p");
    browser.wait_until(&format!("{LINK} === 'paused'"));
    let paused_at = browser.run(TICK);
    thread::sleep(Duration::from_millis(700));
    assert_eq!(browser.run(TICK), paused_at);
    browser.run("document.getElementById('pause').click()");
    browser.wait_until(&format!("{LINK} === 'live'"));

    assert_eq!(browser.log("browser"), Vec::<Value>::new());
    let (asked, failed) = browser.requests(&server.url());
    assert_eq!(failed, Vec::<String>::new());
    assert!(asked.len() >= 6 && asked.iter().all(|asked| asked.starts_with(&url)), "{asked:?}");
}

#[test]
fn page_by_keyboard() {
    let Some(browser) = browser() else { return };
    let server = Server::start(anywhere(), "");
    browser.open(&server.url());
    browser.wait_until(SHOWN);

    // The first stop skips the tabs.
    const TAB: &str = "\u{e004}";
    const ENTER: &str = "\u{e007}";
    browser.press(TAB);
    browser.press(ENTER);
    assert_eq!(browser.run("return document.activeElement.id"), "main");

    browser.press("/");
    browser.wait_until("return document.activeElement.id === 'search'");
    browser.press("system containerd.s");
    browser.wait_until("return document.querySelectorAll('#tree tbody tr').length === 1");

    browser.run("document.activeElement.blur()");
    browser.press("?");
    browser.wait_until("return document.querySelector('dialog').open");
    browser.press("\u{e00c}");
    browser.wait_until("return !document.querySelector('dialog').open");

    // Two presses at once are two: from the system's to light to dark.
    browser.press("tt");
    browser.wait_until("return document.documentElement.dataset.theme === 'dark'");
    browser.reload();
    browser.wait_until("return document.documentElement.dataset.theme === 'dark'");
}

#[test]
fn page_link_shares_view_and_time() {
    let Some(browser) = browser() else { return };
    let server = Server::start(anywhere(), "");
    browser.open(&format!("{}#conditions?span=600", server.url()));
    browser.wait_until("return document.querySelector('#lanes select')?.value === '600'");
    browser.run("document.getElementById('share').click()");
    browser.wait_until("return document.getElementById('share').textContent !== 'Copy link'");
    browser.run("[...document.querySelectorAll('#lanes button')][0].click()");
    browser.wait_until("return /^#conditions\\?end=\\d+&span=600$/.test(location.hash)");
    browser.reload();
    browser.wait_until("return document.querySelector('#lanes .lane') !== null");
}

#[test]
fn page_says_what_of_a_link_it_cannot_show() {
    let Some(browser) = browser() else { return };
    let server = Server::start(anywhere(), "");
    #[rustfmt::skip]
    let table = [
        // link, what is said of it
        ("now?at=garbage",  "at: expected a time such as 2026-11-22T10:13:50Z; found \"garbage\""),
        ("time?end=soon",   "end: expected whole seconds since 1970; found \"soon\""),
        ("time?span=-1",    "span: expected whole seconds; found \"-1\""),
        ("nowhere",         "There is no view \"nowhere\""),
    ];
    for (link, words) in table {
        browser.open("about:blank");
        browser.open(&format!("{}#{link}", server.url()));
        let words = json!(words);
        browser.wait_until(&format!(
            "return document.getElementById('wrong-link')?.textContent.includes({words}) ?? false"
        ));
        browser.run("document.querySelector('#wrong-link button').click()");
        browser.wait_until("return document.getElementById('wrong-link') === null");
        let hash = browser.run("return location.hash");
        assert!(["#now", "#time"].contains(&hash.as_str().unwrap()), "{link}: {hash}");
    }
    for view in ["time", "conditions", "decisions"] {
        browser.open("about:blank");
        browser.open(&format!("{}#{view}?end=1&span=60", server.url()));
        browser.wait_until(
            "return document.querySelector('.refused')?.textContent.includes('too long ago') ?? false",
        );
        let told = browser.run("return document.querySelector('main').textContent");
        assert!(!told.as_str().unwrap().contains("Waiting for data"), "{view}: {told}");
        browser.run("document.querySelector('.refused a').click()");
        browser.wait_until("return document.querySelector('.refused') === null");
        assert_eq!(browser.run("return location.hash"), format!("#{view}?span=60"));
    }
}

#[test]
fn page_size() {
    const LIMIT: u64 = 80 << 10; // packed by gzip, all files together
    let server = Server::start(anywhere(), "");
    let agent: ureq::Agent = ureq::Agent::config_builder().proxy(None).build().into();
    let packed = |file: &str| -> u64 {
        let request = agent.get(format!("{}{file}", server.url()));
        let response = request.header("accept-encoding", "gzip").call().unwrap();
        assert_eq!(response.headers()["content-encoding"], "gzip", "{file}");
        response.headers()["content-length"].to_str().unwrap().parse().unwrap()
    };
    let all: u64 = ["", "page.js", "page.css", "icon.svg"].map(packed).iter().sum();
    assert!(all < LIMIT, "{all} bytes");
}

/// What axe's script found that is serious.
pub(crate) const SERIOUS: &str = "const end = arguments[arguments.length - 1]; \
    axe.run({resultTypes: ['violations']}).then(({violations}) => end(violations \
    .filter(({impact}) => impact === 'serious' || impact === 'critical') \
    .flatMap(({id, nodes}) => nodes.map(({html}) => id + ': ' + html))))";

/// axe's script, where `npm ci` has put it; `None`, with the reason printed, where it has not and
/// was not promised.
pub(crate) fn axe() -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../dashboards/web/node_modules/axe-core/axe.min.js");
    match std::fs::read_to_string(path) {
        Ok(script) => Some(script),
        Err(why) if std::env::var("CI").is_ok_and(|ci| ci == "true") => panic!("no axe: {why}"),
        Err(why) => {
            println!("skipped: no axe ({why}): npm ci in dashboards/web fetches it");
            None
        }
    }
}
