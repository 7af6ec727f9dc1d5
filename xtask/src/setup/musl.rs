//! What builds static binaries: Rust's library for musl, and a C compiler that knows musl's headers,
//! because ring and zstd are partly C. Rust brings musl itself and the start-up objects.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use super::apt;
use super::archive::unpacked;
use crate::dist::target::Target;
use isobar_lab::shell::{found, quietly, step};

const WHY: &str = "ring and zstd are partly C, which a static binary needs a compiler for";

/// The environment in which cargo builds for `target`.
pub(crate) struct Musl {
    pub(crate) target: Target,
    pub(crate) env: Vec<(String, String)>,
}

/// Finds it all, or installs it.
pub(crate) fn ready(target: Target) -> Result<Musl> {
    library(target.triple())?;
    let env = if Target::here() == Some(target) { native()? } else { cross(target)? };
    Ok(Musl { target, env })
}

/// Rust's own library for `triple`.
fn library(triple: &str) -> Result<()> {
    let mut rustc = Command::new("rustc");
    let dir = quietly(rustc.args(["--print", "target-libdir", "--target", triple]))?;
    if Path::new(dir.trim()).is_dir() {
        return Ok(());
    }
    if found("rustup").is_none() {
        bail!("this Rust compiler has no library for {triple}, and there is no rustup to add it");
    }
    step(&format!("rustup target add {triple}"), || {
        quietly(Command::new("rustup").args(["target", "add", triple]))
    })?;
    Ok(())
}

/// For this machine's own architecture, Debian's wrapper of its gcc, which the build scripts find.
fn native() -> Result<Vec<(String, String)>> {
    if found("musl-gcc").is_none() {
        apt::install(&["musl-tools"], WHY)?;
    }
    Ok(Vec::new())
}

/// For another one, Debian's cross compiler, made for glibc, with musl's headers in place of those.
fn cross(target: Target) -> Result<Vec<(String, String)>> {
    let gcc = format!("{}-gcc", target.gnu());
    if found(&gcc).is_none() {
        // Debian's names of packages have no underscores.
        apt::install(&[&format!("gcc-{}", target.gnu().replace('_', "-"))], WHY)?;
    }
    let headers = headers(target)?;
    let own = quietly(Command::new(&gcc).arg("-print-file-name=include"))?;
    let include = format!("-nostdinc -isystem {} -isystem {}", headers.display(), own.trim());
    let (triple, ar) = (target.triple().replace('-', "_"), format!("{}-ar", target.gnu()));
    let linker = format!("CARGO_TARGET_{}_LINKER", triple.to_uppercase());
    Ok(vec![
        (format!("CC_{triple}"), gcc.clone()),
        (format!("AR_{triple}"), ar),
        (format!("CFLAGS_{triple}"), include),
        (linker, gcc),
    ])
}

/// musl's headers for `target`, of Debian's package for that architecture.
fn headers(target: Target) -> Result<PathBuf> {
    let root = unpacked(&format!("musl/{target}"), "musl-dev", target.debian())?;
    Ok(root.join(format!("usr/include/{target}-linux-musl")))
}
