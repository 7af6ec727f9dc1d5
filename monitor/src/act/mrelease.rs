//! `process_mrelease`: has a process that was killed give its memory back before it gets to it.

use std::fmt;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::io::Errno;

use super::aside::aside;
use super::failure::Failure;

/// How often one process is tried whose memory is in use, and the pause between.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(10);

/// Gives back the memory of a dying process. May wait for a lock that the process holds.
///
/// # Errors
/// `EINVAL` if it is not dying, `ESRCH` if it has no memory any more, `EAGAIN` if its memory was
/// in use, `ENOSYS` before Linux 5.15. Source: `process_mrelease`, mm/oom_kill.c.
fn process_mrelease(process: impl AsFd) -> Result<(), Errno> {
    call(process.as_fd().as_raw_fd())
}

/// True if this kernel has it, and nobody forbids it.
pub(super) fn is_there() -> bool {
    // No descriptor is -1: whoever gets so far as to look says so.
    call(-1) == Err(Errno::BADF)
}

fn call(fd: i32) -> Result<(), Errno> {
    // SAFETY: both arguments are plain numbers; the kernel reads and writes no memory of ours, and
    // answers a number that is no pidfd with an error.
    let result = unsafe { libc::syscall(libc::SYS_process_mrelease, fd, 0u32) };
    match result {
        0 => Ok(()),
        _ => {
            let error = std::io::Error::last_os_error();
            Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
        }
    }
}

/// What became of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Their memory was given back.
    pub(super) n_released: usize,
    /// They had none any more.
    pub(super) n_ended: usize,
    /// They are not dying.
    pub(super) n_living: usize,
    /// It was in use each time.
    pub(super) n_busy: usize,
    /// Somebody forbids it, or this kernel has no such call.
    pub(super) refused: Option<Errno>,
}

impl Tally {
    /// Tries each, and those whose memory is in use again for a while.
    fn of(processes: &[OwnedFd]) -> Self {
        let mut tally = Self::default();
        for process in processes {
            match patiently(process) {
                Ok(()) => tally.n_released += 1,
                Err(Errno::SRCH) => tally.n_ended += 1,
                Err(Errno::INVAL) => tally.n_living += 1,
                Err(Errno::AGAIN | Errno::INTR) => tally.n_busy += 1,
                Err(why) => tally.refused = Some(why),
            }
        }
        tally
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { n_released, n_ended, n_living, n_busy, .. } = self;
        write!(
            f,
            "gave back the memory of {n_released} processes; {n_ended} had none any more, \
             {n_living} are not dying, that of {n_busy} stayed in use"
        )
    }
}

fn patiently(process: &OwnedFd) -> Result<(), Errno> {
    for _ in 1..TRIES {
        match process_mrelease(process) {
            Err(Errno::AGAIN | Errno::INTR) => thread::sleep(PAUSE),
            result => return result,
        }
    }
    process_mrelease(process)
}

/// Works on a thread of its own: the call waits for a lock that a stuck process may never give up.
#[derive(Debug, Default)]
pub(super) struct Releaser(Option<JoinHandle<()>>);

impl Releaser {
    /// Gives back the memory of dying processes; `None` if that takes longer than is waited for.
    pub(super) fn release(&mut self, processes: Vec<OwnedFd>) -> Result<Option<Tally>, Failure> {
        if self.0.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return Err(Failure::Told(
                "the kernel has not yet given back the memory that was asked for before".into(),
            ));
        }
        let (tally, thread) = aside(move || Tally::of(&processes))?;
        self.0 = Some(thread);
        Ok(tally)
    }
}
