//! cargo-fuzz, which knows the flags of an instrumented build, and what libFuzzer is built with.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::apt;
use crate::build;
use crate::cache::Cache;
use isobar_lab::shell::{found, quietly, step};

/// Fixed, so that each clone builds with the same flags.
const VERSION: &str = "0.13.2";

/// What builds the fuzz targets.
pub(crate) struct Fuzzer {
    /// The directory of `cargo-fuzz`.
    pub(crate) bin: PathBuf,
    /// What the targets are built for: this machine.
    pub(crate) triple: String,
    /// This compiler comes with the address sanitizer's runtime. Its own flag for it is for
    /// nightly compilers alone, which RUSTC_BOOTSTRAP=1 answers; the runtime needs no rust-src.
    pub(crate) has_asan: bool,
}

/// Finds it all, or installs it.
pub(crate) fn ready() -> Result<Fuzzer> {
    if found("c++").is_none() {
        apt::install(&["g++"], "libFuzzer is written in C++")?;
    }
    let root = Cache::open()?.keep(&format!("cargo-fuzz/{VERSION}"), |dir| {
        let mut cargo = build::cargo();
        cargo.args(["install", "cargo-fuzz", "--version", VERSION, "--locked", "--root"]);
        step(&format!("cargo-fuzz {VERSION}"), || quietly(cargo.arg(dir)))?;
        Ok(())
    })?;
    let about = quietly(Command::new("rustc").arg("-vV"))?;
    let triple = about.lines().find_map(|line| line.strip_prefix("host: "));
    let triple = triple.context("rustc does not say what it builds for")?.to_owned();
    let sysroot = quietly(Command::new("rustc").args(["--print", "sysroot"]))?;
    let libraries = Path::new(sysroot.trim()).join("lib/rustlib").join(&triple).join("lib");
    let names = std::fs::read_dir(libraries).into_iter().flatten().flatten();
    let has_asan =
        names.map(|file| file.file_name()).any(|n| n.to_string_lossy().ends_with("_rt.asan.a"));
    Ok(Fuzzer { bin: root.join("bin"), triple, has_asan })
}
