//! With real controllers, where the host has them for cgroup v2: what the kernel makes of it.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use isobar_core::model::decision::OutcomeResult::{Done, Failed};
use isobar_core::model::decision::StepKind::{KillContainers, Reclaim, Squeeze};
use isobar_core::model::decision::{Action, Release, ReleaseReason};
use isobar_core::model::threshold::PressureSignal;
use isobar_core::model::units::{Bytes, Nanos, Percent};

use super::place::{Cgroup, actor, against, enforced, mount, settle, wait};

const MIB: u64 = 1 << 20;
const MEMORY: PressureSignal = PressureSignal::Memory(Percent(40_00));

/// A cgroup with these controllers; nobody's is switched on for it.
fn with(controllers: &[&str], name: &str) -> Option<Cgroup> {
    let root = mount();
    let on = root.map(|root| fs::read_to_string(root.join("cgroup.subtree_control")).unwrap());
    let on = on.unwrap_or_default();
    if controllers.iter().all(|wanted| on.split_whitespace().any(|word| word == *wanted)) {
        return Cgroup::new(name);
    }
    println!("skipped: cgroup v2 has not all of {controllers:?}, but {on:?}");
    None
}

/// Has a process live in `group` that does `work` and then nothing.
fn begin(group: &Cgroup, work: impl Fn() + Send + Sync + 'static) {
    let mut command = Command::new("true");
    group.enter(&mut command);
    let live = move || {
        // SAFETY: a number; whatever other tests would wait for in vain is closed, because this
        // process never calls exec.
        unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
        work();
        loop {
            // SAFETY: it waits for a signal, and touches nothing.
            unsafe { libc::pause() };
        }
    };
    // SAFETY: it takes memory, which glibc allows between fork and exec, and makes system calls.
    unsafe { command.pre_exec(live) };
    group.begin(&mut command);
}

/// Has somebody in `group` hold so much memory.
fn hold(group: &Cgroup, mib: usize) {
    begin(group, move || {
        std::hint::black_box(vec![1u8; mib << 20]).leak();
    });
    wait("it holds its memory", || current(group) >= (mib as u64) * MIB);
}

fn current(group: &Cgroup) -> u64 {
    group.read("memory.current").trim_end().parse().unwrap()
}

#[test]
fn kill_frees_memory() {
    let Some(group) = with(&["memory"], "freed") else { return };
    hold(&group, 64);
    let (mut actor, _state) = actor();
    actor.prepare(&[group.target()]);
    let outcome = actor.take(&enforced(KillContainers, group.target()));
    let outcome = settle(&mut actor, outcome);
    assert_eq!((outcome.result, outcome.ended), (Done, Some(1)), "{outcome:?}");
    assert!(outcome.freed.unwrap() >= Bytes(60 * MIB), "{outcome:?}");
    println!("{}", outcome.detail);
}

#[test]
fn squeeze_memory() {
    let Some(group) = with(&["memory"], "high") else { return };
    hold(&group, 64);
    let (mut actor, _state) = actor();
    let before = current(&group);
    let action = against(MEMORY, Squeeze, group.target());
    let outcome = actor.take(&Action { is_enforced: true, ..action });
    assert_eq!(outcome.result, Done, "{outcome:?}");
    let high: u64 = group.read("memory.high").trim_end().parse().unwrap();
    assert!(high < before && high > before / 4 * 3, "{high} of {before}: {outcome:?}");
    // Nothing of it can be taken back, so the kernel tries for a while.
    assert!(outcome.took < Nanos(Nanos::SECOND.0), "{outcome:?}");
    println!("{} took {} ms", outcome.detail, outcome.took.0 / 1_000_000);
    let why = ReleaseReason::Over;
    let release =
        Release { action: 7, step: Squeeze, target: group.target(), why, is_enforced: true };
    let outcome = actor.release(&release).unwrap();
    assert_eq!(
        (outcome.result, group.read("memory.high").as_str()),
        (Done, "max\n"),
        "{outcome:?}"
    );
}

#[test]
fn squeeze_weight_on_the_kernel() {
    let Some(group) = with(&["cpu"], "weight") else { return };
    let (mut actor, _state) = actor();
    for (before, held) in [("100", "10"), ("39", "3"), ("1", "1")] {
        group.write("cpu.weight", before);
        let on = PressureSignal::Cpu(Percent(40_00));
        let action = against(on, Squeeze, group.target());
        actor.take(&Action { is_enforced: true, ..action });
        assert_eq!(group.read("cpu.weight").trim_end(), held);
        let why = ReleaseReason::Over;
        let release =
            Release { action: 7, step: Squeeze, target: group.target(), why, is_enforced: true };
        assert_eq!(actor.release(&release).unwrap().result, Done);
        assert_eq!(group.read("cpu.weight").trim_end(), before);
    }
}

#[test]
fn reclaim_on_the_kernel() {
    let Some(group) = with(&["memory"], "reclaim") else { return };
    let action = |mib: u64| {
        let action = against(MEMORY, Reclaim, group.target());
        Action { is_enforced: true, want: Some(Bytes(mib * MIB)), ..action }
    };
    let (mut actor, _state) = actor();
    // Names that are not there are remembered until memory is short.
    begin(&group, || {
        for i in 0..60_000 {
            let _ = fs::metadata(format!("/sys/kernel/no-such-name-{i}"));
        }
    });
    wait("names are remembered", || current(&group) >= 10 * MIB);
    let outcome = actor.take(&action(4));
    let outcome = settle(&mut actor, outcome);
    assert_eq!(outcome.result, Done, "{outcome:?}");
    assert!(outcome.freed.unwrap() >= Bytes(2 * MIB), "{outcome:?}");
    println!("{} took {} ms", outcome.detail, outcome.took.0 / 1_000_000);

    let swap = fs::read_to_string("/proc/swaps").unwrap();
    if swap.lines().count() > 1 {
        println!("skipped: the rest, because with swap everything can be taken back");
        return;
    }
    group.write("cgroup.kill", "1");
    wait("it is empty", || group.pids().is_empty());
    let _ = fs::write(group.dir.join("memory.reclaim"), "1G");
    hold(&group, 32);
    let outcome = actor.take(&action(16));
    let outcome = settle(&mut actor, outcome);
    // A rest of the names may still be there.
    let why = match outcome.freed {
        None => "none of 16Mi could be taken back",
        Some(_) => "; the kernel found no more",
    };
    assert!(outcome.freed.unwrap_or_default() < Bytes(MIB), "{outcome:?}");
    assert!(outcome.detail.ends_with(why), "{outcome:?}");
    assert_eq!(outcome.result, if outcome.freed.is_none() { Failed } else { Done }, "{outcome:?}");
}
