//! A victim that the kernel cannot end yet: it waits for a file system whose server has taken its
//! request and does not answer.

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::place::{Cgroup, actor, enforced, settle, wait};
use crate::host::skip;
use isobar_core::model::decision::OutcomeResult::Done;
use isobar_core::model::decision::StepKind::{KillContainers, ReleaseMemory};
use isobar_core::model::units::Nanos;

/// `FUSE_INIT`, include/uapi/linux/fuse.h.
const INIT: u32 = 26;
/// `fuse_in_header`.
const HEADER: usize = 40;

/// The kernel's end of a file system that is never served. Closed, it sets everybody free.
struct Server(File);

impl Server {
    fn open() -> Option<Self> {
        let opened = File::options().read(true).write(true).open("/dev/fuse");
        opened.map(Self).map_err(|why| skip(&format!("no /dev/fuse: {why}"))).ok()
    }

    /// Mounts it where the process that `command` makes sees it, and nobody else.
    fn mount_for(&self, command: &mut Command, at: &str) {
        let at = CString::new(at).unwrap();
        let fd = self.0.as_raw_fd();
        let options = format!("fd={fd},rootmode=40000,user_id=0,group_id=0");
        let options = CString::new(options).unwrap();
        let mount = move || {
            let private = libc::MS_REC | libc::MS_PRIVATE;
            // SAFETY: plain system calls between fork and exec; every pointer is null or leads to
            // a text that the closure owns.
            let is_done = unsafe {
                libc::unshare(libc::CLONE_NEWNS) == 0
                    && libc::mount(
                        c"none".as_ptr(),
                        c"/".as_ptr(),
                        std::ptr::null(),
                        private,
                        std::ptr::null(),
                    ) == 0
                    && libc::mount(
                        c"stuck".as_ptr(),
                        at.as_ptr(),
                        c"fuse".as_ptr(),
                        0,
                        options.as_ptr().cast(),
                    ) == 0
            };
            if is_done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        };
        // SAFETY: it makes three system calls and allocates nothing.
        unsafe { command.pre_exec(mount) };
    }

    /// Answers the greeting, takes one request more, and keeps it.
    fn take_one(&mut self) {
        let mut request = [0; 64 * 1024];
        let n = self.0.read(&mut request).unwrap();
        let word = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().unwrap());
        assert!(n > HEADER && word(4) == INIT, "{n} bytes, opcode {}", word(4));
        // `fuse_out_header` with the request's number, and `fuse_init_out`: version 7.31, and
        // zeroes for whatever else there is to agree on.
        let mut answer = [0; 16 + 64];
        answer[..4].copy_from_slice(&80u32.to_ne_bytes());
        answer[8..16].copy_from_slice(&request[8..16]);
        answer[16..20].copy_from_slice(&7u32.to_ne_bytes());
        answer[20..24].copy_from_slice(&31u32.to_ne_bytes());
        self.0.write_all(&answer).unwrap();
        assert!(self.0.read(&mut request).unwrap() >= HEADER);
    }
}

#[test]
fn kill_stuck_victim() {
    let Some(group) = Cgroup::new("stuck") else { return };
    let Some(mut server) = Server::open() else { return };
    let place = tempfile::tempdir().unwrap();
    let at = place.path().to_str().unwrap();
    let mut victim = Command::new("cat");
    server.mount_for(victim.arg(format!("{at}/file")), at);
    group.run(&mut victim);
    group.spawn("exec sleep 100");
    server.take_one();
    group.wait_for(2);

    let (mut actor, _state) = actor();
    wait("the other one is asleep", || group.states() == "SS");
    let first = actor.take(&enforced(KillContainers, group.target()));
    assert_eq!((first.result, first.ended, first.freed), (Done, Some(1), None), "{first:?}");
    assert!(first.detail.contains("1 left: "), "{first:?}");
    assert!(first.detail.contains("(cat, D: uninterruptible sleep"), "{first:?}");
    assert!(first.took < Nanos(Nanos::SECOND.0), "{first:?}");
    assert!(actor.is_busy() && actor.poll().is_empty());

    let hurried = actor.take(&enforced(ReleaseMemory, group.target()));
    assert_eq!(hurried.result, Done, "{hurried:?}");
    assert!(hurried.detail.starts_with("gave back the memory of 1 process;"), "{hurried:?}");

    drop(server);
    let mut news = Vec::new();
    wait("it has ended", || {
        news.extend(actor.poll());
        !news.is_empty()
    });
    let [last] = &news[..] else { panic!("told more than once: {news:?}") };
    assert_eq!((last.action, last.result, last.ended), (first.action, Done, Some(1)), "{last:?}");
    assert!(!actor.is_busy() && actor.poll().is_empty());
}

#[test]
fn kill_vfork_parent() {
    let Some(group) = Cgroup::new("vfork") else { return };
    let clone = || {
        // SAFETY: as fork does, clone copies this process; the parent goes on when the child has
        // called exec or ended, which it does not before it is killed. Closed is whatever other
        // tests would wait for in vain: neither will ever call exec.
        unsafe {
            libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0);
            if libc::syscall(libc::SYS_clone, libc::CLONE_VFORK | libc::SIGCHLD, 0, 0, 0, 0) == 0 {
                libc::pause();
            }
        }
        Ok(())
    };
    let mut victim = Command::new("true");
    group.enter(&mut victim);
    // SAFETY: it makes three system calls and allocates nothing.
    unsafe { victim.pre_exec(clone) };
    group.begin(&mut victim);
    wait("it waits for its child", || group.pids().len() == 2 && group.states().contains('D'));
    let (mut actor, _state) = actor();
    let outcome = actor.take(&enforced(KillContainers, group.target()));
    let outcome = settle(&mut actor, outcome);
    assert_eq!((outcome.result, outcome.ended), (Done, Some(2)), "{outcome:?}");
    assert!(group.pids().is_empty(), "{outcome:?}");
}
