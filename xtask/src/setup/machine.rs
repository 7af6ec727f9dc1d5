//! What a virtual machine is made of but for its kernel: QEMU, and a busybox for its disk.

use anyhow::{Result, bail};
use isobar_lab::machine::Machine;

use super::apt;
use super::archive::{GUESTS, unpacked};
use crate::cache::Cache;
use isobar_lab::shell::found;

/// Finds both, or fetches them.
pub(super) fn ready() -> Result<Machine> {
    if !cfg!(target_arch = "x86_64") {
        bail!("the virtual machines are x86_64 and share their programs with the host");
    }
    let name = "qemu-system-x86_64";
    if found(name).is_none() {
        apt::install(&["qemu-system-x86"], "the virtual machines need QEMU for x86_64")?;
    }
    let Some(qemu) = found(name) else { bail!("there is no {name} in PATH") };
    let busybox = unpacked("busybox", "busybox-static", GUESTS)?.join("bin/busybox");
    let cache = Cache::open()?.root().to_owned();
    Ok(Machine { qemu, busybox, cache, promtool: None, peers: None })
}
