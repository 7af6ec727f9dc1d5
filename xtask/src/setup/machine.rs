//! What a virtual machine is made of but for its kernel: QEMU, and a busybox for its disk.

use std::path::PathBuf;

use anyhow::{Result, bail};
use isobar_lab::machine::Machine;

use super::apt;
use super::archive::Archive;
use crate::cache::Cache;
use isobar_lab::shell::{found, step};

/// Finds both, or fetches them.
pub(super) fn ready(cache: &Cache) -> Result<Machine> {
    if !cfg!(target_arch = "x86_64") {
        bail!("the virtual machines are x86_64 and share their programs with the host");
    }
    let name = "qemu-system-x86_64";
    if found(name).is_none() {
        apt::install(&["qemu-system-x86"], "the virtual machines need QEMU for x86_64")?;
    }
    let Some(qemu) = found(name) else { bail!("there is no {name} in PATH") };
    let busybox = match cache.kept("busybox") {
        Some(kept) => kept,
        None => fetch_busybox(cache)?,
    };
    let (busybox, cache) = (busybox.join("bin/busybox"), cache.root().to_owned());
    Ok(Machine { qemu, busybox, cache, promtool: None, peers: None })
}

fn fetch_busybox(cache: &Cache) -> Result<PathBuf> {
    let archive = Archive::open(cache)?;
    let package = ["busybox-static".to_owned()];
    if archive.names("^busybox-static$")? != package {
        archive.update()?;
    }
    step("busybox", || cache.keep("busybox", |dir| archive.unpack(&package, dir)))
}
