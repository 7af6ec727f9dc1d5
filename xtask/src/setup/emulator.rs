//! What runs a program of another architecture here: Debian's QEMU for single programs, unpacked and
//! not installed, because it would be started by the kernel from then on.

use std::path::PathBuf;

use anyhow::Result;
use isobar_lab::shell::{found, step};

use super::archive::Archive;
use crate::cache::Cache;
use crate::dist::target::Target;

const NAME: &str = "qemu-user-static";

/// Finds it, or fetches it.
pub(super) fn ready(cache: &Cache, target: Target) -> Result<PathBuf> {
    let program = format!("qemu-{target}-static");
    if let Some(program) = found(&program) {
        return Ok(program);
    }
    let kept = match cache.kept(NAME) {
        Some(kept) => kept,
        None => {
            let archive = Archive::open(cache)?;
            archive.update()?;
            step(NAME, || cache.keep(NAME, |dir| archive.unpack(&[NAME.to_owned()], dir)))?
        }
    };
    Ok(kept.join("usr/bin").join(program))
}
