//! What a container runtime leaves a process of a restricted manifest.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::thread::{CapabilitySet, capabilities};

use crate::act::mount;
use crate::capabilities::{added, keep_alone};

/// System calls that the runtimes' profile forbids, and which capability allows them all the same.
/// A choice of those that an agent could have a use for. Source: seccomp default.json of moby, which
/// containerd's follows, read in 2026.
const FORBIDDEN: [(i64, CapabilitySet); 24] = {
    use libc::*;
    const NOT: CapabilitySet = CapabilitySet::empty();
    [
        (SYS_mount, CapabilitySet::SYS_ADMIN),
        (SYS_umount2, CapabilitySet::SYS_ADMIN),
        (SYS_move_mount, CapabilitySet::SYS_ADMIN),
        (SYS_open_tree, CapabilitySet::SYS_ADMIN),
        (SYS_fsopen, CapabilitySet::SYS_ADMIN),
        (SYS_unshare, CapabilitySet::SYS_ADMIN),
        (SYS_setns, CapabilitySet::SYS_ADMIN),
        (SYS_quotactl, CapabilitySet::SYS_ADMIN),
        (SYS_fanotify_init, CapabilitySet::SYS_ADMIN),
        (SYS_open_by_handle_at, CapabilitySet::DAC_READ_SEARCH),
        (SYS_bpf, CapabilitySet::BPF),
        (SYS_perf_event_open, CapabilitySet::PERFMON),
        (SYS_syslog, CapabilitySet::SYSLOG),
        (SYS_kcmp, CapabilitySet::SYS_PTRACE),
        (SYS_pidfd_getfd, CapabilitySet::SYS_PTRACE),
        (SYS_process_madvise, CapabilitySet::SYS_PTRACE),
        (SYS_mbind, CapabilitySet::SYS_NICE),
        (SYS_set_mempolicy, CapabilitySet::SYS_NICE),
        (SYS_chroot, CapabilitySet::SYS_CHROOT),
        (SYS_clock_settime, CapabilitySet::SYS_TIME),
        (SYS_acct, CapabilitySet::SYS_PACCT),
        (SYS_userfaultfd, NOT),
        (SYS_keyctl, NOT),
        (SYS_move_pages, NOT),
    ]
};

/// Capabilities that a process is left with, and whether the rest of the profile holds for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rights {
    listed: CapabilitySet,
    is_confined: bool,
}

impl Rights {
    /// Those of this process.
    pub(crate) fn all() -> Self {
        Self { listed: capabilities(None).unwrap().permitted, is_confined: false }
    }

    /// What these components of deploy/kustomize add to nothing.
    pub(crate) fn of_manifest(components: &[&str]) -> Self {
        Self { listed: added(components).unwrap(), is_confined: true }
    }

    pub(crate) fn listed(self) -> CapabilitySet {
        self.listed
    }

    pub(crate) fn has(self, one: CapabilitySet) -> bool {
        self.listed.contains(one)
    }

    pub(crate) fn without(self, one: CapabilitySet) -> Self {
        Self { listed: self.listed - one, ..self }
    }

    /// What leaves a process with them before it begins. It may write below `state` and, as every
    /// container, in /proc and /dev.
    pub(crate) fn confine(self, state: &Path) -> impl FnMut() -> io::Result<()> + Send + use<> {
        let filter = filter(self.listed);
        let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).unwrap();
        let state = text(state);
        let read_only: Vec<CString> =
            [Some(PathBuf::from("/")), mount()].iter().flatten().map(|at| text(at)).collect();
        move || {
            if !self.is_confined {
                return Ok(());
            }
            mount_read_only(&read_only, &state)?;
            keep_alone(self.listed)?;
            enforce(&filter)
        }
    }
}

/// In a mount namespace of its own, all of these are read-only, but for `state`.
fn mount_read_only(all: &[CString], state: &CString) -> io::Result<()> {
    let (none, null) = (c"none".as_ptr(), std::ptr::null());
    let done = |result: i32| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: plain system calls; every pointer is null or leads to a text that outlives the call.
    unsafe {
        done(libc::unshare(libc::CLONE_NEWNS))?;
        let private = libc::MS_REC | libc::MS_PRIVATE;
        done(libc::mount(none, c"/".as_ptr(), null, private, null.cast()))?;
        done(libc::mount(state.as_ptr(), state.as_ptr(), null, libc::MS_BIND, null.cast()))?;
        let read_only = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY;
        all.iter()
            .try_for_each(|at| done(libc::mount(none, at.as_ptr(), null, read_only, null.cast())))
    }
}

/// A program that answers EPERM to what is forbidden to whoever has the capabilities `held`.
fn filter(held: CapabilitySet) -> Vec<libc::sock_filter> {
    let is_forbidden = |allowing: CapabilitySet| allowing.is_empty() || !held.contains(allowing);
    let forbidden = FORBIDDEN.iter().filter(|(_, allowing)| is_forbidden(*allowing));
    let statement = |code: u32, k| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let answer = |what| statement(libc::BPF_RET | libc::BPF_K, what);
    // The number comes first in `struct seccomp_data`.
    let mut program = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0)];
    for (number, _) in forbidden {
        let code = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        program.push(libc::sock_filter { code, jt: 0, jf: 1, k: *number as u32 });
        program.push(answer(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32));
    }
    program.push(answer(libc::SECCOMP_RET_ALLOW));
    program
}

fn enforce(filter: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the kernel copies the program, which lives until then, and writes nothing.
    let done =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
