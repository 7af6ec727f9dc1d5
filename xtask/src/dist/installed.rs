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
    let tried = told(&mut shell, TRIAL).with_context(|| new.display().to_string());
    fs::remove_dir(dir)?;
    tried.map(Some)
}

/// Has a shell read `script`. A shell that ends before it has read all says why.
fn told(shell: &mut Command, script: &str) -> Result<()> {
    shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut shell = shell.spawn().context("cannot start it")?;
    let written = shell.stdin.take().context("no stdin")?.write_all(script.as_bytes());
    let ended = shell.wait_with_output()?;
    if !ended.status.success() {
        bail!("{}: {}", ended.status, String::from_utf8_lossy(&ended.stderr).trim());
    }
    Ok(written?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn told_says_why_the_shell_ended() {
        // More than a pipe holds.
        let script = "#\n".repeat(100_000);
        #[rustfmt::skip]
        let table = [
            // what the shell does, error contains
            ("exec cat",                          None),
            ("echo no such device >&2; exit 32",  Some("no such device")),
            ("exec 0<&-",                         Some("pipe")),
        ];
        for (does, want) in table {
            let said = told(Command::new("sh").args(["-c", does]), &script);
            let said = said.err().map(|why| format!("{why:#}"));
            assert_eq!(said.is_some(), want.is_some(), "{does}: {said:?}");
            assert!(said.unwrap_or_default().contains(want.unwrap_or_default()), "{does}");
        }
    }
}
