//! Files that a verb is given: `-` is standard input.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use isobar::config::pods::{self, Manifest};
use isobar::config::{Invalid, yaml};

/// A file that was named and cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {name}")]
pub(crate) struct Unreadable {
    name: String,
    source: io::Error,
}

/// What messages call the file, and its bytes.
pub(crate) fn read(file: &Path) -> Result<(String, Vec<u8>)> {
    let name = file.display().to_string();
    if name != "-" {
        return match fs::read(file) {
            Ok(bytes) => Ok((name, bytes)),
            Err(source) => Err(Unreadable { name, source }.into()),
        };
    }
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
    Ok((name, bytes))
}

/// What messages call the file, and the pods in it.
pub(crate) fn pods(file: &Path) -> Result<(String, Manifest)> {
    let (name, bytes) = read(file)?;
    let text = yaml::utf8(&bytes).map_err(|problem| Invalid::one(&name, problem))?;
    let manifest = pods::read(&name, text)?;
    Ok((name, manifest))
}
