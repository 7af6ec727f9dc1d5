//! Input files of verbs; `-` is standard input.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::Result;
use isobar::config;
use isobar::config::pods::{self, Manifest};
use isobar_core::recording::format::OPENING;
use rustix::fs::{FileType, fstat};

/// More is refused. 100,000 pods as kubectl prints them are below.
const LARGEST: u64 = 1 << 30;
/// The same of a device: what is typed on a terminal is less, and others have no end.
const OF_DEVICE: u64 = 1 << 20;

/// A file that the operator named and that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {name}")]
pub(crate) struct Unreadable {
    name: String,
    source: io::Error,
}

/// The file's name for messages, and its content.
pub(crate) fn read(file: &Path) -> Result<(String, Vec<u8>), Unreadable> {
    let name = file.display().to_string();
    let bytes = match name.as_str() {
        "-" => of(io::stdin().lock()),
        _ => File::open(file).and_then(of),
    };
    match bytes {
        Ok(bytes) => Ok((name, bytes)),
        Err(source) => Err(Unreadable { name, source }),
    }
}

fn of(from: impl io::Read + AsFd) -> io::Result<Vec<u8>> {
    let kind = FileType::from_raw_mode(fstat(&from)?.st_mode);
    let is_device = kind.is_char_device() || kind.is_block_device();
    match config::read_bounded(from, if is_device { OF_DEVICE } else { LARGEST }) {
        Err(why) if is_device => Err(io::Error::other(format!("it is a device, and {why}"))),
        read => read,
    }
}

/// The file's name for messages, and the pods in it.
pub(crate) fn pods(file: &Path) -> Result<(String, Manifest)> {
    let (name, bytes) = read(file)?;
    let manifest = pods::read(&name, &bytes)?;
    Ok((name, manifest))
}

/// Directories, compressed files, and those that begin with the header of a recording are no scenarios.
/// What a pipe gives is read only once.
pub(crate) fn is_recording(file: &Path) -> bool {
    const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
    let begin = || {
        let mut begin = Vec::new();
        let file = File::open(file).ok()?;
        file.take(OPENING.len() as u64).read_to_end(&mut begin).ok()?;
        Some(begin)
    };
    let is_begun = |begin: Vec<u8>| begin.starts_with(&MAGIC) || begin == OPENING.as_bytes();
    file.is_dir() || file.is_file() && begin().is_some_and(is_begun)
}

/// What was recorded, that a verb is about: the argument, or `-f`, as elsewhere.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct FileArg {
    /// The file of an incident, or of a recording where one is wanted, or the recording's directory.
    /// May be decompressed to JSON lines.
    #[arg(value_name = "FILE")]
    argument: Option<PathBuf>,
    /// The file as other verbs take it, in place of the argument.
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    option: Option<PathBuf>,
}

impl FileArg {
    pub(crate) fn path(&self) -> &Path {
        let named = self.argument.as_deref().or(self.option.as_deref());
        named.expect("clap asks for one of them")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_ends_also_where_a_device_does_not() {
        #[rustfmt::skip]
        let table = [
            ("/dev/null", None),
            ("/dev/zero", Some("it is a device, and larger than 1 MiB")),
        ];
        for (name, want) in table {
            let why = read(Path::new(name)).err().map(|why| why.source.to_string());
            assert_eq!(why.as_deref(), want, "{name}");
        }
    }
}
