//! The page in a real browser: what a reader sees, with a node that is made up.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::chromium::Browser;
use crate::made_up;
use axum::Router;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::interval;

/// A server with a made-up node that ticks five times a second. Ends with the value.
struct Server {
    address: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Server {
    /// Below `prefix`, as a proxy would have it; at `address`, port 0 for any.
    fn start(address: SocketAddr, prefix: &'static str) -> Self {
        let (end, ended) = oneshot::channel::<()>();
        let (bound, at) = mpsc::channel();
        let serve = async move {
            let listener = TcpListener::bind(address).await.unwrap();
            bound.send(listener.local_addr().unwrap()).unwrap();
            let (mut publisher, latest) = made_up::publisher();
            let router = match prefix {
                "" => isobar::serve::router(latest),
                _ => Router::new().nest_service(prefix, isobar::serve::router(latest)),
            };
            let mut ticks = interval(Duration::from_millis(200));
            let tick = async {
                for tick in 1.. {
                    ticks.tick().await;
                    made_up::publish(&mut publisher, tick);
                }
            };
            tokio::select! {
                () = tick => {}
                _ = ended => {}
                result = axum::serve(listener, router).into_future() => result.unwrap(),
            }
        };
        let thread = thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(serve);
        });
        let address = at.recv().unwrap();
        Self { address, end: Some(end), thread: Some(thread) }
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server ended in good order");
        }
    }
}

/// A browser; `None`, with the reason printed, where there is none and none was promised.
fn browser() -> Option<Browser> {
    match Browser::start() {
        Ok(browser) => Some(browser),
        Err(why) if std::env::var("CI").is_ok_and(|ci| ci == "true") => panic!("no browser: {why}"),
        Err(why) => {
            println!("skipped: no browser: {why}");
            None
        }
    }
}

fn anywhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

const SHOWN: &str = "return document.querySelectorAll('#waiting tbody th').length > 3";
const LINK: &str = "return document.getElementById('link').dataset.link";
const TICK: &str =
    "return Number(document.getElementById('facts').textContent.match(/tick (\\d+)/)?.[1] ?? 0)";

#[test]
fn page_shows_a_live_node() {
    let Some(browser) = browser() else { return };
    let server = Server::start(anywhere(), "");
    browser.open(&server.url());
    browser.wait_until(SHOWN);

    let before = browser.run(TICK).as_u64().unwrap();
    browser.wait_until(&TICK.replace("return", &format!("return {before} <")));
    assert_eq!(browser.run(LINK), "live");

    #[rustfmt::skip]
    let table = [
        // where, what a reader finds there
        ("headline",  "pod 3f2a91c4"),                  // who waits
        ("headline",  "mostly while backup-nightly"),   // because of whom
        ("verdicts",  "the difference is throttling"),  // why
        ("resources", "raw PSI some"),
        ("cpus",      "cpu7"),
        ("waiting",   "1610 ms own quota"),
        ("blame",     "removed cgroup"),
        ("oom",       "process 48213"),
        ("sight",     "Remedy: a kernel with CONFIG_PSI=y"),
        ("cost",      "0.7 % of one core"),
        ("programs",  "312 ns"),
    ];
    for (id, want) in table {
        browser.wait_until(&format!(
            "return document.getElementById('{id}').textContent.includes('{want}')"
        ));
    }

    let console = browser.log("browser");
    assert_eq!(console, Vec::<Value>::new());
    let requests = browser.requests(&server.url());
    assert!(requests.len() >= 5, "{requests:?}");
    for url in requests {
        assert!(url.starts_with(&server.url()), "a request to somebody else: {url}");
    }
}

#[test]
fn page_hostile_name() {
    let Some(browser) = browser() else { return };
    let server = Server::start(anywhere(), "");
    browser.open(&server.url());
    browser.wait_until(SHOWN);
    let name = made_up::HOSTILE.trim_start_matches('/');
    for id in ["waiting", "blame"] {
        let text = format!("return document.getElementById('{id}').innerText.includes('{name}')");
        browser.wait_until(&text);
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

    let _server = Server::start(address, "");
    browser.wait_until(&format!("{} === 'live'", LINK));
}

#[test]
fn page_on_a_phone() {
    let Some(browser) = browser() else { return };
    let server = Server::start(anywhere(), "");
    for width in [360, 640, 768, 1280] {
        browser.resize(width, 740);
        browser.open(&server.url());
        browser.wait_until(SHOWN);
        let over = browser.run(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth",
        );
        assert_eq!(over, 0, "at {width} pixels");
    }
    let unnamed = browser.run(
        "return [...document.querySelectorAll('main table[role=table]')].filter(t => !t.caption \
         || [...t.rows].some(r => r.getAttribute('role') !== 'row')).map(t => t.id)",
    );
    assert_eq!(unnamed, Value::Array(vec![]));
    let spoken = browser.run("return [...document.querySelectorAll('[aria-live]')].map(e => e.id)");
    assert_eq!(spoken, serde_json::json!(["announce"]));
}

#[test]
fn page_prefix_and_pause() {
    let Some(browser) = browser() else { return };
    let server = Server::start(anywhere(), "/api/v1/nodes/worker-07/proxy");
    browser.open(&format!("{}api/v1/nodes/worker-07/proxy/", server.url()));
    browser.wait_until(SHOWN);

    browser.run("document.getElementById('pause').click()");
    let paused_at = browser.run(TICK);
    thread::sleep(Duration::from_millis(700));
    assert_eq!(browser.run(TICK), paused_at);
    assert_eq!(browser.run(LINK), "paused");
    browser.run("document.getElementById('pause').click()");
    browser.wait_until(&format!("{} === 'live'", LINK));
    assert_eq!(browser.log("browser"), Vec::<Value>::new());
}
