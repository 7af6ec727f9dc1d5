//! The agent's process: started in a cgroup of its own, looked at, disturbed as the scenario says,
//! ended.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use serde_json::Value;

use super::TICK;
use super::cluster::Cluster;
use super::listen::Listener;
use super::peer::{self, Manager};
use super::pods::cpu_max;
use super::scrape::Scraper;
use super::testbed::Testbed;
use super::watch::{self, Watch};
use crate::agents::peers::AtWork;
use crate::agents::{self, ADDRESS, Agent, Ready, recording};
use crate::amount::Cpu;
use crate::cgroup::Group;
use crate::clock::Since;
use crate::facts::{self, Threads};
use crate::form::Form;

/// How long an agent is given to leave, on an emulated CPU: programs that take longer to be detached
/// do not hold it up.
const LEAVES_WITHIN: Duration = Duration::from_secs(10);

/// How long an agent that was started again is given to keep the incidents of the one before.
const KEPT_WITHIN: Duration = Duration::from_secs(20);

/// Lines of its log that are kept.
const LOG_LINES: usize = 500;

/// The agent's process.
pub(super) struct Running {
    agent: Agent,
    probes: String,
    pid: u32,
    since: watch::Process,
    last: watch::Process,
    /// What its threads had used by `since`, and by `last`.
    threads: (Threads, Threads),
    pub(super) listener: Option<Listener>,
    group: Group,
    /// Whom a peer asks.
    manager: Option<Manager>,
    cluster: Option<Cluster>,
    scraper: Option<Scraper>,
    /// What a successor is started for, to tell of the incidents.
    aftermath: Option<Form>,
}

impl Running {
    /// Starts an agent and waits until it is at work; `None` if there is nothing to be started.
    pub(super) fn start(
        agent: Agent,
        form: &Form,
        testbed: &Testbed,
        watch: &mut Watch,
        known: &mut facts::Agent,
    ) -> Result<Option<Self>> {
        for leftover in agent.state().into_iter().chain([agents::LOG]) {
            remove(Path::new(leftover))?;
        }
        // Its segments and its incidents begin with the same name.
        let recording = Path::new(recording(form));
        for file in fs::read_dir(recording.parent().unwrap_or(recording))? {
            let file = file?.path();
            if file.to_string_lossy().starts_with(&*recording.to_string_lossy()) {
                remove(&file)?;
            }
        }
        fs::write(agents::CONFIG, agent.configuration(form))?;
        let manifests = form.manifests.clone().unwrap_or_else(|| testbed.manifests());
        fs::write(agents::PODS, manifests)?;
        let group = testbed.agents_path(agent.name);
        let manager = match agent.peer() {
            Some(peer) => {
                peer::mount()?;
                Some(Manager::start(peer.managed)?)
            }
            None => None,
        };
        let cluster = form.api.as_ref().map(|api| Cluster::start(api, testbed)).transpose()?;
        let started = spawn(agent, form, watch, known, &group, manager.as_ref())?;
        let Some(pid) = started else { return Ok(None) };
        let listener = match agent.offers_views() {
            true => Some(Listener::start(ADDRESS)?),
            false => None,
        };
        let is_scraped = form.expect.alerts.is_some() && agent.offers_views();
        let scraper = is_scraped.then(|| Scraper::start(ADDRESS)).transpose()?;
        let now = watch::process(pid).unwrap_or_default();
        let (probes, group) = (form.probes.clone(), Group::there(group));
        Ok(Some(Self {
            agent,
            probes,
            pid,
            since: now,
            last: now,
            threads: (Threads::new(), Threads::new()),
            listener,
            group,
            manager,
            cluster,
            scraper,
            aftermath: form.expect.asks_for_incidents().then(|| form.clone()),
        }))
    }

    /// True if it lives and would be started for `form` just as it was.
    pub(super) fn will_do(&self, agent: Agent, form: &Form) -> bool {
        let is_same = self.agent == agent && self.probes == form.probes;
        is_same && form.shares_agent() && watch::process(self.pid).is_some()
    }

    /// Its time in the measured time counts from here on.
    pub(super) fn begin_account(&mut self) {
        self.since = watch::process(self.pid).unwrap_or_default();
        self.last = self.since;
        self.threads.0 = watch::threads(self.pid);
    }

