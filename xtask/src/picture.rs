//! `cargo xtask picture`: the picture of the page in the README, made anew from a recording.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, bail};
use isobar_lab::shell::{loudly, quietly, root};

use crate::setup;

/// A pod takes what all pods may have, and isobar has just decided what it would do.
const RECORDING: &str = "tests/data/recordings/judged-leak-6.12.isobar";
const MOMENT: &str = "2026-11-22T10:13:50Z";
const PICTURE: &str = "docs/page.png";
const SIZE: &str = "--window-size=1280,1650";
/// Milliseconds of the page's own time, in which everything that it asks for has come.
const WITHIN: &str = "--virtual-time-budget=10000";

/// Make docs/page.png anew: the page of a recording, through the program and chromium.
#[derive(clap::Args)]
pub(crate) struct Picture {}

/// Ends with the value.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Picture {
    pub(crate) fn run(self) -> Result<ExitCode> {
        setup::browser()?;
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        // To replay, the program needs no kernel side.
        let build = ["build", "--package", "isobar", "--bin", "isobar"];
        loudly(Command::new(&cargo).current_dir(root()).args(build))?;
        let (_server, address) = serve()?;
        let profile = root().join("target/picture");
        let mut chromium = Command::new("chromium");
        chromium.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
        chromium.args(["--no-first-run", "--force-device-scale-factor=1", SIZE, WITHIN]);
        chromium.arg(format!("--user-data-dir={}", profile.display()));
        chromium.arg(format!("--screenshot={}", root().join(PICTURE).display()));
        quietly(chromium.arg(format!("{address}#now?at={MOMENT}")))?;
        fs::remove_dir_all(&profile).context("cannot remove the browser's profile")?;
        // The test that tells an old picture keeps of what this one was made.
        let mut keep = Command::new(&cargo);
        keep.args(["test", "--quiet", "--package", "isobar", "--test", "pure", "--", "picture_is"]);
        loudly(keep.current_dir(root()).env("ISOBAR_PICTURE", "made"))?;
        println!("{PICTURE}: {} bytes", fs::metadata(root().join(PICTURE))?.len());
        Ok(ExitCode::SUCCESS)
    }
}

/// The program with the recording, and the address of its page.
fn serve() -> Result<(Server, String)> {
    let mut isobar = Command::new(root().join("target/debug/isobar"));
    isobar.current_dir(root()).args(["replay", RECORDING, "--listen", "127.0.0.1:0"]);
    let mut server = Server(isobar.stderr(Stdio::piped()).spawn()?);
    let said = server.0.stderr.take().context("its stderr is a pipe")?;
    for line in BufReader::new(said).lines() {
        let line = line?;
        if let Some(at) = line.find("http://") {
            return Ok((server, line[at..].to_owned()));
        }
    }
    bail!("isobar replay has ended without an address")
}
