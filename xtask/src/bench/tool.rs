//! runqlat, twice: libbpf-tools' in C, and bpftrace's script. Attached, checked to have measured
//! something, and detached.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::running::Running;
use isobar_lab::clock::Since;
use isobar_lab::shell::{found, tail};

/// Wakeup, wakeup of a new task, switch: what runqlat hooks, whoever wrote it.
const HOOKS: usize = 3;

/// bpftrace compiles its script first.
const ATTACHES_WITHIN: Duration = Duration::from_secs(30);

/// A tool that is attached; it ends with this value.
pub(super) struct Tool {
    name: &'static str,
    process: Running,
}

impl Tool {
    /// libbpf-tools' runqlat.
    pub(super) fn runqlat() -> Result<Self> {
        let program = found("runqlat").context("there is no runqlat in PATH")?;
        Self::start("runqlat", &mut Command::new(program))
    }

    /// bpftrace's runqlat.bt.
    pub(super) fn bpftrace() -> Result<Self> {
        let script = found("runqlat.bt").context("there is no runqlat.bt in PATH")?;
        let script = without_headers(&fs::read_to_string(script)?);
        let bpftrace = found("bpftrace").context("there is no bpftrace in PATH")?;
        let mut command = Command::new(&bpftrace);
        if !Path::new("/sys/kernel/tracing/events").exists() {
            // It needs tracefs. A mount of its own leaves the machine as it is.
            command = Command::new("unshare");
            let mount = "mount -t tracefs tracefs /sys/kernel/tracing && exec \"$0\" \"$@\"";
            command.args(["--mount", "sh", "-c", mount]).arg(bpftrace);
        }
        Self::start("runqlat.bt", command.arg("-e").arg(script))
    }

    fn start(name: &'static str, command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let process = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let mut tool = Self { name, process: Running(process) };
        let (since, mut before) = (Since::now(), 0);
        loop {
            thread::sleep(Duration::from_millis(300));
            let hooks = tool.hooks();
            // What it prints is buffered, so its open files must tell: all there, and no more come.
            if hooks >= HOOKS && hooks == before {
                return Ok(tool);
            }
            before = hooks;
            if tool.process.0.try_wait()?.is_some() || !since.within(ATTACHES_WITHIN) {
                let said = tool.end()?;
                bail!("{name} does not attach: {}", tail(&said, 3).replace('\n', "; "));
            }
        }
    }

    /// Ends it. An error if it saw no switch: then it cost less than it should.
    pub(super) fn finish(mut self) -> Result<()> {
        let said = self.end()?;
        if !said.contains("usecs") || !said.contains('|') {
            bail!("{} measured nothing: {}", self.name, tail(&said, 3).replace('\n', "; "));
        }
        Ok(())
    }

    /// Places where it is hooked in.
    fn hooks(&self) -> usize {
        let fds = PathBuf::from(format!("/proc/{}/fd", self.process.0.id()));
        let Ok(fds) = fs::read_dir(fds) else { return 0 };
        let kinds = fds.flatten().filter_map(|fd| fs::read_link(fd.path()).ok());
        let is_hook = |kind: &PathBuf| {
            ["anon_inode:bpf_link", "anon_inode:[perf_event]"].iter().any(|k| kind == Path::new(k))
        };
        kinds.filter(is_hook).count()
    }

    /// What it printed until it ended.
    fn end(&mut self) -> Result<String> {
        self.interrupt();
        let mut said = String::new();
        // Both are far shorter than a pipe is deep.
        if let Some(stdout) = &mut self.process.0.stdout {
            stdout.read_to_string(&mut said)?;
        }
        if let Some(stderr) = &mut self.process.0.stderr {
            stderr.read_to_string(&mut said)?;
        }
        self.process.0.wait()?;
        Ok(said)
    }

    fn interrupt(&self) {
        if let Some(pid) = Pid::from_raw(self.process.0.id().cast_signed()) {
            // Fails only if it has ended already.
            let _ = kill_process(pid, Signal::INT);
        }
    }
}

/// The script, for machines without the kernel's headers: the one thing that it wants of them is
/// `TASK_RUNNING`, which is 0.
fn without_headers(script: &str) -> String {
    let lines = script.lines().filter(|line| !line.starts_with('#'));
    let lines: Vec<String> = lines.map(|line| line.replace("TASK_RUNNING", "0")).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_loses_its_headers_and_nothing_else() {
        let script = "#!/usr/bin/env bpftrace\n#include <linux/sched.h>\nBEGIN { }\n\
                      tracepoint:x { if (args->prev_state == TASK_RUNNING) { @a = 1; } }";
        assert_eq!(
            without_headers(script),
            "BEGIN { }\ntracepoint:x { if (args->prev_state == 0) { @a = 1; } }"
        );
    }
}
