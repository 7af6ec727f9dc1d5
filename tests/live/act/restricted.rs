//! A profile that takes rights away: from one thread of this program, which then acts.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::process::Command;
use std::thread;

use isobar::act::Actuator;
use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::decision::OutcomeResult::{Done, Failed};
use isobar_core::model::decision::StepKind::{self, KillContainers, Mark, Squeeze, StopContainers};
use isobar_core::model::decision::{Action, Target};
use isobar_core::model::threshold::PressureSignal;
use isobar_core::model::units::Percent;
use rustix::process::geteuid;
use rustix::thread::CapabilitySet;

use super::place::{Cgroup, actor_of, against, enforced, mount, options, settle, wait};
use crate::capabilities::keep_alone;
use crate::host::skip;
use crate::profile::{NOBODY, Rights};

/// Does `work` on a thread that has given up its rights by `give_up`.
fn with_less<T: Send>(give_up: impl FnOnce() -> bool + Send, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            assert!(give_up(), "{}", std::io::Error::last_os_error());
            work()
        });
        thread.join().unwrap()
    })
}

/// Becomes nobody in particular. The plain system call is about this thread alone.
fn lose_root() -> bool {
    // SAFETY: three numbers.
    unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) == 0 }
}

/// Sees the cgroup file system mounted read-only, as a container that is not privileged does.
fn lose_write() -> bool {
    let at = CString::new(mount().unwrap().as_os_str().as_bytes()).unwrap();
    let (at, none, null) = (at.as_ptr(), c"none".as_ptr(), std::ptr::null());
    let read_only = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY;
    // SAFETY: plain system calls; every pointer is null or leads to a text that lives until here.
    // The mounts are this thread's own once it has unshared them.
    unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(none, c"/".as_ptr(), null, libc::MS_REC | libc::MS_PRIVATE, null.cast())
                == 0
            && libc::mount(none, at, null, read_only, null.cast()) == 0
    }
}

#[test]
fn kill_without_capability() {
    let Some(group) = Cgroup::new("eperm") else { return };
    group.spawn("exec sleep 100");
    group.wait_for(1);
    let state = tempfile::tempdir().unwrap();
    let root = mount().unwrap();
    let mut actor = Actuator::open(options(&root, state.path())).unwrap();
    let (means, kill, stop) = with_less(lose_root, || {
        let kill = actor.take(&enforced(KillContainers, group.target()));
        (actor.available_steps(), kill, actor.take(&enforced(StopContainers, group.target())))
    });
    assert_eq!((kill.result, stop.result), (Failed, Failed), "{kill:?} {stop:?}");
    for text in ["/cgroup.kill: not permitted: run isobar as root", "missing CAP_KILL"] {
        assert!(kill.detail.contains(text), "{text:?} {kill:?}");
    }
    assert!(stop.detail.contains("missing CAP_KILL"), "{stop:?}");
    assert!(!means.allowed.contains(&Squeeze), "{means:?}");
    assert_eq!(group.pids().len(), 1);
}

/// What is not enforced is told by what the kernel has, not by what this process may.
#[test]
fn means_without_capability() {
    let root = tempfile::tempdir().unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let group = root.path().join("busy");
    fs::create_dir(&group).unwrap();
    for file in ["memory.high", "memory.reclaim"] {
        fs::write(group.join(file), "").unwrap();
    }
    let (actor, _state) = actor_of(root.path());
    let steps = BTreeSet::from([Mark, StepKind::Reclaim, Squeeze]);
    if geteuid().is_root() {
        let means = actor.available_steps();
        assert!(means.allowed.contains(&StepKind::Reclaim), "{means:?}");
        assert!(means.allowed.contains(&Squeeze), "{means:?}");
    }
    let means = with_less(lose_root, move || actor.available_steps());
    assert!(means.known.is_superset(&steps), "{means:?}");
    assert!(means.allowed.is_disjoint(&steps), "{means:?}");
}

#[test]
fn kill_read_only_cgroups() {
    let Some(group) = Cgroup::new("erofs") else { return };
    let below = group.child("below");
    below.spawn("exec sleep 100");
    group.spawn("while :; do sleep 5 & done");
    group.wait_for(20);
    let outcome = with_less(lose_write, || {
        let state = tempfile::tempdir().unwrap();
        let mut actor = Actuator::open(options(&mount().unwrap(), state.path())).unwrap();
        let outcome = actor.take(&enforced(KillContainers, group.target()));
        settle(&mut actor, outcome)
    });
    assert_eq!(outcome.result, Done, "{outcome:?}");
    assert!(outcome.detail.starts_with("SIGKILL to each after "), "{outcome:?}");
    assert!(group.pids().is_empty() && below.pids().is_empty(), "{outcome:?}");
}

