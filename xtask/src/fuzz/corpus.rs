//! The inputs of a parser that are in the repository. Those that somebody wrote or recorded have a
//! name that tells what they are, and stay; those that were found are named by their hash, and are
//! replaced by whatever now covers most with least.

use std::cmp::Reverse;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

// `tests/pure/corpus.rs` holds every corpus to these.
/// Files of one corpus.
const MOST_FILES: usize = 100;
/// Bytes of one corpus.
const MOST_BYTES: u64 = 32 << 10;

/// A large input.
const LARGE: u64 = 400;

/// What is in the repository now.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kept {
    files: usize,
    bytes: u64,
    /// Found, and left out for want of room.
    n_left_out: usize,
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} files, {} bytes", self.files, self.bytes)?;
        if self.n_left_out > 0 {
            write!(f, " ({} more in target/fuzz/corpus)", self.n_left_out)?;
        }
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

/// Copies what people named from `kept` to `to`, which is made.
pub(super) fn copy_named(kept: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for file in files(kept)?.iter().filter(|file| !is_found(file)) {
        fs::copy(file, to.join(file.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

/// Replaces what was found before, in `kept`, by what was found in `covering`. Where there is no
/// room for all of it, the larger ones come first, because one goes more ways than one of a few
/// bytes; but those of more than [`LARGE`] bytes last, because one of them costs as much as many.
pub(super) fn replace_found(kept: &Path, covering: &Path) -> Result<Kept> {
    for old in files(kept)?.iter().filter(|file| is_found(file)) {
        fs::remove_file(old)?;
    }
    let mut now = Kept { files: 0, bytes: 0, n_left_out: 0 };
    for named in files(kept)? {
        (now.files, now.bytes) = (now.files + 1, now.bytes + fs::metadata(named)?.len());
    }
    let found = files(covering)?.into_iter().filter(|file| is_found(file));
    let sized = found.map(|file| Ok((fs::metadata(&file)?.len(), file)));
    let mut sized = sized.collect::<Result<Vec<_>>>()?;
    sized.sort_unstable_by_key(|(size, _)| (*size > LARGE, Reverse(*size)));
    for (size, file) in sized {
        if now.files == MOST_FILES || now.bytes + size > MOST_BYTES {
            now.n_left_out += 1;
            continue;
        }
        fs::copy(&file, kept.join(file.file_name().unwrap_or_default()))?;
        (now.files, now.bytes) = (now.files + 1, now.bytes + size);
    }
    Ok(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_replaced_and_what_has_a_name_stays() {
        let dir = std::env::temp_dir().join(format!("isobar-corpus-{}", std::process::id()));
        let (kept, covering) = (dir.join("kept"), dir.join("covering"));
        let hash = |n: u32| format!("{n:040x}");
        fs::create_dir_all(&kept).unwrap();
        fs::write(kept.join("as-linux-6.1-prints-it"), "some").unwrap();
        fs::write(kept.join(hash(1)), "old").unwrap();
        copy_named(&kept, &covering).unwrap();
        assert_eq!(files(&covering).unwrap(), [covering.join("as-linux-6.1-prints-it")]);
        for n in 2..102 {
            fs::write(covering.join(hash(n)), "x".repeat(n as usize)).unwrap();
        }
        fs::write(covering.join(hash(102)), vec![0; MOST_BYTES as usize]).unwrap();
        let now = replace_found(&kept, &covering).unwrap();
        assert_eq!((now.files, now.n_left_out), (100, 2));
        assert!(kept.join("as-linux-6.1-prints-it").exists() && !kept.join(hash(1)).exists());
        // Of a hundred the smallest finds no room, nor the one that would fill it alone.
        assert!(kept.join(hash(3)).exists() && !kept.join(hash(2)).exists());
        assert!(!kept.join(hash(102)).exists());
        fs::remove_dir_all(dir).unwrap();
    }
}
