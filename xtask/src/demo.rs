//! `cargo xtask demo`: two cgroups that want the same CPU, to look at isobar with.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use isobar_lab::cgroup::{self, Group};
use isobar_lab::clock::Since;
use isobar_lab::signals::Stop;

/// The cgroups, and how many threads each keeps busy: the victim gets a quarter of the CPU.
const PARTS: [(&str, &str); 2] = [("isobar-demo-aggressor", "3"), ("isobar-demo-victim", "1")];

/// Make one cgroup wait for another on one CPU, for isobar to be looked at.
#[derive(clap::Args)]
pub(crate) struct Demo {
    /// For how long.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// On which CPU; the last one without it.
    #[arg(long)]
    cpu: Option<usize>,
}

impl Demo {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let stop = Stop::listen()?;
        let mount = cgroup::mount()?;
        let cpu = match self.cpu {
            Some(cpu) => cpu,
            None => last_cpu()?,
        };
        let parts: Result<Vec<Part>> = PARTS
            .into_iter()
            .map(|(name, threads)| Part::start(&mount, name, threads, cpu, self.seconds))
            .collect();
        let mut parts = parts?;
        eprintln!(
            "{} is kept waiting for CPU {cpu} by {} for {} s. With isobar running \
             (cargo xtask run), look at http://127.0.0.1:9797; ctrl-c ends this.",
            PARTS[1].0, PARTS[0].0, self.seconds
        );
        let since = Since::now();
        // A little longer than the loads, so that they end by themselves.
        while since.within(Duration::from_secs(self.seconds + 2)) && !stop.requested() {
            if parts.iter_mut().all(|part| matches!(part.load.try_wait(), Ok(Some(_)))) {
                break;
            }
            thread::sleep(Duration::from_millis(100));
        }
        for part in parts {
            println!("{}", part.end()?);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The last CPU that we may use: the first has most of the interrupts.
pub(crate) fn last_cpu() -> Result<usize> {
    let allowed = rustix::thread::sched_getaffinity(None)?;
    let last = (0..rustix::thread::CpuSet::MAX_CPU).rev().find(|cpu| allowed.is_set(*cpu));
    last.context("there is no CPU to use")
}

/// One of the two cgroups and its load.
struct Part {
    name: &'static str,
    load: Child,
    /// Killed and removed when this goes.
    _group: Group,
}

impl Part {
    fn start(
        mount: &Path,
        name: &'static str,
        threads: &str,
        cpu: usize,
        seconds: u64,
    ) -> Result<Self> {
        let dir = mount.join(name);
        if dir.exists() {
            left_behind(&dir)?;
        }
        let group = Group::make(dir.clone()).context("the demo makes cgroups: run it as root")?;
        let me: PathBuf = std::env::current_exe()?;
        let mut load = Command::new(me);
        load.args(["load", "spin", "--threads", threads, "--cgroup"]).arg(dir);
        load.args(["--cpu", &cpu.to_string(), "--seconds", &seconds.to_string()]);
        let load = load.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        Ok(Self { name, load, _group: group })
    }

    /// Ends the load and says what it was like.
    fn end(self) -> Result<String> {
        if let Some(pid) = Pid::from_raw(self.load.id().cast_signed()) {
            // Fails only if it has ended already.
            let _ = kill_process(pid, Signal::TERM);
        }
        let out = self.load.wait_with_output()?;
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        let Ok(did) = serde_json::from_str::<Value>(&said) else {
            bail!("the load of {} ended without a word: {}", self.name, out.status);
        };
        let seconds = |key: &str| did[key].as_f64().unwrap_or_default() / 1e9;
        let (ran, waited) = (seconds("ranNs"), seconds("waitedNs"));
        Ok(format!("{}: its threads ran {ran:.1} s and waited {waited:.1} s", self.name))
    }
}

/// Removes what a demo that was killed had no time to remove.
fn left_behind(dir: &Path) -> Result<()> {
    let procs = std::fs::read_to_string(dir.join("cgroup.procs"))?;
    if !procs.is_empty() {
        bail!("a demo is running already: {} has processes", dir.display());
    }
    std::fs::remove_dir(dir).with_context(|| format!("cannot remove {}", dir.display()))
}
