//! The inputs of a parser that are in the repository. Those that somebody wrote or recorded are
//! files, in a directory of the parser's name, and stay; each name tells what the input is. Those
//! that were found are in one archive beside it, named by their hash, and are replaced by whatever
//! now covers most with least.

use std::cmp::Reverse;
use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use isobar_lab::shell::root;

// `tests/pure/corpus.rs` holds every corpus to these.
/// Inputs of one corpus.
const MOST_INPUTS: usize = 100;
/// Bytes of one corpus, before they are compressed.
const MOST_BYTES: u64 = 32 << 10;

/// A large input.
const LARGE: u64 = 400;

/// zstd's strongest ordinary level: an archive is written seldom and cloned often.
const LEVEL: i32 = 19;

/// Where the inputs of one parser are.
pub(super) struct Corpus {
    named: PathBuf,
    found: PathBuf,
}

/// What is in the repository now.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kept {
    inputs: usize,
    bytes: u64,
    /// Found, and left out for want of room.
    n_left_out: usize,
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} inputs, {} bytes", self.inputs, self.bytes)?;
        if self.n_left_out > 0 {
            write!(f, " ({} more in target/fuzz/corpus)", self.n_left_out)?;
        }
        Ok(())
    }
}

impl Corpus {
    pub(super) fn of(name: &str) -> Self {
        Self::at(&root().join("tests/data/fuzz"), name)
    }

    fn at(dir: &Path, name: &str) -> Self {
        Self { named: dir.join(name), found: dir.join(format!("{name}.tar.zst")) }
    }

    /// Puts every input as a file into `to`, which is made anew.
    pub(super) fn unpack(&self, to: &Path) -> Result<()> {
        self.copy_named(to)?;
        if self.found.exists() {
            let archive = File::open(&self.found)?;
            let unpacked = tar::Archive::new(zstd::Decoder::new(archive)?).unpack(to);
            unpacked.with_context(|| format!("cannot unpack {}", self.found.display()))?;
        }
        Ok(())
    }

    /// Puts those that people named into `to`, which is made anew.
    pub(super) fn copy_named(&self, to: &Path) -> Result<()> {
        if to.exists() {
            fs::remove_dir_all(to)?;
        }
        fs::create_dir_all(to)?;
        for file in files(&self.named)? {
            fs::copy(&file, to.join(file.file_name().unwrap_or_default()))?;
        }
        Ok(())
    }

    /// Replaces what was found before by what was found in `covering`. Where there is no room for
    /// all of it, the larger ones come first, because one goes more ways than one of a few bytes;
    /// but those of more than [`LARGE`] bytes last, because one of them costs as much as many.
    pub(super) fn replace_found(&self, covering: &Path) -> Result<Kept> {
        let mut now = Kept { inputs: 0, bytes: 0, n_left_out: 0 };
        for named in files(&self.named)? {
            (now.inputs, now.bytes) = (now.inputs + 1, now.bytes + fs::metadata(named)?.len());
        }
        let found = files(covering)?.into_iter().filter(|file| is_found(file));
        let sized = found.map(|file| Ok((fs::metadata(&file)?.len(), file)));
        let mut sized = sized.collect::<Result<Vec<_>>>()?;
        sized.sort_unstable_by_key(|(size, _)| (*size > LARGE, Reverse(*size)));
        let mut taken = Vec::new();
        for (size, file) in sized {
            if now.inputs == MOST_INPUTS || now.bytes + size > MOST_BYTES {
                now.n_left_out += 1;
                continue;
            }
            (now.inputs, now.bytes) = (now.inputs + 1, now.bytes + size);
            taken.push(file);
        }
        taken.sort_unstable();
        self.pack(&taken).with_context(|| format!("cannot write {}", self.found.display()))?;
        Ok(now)
    }

    /// The same inputs give the same archive: nothing of the files but name and content is in it.
    fn pack(&self, files: &[PathBuf]) -> Result<()> {
        let compressed = zstd::Encoder::new(File::create(&self.found)?, LEVEL)?;
        let mut archive = tar::Builder::new(compressed);
        for file in files {
            let input = fs::read(file)?;
            let mut header = tar::Header::new_ustar();
            header.set_size(input.len() as u64);
            header.set_mode(0o644);
            archive.append_data(&mut header, file.file_name().unwrap_or_default(), &input[..])?;
        }
        archive.into_inner()?.finish()?;
        Ok(())
    }
}

/// The files in `dir` by name; none if it is not there.
pub(super) fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    if !dir.exists() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?;
    let mut files = entries.map(|e| Ok(e?.path())).collect::<Result<Vec<_>>>()?;
    files.sort_unstable();
    Ok(files)
}

/// libFuzzer names an input by its SHA-1.
fn is_found(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().as_encoded_bytes();
    name.len() == 40 && name.iter().all(u8::is_ascii_hexdigit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replace_found_packs_what_was_found_and_leaves_what_has_a_name() {
        let dir = std::env::temp_dir().join(format!("isobar-corpus-{}", std::process::id()));
        let (corpus, covering, out) = (Corpus::at(&dir, "psi"), dir.join("new"), dir.join("out"));
        let hash = |n: u32| format!("{n:040x}");
        fs::create_dir_all(&corpus.named).unwrap();
        fs::write(corpus.named.join("as-linux-6.1-prints-it"), "some").unwrap();
        let fill = |sizes: std::ops::Range<u32>| {
            corpus.copy_named(&covering).unwrap();
            assert_eq!(files(&covering).unwrap(), [covering.join("as-linux-6.1-prints-it")]);
            for n in sizes {
                fs::write(covering.join(hash(n)), "x".repeat(n as usize)).unwrap();
            }
        };
        fill(1..2);
        corpus.replace_found(&covering).unwrap();
        corpus.unpack(&out).unwrap();
        assert_eq!(fs::read_to_string(out.join(hash(1))).unwrap(), "x");

        fill(2..102);
        fs::write(covering.join(hash(102)), vec![0; MOST_BYTES as usize]).unwrap();
        let now = corpus.replace_found(&covering).unwrap();
        assert_eq!((now.inputs, now.n_left_out), (100, 2));
        let before = fs::read(&corpus.found).unwrap();
        corpus.unpack(&out).unwrap();
        assert_eq!(files(&out).unwrap().len(), 100);
        // What was found before is gone; of a hundred the smallest finds no room, nor the one that
        // would fill it alone.
        let are_there = [1, 2, 3, 101, 102].map(|n| out.join(hash(n)).exists());
        assert_eq!(are_there, [false, false, true, true, false]);
        assert!(out.join("as-linux-6.1-prints-it").exists());
        assert_eq!(corpus.replace_found(&out).unwrap(), Kept { n_left_out: 0, ..now });
        assert_eq!(fs::read(&corpus.found).unwrap(), before, "the same inputs, the same archive");
        fs::remove_dir_all(dir).unwrap();
    }
}