    /// Takes note of its end, if it has ended, and of its size.
    pub(super) fn look(&mut self, watch: &mut Watch, known: &mut facts::Agent) {
        if let Some(gone) = watch.others.iter().position(|(pid, _)| *pid == self.pid) {
            known.ended.push(watch.others.remove(gone).1);
            known.alive = false;
        }
        if let Some(now) = watch::process(self.pid) {
            known.rss_max_kib = known.rss_max_kib.max(now.rss_kib);
            known.rss_kib = now.rss_kib;
            self.threads.1 = watch::threads(self.pid);
            self.last = now;
        }
    }

    /// Adds what its process has used.
    pub(super) fn account(&mut self, known: &mut facts::Agent) {
        known.cpu_ms += self.last.cpu_ms.saturating_sub(self.since.cpu_ms);
        let (before, after) = std::mem::take(&mut self.threads);
        for (name, used) in &after {
            let before = before.get(name).copied().unwrap_or_default();
            known.threads.entry(name.clone()).or_default().add(used.since(before));
        }
        known.major_faults += self.last.major_faults.saturating_sub(self.since.major_faults);
        self.since = self.last;
        self.threads.0 = after;
    }

    /// Stops it, or lets it go on.
    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        kill(self.pid, signal)
    }

    /// Kills it; the watch does not hear of that.
    pub(super) fn kill(&self, watch: &mut Watch) -> Result<()> {
        kill(self.pid, Signal::KILL)?;
        let since = Since::now();
        while watch::process(self.pid).is_some() && since.within(Duration::from_secs(10)) {
            thread::sleep(TICK);
            watch.reap();
        }
        watch.forget(self.pid);
        Ok(())
    }

    /// Starts it again after a kill, with all that it left behind.
    pub(super) fn restart(
        &mut self,
        form: &Form,
        watch: &mut Watch,
        known: &mut facts::Agent,
    ) -> Result<()> {
        self.account(known);
        let manager = self.manager.as_ref();
        let pid = spawn(self.agent, form, watch, known, self.group.dir(), manager)?;
        self.pid = pid.context("there is no agent to start again")?;
        self.begin_account();
        Ok(())
    }

    /// Has it leave as a service manager would, and waits until it has.
    pub(super) fn leave(&self, watch: &mut Watch, known: &mut facts::Agent) -> Result<()> {
        kill(self.pid, Signal::TERM)?;
        let since = Since::now();
        while watch::process(self.pid).is_some() {
            watch.reap();
            if !since.within(LEAVES_WITHIN) {
                known.ended.push(format!("did not leave within {LEAVES_WITHIN:?} of SIGTERM"));
                kill(self.pid, Signal::KILL)?;
                break;
            }
            thread::sleep(TICK);
        }
        known.left_after_ms = known.left_after_ms.max(since.elapsed().as_millis() as u64);
        watch.forget(self.pid);
        Ok(())
    }

    /// Its end, and what it leaves behind.
    pub(super) fn end(mut self, watch: &mut Watch, known: &mut facts::Agent) -> Result<()> {
        self.look(watch, known);
        self.account(known);
        known.scrapes = self.scraper.take().map(Scraper::end).transpose()?;
        if let Some(listener) = &self.listener {
            listener.expect_no_other();
        }
        if known.alive {
            self.leave(watch, known)?;
        }
        known.served = self.listener.take().map(Listener::end);
        known.requests = self.cluster.take().map(Cluster::end).unwrap_or_default();
        let log = fs::read_to_string(agents::LOG).unwrap_or_default();
        known.log = log.lines().take(LOG_LINES).map(Into::into).collect();
        if let Some(form) = self.aftermath.take().filter(|_| self.agent.offers_views()) {
            let told = self.told_by_successor(&form, watch)?;
            (known.incidents, known.incident_files) = (told.lines, told.files);
        }
        self.group.remove()
    }

    /// The incidents, asked of an agent that is started again.
    fn told_by_successor(&mut self, form: &Form, watch: &mut Watch) -> Result<Told> {
        self.restart(form, watch, &mut facts::Agent::default())?;
        let since = Since::now();
        // Its first ticks keep what the one before left open.
        let mut told = incidents(form);
        while told.as_ref().is_ok_and(|told| told.is_open) && since.within(KEPT_WITHIN) {
            thread::sleep(Duration::from_secs(1));
            told = incidents(form);
        }
        self.kill(watch)?;
        told
    }
}

