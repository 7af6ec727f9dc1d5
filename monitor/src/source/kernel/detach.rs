//! Detaches programs without holding up the agent's exit.
//!
//! To release a program that is attached to a function the kernel waits until every task has given
//! up its CPU once (`synchronize_rcu_tasks`, kernel/rcu/tasks.h): with threads that are throttled
//! hard that takes many seconds, for each program anew. So each link is handed to a process that
//! has nothing else, and they all wait at the same time.

use std::fs;
use std::os::fd::RawFd;
use std::path::Path;
use std::ptr::null_mut;
use std::thread::sleep;
use std::time::Duration;

const STEP: Duration = Duration::from_millis(20);

/// Detaches every program of this process, and returns once that is done or `patience` is over. How
/// many are still being detached then, by processes that end by themselves.
///
/// Descriptors of this process on them are not the last any more, and can be closed at once.
#[must_use]
pub fn detach_all(patience: Duration) -> usize {
    let mut children: Vec<libc::pid_t> = links().into_iter().map_while(release_aside).collect();
    let mut waited = Duration::ZERO;
    loop {
        // SAFETY: asks about a child that this function made; nothing is written.
        let is_there = |child| unsafe { libc::waitpid(child, null_mut(), libc::WNOHANG) } == 0;
        children.retain(|child| is_there(*child));
        if children.is_empty() || waited >= patience {
            return children.len();
        }
        sleep(STEP);
        waited += STEP;
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

/// A process that has this descriptor alone, closes it, and ends; `None` if none can be made.
fn release_aside(link: RawFd) -> Option<libc::pid_t> {
    // SAFETY: between fork and _exit the child makes system calls only.
    unsafe {
        match libc::fork() {
            -1 => None,
            0 => {
                let fd = libc::c_uint::try_from(link).unwrap_or(0);
                libc::syscall(libc::SYS_close_range, 0, fd.saturating_sub(1), 0);
                libc::syscall(libc::SYS_close_range, fd + 1, libc::c_uint::MAX, 0);
                libc::close(link);
                libc::_exit(0)
            }
            child => Some(child),
        }
    }
}
