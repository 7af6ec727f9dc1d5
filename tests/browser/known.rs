//! What the page of a live agent takes for known of the past: after the wall clock was set back, beside
//! pauses, and once the agent knows more.

use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::chromium::Browser;
use crate::kept::keep;
use crate::page::browser;
use crate::server::{Server, recording};

/// An agent whose answers of the past the script `change` alters, in `told`; `asked` counts those of what
/// had happened by a moment.
fn altered(browser: &Browser, change: &str) -> (Server, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    keep(&recording(), dir.path());
    let server = Server::going_back("", dir.path());
    browser.run_first(&format!(
        "window.asked = window.looked = window.earlier = 0; const ask = window.fetch; \
         window.fetch = async (...of) => {{ \
             window.asked += /history\\/events.*at=/.test(of[0]); \
             const response = await ask(...of); \
             const name = of[0].match(/api\\/v1\\/(recording|history\\/events)(\\?|$)/)?.[1]; \
             if (!name || !response.ok) return response; \
             const told = await response.json(); \
             {change}; \
             return new Response(JSON.stringify(told)); \
         }}"
    ));
    (server, dir)
}

#[test]
fn live_page_knows_what_came_before_the_clock_was_set_back() {
    let Some(browser) = browser() else { return };
    // The clock was a day ahead until after the first tick; no tick came from 30 to 20 s ago.
    let change = "const ago = (s) => ({boot: told.end.boot - s * 1e9, wall: told.end.wall - s * 1e9}); \
                  told.pauses = [{begin: ago(30), end: ago(20)}]; \
                  const first = name === 'recording' ? [told.begin, told.knownSince] : Object.values(told.knownSince); \
                  for (const at of first) if (at) at.wall += 86400e9";
    let (server, _dir) = altered(&browser, change);
    browser.open(&format!("{}#conditions", server.url()));
    for (grey, most) in [(".track .lane-unknown", 0.01), (".lane .lane-unknown", 0.999)] {
        // The part that is not known, and the pause, as parts of the line.
        browser.wait_until(&format!(
            "const all = [...document.querySelectorAll('{grey}')]; \
             const part = (one) => one.getBoundingClientRect().width \
                 / one.closest('svg').getBoundingClientRect().width; \
             return all.length > 1 && part(all[0]) < {most} && part(all[1]) > 0.001"
        ));
    }
}

#[test]
fn live_page_asks_again_for_a_moment_of_which_the_agent_knows_more() {
    let Some(browser) = browser() else { return };
    let change = "if (name === 'recording') { \
                      told.knownSince.boot -= window.earlier; \
                      window.looked += window.earlier !== 0; \
                  }";
    let (server, _dir) = altered(&browser, change);
    browser.open(&format!("{}#conditions?at=2026-11-22T10:13:40Z", server.url()));
    browser.wait_until("return document.getElementById('link').dataset.link === 'recorded'");
    browser.wait_until("return window.asked > 0");
    thread::sleep(Duration::from_secs(3));
    let asked = browser.run("return window.asked");
    // Later, as a full ring of events has it with each event.
    browser.run("window.earlier = -1e9");
    browser.wait_until("return window.looked > 0");
    thread::sleep(Duration::from_secs(2));
    assert_eq!(browser.run("return window.asked"), asked, "the agent knows less");
    browser.run("window.earlier = 1e9");
    browser.wait_until(&format!("return window.asked > {asked}"));
}
