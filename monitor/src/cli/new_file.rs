//! A file that a verb makes: whole or not at all, for its owner alone, and never in the place of another.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

/// Makes the file with what `content` writes to it, beside it at first.
pub(super) fn write<T>(path: &Path, content: impl FnOnce(&File) -> Result<T>) -> Result<T> {
    let failed = || format!("cannot make {}", path.display());
    if path.symlink_metadata().is_ok() {
        return Err(io::Error::from(Errno::EXIST)).with_context(failed);
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".new-{}", std::process::id()));
    let beside = Path::new(&beside);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    let file = options.open(beside).with_context(failed)?;
    let written = content(&file).and_then(|what| Ok(put(beside, path).map(|()| what)?));
    if written.is_err() {
        // What is left of it takes its space, and no more.
        let _ = fs::remove_file(beside);
    }
    written.with_context(failed)
}

/// Not every file system can refuse to replace a file.
fn put(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => fs::rename(from, to),
        renamed => Ok(renamed?),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use anyhow::bail;

    use super::*;

    #[test]
    fn write_leaves_a_whole_file_or_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let names = || {
            fs::read_dir(dir.path())
                .unwrap()
                .map(|one| one.unwrap().file_name())
                .collect::<Vec<_>>()
        };
        let torn = write(&path, |mut file| -> Result<()> {
            file.write_all(b"half")?;
            bail!("the disk is full")
        });
        let told = format!("cannot make {}: the disk is full", path.display());
        assert_eq!((format!("{:#}", torn.unwrap_err()), names()), (told, vec![]));
        write(&path, |mut file| Ok(file.write_all(b"whole")?)).unwrap();
        let again = write(&path, |mut file| Ok(file.write_all(b"other")?));
        assert!(format!("{:#}", again.unwrap_err()).contains("File exists"));
        assert_eq!((fs::read(&path).unwrap(), names()), (b"whole".to_vec(), vec!["x".into()]));
    }
}
