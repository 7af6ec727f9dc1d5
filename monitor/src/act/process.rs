//! What `/proc` says of one process, and a hold on it that no other process can come into.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::cgroup::Group;
use super::failure::Failure;

/// `PF_KTHREAD`, include/linux/sched.h.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Parts of `/proc/PID/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) name: String,
    /// `R`, `S`, `D`, `Z` and so on.
    pub(super) state: char,
    pub(super) parent: u32,
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
        Some(Self {
            name: name.into(),
            state,
            parent,
            is_kernel_thread: flags & KERNEL_THREAD != 0,
        })
    }
}

/// A process's `oom_score_adj`; `None` if it is gone.
pub(super) fn oom_score_adj(proc: &Path, pid: u32) -> Option<i32> {
    let path = proc.join(pid.to_string()).join("oom_score_adj");
    fs::read_to_string(path).ok()?.trim_end().parse().ok()
}

/// A process by its pidfd: whatever is sent reaches it or nobody.
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

    /// Sends a signal; to who has ended, it is as good as sent.
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

/// Holds the processes in and below `group` that are not held yet, `most` in all; kernel threads
/// are left out. Where descriptors are short, or not permitted, those there are must do.
///
/// A number may be given to a stranger between being listed and being opened, so what was opened
/// counts only if it is still listed afterwards: then the number was the group's all the time, or
/// the descriptor is of somebody who has ended.
pub(super) fn hold(
    proc: &Path,
    group: &Group,
    held: &mut Vec<Held>,
    most: usize,
) -> Result<Listed, Failure> {
    let mut listed = Listed::default();
    listed.hidden = group.pids(&mut listed.pids)?;
    let known = held.len();
    for pid in listed.pids.iter().copied() {
        if held.len() >= most || held[..known].iter().any(|held| held.pid == pid) {
            continue;
        }
        match Held::open(pid) {
            Ok(new) => held.push(new),
            Err(Errno::SRCH | Errno::INVAL) => {}
            Err(why) => {
                listed.refused = Some(Failure::Signal { path: group.path.clone(), pid, why });
                break;
            }
        }
    }
    if held.len() == known {
        return Ok(listed);
    }
    let mut still = Vec::new();
    group.pids(&mut still)?;
    let is_kernel = |pid| Stat::of(proc, pid).is_some_and(|stat| stat.is_kernel_thread);
    let new = held.split_off(known);
    held.extend(new.into_iter().filter(|new| still.contains(&new.pid) && !is_kernel(new.pid)));
    Ok(listed)
}

/// What was listed.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub(super) pids: Vec<u32>,
    /// Those that this PID namespace does not show.
    pub(super) hidden: u64,
    /// Why some are not held.
    pub(super) refused: Option<Failure>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let stat = |name: &str, parent, flags| {
            Stat::parse(&format!("12 ({name}) D {parent} 1 1 0 -1 {flags} 0 0"))
        };
        let want = |name: &str, parent, is_kernel_thread| {
            Some(Stat { name: name.into(), state: 'D', parent, is_kernel_thread })
        };
        assert_eq!(stat("pause", 7, 4_194_560), want("pause", 7, false));
        assert_eq!(stat(") R 1 (", 7, 0), want(") R 1 (", 7, false));
        assert_eq!(stat("kswapd0", 2, 2_228_224), want("kswapd0", 2, true));
        assert_eq!(Stat::parse("12 (cut"), None);
        assert_eq!(Stat::parse("12 (cut) S 4"), None);
    }
}
