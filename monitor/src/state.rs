//! Directories for root alone: files that only root may read, write or lock, each written whole.
//! A lock that others may take would keep the next agent out, and a file that others may write
//! would have it undo what it never did. Most are not flushed to a disk: what they are about does not
//! outlive the kernel.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::process::geteuid;

/// How long to wait for a lock that is held for as long as a few files are read and written.
const PATIENCE: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(50);

/// Makes the directory, for root alone; one that is there already is checked.
///
/// # Errors
/// If it cannot be made, or if others own it or may write in it: they could put files in the place
/// of isobar's.
pub fn make(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let found = fs::metadata(dir)?;
    if found.uid() != geteuid().as_raw() || found.mode() & 0o022 != 0 {
        let why = "other users own the directory or may write in it";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(())
}

/// Reads a file of the directory.
///
/// # Errors
/// If it is not there, or the directory is one that [`make`] would refuse.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = open_for_root().read(true).open(path)?;
    make(path.parent().unwrap_or(Path::new("/")))?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    Ok(text)
}

/// Puts `text` in the place of the file: whole or not at all.
///
/// # Errors
/// If the directory cannot be made, or the file cannot be written.
pub fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    put(path, text, |_| Ok(()))
}

/// The same for a file that is read after a power loss: its text is flushed to the disk.
///
/// # Errors
/// As those of [`replace`], or if it cannot be flushed.
pub fn replace_flushed(path: &Path, text: &[u8]) -> io::Result<()> {
    put(path, text, File::sync_all)
}

fn put(path: &Path, text: &[u8], flush: impl Fn(&File) -> io::Result<()>) -> io::Result<()> {
    make(path.parent().unwrap_or(Path::new("/")))?;
    // Two agents may keep averages in one directory.
    let beside = path.with_extension(format!("json.new-{}", std::process::id()));
    let mut options = open_for_root();
    let mut file = options.write(true).create(true).truncate(true).open(&beside)?;
    file.write_all(text)?;
    // Before, so that a power loss leaves the old file or the new one; after, so that it leaves the new one.
    flush(&file)?;
    fs::rename(&beside, path)?;
    flush(&file)
}

/// Opens a lock file and takes the lock at once, until the file is closed.
///
/// # Errors
/// `WouldBlock` if another process has the lock.
pub fn lock(path: &Path) -> io::Result<File> {
    make(path.parent().unwrap_or(Path::new("/")))?;
    let mut options = open_for_root();
    let file = options.read(true).write(true).create(true).truncate(false).open(path)?;
    // An older isobar made it for all.
    file.set_permissions(Permissions::from_mode(0o600))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

/// The same, for a lock that is held for a moment.
///
/// # Errors
/// `WouldBlock` if another process has had the lock for five seconds.
pub fn lock_soon(path: &Path) -> io::Result<File> {
    let mut waited = Duration::ZERO;
    loop {
        match lock(path) {
            Err(why) if why.kind() == io::ErrorKind::WouldBlock && waited < PATIENCE => {
                sleep(RETRY);
                waited += RETRY;
            }
            taken => return taken,
        }
    }
}

/// Never through a link that was put in the file's place, nor waiting for another process.
fn open_for_root() -> OpenOptions {
    let no_follow = i32::try_from(OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits())
        .expect("a flag of open(2) fits an int");
    let mut options = OpenOptions::new();
    options.mode(0o600).custom_flags(no_follow);
    options
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::thread;
    use tempfile::TempDir;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn state_is_for_its_owner_alone() {
        let root = TempDir::new().unwrap();
        let dir = root.path().join("state");
        let (file, taken) = (dir.join("ledger.json"), dir.join("lock"));
        replace(&file, b"{}").unwrap();
        let held = lock(&taken).unwrap();
        assert_eq!((mode(&dir), mode(&file), mode(&taken)), (0o700, 0o600, 0o600));
        assert_eq!(lock(&taken).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(held);
        fs::set_permissions(&taken, Permissions::from_mode(0o644)).unwrap();
        lock_soon(&taken).unwrap();
        assert_eq!(mode(&taken), 0o600, "an older isobar made it for all");
    }

    #[test]
    fn lock_soon_waits_for_as_long_as_it_may() {
        let root = TempDir::new().unwrap();
        let path = root.path().join("lock");
        let held = lock(&path).unwrap();
        assert_eq!(lock_soon(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let free = thread::spawn(move || {
            sleep(4 * RETRY);
            drop(held);
        });
        lock_soon(&path).unwrap();
        free.join().unwrap();
    }

    #[test]
    fn state_is_not_put_where_others_may_write() {
        let root = TempDir::new().unwrap();
        let dir = root.path().join("open");
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, Permissions::from_mode(0o777)).unwrap();
        let refused = replace(&dir.join("ledger.json"), b"{}").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        fs::write(dir.join("ledger.json"), "{}").unwrap();
        let refused = read(&dir.join("ledger.json")).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "others may have written it");
        assert_eq!(lock(&dir.join("lock")).unwrap_err().kind(), io::ErrorKind::PermissionDenied);

        let (mine, theirs) = (root.path().join("ledger.json"), root.path().join("shadow"));
        fs::write(&theirs, "kept").unwrap();
        let beside = format!("ledger.json.new-{}", std::process::id());
        symlink(&theirs, root.path().join(beside)).unwrap();
        replace(&mine, b"{}").unwrap_err();
        assert_eq!(fs::read(&theirs).unwrap(), b"kept");
    }
}
