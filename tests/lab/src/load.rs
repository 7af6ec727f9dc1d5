//! `cargo xtask load`: real work of known shape, for the demo, scenarios and benchmarks.
//! Each prints one line of JSON about what it did, also when a signal ends it early.

mod burst;
mod echo;
mod file;
mod fill;
mod fork;
mod map;
mod memory;
mod pingpong;
mod poll;
mod read;
mod sockets;

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use rustix::process::{DumpableBehavior, Uid, set_dumpable_behavior};
use rustix::thread::{CpuSet, set_thread_res_uid};
use serde_json::{Value, json};

use crate::cgroup;
use crate::clock::{Since, monotonic_ns};
use crate::signals::Stop;

/// Do real work of known shape, and say what was done.
#[derive(clap::Args)]
pub struct Load {
    #[command(subcommand)]
    work: Work,
    /// For how long.
    #[arg(long, default_value_t = 10.0, global = true)]
    seconds: f64,
    /// Start only after this.
    #[arg(long, default_value_t = 0.0, global = true)]
    after_seconds: f64,
    /// On this CPU alone.
    #[arg(long, global = true)]
    cpu: Option<usize>,
    /// In this cgroup: its directory.
    #[arg(long, global = true)]
    cgroup: Option<PathBuf>,
    /// How readily the kernel kills it when memory is short: -1000 to 1000.
    #[arg(long, global = true, allow_hyphen_values = true)]
    oom_score_adj: Option<i32>,
    /// As this user, once it is in its cgroup.
    #[arg(long, global = true)]
    user: Option<u32>,
    /// Say when the work begins, in a line of its own.
    #[arg(long, global = true)]
    tell_begin: bool,
    /// Begin only once this file is there; memory that a load starts with is in use before.
    #[arg(long, global = true)]
    wait_for: Option<PathBuf>,
    /// Do not end on SIGTERM.
    #[arg(long, global = true)]
    ignore_term: bool,
    /// Go on for so long after SIGTERM.
    #[arg(long, global = true, default_value_t = 0.0)]
    linger_seconds: f64,
}

/// What shells make of a process that SIGTERM ended: this one ended because of it, if tidily.
const TERMINATED: u8 = 128 + 15;

#[derive(clap::Subcommand)]
enum Work {
    /// Threads that never rest.
    Spin {
        #[arg(long, default_value_t = 1)]
        threads: usize,
    },
    Burst(burst::Burst),
    Echo(echo::Echo),
    Fork(fork::Fork),
    Map(map::Map),
    Read(read::Read),
    Memory(memory::Memory),
    File(file::File),
    Fill(fill::Fill),
    Pingpong(pingpong::Pingpong),
    Poll(poll::Poll),
    Sockets(sockets::Sockets),
    /// A process that does nothing.
    Sleep,
    /// Write a text to a file, once, as an operator may do.
    Write {
        file: PathBuf,
        text: String,
    },
    /// Run a program to its end.
    Run {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        words: Vec<String>,
    },
}

/// When to end.
#[derive(Clone)]
struct Until {
    since: Since,
    limit: Duration,
    stop: Stop,
    linger: Duration,
    /// When the request to stop was first seen.
    seen_at: Arc<OnceLock<Since>>,
}

impl Until {
    fn goes_on(&self) -> bool {
        self.since.within(self.limit) && !self.has_ended()
    }

    /// Told to end, and done with lingering.
    fn has_ended(&self) -> bool {
        self.stop.requested() && !self.seen_at.get_or_init(Since::now).within(self.linger)
    }

    /// The time that is left.
    fn rest(&self) -> Duration {
        self.limit.saturating_sub(self.since.elapsed())
    }

    /// Sleeps for at most `time`, in steps short enough to end promptly.
    fn sleep(&self, time: Duration) {
        let since = Since::now();
        while self.goes_on() && since.within(time) {
            thread::sleep(time.saturating_sub(since.elapsed()).min(Duration::from_millis(100)));
        }
    }
}

