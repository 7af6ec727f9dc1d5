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

    /// Runs a script in each page that is opened from now on, before its own.
    pub(crate) fn run_first(&self, script: &str) {
        let source = json!({ "source": script });
        self.command("Page.addScriptToEvaluateOnNewDocument", &source);
    }

    /// Reads the page again.
    pub(crate) fn reload(&self) {
        self.post("/refresh", json!({}));
    }

    /// Prefers dark or light, as a reader's system does.
    pub(crate) fn prefer(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.command("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Presses and releases keys, one after the other; WebDriver's code points for those without a
    /// letter.
    pub(crate) fn press(&self, keys: &str) {
        let strokes = keys.chars().flat_map(|key| {
            ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key.to_string()}))
        });
        let strokes: Vec<_> = strokes.collect();
        let actions = json!([{"type": "key", "id": "keyboard", "actions": strokes}]);
        self.post("/actions", json!({ "actions": actions }));
    }

    fn command(&self, name: &str, parameters: &Value) {
        self.post("/goog/cdp/execute", json!({"cmd": name, "params": parameters}));
    }

    /// Makes the window this many CSS pixels wide, whatever the platform's smallest window is.
    pub(crate) fn resize(&self, width: u32, height: u32) {
        let parameters =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.command("Emulation.setDeviceMetricsOverride", &parameters);
    }

    /// What a script's `return` gives.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.post("/execute/sync", json!({"script": script, "args": []}))
    }

    /// What a script hands to its last argument, a function.
    pub(crate) fn run_async(&self, script: &str) -> Value {
        self.post("/execute/async", json!({"script": script, "args": []}))
    }

    /// Asks until a script returns true, for half a minute at most: the CPUs may be busy.
    #[track_caller]
    pub(crate) fn wait_until(&self, script: &str) {
        for _ in 0..300 {
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

    /// The addresses that the page at `page` requested since the last call, and what failed of them;
    /// the browser's own new tab has requests too.
    pub(crate) fn requests(&self, page: &str) -> (Vec<String>, Vec<String>) {
        let (mut asked, mut failed) = (Vec::new(), Vec::new());
        for entry in self.log("performance") {
            let event: Value = serde_json::from_str(entry["message"].as_str().unwrap()).unwrap();
            let (method, about) = (&event["message"]["method"], &event["message"]["params"]);
            let is_ours = |url: &Value| url.as_str().is_some_and(|url| url.starts_with(page));
            if method == "Network.requestWillBeSent" && is_ours(&about["documentURL"]) {
                asked.push(about["request"]["url"].as_str().unwrap().to_owned());
            }
            let response = &about["response"];
            if method == "Network.responseReceived"
                && is_ours(&response["url"])
                && response["status"].as_u64() >= Some(400)
            {
                failed.push(format!("{} {}", response["status"], response["url"]));
            }
        }
        (asked, failed)
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
        for _ in 0..300 {
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
