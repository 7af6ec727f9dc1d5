//! Processes: what `/proc` says of one, a pidfd that no other process can come into, and how they
//! are ended and give back their memory.

use std::fmt;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::cgroup::below::Unlisted;
use super::cgroup::{CgroupDir, detached};
use super::error::ActError;

/// `PF_KTHREAD`, include/linux/sched.h.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Parts of `/proc/PID/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) name: String,
    /// `R`, `S`, `D`, `Z` and so on.
    pub(super) state: char,
    pub(super) parent: u32,
    /// In clock ticks since boot: with the process id, a process and no other.
    pub(super) started: u64,
    pub(super) is_kernel_thread: bool,
}

impl Stat {
    /// `None` if the process is gone.
    pub(super) fn of(proc: &Path, pid: u32) -> Option<Self> {
        let text = fs::read(proc.join(pid.to_string()).join("stat")).ok()?;
        Self::parse(&String::from_utf8_lossy(&text))
    }

    /// A name may hold anything, parentheses included: it ends at the last one.
    fn parse(text: &str) -> Option<Self> {
        let (name, rest) = text.split_once('(')?.1.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        let flags: u64 = fields.nth(4)?.parse().ok()?;
        let started = fields.nth(12)?.parse().ok()?;
        Some(Self {
            name: name.into(),
            state,
            parent,
            started,
            is_kernel_thread: flags & KERNEL_THREAD != 0,
        })
    }
}

/// A process's `oom_score_adj`; `None` if it is gone.
pub(super) fn oom_score_adj(proc: &Path, pid: u32) -> Option<i32> {
    let path = proc.join(pid.to_string()).join("oom_score_adj");
    fs::read_to_string(path).ok()?.trim_end().parse().ok()
}

/// What a process has in memory and swap, in KiB: so the kernel's `oom_badness` counts it, with page
/// tables beside. `None` if it is gone.
pub(super) fn oom_size(proc: &Path, pid: u32) -> Option<u64> {
    let status = fs::read(proc.join(pid.to_string()).join("status")).ok()?;
    let line = |line: &[u8]| {
        let line = std::str::from_utf8(line).ok()?;
        let kib = line.strip_prefix("VmRSS:").or_else(|| line.strip_prefix("VmSwap:"))?;
        kib.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    Some(status.split(|byte| *byte == b'\n').filter_map(line).fold(0, u64::saturating_add))
}

/// Resident memory of processes together, in bytes; `None` if one of them does not say.
pub(super) fn resident(proc: &Path, pids: &[u32]) -> Option<u64> {
    let of = |pid: &u32| {
        let statm = fs::read_to_string(proc.join(pid.to_string()).join("statm")).ok()?;
        statm.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()
    };
    let pages: u64 = pids.iter().map(of).sum::<Option<u64>>()?;
    Some(pages.saturating_mul(procfs::page_size()))
}

/// A process by its pidfd: a signal reaches this process or none.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) pid: u32,
    pub(super) fd: OwnedFd,
}

impl Held {
    fn open(pid: u32) -> Result<Self, Errno> {
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        Ok(Self { pid, fd: pidfd_open(raw, PidfdFlags::empty())? })
    }

    /// Sends a signal. To a process that has ended it counts as sent.
    pub(super) fn send(&self, signal: Signal) -> Result<(), Errno> {
        match pidfd_send_signal(&self.fd, signal) {
            Err(Errno::SRCH) => Ok(()),
            sent => sent,
        }
    }

    /// True if all its threads have ended; its parent need not have noticed.
    pub(super) fn has_ended(&self) -> bool {
        wait_for(&mut [PollFd::new(&self.fd, PollFlags::IN)], 0)
    }
}

/// Waits for at most so many milliseconds until one of them has ended; true if one has.
pub(super) fn wait_for(ends: &mut [PollFd<'_>], milliseconds: i64) -> bool {
    let timeout = Timespec { tv_sec: 0, tv_nsec: milliseconds * 1_000_000 };
    poll(ends, Some(&timeout)).is_ok_and(|n| n > 0)
}

/// Holds the processes in and below `group` that are not held yet, at most `most` in all. A process
/// for which no pidfd can be had is left out, and `refused` says why.
///
/// A number may be given to a stranger between being listed and being opened, so what was opened
/// counts only if it is still listed afterwards: then the number was the group's all the time, or
/// the descriptor is of a process that has ended.
pub(super) fn hold(
    group: &CgroupDir,
    held: &mut Vec<Held>,
    most: usize,
) -> Result<Listed, ActError> {
    let mut listed = Listed::default();
    let Unlisted { hidden, is_cut } = group.pids(&mut listed.pids)?;
    (listed.hidden, listed.is_cut) = (hidden, is_cut);
    let known = held.len();
    for pid in listed.pids.iter().copied() {
        if held.len() >= most || held[..known].iter().any(|held| held.pid == pid) {
            continue;
        }
        match Held::open(pid) {
            Ok(new) => held.push(new),
            Err(Errno::SRCH | Errno::INVAL) => {}
            Err(why) => {
                listed.refused = Some(ActError::Signal { path: group.path.clone(), pid, why });
                break;
            }
        }
    }
    if held.len() == known {
        return Ok(listed);
    }
    let mut still = Vec::with_capacity(listed.pids.len());
    group.pids(&mut still)?;
    still.sort_unstable();
    let mut i = 0;
    held.retain(|held| {
        i += 1;
        i <= known || still.binary_search(&held.pid).is_ok()
    });
    Ok(listed)
}

/// What was listed.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub(super) pids: Vec<u32>,
    /// Those that this PID namespace does not show.
    pub(super) hidden: u64,
    /// There are more cgroups than are looked at.
    pub(super) is_cut: bool,
    /// Why some are not held.
    pub(super) refused: Option<ActError>,
}