#[test]
fn kill_thaws() {
    let Some(group) = Cgroup::new("old") else { return };
    group.spawn("exec sleep 100");
    group.wait_for(1);
    // An older kernel's cgroup, of plain files: it has no cgroup.kill.
    let tree = tempfile::tempdir().unwrap();
    let dir = tree.path().join("work");
    fs::create_dir(&dir).unwrap();
    let pid = group.pids()[0];
    // Whoever has ended and is still listed is waited for in vain, but not for long.
    fs::write(dir.join("cgroup.procs"), format!("{pid}\n")).unwrap();
    fs::write(dir.join("cgroup.freeze"), "1\n").unwrap();
    let id = fs::metadata(&dir).unwrap().ino();
    let target = Target {
        cgroup: Some(CgroupId(id)),
        path: Some(CgroupPath("/work".into())),
        ..Target::default()
    };
    let state = tempfile::tempdir().unwrap();
    let mut actor = Actuator::open(options(tree.path(), state.path())).unwrap();
    let outcome = actor.take(&enforced(KillContainers, target));
    assert_eq!(outcome.result, Done, "{outcome:?}");
    assert_eq!(fs::read_to_string(dir.join("cgroup.freeze")).unwrap(), "0");
    wait("it has ended", || group.pids().is_empty());
}

/// A cgroup of plain files, all of them another user's, as where cgroups were delegated.
fn delegated() -> (tempfile::TempDir, Target) {
    let tree = tempfile::tempdir().unwrap();
    let dir = tree.path().join("work");
    fs::create_dir(&dir).unwrap();
    for (file, text) in [("cgroup.procs", ""), ("cpu.weight", "100\n")] {
        fs::write(dir.join(file), text).unwrap();
        chown(dir.join(file), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let id = CgroupId(fs::metadata(&dir).unwrap().ino());
    let path = CgroupPath("/work".into());
    (tree, Target { cgroup: Some(id), path: Some(path), ..Target::default() })
}

/// Whether `step` is done with `rights` to a process and a cgroup of another user.
fn is_done(step: StepKind, rights: Rights) -> Option<bool> {
    let group = Cgroup::new("other-user")?;
    let sleep = ["--reuid=65534", "--regid=65534", "--clear-groups", "sleep", "100"];
    group.run(Command::new("setpriv").args(sleep));
    wait("it is another user's", || {
        let of = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).ok();
        group.pids().first().and_then(of).is_some_and(|name| name == "sleep\n")
    });
    let (tree, delegated) = delegated();
    let (root, target) = match step {
        Squeeze => (tree.path().to_owned(), delegated),
        _ => (mount().unwrap(), group.target()),
    };
    let state = tempfile::tempdir().unwrap();
    let outcome = with_less(
        || keep_alone(rights.listed()).is_ok(),
        || {
            let mut actor = Actuator::open(options(&root, state.path())).unwrap();
            let on = PressureSignal::Cpu(Percent(40_00));
            let first = actor.take(&Action { is_enforced: true, ..against(on, step, target) });
            settle(&mut actor, first)
        },
    );
    Some(outcome.result == Done)
}

/// The table of docs/kubernetes.md#profiles, the rows of an agent that enforces.
#[test]
fn restricted_profile_can_do_its_steps() {
    if !geteuid().is_root() {
        skip("only root has capabilities to give up");
        return;
    }
    let observing = Rights::of_manifest(&["restricted"]);
    let enforcing = Rights::of_manifest(&["restricted", "restricted-enforce"]);
    let (files, kill) = (CapabilitySet::DAC_OVERRIDE, CapabilitySet::KILL);
    #[rustfmt::skip]
    let table = [
        // step,          fails without
        (Mark,            files),
        (Squeeze,         files),
        (StopContainers,  kill),
        // By cgroup.kill, which is root's.
        (KillContainers,  CapabilitySet::empty()),
    ];
    let needed = table.iter().fold(CapabilitySet::empty(), |all, row| all | row.1);
    assert_eq!(observing.listed() | needed, enforcing.listed(), "a row for each capability");
    for (step, needs) in table {
        let Some(is_done) = is_done(step, enforcing) else { return };
        assert!(is_done, "{step:?} with all that the manifest lists");
        for taken in (enforcing.listed() - observing.listed()).iter() {
            let is_done = self::is_done(step, enforcing.without(taken)).unwrap();
            assert_eq!(is_done, !needs.contains(taken), "{step:?} without {taken:?}");
        }
    }
}
