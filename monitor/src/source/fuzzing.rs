//! Entry points of the parsers of this module, for the fuzz crate.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::slice;

use super::cgroup::files::File;
use super::kernel::layout;
use super::lines::value;
use super::{kernel, mounts, pressure, proc, processes};
use isobar_core::model::cgroup::Cgroup;
use isobar_core::model::psi::{Line, Pressure};

/// A pressure file. Printed as the kernel prints it, the reading must parse to the same value.
pub fn psi(bytes: &[u8]) -> bool {
    let Ok(read) = pressure::parse(bytes) else { return false };
    let again = pressure::parse(psi_text(read.pressure).as_bytes());
    assert_eq!(again.map(|again| again.pressure), Ok(read.pressure));
    true
}

/// As `psi_show`, kernel/sched/psi.c, prints it.
pub(super) fn psi_text(pressure: Pressure) -> String {
    let mut text = String::new();
    for (name, line) in [("some", pressure.some), ("full", pressure.full)] {
        if let Some(Line { avg10, avg60, avg300, total: micros }) = line {
            let total = micros.0;
            let line = format!("{name} avg10={avg10} avg60={avg60} avg300={avg300} total={total}");
            writeln!(text, "{line}").expect("a string takes all text");
        }
    }
    text
}

/// The files of a cgroup, each as if it held `bytes`.
pub fn cgroup(bytes: &[u8]) -> bool {
    let mut understood = false;
    for file in File::all() {
        let (mut once, mut twice) = (Cgroup::default(), Cgroup::default());
        if file.fill(bytes, &mut once).is_err() {
            continue;
        }
        understood = true;
        // The result depends on the text alone, not on the reading before.
        let _ = file.fill(bytes, &mut twice);
        let _ = file.fill(bytes, &mut twice);
        assert_eq!(once, twice, "{} read twice", file.name());
        let Some((_, cut)) = bytes.split_last().filter(|(_, cut)| !cut.is_empty()) else {
            continue;
        };
        let cut = file.fill(cut, &mut twice);
        assert!(cut.is_err(), "{} without its last byte is torn, not a reading", file.name());
    }
    understood
}

/// `/proc/self/mountinfo`. A mount point must be found again when it is escaped as the kernel does.
pub fn mountinfo(bytes: &[u8]) -> bool {
    let found = mounts::cgroup2_mounts(bytes);
    for path in &found {
        let mut line = b"31 23 0:28 / ".to_vec();
        for byte in path.as_os_str().as_bytes() {
            // `show_mountinfo`, fs/proc_namespace.c, by `mangle_path`: three octal digits.
            match byte {
                b' ' | b'\t' | b'\n' | b'\\' => line.extend(format!("\\{byte:03o}").bytes()),
                byte => line.push(*byte),
            }
        }
        line.extend(b" rw - cgroup2 cgroup2 rw\n");
        let again = mounts::cgroup2_mounts(&line);
        assert_eq!(again, slice::from_ref(path), "{}", String::from_utf8_lossy(&line));
    }
    !found.is_empty()
}

/// The other files below `/proc`.
pub fn proc(bytes: &[u8]) -> bool {
    // All are tried: one must not keep the others from the bytes.
    let pids: Result<Vec<_>, _> = processes::pids(bytes).collect();
    let understood = [
        proc::stat(bytes).map(|stat| proc::cpu_time(&stat.total)).is_ok(),
        proc::loadavg(bytes).is_ok(),
        proc::meminfo(bytes).is_ok(),
        proc::vmstat(bytes).is_ok(),
        processes::status(bytes).is_ok(),
        processes::oom_score_adj(bytes).is_ok(),
        value(bytes).is_ok(),
        pids.is_ok(),
    ];
    understood.contains(&true)
}

/// `/sys/kernel/btf/vmlinux`, and the layout derived from it.
pub fn btf(bytes: &[u8]) -> bool {
    let host = kernel::Host { cpu_on_v2: true, memory_on_v1: false, psi: true, own_cgroup: None };
    layout::read(bytes, host).is_ok()
}