/// Rounds of signals in which a cgroup that forks must become empty.
const ROUNDS: usize = 32;
/// Processes held at once in such a round.
const MOST: usize = 256;

/// The same as [`one_by_one`] once they are thawed: a frozen process takes the signal, but one that is thawed
/// dies sooner. Where nothing is frozen, or nothing may be written, this changes nothing.
pub(super) fn thawed_one_by_one(proc: &Path, group: &CgroupDir) -> Result<&'static str, ActError> {
    let is_frozen = group.read("cgroup.freeze").is_ok_and(|text| text == "1");
    if is_frozen && group.write("cgroup.freeze", "0").is_err() {
        tracing::debug!(cgroup = %group.path, "stays frozen");
    }
    one_by_one(proc, group)
}

/// Ends the processes of a group one after the other, with what they have forked meanwhile.
pub(super) fn one_by_one(proc: &Path, group: &CgroupDir) -> Result<&'static str, ActError> {
    let mut dying: Vec<Held> = Vec::new();
    for _ in 0..ROUNDS {
        dying.retain(|held| !held.has_ended());
        let known = dying.len();
        let listed = hold(group, &mut dying, known + MOST)?;
        if listed.hidden > 0 {
            return Err(ActError::Hidden { path: group.path.clone(), n: listed.hidden });
        }
        let mut refused = listed.refused.filter(|_| dying.len() == known);
        let is_kernel = |pid| Stat::of(proc, pid).is_some_and(|stat| stat.is_kernel_thread);
        for held in dying[known..].iter().filter(|held| !is_kernel(held.pid)) {
            if let Err(why) = held.send(Signal::KILL) {
                refused = Some(ActError::Signal { path: group.path.clone(), pid: held.pid, why });
            }
        }
        match refused {
            Some(failure) => return Err(failure),
            None if dying.len() == known && listed.is_cut => {
                let path = &group.path;
                return Err(ActError::Other(format!(
                    "{path} has too many cgroups to end one by one"
                )));
            }
            None if dying.len() == known => break,
            None => {}
        }
    }
    Ok("SIGKILL to each")
}

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

/// True if this kernel has `process_mrelease` and no filter forbids it.
pub(super) fn can_release() -> bool {
    // No descriptor is -1: the kernel that knows the call says so.
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
    /// The call is forbidden, or this kernel has none.
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
        let released = processes(*n_released as u64);
        write!(
            f,
            "gave back the memory of {released}; {n_ended} had none any more, \
             {n_living} are not dying, that of {n_busy} stayed in use"
        )
    }
}

/// `1 process`, `2 processes`.
pub(super) fn processes(n: u64) -> String {
    if n == 1 { "1 process".into() } else { format!("{n} processes") }
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
    pub(super) fn release(&mut self, processes: Vec<OwnedFd>) -> Result<Option<Tally>, ActError> {
        if self.0.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return Err(ActError::Other(
                "the kernel has not yet given back the memory that was asked for before".into(),
            ));
        }
        let (tally, thread) = detached(move || Tally::of(&processes))?;
        self.0 = Some(thread);
        Ok(tally)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oom_size_is_memory_and_swap() {
        #[rustfmt::skip]
        let table: [(&[u8], u64); 4] = [
            (b"Name:\ta\nVmRSS:\t    1024 kB\nVmSwap:\t      12 kB\n", 1_036),
            (b"Name:\t\xffVmRSS:\t9 kB\nVmRSS:\t 1024 kB\n",         1_024), // a name is no text
            (b"Name:\tkswapd0\n",                                    0),
            (b"VmRSS:\t    10",                                       0),     // torn
        ];
        let proc = tempfile::tempdir().unwrap();
        fs::create_dir(proc.path().join("7")).unwrap();
        for (status, want) in table {
            fs::write(proc.path().join("7/status"), status).unwrap();
            assert_eq!(oom_size(proc.path(), 7), Some(want), "{}", status.escape_ascii());
        }
        assert_eq!(oom_size(proc.path(), 8), None);
        assert!(oom_size(Path::new("/proc"), std::process::id()).is_some_and(|kib| kib > 500));
    }

    #[test]
    fn stat_parses_any_process_name() {
        let stat = |name: &str, parent, flags| {
            Stat::parse(&format!(
                "12 ({name}) D {parent} 1 1 0 -1 {flags} 0 0 0 0 1 2 0 0 20 0 1 0 88123"
            ))
        };
        let want = |name: &str, parent, is_kernel_thread| {
            Some(Stat { name: name.into(), state: 'D', parent, started: 88_123, is_kernel_thread })
        };
        assert_eq!(stat("pause", 7, 4_194_560), want("pause", 7, false));
        assert_eq!(stat(") R 1 (", 7, 0), want(") R 1 (", 7, false));
        assert_eq!(stat("kswapd0", 2, 2_228_224), want("kswapd0", 2, true));
        assert_eq!(Stat::parse("12 (cut"), None);
        assert_eq!(Stat::parse("12 (cut) S 4"), None);
    }
}
