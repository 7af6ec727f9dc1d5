//! Installs a package as dpkg does, on this machine's own files, none of which change.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use isobar_lab::shell::found;

/// Makes the machine, in a mount namespace of its own.
const MACHINE: &str = include_str!("installed/machine.sh");
/// Runs in it.
const TRIAL: &str = include_str!("installed/trial.sh");

/// Installs `old`, upgrades it to `new`, removes and purges that. `dir` is for mounts, and is made.
/// `None`, with the reason printed, where that cannot be tried.
pub(super) fn tried(old: &Path, new: &Path, dir: &Path) -> Result<Option<()>> {
    if found("dpkg").is_none() || !rustix::process::geteuid().is_root() {
        println!("skipped: installing the package needs root and dpkg");
        return Ok(None);
    }
    fs::create_dir_all(dir)?;
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "sh", "-c", MACHINE, "sh"]).arg(dir).args([old, new]);
    shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut shell = shell.spawn().context("cannot start unshare")?;
    shell.stdin.take().context("no stdin")?.write_all(TRIAL.as_bytes())?;
    let ended = shell.wait_with_output()?;
    fs::remove_dir(dir)?;
    if ended.status.success() {
        return Ok(Some(()));
    }
    bail!("{}: {}", new.display(), String::from_utf8_lossy(&ended.stderr).trim())
}
