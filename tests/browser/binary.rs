//! The built program and its page: a live agent, which ends and is started again.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Child;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::page::{SERIOUS, SHOWN, VIEWS, axe, browser, open_view};
use crate::program::{isobar, text};
use crate::server::anywhere;

/// The program, which listens. It ends with the value.
pub(crate) struct Program {
    process: Child,
    address: SocketAddr,
}

impl Program {
    /// Started, and listening; at port 0 at any.
    pub(crate) fn start(arguments: &[&str], address: SocketAddr) -> Self {
        // A port that was free a moment ago: the program is told where to listen.
        let address = TcpListener::bind(address).unwrap().local_addr().unwrap();
        let mut command = isobar(arguments);
        let dir = tempfile::tempdir().unwrap();
        let said = dir.path().join("stderr");
        command.args(["--listen", &address.to_string()]).stderr(File::create(&said).unwrap());
        let program = Self { process: command.spawn().unwrap(), address };
        for _ in 0..400 {
            if TcpStream::connect(address).is_ok() {
                return program;
            }
            thread::sleep(Duration::from_millis(50));
        }
        panic!("it does not listen after twenty seconds: {}", text(&fs::read(said).unwrap()));
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn binary_shows_this_machine_and_comes_back() {
    let (Some(browser), Some(axe)) = (browser(), axe()) else { return };
    let kept = tempfile::tempdir().unwrap();
    let record = format!("--record={}/recording/", kept.path().display());
    let arguments = ["run", "--no-kubernetes", &record];
    let agent = Program::start(&arguments, anywhere());
    let url = agent.url();
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        browser.open("about:blank");
        browser.open(&url);
        browser.wait_until(SHOWN);
        for key in VIEWS {
            open_view(&browser, key);
            browser.run(&format!("{axe}; return 1"));
            assert_eq!(browser.run_async(SERIOUS), json!([]), "view {key} {scheme}");
        }
    }
    assert_eq!(browser.log("browser"), Vec::<Value>::new());
    let (asked, failed) = browser.requests(&url);
    assert_eq!(failed, Vec::<String>::new());
    let elsewhere: Vec<_> = asked.iter().filter(|one| !one.starts_with(&url)).collect();
    assert!(!asked.is_empty() && elsewhere.is_empty(), "{elsewhere:?}");

    const LINK: &str = "return document.getElementById('link').dataset.link";
    browser.press("1");
    let address = agent.address;
    drop(agent);
    browser.wait_until("return document.querySelector('#stale')?.getAttribute('role') === 'alert'");
    let _next = Program::start(&arguments, address);
    browser.wait_until(&format!("{LINK} === 'live'"));
    // What was before the restart is still drawn, from the recording.
    browser.wait_until("return document.querySelectorAll('#hour canvas').length === 3");
}
