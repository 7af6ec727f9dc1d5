//! A machine in ordinary directories: `/proc`, `/sys` and a cgroup tree, and isobar run on it.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use crate::program::isobar;
use serde_json::Value;
use tempfile::TempDir;

/// A machine that lasts as long as this.
pub(crate) struct Machine(TempDir);

impl Machine {
    /// Nothing but a directory, for files.
    pub(crate) fn empty() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Eight hyper-threads (0 and 4 are a core), 32 GiB, 64 MiB in huge pages.
    pub(crate) fn new() -> Self {
        let machine = Self::empty();
        let kib = 32 << 20;
        machine.write(
            "proc/meminfo",
            &format!(
                "MemTotal: {kib} kB\nMemFree: 1 kB\nMemAvailable: 1 kB\nBuffers: 0 kB\n\
                 Cached: 0 kB\nSwapCached: 0 kB\nActive: 0 kB\nInactive: 0 kB\nSwapTotal: 0 kB\n\
                 SwapFree: 0 kB\nDirty: 0 kB\nWriteback: 0 kB\nMapped: 0 kB\nSlab: 0 kB\n\
                 Committed_AS: 0 kB\nVmallocTotal: 0 kB\nVmallocUsed: 0 kB\nVmallocChunk: 0 kB\n"
            ),
        );
        machine.write("proc/sys/kernel/pid_max", "32768\n");
        machine.write("proc/sys/kernel/threads-max", "10000\n");
        machine.write("sys/devices/system/cpu/online", "0-7\n");
        for cpu in 0..8 {
            let core = cpu % 4;
            let topology = format!("sys/devices/system/cpu/cpu{cpu}/topology");
            let siblings = format!("{core},{}\n", core + 4);
            machine.write(&format!("{topology}/thread_siblings_list"), &siblings);
            machine.write(&format!("{topology}/physical_package_id"), "0\n");
            machine.write(&format!("sys/devices/system/cpu/cpu{cpu}/node0/cpulist"), "0-7\n");
        }
        let pages = "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
        machine.write(pages, "32\n");
        machine.write("cgroup/cgroup.procs", "");
        machine
    }

    /// Writes a file, and the directories above it. Its path, for an argument.
    pub(crate) fn write(&self, path: &str, text: &str) -> String {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().into()
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// A cgroup with files, and the processes that run in it.
    pub(crate) fn cgroup(&self, path: &str, files: &[(&str, &str)], pids: &[u32]) {
        let pids: String = pids.iter().map(|pid| format!("{pid}\n")).collect();
        self.write(&format!("cgroup/{path}/cgroup.procs"), &pids);
        for (file, text) in files {
            self.write(&format!("cgroup/{path}/{file}"), &format!("{text}\n"));
        }
    }

    /// A process with so much memory, or a kernel thread with none, on these CPUs.
    pub(crate) fn process(&self, pid: u32, name: &str, mib: u32, cpus: &str) {
        let (parent, memory) = match mib {
            0 => (2, String::new()),
            mib => (1, format!("VmRSS:\t{} kB\n", mib << 10)),
        };
        let status =
            format!("Name:\t{name}\nPPid:\t{parent}\n{memory}Cpus_allowed_list:\t{cpus}\n");
        self.write(&format!("proc/{pid}/status"), &status);
        self.write(&format!("proc/{pid}/oom_score_adj"), "0\n");
    }

    /// Runs isobar with this machine as its own.
    pub(crate) fn isobar(&self, arguments: &[&str]) -> Output {
        let at = |path: &str| self.at(path).to_str().unwrap().to_owned();
        let (proc, sys, cgroup) = (at("proc"), at("sys"), at("cgroup"));
        let roots = ["--proc", &proc, "--sys", &sys, "--cgroup-root", &cgroup];
        output(&[arguments, &roots].concat())
    }
}

pub(crate) fn output(arguments: &[&str]) -> Output {
    isobar(arguments).output().unwrap()
}

/// Runs isobar with a text on its standard input.
pub(crate) fn given(arguments: &[&str], stdin: &str) -> Output {
    let mut command = isobar(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    // It may refuse its arguments and never read.
    let _ = process.stdin.take().unwrap().write_all(stdin.as_bytes());
    process.wait_with_output().unwrap()
}

/// What it printed, if it went well.
#[track_caller]
pub(crate) fn json(output: &Output) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What it said on stderr when it refused what it was given: nothing is printed then.
#[track_caller]
pub(crate) fn refusal(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert_eq!(output.stdout, b"", "{stderr}");
    stderr
}
