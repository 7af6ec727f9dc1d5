//! The page of an incident, opened as a file.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::kept::keep;
use crate::page::browser;

#[test]
fn incident_page_needs_nothing() {
    let Some(browser) = browser() else { return };
    let dir = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data");
    keep(&data.join("recordings/judged-leak-6.12.isobar"), dir.path());
    let file = dir.path().join("incident.html");
    let mut isobar = Command::new(env!("CARGO_BIN_EXE_isobar"));
    isobar.args(["incidents", "export", "latest", "--html", "--dir"]).arg(dir.path());
    assert!(isobar.arg("-o").arg(&file).status().unwrap().success());

    let url = format!("file://{}", file.display());
    browser.open(&url);
    let shown = "return document.querySelector('.answers')?.innerText.includes('shop/leak')";
    browser.wait_until(shown);
    assert_eq!(browser.run("return document.scripts.length"), 0);
    assert_eq!(browser.run("return document.querySelectorAll('svg path.line').length > 5"), true);
    for (scheme, ground) in [("light", "rgb(245, 246, 248)"), ("dark", "rgb(15, 20, 27)")] {
        browser.prefer(scheme);
        let got = browser.run("return getComputedStyle(document.body).backgroundColor");
        assert_eq!(got, json!(ground), "{scheme}");
    }
    for width in [360, 1280] {
        browser.resize(width, 800);
        let over = browser.run(
            "const page = document.documentElement; return page.scrollWidth - page.clientWidth",
        );
        assert_eq!(over, 0, "{width} pixels");
    }
    let (asked, _) = browser.requests("file://");
    assert_eq!(asked, [url], "it requests something beside itself");
    assert_eq!(browser.log("browser"), Vec::<Value>::new());
}
