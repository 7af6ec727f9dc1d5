//! Each view, with a node that is made up and with one that was recorded short of memory.

use std::collections::BTreeSet;

use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::snapshot::Snapshot;
use serde_json::{Value, json};

use crate::chromium::Browser;
use crate::made_up;
use crate::page::{SERIOUS, axe, browser};
use crate::server::{Server, anywhere};

#[rustfmt::skip]
const VIEWS: [&str; 9] = [
    "now", "time", "cgroups", "blame", "conditions", "decisions", "allocatable", "health", "whatif",
];

/// Opens a view and waits until a panel of it has these words.
#[track_caller]
pub(crate) fn find(browser: &Browser, url: &str, view: &str, panel: &str, words: &str) {
    browser.open(&format!("{url}#{view}"));
    let words = json!(words);
    browser.wait_until(&format!(
        "return document.getElementById('{panel}')?.textContent.includes({words}) ?? false"
    ));
}

#[test]
fn views_of_a_made_up_node() {
    let Some(browser) = browser() else { return };
    let server = Server::start(anywhere(), "");
    #[rustfmt::skip]
    let table = [
        // view, panel, words
        ("now",          "mode",         "not reported"),
        ("now",          "verdicts",     "pressed"),
        ("now",          "windows",      "The headline tells of waits in the last tick. Below, waits for CPUs are added up over"),
        ("now",          "pressed-and-true", "Pressed: at least one task waited in 40 % or more of the last 10 s."),
        ("time",         "cpus",         "cpu7"),
        ("cgroups",      "tree",         "1.6 s own quota"),
        ("cgroups",      "heat",         "backup-nightly"),
        ("blame",        "matrix",       "backup-nightly"),
        ("blame",        "matrix",       "a container of pod 3f2a91c4…8d21 (id 9f86d081884c)"),
        ("blame",        "evidence",     "removed cgroup"),
        ("conditions",   "oom",          "process 48213"),
        ("decisions",    "decision",     "No action"),
        ("allocatable",  "left",         "No eviction signal has a reading"),
        ("allocatable",  "resources",    "226Gi251Gi"), // allocatable, capacity
        ("allocatable",  "cpumanager",   "0daemonsreserved"),
        ("allocatable",  "cpumanager",   "2-3pod 3f2a91c4-7d1e-4b0a-9a52-0c6e1f7b8d21, appfor itself"),
        ("allocatable",  "cpumanager",   "0-1,4-7all other containersshared, 5 CPUs"),
        ("allocatable",  "cpumanager",   "could not restore state"),
        ("health",       "capabilities", "Capabilities: 3 missing, 1 off"),
        ("health",       "capabilities", "Remedy: a kernel with CONFIG_PSI=y"),
        ("health",       "cost",         "0.7 % of one core"),
        ("health",       "cost",         "312 ns"),
    ];
    for (view, panel, words) in table {
        find(&browser, &server.url(), view, panel, words);
    }
    find(&browser, &server.url(), "allocatable", "resources", "memory");
    let exact =
        "return document.querySelector('#resources [title=\"243497856212 bytes\"]') !== null";
    assert_eq!(browser.run(exact), true);
    assert_eq!(browser.log("browser"), Vec::<Value>::new());
    let (asked, failed) = browser.requests(&server.url());
    assert_eq!(failed, Vec::<String>::new());
    for url in asked {
        assert!(url.starts_with(&server.url()), "a request to another server: {url}");
    }
}

/// Two services of one name, the names of which have room in a list.
fn alike(tick: u64) -> Snapshot {
    let mut snapshot = made_up::snapshot(tick);
    for (id, slice) in [(21, "system"), (22, "user")] {
        let path = format!("/{slice}.slice/checkout-backend-v2.service");
        snapshot.scopes.get_mut(&CgroupId(id)).unwrap().path = CgroupPath(path.into());
    }
    snapshot
}

#[test]
fn views_tell_names_in_full_and_apart() {
    let Some(browser) = browser() else { return };
    let server = Server::of(alike);
    browser.resize(1280, 800);
    let name = "checkout-backend-v2.service";
    find(&browser, &server.url(), "cgroups", "heat", &format!("{name}, in /user.slice"));
    let names = "return [...document.querySelectorAll('.heatname')].map(e => e.textContent)";
    let names = browser.run(names);
    let names: Vec<_> = names.as_array().unwrap().iter().map(Value::to_string).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");

    find(&browser, &server.url(), "now", "sufferers", name);
    let lines = format!(
        "return [...document.querySelectorAll('#sufferers .name')] \
         .filter(e => e.textContent === '{name}').map(e => e.getClientRects().length)"
    );
    assert_eq!(browser.run(&lines), json!([1]), "lines of a name");
}

#[test]
fn views_of_waits_for_memory_name_who_has_it() {
    let Some(browser) = browser() else { return };
    let server = Server::short();
    // What cgroups' files say is not in the stream.
    for words in ["who holds most of it", "44444444", "55555555"] {
        find(&browser, &server.url(), "now", "aggressors", words);
    }
}

