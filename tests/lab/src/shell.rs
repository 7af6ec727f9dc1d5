//! Other programs: run without standard input, heard only when they fail, or passed through.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::clock::Since;

/// Says what is being done and, in the same line, how long it took.
pub fn step<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    eprint!("{what} ... ");
    // A console that cannot be written to is no reason to stop.
    let _ = std::io::stderr().flush();
    let since = Since::now();
    let done = work();
    match &done {
        Ok(_) => eprintln!("{:.1} s", since.elapsed().as_secs_f64()),
        Err(_) => eprintln!("failed after {:.1} s", since.elapsed().as_secs_f64()),
    }
    done
}

/// Runs `command` and returns what it printed; its last words are in the error if it fails.
pub fn quietly(command: &mut Command) -> Result<String> {
    let name = spelled(command);
    let out =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {name}"))?;
    if !out.status.success() {
        let both = [out.stdout, out.stderr].concat();
        bail!("{name}: {}\n{}", out.status, tail(&String::from_utf8_lossy(&both), 30));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// Runs `command` with its output passed through.
pub fn loudly(command: &mut Command) -> Result<()> {
    let name = spelled(command);
    let status =
        command.stdin(Stdio::null()).status().with_context(|| format!("cannot start {name}"))?;
    if !status.success() {
        bail!("{name}: {status}");
    }
    Ok(())
}

/// The command as one would type it.
pub fn spelled(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// The last `n` lines.
pub fn tail(text: &str, n: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(n)..].join("\n")
}

/// Where `program` lies in PATH.
pub fn found(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    // Debian keeps some programs where an ordinary user's PATH does not look.
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|dir| dir.join(program))
        .find(|file| file.is_file())
}

/// PATH with `first` before everything else.
pub fn path_with(first: &[&Path]) -> Result<std::ffi::OsString> {
    let old = std::env::var_os("PATH").unwrap_or_default();
    let dirs = first.iter().map(|p| p.to_path_buf()).chain(std::env::split_paths(&old));
    Ok(std::env::join_paths(dirs)?)
}

/// The root of the repository that this program was built from.
pub fn root() -> &'static Path {
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    above.nth(2).expect("tests/lab lies below the workspace")
}
