//! Detaches programs without holding up the agent's exit.
//!
//! To release a program that is attached to a function the kernel waits until every task has given
//! up its CPU once (`synchronize_rcu_tasks`, kernel/rcu/tasks.h): with threads that are throttled
//! hard that takes many seconds, for each program anew. So each link is shared with a process that
//! has nothing else. Once this process has closed its own descriptors, those processes close the
//! last ones, all at the same time.

use std::fs;
use std::io::{PipeWriter, pipe};
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::ptr::null_mut;
use std::thread::sleep;
use std::time::Duration;

const STEP: Duration = Duration::from_millis(20);

/// Processes that hold one link each, until this value goes.
#[derive(Debug, Default)]
pub struct LinkHolders {
    children: Vec<libc::pid_t>,
    /// Closed to let them go on.
    wait: Option<PipeWriter>,
}

impl LinkHolders {
    /// Shares every link of this process. Where no process can be made, the link stays this one's
    /// alone, and takes its time when it is closed.
    pub fn share_links() -> Self {
        let links = links();
        let Ok((until, wait)) = pipe() else { return Self::default() };
        let share = |link| share(link, until.as_raw_fd());
        let children = links.into_iter().map_while(share).collect();
        Self { children, wait: Some(wait) }
    }

    /// Has them close what they hold, which must not be open in this process any more. Waits until
    /// that is done or `patience` is over; how many have not done it by then. They end by
    /// themselves.
    pub fn release(self, patience: Duration) -> usize {
        let Self { mut children, wait } = self;
        drop(wait);
        // SAFETY: asks about a child that this process made; nothing is written.
        let is_there = |child| unsafe { libc::waitpid(child, null_mut(), libc::WNOHANG) } == 0;
        let mut waited = Duration::ZERO;
        loop {
            children.retain(|child| is_there(*child));
            if children.is_empty() || waited >= patience {
                return children.len();
            }
            sleep(STEP);
            waited += STEP;
        }
    }
}

/// The descriptors of links: what keeps a program attached.
fn links() -> Vec<RawFd> {
    let open = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let is_link =
        |on: &Path| matches!(on.to_str(), Some("anon_inode:bpf_link" | "anon_inode:bpf-link"));
    let links = open.filter(|entry| fs::read_link(entry.path()).is_ok_and(|on| is_link(&on)));
    links.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// A process that has these two descriptors alone, and ends at the end of `until`; `None` if none
/// can be made.
fn share(link: RawFd, until: RawFd) -> Option<libc::pid_t> {
    let between =
        |from: RawFd, to: RawFd| (libc::c_uint::try_from(from), libc::c_uint::try_from(to));
    let (low, high) = (link.min(until), link.max(until));
    let gaps = [between(0, low - 1), between(low + 1, high - 1), between(high + 1, RawFd::MAX)];
    // SAFETY: between fork and _exit the child makes system calls only.
    unsafe {
        match libc::fork() {
            -1 => None,
            0 => {
                for gap in gaps {
                    // An empty one is an error, which changes nothing.
                    if let (Ok(from), Ok(to)) = gap {
                        libc::syscall(libc::SYS_close_range, from, to, 0);
                    }
                }
                let mut byte = 0_u8;
                while libc::read(until, (&raw mut byte).cast(), 1) > 0 {}
                libc::close(link);
                libc::_exit(0)
            }
            child => Some(child),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::io::Read as _;

    #[test]
    fn links_are_held_until_they_are_released() {
        // A pipe's end stands for a link: the other end sees when the last copy is closed.
        let (mut other_end, link) = pipe().unwrap();
        let (until, wait) = pipe().unwrap();
        let child = share(link.as_raw_fd(), until.as_raw_fd()).unwrap();
        let holders = LinkHolders { children: vec![child], wait: Some(wait) };
        drop(link);
        let fd = other_end.try_clone().unwrap();
        let soon = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
        let closed = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&soon)).unwrap();
        assert_eq!(closed, 0, "it is held by the other process");
        assert_eq!(holders.release(Duration::from_secs(10)), 0);
        assert_eq!(other_end.read(&mut [0]).unwrap(), 0, "closed everywhere");
    }
}
