//! The agents that isobar is compared with: Debian's packages and all that they need, unpacked into
//! the image of a disk that virtual machines read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use isobar_lab::shell::{found, quietly, step};

use super::apt;
use super::archive::Archive;
use crate::cache::Cache;

/// The agents, and the shell that starts them as their packages do.
const PACKAGES: [&str; 5] = ["earlyoom", "nohang", "oomd", "systemd-oomd", "dash"];
/// Where the guest's own file systems are mounted.
const MOUNTED: [&str; 5] = ["dev", "proc", "sys", "tmp", "run"];
/// What no program reads.
const NEEDLESS: [&str; 4] =
    ["usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/perl"];

/// Finds the image, or makes it.
pub(crate) fn ready() -> Result<PathBuf> {
    let cache = Cache::open()?;
    let dir = match cache.kept("peers") {
        Some(kept) => kept,
        None => make(&cache)?,
    };
    Ok(dir.join("image"))
}

fn make(cache: &Cache) -> Result<PathBuf> {
    if found("mke2fs").is_none() {
        apt::install(&["e2fsprogs"], "isobar's peers lie on a disk of their own")?;
    }
    let archive = Archive::open(cache)?;
    archive.update()?;
    step("isobar's peers (earlyoom, systemd-oomd, oomd, nohang)", || {
        cache.keep("peers", |dir| fill(&archive, dir))
    })
}

fn fill(archive: &Archive, dir: &Path) -> Result<()> {
    let (all, image) = (dir.join("all"), dir.join("image"));
    archive.unpack_with_needs(&PACKAGES, &all)?;
    for needless in NEEDLESS.map(|path| all.join(path)).iter().filter(|path| path.exists()) {
        fs::remove_dir_all(needless)?;
    }
    for mounted in MOUNTED {
        fs::create_dir_all(all.join(mounted))?;
    }
    // Twice what is in it, and no journal: nothing is ever written there.
    let used = quietly(Command::new("du").args(["--summarize", "--block-size=1M"]).arg(&all))?;
    let mib: u64 = used.split_whitespace().next().unwrap_or_default().parse()?;
    let mut mke2fs = Command::new(found("mke2fs").unwrap_or_else(|| "mke2fs".into()));
    mke2fs.args(["-q", "-t", "ext4", "-O", "^has_journal", "-d"]).arg(&all).arg(&image);
    quietly(mke2fs.arg(format!("{}M", 2 * mib)))?;
    fs::remove_dir_all(all)?;
    Ok(())
}
