//! Names of segments: `FILE`, `FILE.1`, `FILE.2` .., and of what is to take the place of one.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The segments of the recording at `path` that exist, oldest first.
pub(in crate::record) fn existing(path: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let Some(name) = path.file_name() else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for entry in fs::read_dir(dir_of(path))? {
        let file = entry?.file_name();
        if let Some(n) = number(&file, name) {
            all.push((n, segment(path, n)));
        }
    }
    all.sort_unstable();
    Ok(all)
}

pub(super) fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|dir| *dir != Path::new("")).unwrap_or(Path::new("."))
}

pub(super) fn paths(path: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(existing(path)?.into_iter().map(|(_, path)| path).collect())
}

/// `FILE` is 0, `FILE.7` is 7; `None` for any other name.
fn number(file: &OsStr, name: &OsStr) -> Option<u64> {
    if file == name {
        return Some(0);
    }
    let rest = file.as_encoded_bytes().strip_prefix(name.as_encoded_bytes())?;
    let digits = std::str::from_utf8(rest.strip_prefix(b".")?).ok()?;
    let is_plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
    is_plain.then(|| digits.parse().ok()).flatten()
}

pub(super) fn segment(path: &Path, n: u64) -> PathBuf {
    match n {
        0 => path.into(),
        n => beside(path, &format!(".{n}")),
    }
}

/// What is to take the place of a segment, while it is written.
pub(super) fn thinner(path: &Path) -> PathBuf {
    beside(path, ".thinner")
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}
