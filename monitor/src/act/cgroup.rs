//! An open cgroup directory: a write reaches this cgroup or none. A path can be used again by
//! another cgroup; the inode number, which is the kernel's cgroup id, cannot.

pub(super) mod below;
mod descent;

use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::fs::{
    Access, AtFlags, FileType, Mode, OFlags, RawDir, accessat, fstat, openat, statat,
};
use rustix::io::{Errno, pread, write};

use super::error::ActError;
use isobar_core::model::cgroup::{CgroupId, CgroupPath, Limit};
use isobar_core::model::pod::Place;

const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What takes longer goes on by itself.
const PATIENCE: Duration = Duration::from_millis(300);
/// Enough for a few system calls.
const STACK: usize = 64 << 10;
/// The kernel ends a cgroup within a tenth of a millisecond, unless its lock is held.
const SOON: Duration = Duration::from_millis(50);

/// The directory that all paths begin at.
pub(super) type Root = Arc<OwnedFd>;

/// A cgroup, by its directory.
#[derive(Debug)]
pub(super) struct CgroupDir {
    pub(super) path: CgroupPath,
    pub(super) id: CgroupId,
    /// `path` as the kernel has it, below the root: a name need not be UTF-8.
    at: CString,
    dir: OwnedFd,
    root: Root,
    named: Named,
}

/// What the names of a path are worth.
#[derive(Debug, Clone, Copy)]
struct Named {
    /// Who owns the root of the tree: root, but for a tree of one's own.
    by: u32,
    /// How many names root gave, from the root: another user owns the last of them. Without one, all.
    n_of_root: Option<usize>,
    /// It is called like the cgroup of all pods, or lies below one that is, and a user named it.
    is_like_pods: bool,
}

impl Named {
    /// Of the cgroup at `path`, directly below, that this user owns.
    fn below(self, owner: u32, path: &CgroupPath) -> Self {
        let is_of_other = owner != 0 && owner != self.by;
        let here = || is_of_other.then(|| path.segments().count());
        let n_of_root = self.n_of_root.or_else(here);
        let is_pods = || Place::of(path) == Place::Kubepods;
        let is_like_pods = self.is_like_pods || n_of_root.is_some() && is_pods();
        Self { n_of_root, is_like_pods, ..self }
    }
}

impl CgroupDir {
    /// The cgroups directly below the root, which is none to act on itself.
    pub(super) fn children_of_root(root: &Root) -> Result<Vec<Self>, ActError> {
        Self::top(root)?.children()
    }

    fn top(root: &Root) -> Result<Self, ActError> {
        let path = CgroupPath::root();
        let by = fstat(root).map_err(|why| opening(&path, why))?.st_uid;
        let named = Named { by, n_of_root: None, is_like_pods: false };
        Self::below((root, root.as_fd()), named, c".", path, c".".into())
    }