impl Load {
    /// Works until the time is over or a signal comes.
    ///
    /// # Errors
    /// What the load needs is not there: its cgroup, file or terminal.
    pub fn run(mut self) -> Result<ExitCode> {
        if let Some(dir) = &self.cgroup {
            cgroup::enter(dir)?;
        }
        if let Some(adj) = self.oom_score_adj {
            std::fs::write("/proc/self/oom_score_adj", adj.to_string())
                .context("cannot write to /proc/self/oom_score_adj")?;
        }
        self.user.map_or(Ok(()), become_user)?;
        let stop = if self.ignore_term { Stop::ignored()? } else { Stop::listen()? };
        let linger = duration(self.linger_seconds)?;
        let lasting = |limit| Until {
            since: Since::now(),
            limit,
            stop: stop.clone(),
            linger,
            seen_at: Arc::default(),
        };
        if let Some(file) = &self.wait_for {
            if let Work::Memory(memory) = &mut self.work {
                memory.prepare();
            }
            let limit = lasting(duration(self.seconds)?);
            while limit.goes_on() && !file.exists() {
                thread::sleep(Duration::from_millis(5));
            }
        }
        let after = duration(self.after_seconds)?;
        lasting(after).sleep(after);
        if let Some(cpu) = self.cpu {
            pin(cpu)?;
        }
        if self.tell_begin {
            println!("{}", json!({ "begin": std::process::id(), "atNs": monotonic_ns() }));
        }
        let until = lasting(duration(self.seconds)?);
        let mut done = match self.work {
            Work::Spin { threads } => spin(threads, &until)?,
            Work::Burst(burst) => burst.work(&until),
            Work::Memory(mut memory) => memory.work(&until)?,
            Work::File(file) => file.work(&until)?,
            Work::Fill(fill) => fill.work(&until)?,
            Work::Echo(echo) => echo.work(&until)?,
            Work::Fork(fork) => fork.work(&until)?,
            Work::Map(map) => map.work(&until)?,
            Work::Read(read) => read.work(&until)?,
            Work::Pingpong(pingpong) => pingpong.work(&until)?,
            Work::Poll(poll) => poll.work(&until)?,
            Work::Sockets(sockets) => sockets.work(&until)?,
            Work::Sleep => {
                until.sleep(until.limit);
                json!({ "load": "sleep" })
            }
            Work::Write { file, text } => {
                std::fs::write(&file, &text)
                    .with_context(|| format!("cannot write {text:?} to {}", file.display()))?;
                json!({ "load": "write" })
            }
            Work::Run { words } => {
                let (program, arguments) = words.split_first().context("no program is named")?;
                let status = Command::new(program).args(arguments).status();
                let status = status.with_context(|| format!("cannot run {program}"))?;
                json!({ "load": "run", "status": status.code() })
            }
        };
        done["seconds"] = json!(until.since.elapsed().as_secs_f64());
        println!("{done}");
        Ok(if stop.requested() { ExitCode::from(TERMINATED) } else { ExitCode::SUCCESS })
    }
}

/// Has the process, which has no other thread yet, belong to a user, as one that was executed by
/// that user: its files in /proc are the user's too.
fn become_user(user: u32) -> Result<()> {
    let user = Uid::from_raw(user);
    set_thread_res_uid(user, user, user).context("cannot change the user")?;
    Ok(set_dumpable_behavior(DumpableBehavior::Dumpable)?)
}

/// Seconds of the command line.
fn duration(seconds: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(seconds).with_context(|| format!("{seconds} is no time"))
}

/// Binds the calling thread, and threads that it starts later, to one CPU.
fn pin(cpu: usize) -> Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        bail!("there is no CPU {cpu}");
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set).with_context(|| format!("cannot use CPU {cpu}"))
}

/// Runs `threads` copies of `work`; without any, waits.
fn threads(n: usize, until: &Until, work: impl Fn() + Clone + Send + 'static) -> Result<()> {
    if n == 0 {
        until.sleep(until.limit);
    }
    let spawned: Result<Vec<_>, _> =
        (0..n).map(|_| thread::Builder::new().spawn(work.clone())).collect();
    for thread in spawned.context("cannot start a thread")? {
        thread.join().map_err(|_| anyhow!("a thread panicked"))?;
    }
    Ok(())
}

/// Threads that never rest, and what the scheduler says of them.
fn spin(n: usize, until: &Until) -> Result<Value> {
    let ends = until.clone();
    let waits = Arc::new(std::sync::Mutex::new((0u64, 0u64)));
    let sums = Arc::clone(&waits);
    threads(n, until, move || {
        while ends.goes_on() {
            std::hint::black_box((0..20_000u64).fold(0, |sum, n| sum ^ n));
        }
        let (ran, waited) = schedstat();
        if let Ok(mut sums) = sums.lock() {
            *sums = (sums.0 + ran, sums.1 + waited);
        }
    })?;
    let (ran, waited) = waits.lock().map_or((0, 0), |sums| *sums);
    Ok(json!({ "load": "spin", "threads": n, "ranNs": ran, "waitedNs": waited }))
}

/// What the scheduler says that the calling thread ran and waited, in nanoseconds.
fn schedstat() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let mut numbers = text.split_whitespace().map_while(|n| n.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}
