//! A compiler with the source of its own `core`, and the linker that fits its LLVM.
//! Two ways: a rustup toolchain with rust-src, or Debian's packages for web browsers.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::apt;
use crate::cache::Cache;
use isobar_lab::shell::{found, path_with, quietly, step};

/// LLVM that both linkers below are made for; rustc's own must be no other.
const LLVM: &str = "22";

/// Debian's Rust for building browsers: newer than the release's, in its default suites.
const DEBIAN: [&str; 5] =
    ["rustc-web", "cargo-web", "rust-web-src", "llvm-22-dev", "libpolly-22-dev"];

/// What compiles and links the kernel side.
pub(crate) struct Toolchain {
    compiler: Compiler,
    /// Version, for people.
    rustc: String,
    /// The directory of `bpf-linker`.
    linker: PathBuf,
}

enum Compiler {
    /// A toolchain of rustup's, by name.
    Rustup(String),
    /// /usr/bin/rustc.
    Debian,
}

impl fmt::Display for Toolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.compiler {
            Compiler::Rustup(name) => write!(f, "{} (rustup's {name})", self.rustc),
            Compiler::Debian => write!(f, "{} (Debian's)", self.rustc),
        }
    }
}

impl Toolchain {
    /// A cargo that compiles with this toolchain, whatever toolchain runs xtask.
    pub(crate) fn cargo(&self) -> Result<Command> {
        let mut cargo = self.compiler.cargo();
        let dirs: &[&Path] = match self.compiler {
            Compiler::Rustup(_) => &[&self.linker],
            Compiler::Debian => &[&self.linker, Path::new("/usr/bin")],
        };
        cargo.env("PATH", path_with(dirs)?);
        // `-Z build-std` on a stable compiler.
        cargo.env("RUSTC_BOOTSTRAP", "1");
        Ok(cargo)
    }
}

impl Compiler {
    fn cargo(&self) -> Command {
        let mut cargo = match self {
            Self::Rustup(_) => Command::new("cargo"),
            Self::Debian => Command::new("/usr/bin/cargo"),
        };
        clean(&mut cargo);
        match self {
            Self::Rustup(name) => cargo.env("RUSTUP_TOOLCHAIN", name),
            Self::Debian => cargo.env("RUSTC", "/usr/bin/rustc"),
        };
        cargo
    }

    fn rustc(&self) -> Command {
        let mut rustc = match self {
            Self::Rustup(_) => Command::new("rustc"),
            Self::Debian => Command::new("/usr/bin/rustc"),
        };
        clean(&mut rustc);
        if let Self::Rustup(name) = self {
            rustc.env("RUSTUP_TOOLCHAIN", name);
        }
        rustc
    }

    /// Its version, if it can build the kernel side.
    fn fits(&self) -> Option<String> {
        let sysroot = quietly(self.rustc().args(["--print", "sysroot"])).ok()?;
        let library = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library");
        let about = quietly(self.rustc().arg("-vV")).ok()?;
        let llvm = about.lines().find_map(|l| l.strip_prefix("LLVM version: "))?;
        let fits = library.is_dir() && llvm.split('.').next() == Some(LLVM);
        let version = about.lines().next()?.to_owned();
        fits.then_some(version)
    }
}

/// Cargo tells what it runs which compiler to use and where its libraries are; here that is
/// another one.
fn clean(command: &mut Command) {
    let ours = ["RUSTC", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "LD_LIBRARY_PATH", "CARGO"];
    for name in ours.into_iter().chain(["RUSTUP_TOOLCHAIN", "CARGO_TARGET_DIR"]) {
        command.env_remove(name);
    }
}

/// Finds the toolchain, or installs it.
pub(crate) fn ready() -> Result<Toolchain> {
    let cache = Cache::open()?;
    if let Some((compiler, rustc)) = of_rustup() {
        let linker = linker_for_rustup(&cache, &compiler, &rustc)?;
        return Ok(Toolchain { compiler, rustc, linker });
    }
    let why = "the kernel side needs a Rust compiler with its own source and LLVM 22 \
               (`rustup toolchain install 1.95.0 --component rust-src` gives one)";
    let compiler = Compiler::Debian;
    if found("apt-get").is_none() {
        bail!("{why}");
    }
    apt::install(&DEBIAN, why)?;
    let rustc = compiler.fits().with_context(|| {
        format!("{why}: /usr/bin/rustc does not fit, although rustc-web is installed")
    })?;
    let linker = linker_for_debian(&cache, &compiler)?;
    Ok(Toolchain { compiler, rustc, linker })
}

/// The first of rustup's toolchains that fits; the one in use comes first.
fn of_rustup() -> Option<(Compiler, String)> {
    let mut list = Command::new("rustup");
    let list = quietly(list.args(["toolchain", "list"])).ok()?;
    let in_use = std::env::var("RUSTUP_TOOLCHAIN").ok();
    let names = list.lines().filter_map(|line| line.split_whitespace().next());
    in_use
        .into_iter()
        .chain(names.map(str::to_owned))
        .map(Compiler::Rustup)
        .find_map(|compiler| compiler.fits().map(|version| (compiler, version)))
}

fn linker_for_rustup(cache: &Cache, compiler: &Compiler, rustc: &str) -> Result<PathBuf> {
    // It is bound to the LLVM inside the toolchain, so it is kept per compiler.
    let of: String = rustc.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '.').collect();
    let root = cache.keep(&format!("bpf-linker/0.10.3-{of}"), |dir| {
        let mut cargo = compiler.cargo();
        cargo.args(["install", "bpf-linker", "--version", "0.10.3", "--locked", "--root"]);
        step("bpf-linker 0.10.3", || quietly(cargo.arg(dir)))?;
        Ok(())
    })?;
    Ok(root.join("bin"))
}

fn linker_for_debian(cache: &Cache, compiler: &Compiler) -> Result<PathBuf> {
    let root = cache.keep("bpf-linker/0.13.0-llvm22", |dir| {
        let mut cargo = compiler.cargo();
        cargo.env("LLVM_PREFIX", "/usr/lib/llvm-22");
        cargo.args(["install", "bpf-linker", "--version", "0.13.0", "--locked"]);
        cargo.args(["--no-default-features", "--features", "llvm-22", "--root"]);
        step("bpf-linker 0.13.0", || quietly(cargo.arg(dir)))?;
        Ok(())
    })?;
    Ok(root.join("bin"))
}