    /// The directory `name` in `dir`.
    fn below(
        (root, dir): (&Root, BorrowedFd<'_>),
        above: Named,
        name: &CStr,
        path: CgroupPath,
        at: CString,
    ) -> Result<Self, ActError> {
        let failed = |why| opening(&path, why);
        let dir = openat(dir, name, DIRECTORY, Mode::empty()).map_err(failed)?;
        let stat = fstat(&dir).map_err(failed)?;
        let (id, named) = (CgroupId(stat.st_ino), above.below(stat.st_uid, &path));
        Ok(Self { path, id, at, dir, root: root.clone(), named })
    }

    fn child(&self, name: &CStr) -> Result<Self, ActError> {
        let mut at = self.at.to_bytes().to_vec();
        at.push(b'/');
        at.extend_from_slice(name.to_bytes());
        let at = CString::new(at).expect("two strings without a zero");
        let path = self.path.child(&name.to_string_lossy());
        Self::below((&self.root, self.dir.as_fd()), self.named, name, path, at)
    }

    /// What it is. A path is no proof, as for the core's `Places`: the cgroup of all pods is one only
    /// if no user owns it or one above it.
    pub(super) fn place(&self) -> Place {
        if self.named.is_like_pods { Place::Other } else { Place::of(&self.path) }
    }

    /// How many names of its path root gave; who owns a cgroup names those in it.
    pub(super) fn n_names_of_root(&self) -> usize {
        self.named.n_of_root.unwrap_or(usize::MAX)
    }

    /// True if it has been removed, whatever stands at its path now.
    pub(super) fn is_gone(&self) -> bool {
        let found = statat(&*self.root, &*self.at, AtFlags::SYMLINK_NOFOLLOW);
        found.map_or(true, |stat| stat.st_ino != self.id.0)
    }

    /// The cgroups directly below.
    pub(super) fn children(&self) -> Result<Vec<Self>, ActError> {
        let names = self.names(usize::MAX).map_err(|why| self.unread("", why))?;
        let found = names.iter().map(|name| self.child(name));
        // One that went away while the directory was read is none.
        found.filter(|child| !matches!(child, Err(ActError::Gone(_)))).collect()
    }

    /// The names in it, `most` of them at most.
    fn names(&self, most: usize) -> Result<Vec<CString>, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(&self.dir, c".", flags, Mode::empty())?;
        let mut buffer = [MaybeUninit::uninit(); 8 * 1024];
        let mut entries = RawDir::new(&dir, &mut buffer);
        let mut names = Vec::new();
        while names.len() < most
            && let Some(entry) = entries.next()
        {
            let entry = entry?;
            let name = entry.file_name();
            if is_child(&self.dir, name, entry.file_type()) {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// True if it has this file.
    pub(super) fn has(&self, file: &'static str) -> bool {
        accessat(&self.dir, file, Access::EXISTS, AtFlags::EACCESS).is_ok()
    }

    /// True if it has this file, and it may be written to.
    pub(super) fn can_write(&self, file: &'static str) -> bool {
        accessat(&self.dir, file, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
    }

    /// Opens a file of it.
    pub(super) fn file(&self, file: &'static str, flags: OFlags) -> Result<OwnedFd, Errno> {
        openat(&self.dir, file, flags | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())
    }

    /// What a file says, without the line end.
    pub(super) fn read(&self, file: &'static str) -> Result<String, ActError> {
        let mut text = Vec::new();
        let read = self.file(file, OFlags::RDONLY).and_then(|fd| read_all(&fd, &mut text));
        read.map_err(|why| self.unread(file, why))?;
        Ok(String::from_utf8_lossy(&text).trim_end().into())
    }

    /// What a file with one number in it says.
    pub(super) fn limit(&self, file: &'static str) -> Result<Limit, ActError> {
        let text = self.read(file)?;
        match text.as_str() {
            "max" => Ok(Limit::Max),
            digits => digits.parse().map(Limit::At).map_err(|_| ActError::Text {
                path: self.path.clone(),
                file,
                expected: "a number or `max`",
                found: text,
            }),
        }
    }

    /// The bytes that a file counts; `None` if it cannot be read: the controller is off, as a rule.
    pub(super) fn bytes(&self, file: &'static str) -> Option<u64> {
        self.limit(file).ok()?.at()
    }

    /// Writes to a file.
    pub(super) fn write(&self, file: &'static str, text: &str) -> Result<(), ActError> {
        let fd = self.file(file, OFlags::WRONLY | OFlags::TRUNC);
        let written = fd.and_then(|fd| write_all(&fd, text));
        written.map_err(|why| self.unwritten(file, text, why))
    }

    /// Writes to a file where the kernel may go on working at it: `memory.high` is in force at
    /// once, and then what is above it is taken back. From Linux 6.16 on `O_NONBLOCK` leaves that
    /// to the owners of that memory; before, a thread of its own waits for it. Whether the kernel has
    /// finished: where it has not, the file may say what it said before.
    pub(super) fn write_detached(&self, file: &'static str, text: &str) -> Result<bool, ActError> {
        let fd = self.file(file, OFlags::WRONLY | OFlags::TRUNC | OFlags::NONBLOCK);
        let fd = fd.map_err(|why| self.unwritten(file, text, why))?;
        let owned = text.to_owned();
        let (written, _) = detached(move || write_all(&fd, &owned))?;
        let has_finished = written.is_some();
        let written = written.unwrap_or(Ok(())).map(|()| has_finished);
        written.map_err(|why| self.unwritten(file, text, why))
    }

    pub(super) fn unread(&self, file: &'static str, why: Errno) -> ActError {
        let path = self.path.clone();
        match why {
            Errno::NOENT | Errno::NODEV if self.is_gone() => ActError::Gone(path),
            Errno::NOENT => ActError::Lacking { path, file },
            why => ActError::Read { path, file, why },
        }
    }

    pub(super) fn unwritten(&self, file: &'static str, text: &str, why: Errno) -> ActError {
        let path = self.path.clone();
        match why {
            Errno::NOENT | Errno::NODEV if self.is_gone() => ActError::Gone(path),
            Errno::NOENT => ActError::Lacking { path, file },
            why => ActError::Write { path, file, text: text.into(), why },
        }
    }
}

fn opening(path: &CgroupPath, why: Errno) -> ActError {
    match why {
        Errno::NOENT | Errno::NODEV => ActError::Gone(path.clone()),
        why => ActError::Read { path: path.clone(), file: "", why },
    }
}

fn is_child(dir: &OwnedFd, name: &CStr, listed: FileType) -> bool {
    let kind = match listed {
        // Some file systems (not kernfs) leave it out.
        FileType::Unknown => statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
        known => known,
    };
    kind == FileType::Directory && name != c"." && name != c".."
}

/// Reads a file from its start to its end.
pub(super) fn read_all(fd: impl AsFd, text: &mut Vec<u8>) -> Result<(), Errno> {
    text.clear();
    let mut piece = [0; 4096];
    loop {
        match pread(&fd, &mut piece, text.len() as u64) {
            Err(Errno::INTR) => {}
            Ok(0) => return Ok(()),
            Ok(n) => text.extend_from_slice(&piece[..n]),
            Err(why) => return Err(why),
        }
    }
}

/// Writes in one call: the kernel takes each as a whole.
pub(super) fn write_all(fd: impl AsFd, text: &str) -> Result<(), Errno> {
    loop {
        match write(&fd, text.as_bytes()) {
            Err(Errno::INTR) => {}
            written => return written.map(drop),
        }
    }
}

/// Does `work`, and waits for it a little; `None` if it takes longer.
///
/// # Errors
/// If no thread can be made: nothing was done then.
pub(super) fn detached<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<(Option<T>, JoinHandle<()>), ActError> {
    let (send, result) = mpsc::sync_channel(1);
    let work = move || {
        // The receiver is gone if the result comes too late.
        let _ = send.send(work());
    };
    let thread = thread::Builder::new().name("act-detached".into()).stack_size(STACK).spawn(work);
    let thread = thread.map_err(|why| ActError::Other(format!("cannot make a thread: {why}")))?;
    Ok((result.recv_timeout(PATIENCE).ok(), thread))
}

/// Takes orders, and answers in their order.
type Thread = (Sender<OwnedFd>, Receiver<Result<(), Errno>>);

/// Writes to `cgroup.kill`, for which the kernel takes a lock that it also holds while it makes a cgroup: for
/// seconds where memory is short. Its thread is made beforehand, which then would take as long.
#[derive(Debug)]
pub(super) struct Killer {
    /// `None` if none could be made: then the actuator waits for each kill.
    thread: Option<Thread>,
    /// Orders that the kernel has not carried out.
    n_open: Cell<usize>,
}

impl Killer {
    pub(super) fn new() -> Self {
        let (orders, taken) = mpsc::channel::<OwnedFd>();
        let (done, answers) = mpsc::channel();
        let work = move || {
            let mut answers = taken.iter().map(|file| write_all(file, "1"));
            // Until its owner is gone.
            let _ = answers.try_for_each(|answer| done.send(answer));
        };
        let thread = thread::Builder::new().name("act-kill".into()).stack_size(STACK).spawn(work);
        let told = |why: &io::Error| tracing::warn!("no thread for kills: {why}");
        let thread = thread.inspect_err(told).ok().map(|_| (orders, answers));
        Self { thread, n_open: Cell::default() }
    }

    /// Whether the kernel has ended the cgroup of this file. If not it still will, while this lives.
    pub(super) fn write(&self, file: &OwnedFd) -> Result<bool, Errno> {
        let Some((orders, answers)) = &self.thread else {
            return write_all(file, "1").map(|()| true);
        };
        let n_open = self.n_open.get().saturating_sub(answers.try_iter().count());
        let order = file.try_clone().ok().and_then(|file| orders.send(file).ok());
        if order.is_none() {
            // Without a descriptor for the thread.
            return write_all(file, "1").map(|()| true);
        }
        self.n_open.set(n_open + 1);
        if n_open > 0 {
            return Ok(false);
        }
        match answers.recv_timeout(SOON) {
            Ok(answer) => {
                self.n_open.set(0);
                answer.map(|()| true)
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, pipe};

    use rustix::fs::fcntl_setfl;

    use super::*;

    #[test]
    fn detached_leaves_work_that_hangs() {
        assert_eq!(detached(|| 7).unwrap().0, Some(7));
        let (hold, held) = mpsc::channel::<()>();
        let (late, thread) = detached(move || held.recv().is_err()).unwrap();
        assert_eq!(late, None);
        assert!(!thread.is_finished());
        drop(hold);
        thread.join().unwrap();
    }

    /// A writer to a full pipe waits, as one waits for the lock.
    #[test]
    fn killer_waits_for_no_lock() {
        let killer = Killer::new();
        let (mut reader, full) = pipe().unwrap();
        let full = OwnedFd::from(full);
        fcntl_setfl(&full, OFlags::NONBLOCK).unwrap();
        // Also the rest of its last page.
        let fill =
            |size| -> usize { std::iter::from_fn(|| write(&full, &[0; 4_096][..size]).ok()).sum() };
        let n: usize = [4_096, 1].map(fill).into_iter().sum();
        fcntl_setfl(&full, OFlags::empty()).unwrap();
        // The second does not wait behind the first.
        assert_eq!([killer.write(&full), killer.write(&full)], [Ok(false); 2]);
        assert_eq!(killer.n_open.get(), 2);
        // Once the lock is free both come about, and the way is open again.
        reader.read_exact(&mut vec![0; n + 2]).unwrap();
        let file = OwnedFd::from(tempfile::tempfile().unwrap());
        let mut tries = std::iter::repeat_with(|| {
            thread::sleep(Duration::from_millis(10));
            killer.write(&file)
        });
        assert!(tries.by_ref().take(1_000).any(|tried| tried == Ok(true)));
        assert_eq!(killer.n_open.get(), 0);
    }
}
