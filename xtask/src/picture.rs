//! `cargo xtask picture`: the pictures of the page in the README, made anew from recordings.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use isobar_lab::shell::{loudly, quietly, root};

use crate::setup;

/// Which pictures there are. The test that tells an old one reads it, too.
const PICTURES: &str = "dashboards/pictures.json";
/// Milliseconds of the page's own time, in which everything that it asks for has come.
const WITHIN: &str = "--virtual-time-budget=10000";

/// Make the pictures of the page anew, those in the README: of recordings, through the program and chromium.
#[derive(clap::Args)]
pub(crate) struct Picture {}

/// One picture of one view.
#[derive(Deserialize)]
struct Shot {
    file: String,
    recording: String,
    view: String,
    /// The moment of the recording, in RFC 3339.
    at: String,
    /// Width and height in pixels.
    size: String,
}

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
        let shots: Vec<Shot> = serde_json::from_str(&fs::read_to_string(root().join(PICTURES))?)
            .with_context(|| format!("cannot read {PICTURES}"))?;
        for shot in &shots {
            shot.take()?;
        }
        // The test that tells an old picture keeps of what this one was made.
        let mut keep = Command::new(&cargo);
        keep.args([
            "test",
            "--quiet",
            "--package",
            "isobar",
            "--test",
            "pure",
            "--",
            "pictures_are",
        ]);
        loudly(keep.current_dir(root()).env("ISOBAR_PICTURE", "made"))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Shot {
    fn take(&self) -> Result<()> {
        let Self { file, recording, view, at, size } = self;
        let (_server, address) = serve(recording)?;
        let (profile, png) = (root().join("target/picture"), root().join(file));
        let mut chromium = Command::new("chromium");
        chromium.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
        chromium.args(["--no-first-run", "--force-device-scale-factor=1", WITHIN]);
        chromium.arg(format!("--window-size={size}"));
        chromium.arg(format!("--user-data-dir={}", profile.display()));
        chromium.arg(format!("--screenshot={}", png.display()));
        quietly(chromium.arg(format!("{address}#{view}?at={at}")))?;
        fs::remove_dir_all(&profile).context("cannot remove the browser's profile")?;
        println!("{file}: {} bytes", fs::metadata(&png)?.len());
        Ok(())
    }
}

/// The program with a recording, and the address of its page.
fn serve(recording: &str) -> Result<(Server, String)> {
    let mut isobar = Command::new(root().join("target/debug/isobar"));
    isobar.current_dir(root()).args(["replay", recording, "--listen", "127.0.0.1:0"]);
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
