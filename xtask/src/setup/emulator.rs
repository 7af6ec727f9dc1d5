//! What runs a program of another architecture here: Debian's QEMU for single programs, unpacked and
//! not installed, because it would be started by the kernel from then on.

use std::path::PathBuf;

use anyhow::Result;
use isobar_lab::shell::found;

use super::archive::{GUESTS, unpacked};
use crate::dist::target::Target;

const NAME: &str = "qemu-user-static";

/// Finds it, or fetches it.
pub(crate) fn ready(target: Target) -> Result<PathBuf> {
    let program = format!("qemu-{target}-static");
    if let Some(program) = found(&program) {
        return Ok(program);
    }
    Ok(unpacked(NAME, NAME, GUESTS)?.join("usr/bin").join(program))
}