#[test]
fn views_of_a_shortage() {
    let Some(browser) = browser() else { return };
    let server = Server::recorded();
    #[rustfmt::skip]
    let table = [
        // view, panel, words
        ("now",         "headline",   "Short of memory"),
        ("now",         "holding",    "threshold"),
        ("now",         "aggressors", "lost within"),
        ("decisions",   "loss",       "were lost"),
        ("decisions",   "candidates", "taken"),
        ("decisions",   "actions",    "#1"),
        ("conditions",  "lanes",      "kubepods.memory.exhaustion"),
        ("conditions",  "events",     "change"),
        ("allocatable", "left",       "memory.available"),
        ("allocatable", "outlook",    "all pods"),
        ("allocatable", "cpumanager", "is not static"),
    ];
    for (view, panel, words) in table {
        find(&browser, &server.url(), view, panel, words);
    }
    assert_eq!(browser.log("browser"), Vec::<Value>::new());
}

#[test]
fn views_have_tables_behind_pictures() {
    let Some(browser) = browser() else { return };
    let server = Server::start(anywhere(), "");
    for (view, n) in [("now", 3), ("time", 6), ("cgroups", 1), ("conditions", 1), ("health", 3)] {
        browser.open(&format!("{}#{view}", server.url()));
        browser.wait_until(&format!("return document.querySelectorAll('.behind').length >= {n}"));
        browser.run("document.querySelectorAll('.behind').forEach(e => e.open = true)");
        browser.wait_until(&format!(
            "return document.querySelectorAll('.behind table tbody tr').length >= {n}"
        ));
        let unnamed = "return [...document.querySelectorAll('canvas')].filter(canvas => \
                       !canvas.closest('[role=img]')?.ariaLabel).length";
        assert_eq!(browser.run(unnamed), 0, "{view}");
    }
}

#[test]
fn views_of_a_young_agent_draw_its_first_minutes() {
    let Some(browser) = browser() else { return };
    let server = Server::start(anywhere(), "");
    browser.open(&format!("{}#now", server.url()));
    browser.wait_until("return document.querySelectorAll('#hour .behind').length === 3");
    browser.run("document.querySelectorAll('#hour .behind').forEach(e => e.open = true)");
    // What is in the table is what is drawn.
    browser.wait_until(
        "return [...document.querySelectorAll('#hour .behind')]\
         .every(e => [...e.querySelectorAll('td')].some(td => td.textContent.includes('%')))",
    );
}

#[test]
fn views_light_without_serious_findings_of_axe() {
    have_no_serious_findings_of_axe("light");
}

#[test]
fn views_dark_without_serious_findings_of_axe() {
    have_no_serious_findings_of_axe("dark");
}

fn have_no_serious_findings_of_axe(scheme: &str) {
    let (Some(browser), Some(axe)) = (browser(), axe()) else { return };
    let (calm, short) = (Server::start(anywhere(), ""), Server::recorded());
    // The recorded node shows more in these.
    let views = [(&calm, &VIEWS[..]), (&short, &["now", "conditions", "decisions"])];
    browser.prefer(scheme);
    for (server, views) in views {
        for view in views {
            browser.open("about:blank");
            browser.open(&format!("{}#{view}", server.url()));
            // What if has nothing but a sentence where nothing is recorded.
            browser.wait_until("return document.querySelector('main :is(section, p)') !== null");
            browser.run(&format!("{axe}; return 1"));
            let found = browser.run_async(SERIOUS);
            assert_eq!(found, json!([]), "{view} {scheme}");
        }
    }
}

/// From the name of a cgroup to its past, with charts, a table behind each, and a link that keeps it.
#[test]
fn views_have_the_past_of_a_cgroup() {
    let Some(browser) = browser() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (recorded, silent) = (Server::replaying("", dir.path()), Server::start(anywhere(), ""));
    browser.resize(1280, 900);
    browser.open(&format!("{}#cgroups?at=2026-11-22T10:13:55Z", recorded.url()));
    let of_leak = "[...document.querySelectorAll('#tree .branch')]\
                   .find(row => row.textContent.includes('shop/leak'))?.querySelector('a')";
    browser.wait_until(&format!("return {of_leak} != null"));
    browser.run(&format!("{of_leak}.click()"));
    browser.wait_until("return document.querySelectorAll('#past canvas').length >= 3");
    let link = browser.run("return location.hash");
    let link = link.as_str().unwrap();
    assert!(link.contains("cgroup=%2Fkubepods") && link.contains("at=2026-11-22"), "{link}");
    browser.run("document.querySelectorAll('#past .behind').forEach(e => e.open = true)");
    browser.wait_until("return document.querySelectorAll('#past tbody tr').length >= 60");
    let memory =
        browser.run("return document.querySelector('#past .chart:nth-of-type(3) .plot').ariaLabel");
    let memory = memory.as_str().unwrap();
    assert!(memory.contains("working set: now") && memory.contains("Mi"), "{memory}");
    if let Some(axe) = axe() {
        for scheme in ["light", "dark"] {
            browser.prefer(scheme);
            browser.run(&format!("{axe}; return 1"));
            assert_eq!(browser.run_async(SERIOUS), json!([]), "{scheme}");
        }
    }
    // The link alone shows the same.
    browser.open("about:blank");
    browser.open(&format!("{}{link}", recorded.url()));
    browser.wait_until("return document.querySelectorAll('#past canvas').length >= 3");
    browser.run("document.querySelector('#past .bar a').click()");
    browser.wait_until("return document.getElementById('past') === null");
    find(&browser, &silent.url(), "cgroups?cgroup=/x", "past", "nothing is recorded");
}
