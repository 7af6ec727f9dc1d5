//! Plays scenarios inside the guest, one after the other, and tells the host what was seen.

mod agent;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::Signal;

use super::agents::Agent;
use super::churn::Churn;
use super::facts::{Facts, Line, Play};
use super::file::{self, Order, Scenario, Work};
use super::set::{self, BYSTANDER, GO, Loading, Set};
use super::still::Clock;
use super::watch::{self, Role, Watch};
use crate::clock::{Since, monotonic_ns};
use crate::v2;
use agent::{Running, kill};

/// How often deaths are looked for.
const TICK: Duration = Duration::from_millis(20);
/// How long all that was started is given to come to rest.
const SETTLES: Duration = Duration::from_secs(2);
/// The first load has begun by then, or it never will.
const BEGINS_WITHIN: Duration = Duration::from_secs(90);
/// Loads last for so much longer than is measured: they are ended, they do not end.
const SPARE: Duration = Duration::from_secs(90);

/// Plays all that `dir` asks for: its file `plan` names them, one JSON object a line.
pub(crate) fn all(dir: &Path, results: &mut File) -> Result<()> {
    let mut say =
        |line: &Line| -> Result<()> { Ok(writeln!(results, "{}", serde_json::to_string(line)?)?) };
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned();
    say(&Line::Up { kernel: kernel.clone() })?;
    let clock = Clock::start()?;
    survive()?;
    let scenarios = file::read_all(&dir.join("relief"))?;
    let mount = v2::mount()?;
    let plan = fs::read_to_string(dir.join("plan"))?;
    for line in plan.lines() {
        let play: Play = serde_json::from_str(line).context("the plan is no JSON")?;
        say(&Line::Begin { play: play.clone() })?;
        drop(clock.take());
        let done = scenarios.iter().find(|s| s.name == play.scenario).context("no such scenario");
        match done.and_then(|scenario| one(scenario, &play, &mount)) {
            Ok(facts) => {
                let (kernel, still) = (kernel.clone(), clock.take());
                let facts = Box::new(Facts { kernel, still, ..facts });
                say(&Line::Ran { play, facts })?;
            }
            Err(why) => say(&Line::Broke { play, why: format!("{why:#}") })?,
        }
        if mount.join("kubepods.slice").exists() {
            return say(&Line::Spent);
        }
    }
    say(&Line::Done)
}

/// The one who watches must neither be killed nor wait for memory, and hears of every orphan.
fn survive() -> Result<()> {
    fs::write("/proc/self/oom_score_adj", "-1000").context("cannot be spared by the kernel")?;
    rustix::mm::mlockall(rustix::mm::MlockAllFlags::CURRENT | rustix::mm::MlockAllFlags::FUTURE)?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

fn one(scenario: &Scenario, play: &Play, mount: &Path) -> Result<Facts> {
    let form = &scenario.form;
    let set = Set::up(form, mount)?;
    let agent = Agent::named(&play.agent).map_err(anyhow::Error::msg)?;
    let mut show = Show::open(scenario, agent, set)?;
    let facts = show.run();
    let struck = show.strike();
    if let Err(why) = struck {
        // What was seen holds all the same.
        eprintln!("{why:#}");
    }
    facts
}

/// A play that is on.
struct Show<'a> {
    scenario: &'a Scenario,
    agent: Agent,
    set: Set,
    watch: Watch,
    running: Option<Running>,
    said: File,
    loading: Loading,
    facts: Facts,
    seen: BTreeMap<String, bool>,
}

impl<'a> Show<'a> {
    /// Sandboxes, steady loads, the bystander and the agent, in this order.
    fn open(scenario: &'a Scenario, agent: Agent, set: Set) -> Result<Self> {
        let (said, told) = pipe()?;
        let form = &scenario.form;
        let seconds = form.idle.0 + form.seconds.0 + (BEGINS_WITHIN + SPARE).as_secs_f64();
        let watch = Watch::over(&set);
        let loading = Loading { seconds, said: told };
        let (facts, seen) = (Facts::default(), BTreeMap::new());
        let mut show =
            Self { scenario, agent, set, watch, running: None, said, loading, facts, seen };
        show.begin()?;
        Ok(show)
    }

    fn begin(&mut self) -> Result<()> {
        for pod in self.set.pods.clone() {
            let process = self.set.sandbox(&pod)?;
            self.watch.add(process.id(), Role { name: pod.name, sandbox: true, ends: false });
        }
        if Path::new(GO).exists() {
            fs::remove_file(GO)?;
        }
        self.loads(true)?;
        self.loads(false)?;
        self.start_agent()
    }

    /// Starts the loads that are steady, or those that are not.
    fn loads(&mut self, steady: bool) -> Result<()> {
        for pod in self.set.pods.clone() {
            let forms = &self.scenario.form.pod;
            let work = match pod.name.as_str() {
                BYSTANDER => Some(set::echo()),
                _ => forms.iter().find(|p| *p.name.get_ref() == pod.kind).map(file::Pod::work),
            };
            self.load(work, steady, &pod.name, &pod.container, pod.oom_score_adj)?;
        }
        for (name, path) in self.set.services.clone() {
            let services = &self.scenario.form.service;
            let work = services.iter().find(|s| *s.name.get_ref() == name).map(file::Service::work);
            self.load(work, steady, &name, &path, 0)?;
        }
        Ok(())
    }

    fn load(
        &mut self,
        work: Option<Work>,
        steady: bool,
        name: &str,
        group: &str,
        adj: i32,
    ) -> Result<()> {
        let Some(work) = work.filter(|work| work.steady == steady) else { return Ok(()) };
        let process = self.set.load(&work, group, adj, &self.loading)?;
        let role = Role { name: name.into(), sandbox: false, ends: work.ends };
        self.watch.add(process.id(), role);
        Ok(())
    }

