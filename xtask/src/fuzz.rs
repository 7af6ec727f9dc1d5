//! `cargo xtask fuzz`: fuzzes every parser of untrusted text.
//! What it finds stays below `target/fuzz`, the inputs that are worth keeping go into an archive in
//! `tests/data/fuzz`, from where every test run feeds them to their parser again.

mod corpus;
mod target;

use std::fs;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use self::target::Target;
use crate::build;
use crate::setup::{self, Fuzzer};
use isobar_lab::shell::{loudly, path_with, root};

/// Fuzz the parsers of untrusted text with random input, one after the other.
#[derive(clap::Args)]
pub(crate) struct Fuzz {
    /// Which; without, all.
    targets: Vec<String>,
    /// For how long each; with 0, only what is already known, which is then minimised.
    #[arg(long, default_value_t = 10)]
    minutes: u32,
}

impl Fuzz {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let all = names()?;
        if let Some(unknown) = self.targets.iter().find(|name| !all.contains(name)) {
            bail!("no target {unknown}: there are {}", all.join(", "));
        }
        let names = if self.targets.is_empty() { all } else { self.targets };
        let fuzzer = setup::fuzzer()?;
        build(&fuzzer)?;
        let mut n_findings = 0;
        for name in &names {
            let target = Target::new(name, &fuzzer.triple);
            for fixed in target.drop_what_passes()? {
                println!("{name}: no longer fails: {}", fixed.display());
            }
            let seen = target.feed(self.minutes)?;
            for slow in target.drop_what_passes()? {
                println!("{name}: failed, and passes now that it is alone: {}", slow.display());
            }
            let kept = target.keep()?;
            println!("{name}: {seen}, corpus {kept}");
            for finding in target.findings()? {
                n_findings += 1;
                println!("{name}: FOUND {}", finding.display());
                println!("    again by: {}", target.command_for(&finding));
            }
        }
        println!("{} targets, {n_findings} findings", names.len());
        Ok(if n_findings == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Each target is a file.
fn names() -> Result<Vec<String>> {
    let dir = root().join("fuzz/targets");
    let entries = fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))?;
    let stem = |name: String| name.strip_suffix(".rs").map(str::to_owned);
    let names = entries.flatten().filter_map(|e| stem(e.file_name().to_string_lossy().into()));
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    Ok(names)
}

fn build(fuzzer: &Fuzzer) -> Result<()> {
    let sanitizer = if fuzzer.has_asan { "address" } else { "none" };
    eprintln!("building the fuzz targets (sanitizer: {sanitizer})");
    let mut cargo = build::cargo();
    cargo.env("PATH", path_with(&[&fuzzer.bin])?);
    // The flags of coverage and sanitizer are for nightly compilers; they work in stable ones too.
    cargo.env("RUSTC_BOOTSTRAP", "1").env_remove("CARGO_ENCODED_RUSTFLAGS");
    cargo.args(["fuzz", "build", "--fuzz-dir", "fuzz", "--target-dir", "target/fuzz"]);
    cargo.args(["--sanitizer", sanitizer, "--target", &fuzzer.triple]);
    loudly(&mut cargo).context("the fuzz targets do not build")
}
