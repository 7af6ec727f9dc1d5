//! The pictures of the page are of the page as it is: digests beside them say of what they were made.

use std::collections::BTreeSet;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::recorded::{read, serving};

const PICTURES: &str = "dashboards/pictures.json";
/// Files of the page that a browser draws.
const DRAWN: [&str; 3] = ["index.html", "page.css", "page.js"];
/// What is told of the moment, in the words of this version.
const TOLD: [&str; 4] = ["headline", "verdict", "usage", "explanation"];

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

#[tokio::test]
async fn pictures_are_of_the_page_as_it_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let pictures = fs::read(root.join(PICTURES)).unwrap();
    let pictures: Vec<Value> = serde_json::from_slice(&pictures).unwrap();
    let mut made_of = String::new();
    let files = DRAWN.map(|name| format!("dashboards/web/dist/{name}"));
    let makers = [PICTURES, "xtask/src/picture.rs"].map(ToOwned::to_owned);
    let recordings = pictures.iter().map(|picture| text(&picture["recording"]).to_owned());
    for name in makers.into_iter().chain(files).chain(recordings.collect::<BTreeSet<_>>()) {
        let sum = sha256(&fs::read(root.join(&name)).unwrap());
        writeln!(made_of, "{sum}  {name}").unwrap();
    }
    for picture in &pictures {
        let [file, recording, at] = ["file", "recording", "at"].map(|key| text(&picture[key]));
        assert!(root.join(file).exists(), "{file} is missing: run `cargo xtask picture`");
        let router = serving(&root.join(recording), None).await;
        let snapshot = read(&router, &format!("/api/v1/snapshot?at={at}")).await;
        for name in TOLD {
            let sum = sha256(snapshot[name].to_string().as_bytes());
            writeln!(made_of, "{sum}  {name} in {file}").unwrap();
        }
    }
    let beside = root.join("docs/pictures.sha256");
    if env::var_os("ISOBAR_PICTURE").is_some_and(|how| how == "made") {
        return fs::write(beside, made_of).unwrap();
    }
    let kept = fs::read_to_string(beside).unwrap_or_default();
    let changed: Vec<_> =
        made_of.lines().filter(|line| !kept.lines().any(|of| of == *line)).collect();
    assert_eq!(changed, [""; 0], "pictures are old: run `cargo xtask picture`");
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}