    /// Idle, then the loads, then the end.
    fn run(&mut self) -> Result<Facts> {
        let form = &self.scenario.form;
        let mut orders = form.agent.clone();
        let (idle, seconds) = (form.idle.0, form.seconds.0);
        // Starting up is no idle time: programs are loaded, memory is touched for the first time.
        thread::sleep(SETTLES);
        self.watch.reap();
        if let Some(death) = self.watch.deaths.first() {
            bail!("{} ended before anything had begun: {death:?}", death.name);
        }
        self.facts.idle_ns = monotonic_ns();
        let since = Since::now();
        self.wait(since, idle, -idle, &mut orders)?;
        let (vmstat, oom_kills) = watch::vmstat();
        let lines = oom_lines();
        if let Some(running) = &mut self.running {
            running.since = watch::process(running.pid).unwrap_or_default();
        }
        let began = monotonic_ns();
        let known = &self.watch.churned;
        let start =
            |churn: file::Churn| Churn::start(churn.per_second, &self.set, Arc::clone(known));
        let churn = form.churn.map(start).transpose()?;
        fs::write(GO, "")?;
        self.begin_offer();
        // On a machine that stands still a load may take its time, and is watched no less for that.
        let onset = self.onset()?;
        let since = Since::now();
        self.wait(since, seconds, 0.0, &mut orders)?;
        self.facts.end_ns = monotonic_ns();
        if let Some(churn) = churn {
            self.facts.troubles.extend(churn.end());
        }
        self.listen();
        let (after, now_killed) = watch::vmstat();
        let facts = &mut self.facts;
        facts.onset_ns = onset.unwrap_or(began);
        facts.vmstat = after.since(vmstat);
        facts.kernel_oom_kills = now_killed - oom_kills;
        facts.kernel_oom_lines = oom_lines().saturating_sub(lines);
        facts.groups = self.watch.groups();
        facts.deaths = std::mem::take(&mut self.watch.deaths);
        facts.moments = std::mem::take(&mut self.watch.moments);
        facts.limits_at_end = self.set.changed();
        self.end_agent()?;
        self.facts.limits_left = self.set.changed();
        Ok(std::mem::take(&mut self.facts))
    }

    /// When the first load begins, once it has; `None` if nothing is to begin.
    fn onset(&mut self) -> Result<Option<u64>> {
        let form = &self.scenario.form;
        let pods = form.pod.iter().map(file::Pod::work);
        let mut works = pods.chain(form.service.iter().map(file::Service::work));
        if works.all(|work| work.steady) {
            return Ok(None);
        }
        let since = Since::now();
        loop {
            self.listen();
            let begins = self.facts.loads.iter().filter(|line| line.get("begin").is_some());
            if let Some(first) = begins.filter_map(|line| line["atNs"].as_u64()).min() {
                return Ok(Some(first));
            }
            if !since.within(BEGINS_WITHIN) {
                bail!("no load has begun within {BEGINS_WITHIN:?}");
            }
            self.watch.reap();
            thread::sleep(TICK);
        }
    }

    /// Looks on until `seconds` have gone by. `from` is where the clock of orders stands at first.
    fn wait(
        &mut self,
        since: Since,
        seconds: f64,
        from: f64,
        orders: &mut Vec<Order>,
    ) -> Result<()> {
        let (mut n, mut next_look) = (0u64, 0.0);
        while since.elapsed().as_secs_f64() < seconds {
            self.watch.reap();
            let at = since.elapsed().as_secs_f64();
            let killed = self.watch.deaths.iter().map(|death| death.at_ns).min();
            let killed = killed.map(|at_ns| monotonic_ns().saturating_sub(at_ns) as f64 / 1e9);
            let is_due = |order: &Order| match order.since_kill {
                false => order.after.0 <= from + at,
                true => killed.is_some_and(|ago| order.after.0 <= ago),
            };
            while orders.first().is_some_and(is_due) {
                let order = orders.remove(0);
                self.obey(order.what)?;
            }
            if at >= next_look {
                self.watch.moment();
                self.watch.look(&mut self.seen);
                self.look_at_agent();
                n += 1;
                next_look = n as f64;
            }
            thread::sleep(TICK);
        }
        Ok(())
    }

    /// Takes down what the loads have said.
    fn listen(&mut self) {
        let mut text = Vec::new();
        let mut block = [0; 4096];
        // The pipe does not block: an error is its end for now.
        while let Ok(n @ 1..) = self.said.read(&mut block) {
            text.extend_from_slice(&block[..n]);
        }
        let text = String::from_utf8_lossy(&text);
        self.facts.loads.extend(text.lines().filter_map(|line| serde_json::from_str(line).ok()));
    }

    /// Ends what still runs.
    fn strike(mut self) -> Result<()> {
        if let Some(running) = self.running.take() {
            // Fails only if it has ended already.
            let _ = kill(running.pid, Signal::KILL);
        }
        let down = self.set.down();
        let since = Since::now();
        // Whatever is left of the play is reaped before the next begins.
        while since.within(Duration::from_millis(300)) {
            self.watch.reap();
            thread::sleep(TICK);
        }
        down
    }
}

/// A pipe for the loads: its reading end does not block.
fn pipe() -> Result<(File, OwnedFd)> {
    let (from, to) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    rustix::fs::fcntl_setfl(&from, rustix::fs::OFlags::NONBLOCK)?;
    Ok((from.into(), to))
}

/// OOM kills in the kernel's log.
fn oom_lines() -> u64 {
    let log = Command::new("dmesg").output().map(|out| out.stdout).unwrap_or_default();
    let log = String::from_utf8_lossy(&log).into_owned();
    log.lines().filter(|line| line.contains("Killed process")).count() as u64
}
