//! Chromium, driven through chromedriver: WebDriver is HTTP and JSON, and the few commands that
//! the tests need are shorter than a client library's set-up.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// One browser window. Ends with the value.
pub(crate) struct Browser {
    driver: Driver,
    session: String,
    _profile: TempDir,
}

/// The process, killed however the test ends; the browser goes with it.
struct Driver {
    process: Child,
    address: String,
}

impl Drop for Driver {
    fn drop(&mut self) {
        // It may be gone already, and then there is nothing to do.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.driver.send("DELETE", &format!("/session/{}", self.session), None);
    }
}

impl Browser {
    /// A headless browser, or why there is none.
    pub(crate) fn start() -> Result<Self, String> {
        for program in ["chromium", "chromedriver"] {
            let found = Command::new(program).arg("--version").output();
            found.map_err(|why| format!("{program}: {why}"))?;
        }
        let driver = Driver::start();
        let profile = tempfile::tempdir().unwrap();
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            &format!("--user-data-dir={}", profile.path().display()),
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            "goog:chromeOptions": {"args": arguments},
        }}});
        let answer = driver.send("POST", "/session", Some(wanted))?;
        let session = answer["sessionId"].as_str().unwrap().to_owned();
        Ok(Self { driver, session, _profile: profile })
    }

    fn post(&self, path: &str, body: Value) -> Value {
        let path = format!("/session/{}{path}", self.session);
        self.driver.send("POST", &path, Some(body)).unwrap()
    }

    /// Opens an address.
    pub(crate) fn open(&self, url: &str) {
        self.post("/url", json!({ "url": url }));
    }

    /// Makes the window this many CSS pixels wide, whatever the platform's smallest window is.
    pub(crate) fn resize(&self, width: u32, height: u32) {
        let parameters =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        let command = json!({"cmd": "Emulation.setDeviceMetricsOverride", "params": parameters});
        self.post("/goog/cdp/execute", command);
    }

    /// What a script's `return` gives.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.post("/execute/sync", json!({"script": script, "args": []}))
    }

    /// Asks until a script returns true, for ten seconds at most.
    #[track_caller]
    pub(crate) fn wait_until(&self, script: &str) {
        for _ in 0..100 {
            if self.run(script) == Value::Bool(true) {
                return;
            }
            sleep(Duration::from_millis(100));
        }
        panic!(
            "never true: {script}; the page says {}",
            self.run("return document.body.innerText")
        );
    }

    /// What was logged since the last call: `browser` is the console, `performance` the network.
    pub(crate) fn log(&self, kind: &str) -> Vec<Value> {
        self.post("/se/log", json!({ "type": kind })).as_array().unwrap().clone()
    }

    /// The addresses that the page at `page` requested since the last call; the browser's own new
    /// tab has requests too.
    pub(crate) fn requests(&self, page: &str) -> Vec<String> {
        let url = |entry: &Value| {
            let event: Value = serde_json::from_str(entry["message"].as_str()?).ok()?;
            let sent = event["message"]["method"] == "Network.requestWillBeSent";
            let ours = event["message"]["params"]["documentURL"].as_str()?.starts_with(page);
            let url = event["message"]["params"]["request"]["url"].as_str()?;
            (sent && ours).then(|| url.to_owned())
        };
        self.log("performance").iter().filter_map(url).collect()
    }
}

impl Driver {
    fn start() -> Self {
        // A port that was free a moment ago: the driver itself cannot say which it took.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = Command::new("chromedriver")
            .args([format!("--port={port}"), "--log-level=SEVERE".into()])
            .stdout(Stdio::null())
            // Debian's wrapper around chromium complains of this and that.
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let driver = Self { process, address: format!("http://127.0.0.1:{port}") };
        for _ in 0..100 {
            if driver.send("GET", "/status", None).is_ok_and(|status| status["ready"] == true) {
                return driver;
            }
            sleep(Duration::from_millis(100));
        }
        panic!("chromedriver did not get ready within ten seconds");
    }

    fn send(&self, method: &str, path: &str, body: Option<Value>) -> Result<Value, String> {
        let client: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(60)))
            .http_status_as_error(false)
            .proxy(None)
            .build()
            .into();
        let url = format!("{}{path}", self.address);
        let answer = match (method, body) {
            ("GET", _) => client.get(&url).call(),
            ("DELETE", _) => client.delete(&url).call(),
            (_, body) => client.post(&url).send(body.unwrap_or_default().to_string()),
        };
        let text = answer.and_then(|mut answer| answer.body_mut().read_to_string());
        let text = text.map_err(|why| format!("{method} {path}: {why}"))?;
        let value: Value = serde_json::from_str(&text).map_err(|why| format!("{why}: {text}"))?;
        match value["value"]["error"].as_str() {
            Some(_) => Err(format!("{method} {path}: {}", value["value"]["message"])),
            None => Ok(value["value"].clone()),
        }
    }
}
