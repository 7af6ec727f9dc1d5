//! docs/page.png is of the page as it is: a digest beside it says of what it was made.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::recorded::{read, serving};

const MAKER: &str = include_str!("../../xtask/src/picture.rs");
/// Files of the page that a browser draws.
const DRAWN: [&str; 3] = ["index.html", "page.css", "page.js"];
/// What is told of the moment, in the words of this version.
const TOLD: [&str; 4] = ["headline", "verdict", "usage", "explanation"];

/// The text of a constant of the picture's maker.
fn constant(name: &str) -> &'static str {
    let begin = format!("const {name}: &str = \"");
    MAKER.split_once(&begin).unwrap().1.split_once('"').unwrap().0
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

#[tokio::test]
async fn picture_is_of_the_page_as_it_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (recording, at) = (constant("RECORDING"), constant("MOMENT"));
    let mut made_of = format!("{}  xtask/src/picture.rs\n", sha256(MAKER.as_bytes()));
    let files = DRAWN.map(|name| format!("dashboards/web/dist/{name}"));
    for name in files.iter().map(String::as_str).chain([recording]) {
        let sum = sha256(&fs::read(root.join(name)).unwrap());
        writeln!(made_of, "{sum}  {name}").unwrap();
    }
    let router = serving(&root.join(recording), None).await;
    let snapshot = read(&router, &format!("/api/v1/snapshot?at={at}")).await;
    for name in TOLD {
        let sum = sha256(snapshot[name].to_string().as_bytes());
        writeln!(made_of, "{sum}  {name} at {at}").unwrap();
    }
    let beside = root.join("docs/page.sha256");
    if env::var_os("ISOBAR_PICTURE").is_some_and(|how| how == "made") {
        return fs::write(beside, made_of).unwrap();
    }
    let kept = fs::read_to_string(beside).unwrap_or_default();
    let changed: Vec<_> =
        made_of.lines().filter(|line| !kept.lines().any(|of| of == *line)).collect();
    assert_eq!(changed, [""; 0], "docs/page.png is old: run `cargo xtask picture`");
}