/// The incidents that an agent tells of, oldest first.
struct Told {
    lines: Vec<String>,
    /// Of those that are over.
    files: Vec<Vec<u8>>,
    /// One is not.
    is_open: bool,
}

fn incidents(form: &Form) -> Result<Told> {
    let list: Value =
        serde_json::from_slice(&isobar(&["incidents", "ls", "-o", "json", "--agent", ADDRESS])?)?;
    let mut told = Told { lines: Vec::new(), files: Vec::new(), is_open: false };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for incident in list["incidents"].as_array().into_iter().flatten().rev() {
        let kinds = incident["kinds"].as_array().into_iter().flatten().map(text);
        let (kinds, who) = (kinds.collect::<Vec<_>>().join(", "), text(&incident["who"]));
        told.lines.push(format!("{kinds}: {who}: {}", text(&incident["summary"])));
        if incident["state"] == "open" {
            told.is_open = true;
            continue;
        }
        let name = incident["name"].as_str().context("an incident has no name")?;
        let export = ["incidents", "export", name, "--dir", recording(form), "--output", "-"];
        told.files.push(isobar(&export)?);
    }
    Ok(told)
}

/// What the program says.
fn isobar(words: &[&str]) -> Result<Vec<u8>> {
    let told = Command::new(agents::ISOBAR).args(words).output()?;
    let said = || String::from_utf8_lossy(&told.stderr).into_owned();
    ensure!(told.status.success(), "isobar {}: {}", words.join(" "), said());
    Ok(told.stdout)
}

/// The process, in the cgroup `group`, once it is at work.
fn spawn(
    agent: Agent,
    form: &Form,
    watch: &mut Watch,
    known: &mut facts::Agent,
    group: &Path,
    manager: Option<&Manager>,
) -> Result<Option<u32>> {
    let Some(mut command) = agent.command(form) else { return Ok(None) };
    let since = Since::now();
    if !group.exists() {
        fs::create_dir(group).with_context(|| format!("cannot make {}", group.display()))?;
    }
    if let Some(Cpu(milli)) = form.agent_limit {
        let (above, limit) = (group.join("../cgroup.subtree_control"), cpu_max(milli));
        for (file, value) in [(above, "+cpu"), (group.join("cpu.max"), &limit)] {
            fs::write(&file, value).with_context(|| format!("cannot write {}", file.display()))?;
        }
    }
    let log = File::options().create(true).append(true).open(agents::LOG);
    let log = log.with_context(|| format!("cannot write {}", agents::LOG))?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let process = command.spawn();
    let pid = process.with_context(|| format!("cannot start {}", agent.name))?.id();
    fs::write(group.join("cgroup.procs"), pid.to_string())?;
    watch.forget(pid);
    let said = || fs::read_to_string(agents::LOG).unwrap_or_default();
    let is_at_work = || match agent.ready() {
        Ready::AtOnce => true,
        Ready::Answers(url) => ureq::get(url).call().is_ok(),
        Ready::Peer(AtWork::Says(words)) => said().contains(words),
        Ready::Peer(AtWork::HasAsked) => manager.is_some_and(Manager::was_asked),
    };
    while !is_at_work() {
        watch.reap();
        if let Some((_, how)) = watch.others.iter().find(|(p, _)| *p == pid) {
            bail!("{} has ended before it was ready: {how}\n{}", agent.name, said());
        }
        if !since.within(agents::READY_WITHIN) {
            bail!("{} is not ready after {:?}\n{}", agent.name, agents::READY_WITHIN, said());
        }
        thread::sleep(Duration::from_millis(50));
    }
    known.alive = true;
    known.ready_after_ms = since.elapsed().as_millis() as u64;
    known.ready_cpu_ms = watch::process(pid).map_or(0, |process| process.cpu_ms);
    Ok(Some(pid))
}

fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(why) if why.kind() != ErrorKind::NotFound => {
            Err(why).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

fn kill(pid: u32, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(pid.cast_signed()).context("no such process")?;
    kill_process(pid, signal).with_context(|| format!("cannot send a signal to {pid:?}"))
}
