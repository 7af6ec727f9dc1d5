//! The disk's files and the swap that a scenario asks for.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use rustix::fs::statvfs;

use crate::amount::Memory;
use crate::form::Form;
use crate::form::group::Swap;
use crate::shell::quietly;

/// Where the disk is.
const DISK: &str = "/disk";
/// What the file that a large one is made of takes, and more.
const MARGIN: u64 = 64 << 20;

/// The files that the scenario needs, on a disk that is formatted once a boot.
pub(super) fn make_files(form: &Form) -> Result<()> {
    if form.file.is_empty() {
        return Ok(());
    }
    if !Path::new(DISK).exists() {
        fs::create_dir(DISK)?;
        quietly(Command::new("mke2fs").args(["-F", "-i", "65536", "/dev/vda"]))?;
        quietly(Command::new("mount").args(["-t", "ext4", "/dev/vda", DISK]))?;
    }
    for file in &form.file {
        let (path, count) = (file.path.get_ref(), file.size.0 >> 20);
        if fs::metadata(path).is_ok_and(|there| there.len() >= file.size.0) {
            continue;
        }
        make_room(form, file.size.0)?;
        let mut dd = Command::new("dd");
        dd.args(["if=/bin/lab", "bs=1M", "count=8"]).arg(format!("of={path}.part"));
        quietly(&mut dd)?;
        // Real bytes, not holes: a hole is never read from the disk.
        let mut repeat = Command::new("sh");
        let script =
            format!("for i in $(seq 0 8 {count}); do cat {path}.part; done >{path} && sync");
        quietly(repeat.args(["-c", &script]))?;
        fs::remove_file(format!("{path}.part"))?;
    }
    Ok(())
}

/// Removes what scenarios before this one have left, if the disk has no `size` more.
fn make_room(form: &Form, size: u64) -> Result<()> {
    let is_asked =
        |path: &Path| form.file.iter().any(|file| Path::new(file.path.get_ref()) == path);
    let free = statvfs(DISK)?;
    if free.f_bavail * free.f_frsize > size + MARGIN {
        return Ok(());
    }
    for entry in fs::read_dir(DISK)? {
        let entry = entry?;
        if entry.file_type()?.is_file() && !is_asked(&entry.path()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Makes swap of what the scenario asks for; which device.
pub(super) fn swap_on(swap: Swap) -> Result<&'static str> {
    let device = match swap {
        Swap::Zram(Memory(size)) => {
            let file = "/sys/block/zram0/disksize";
            fs::write(file, size.to_string()).with_context(|| format!("cannot write to {file}"))?;
            quietly(Command::new("mkswap").arg("/dev/zram0"))?;
            "/dev/zram0"
        }
        Swap::Disk(Memory(size)) => {
            let kib = (size >> 10).to_string();
            quietly(Command::new("mkswap").args(["/dev/vdb", &kib]))?;
            "/dev/vdb"
        }
    };
    quietly(Command::new("swapon").arg(device))?;
    Ok(device)
}

/// Takes it away again.
pub(super) fn swap_off(device: &'static str) -> Result<()> {
    quietly(Command::new("swapoff").arg(device))?;
    if device == "/dev/zram0" {
        fs::write("/sys/block/zram0/reset", "1").context("cannot reset /dev/zram0")?;
    }
    Ok(())
}
