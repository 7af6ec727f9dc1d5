//! The agent's process in a play: started, looked at, disturbed as the scenario says, ended.

use std::fs;
use std::io::ErrorKind;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::{Show, TICK};
use crate::clock::Since;
use crate::relief::agents::{self, Ready};
use crate::relief::file::What;
use crate::relief::offer::Offer;
use crate::relief::watch;

/// How long an agent is given to leave: systemd waits for ninety seconds, and taking a program out
/// of the kernel takes until every task has been seen at rest.
const LEAVES_WITHIN: Duration = Duration::from_secs(60);

/// The agent's process.
pub(super) struct Running {
    pub(super) pid: u32,
    pub(super) since: watch::Process,
    last: watch::Process,
    offer: Option<Offer>,
}

impl Show<'_> {
    /// Has what the agent says count from here on.
    pub(super) fn begin_offer(&self) {
        if let Some(offer) = self.running.as_ref().and_then(|running| running.offer.as_ref()) {
            offer.begin();
        }
    }

    pub(super) fn start_agent(&mut self) -> Result<()> {
        let form = &self.scenario.form;
        if let Some(state) = self.agent.state.filter(|_| self.running.is_none()) {
            match fs::remove_dir_all(state) {
                Err(why) if why.kind() != ErrorKind::NotFound => return Err(why.into()),
                _ => {}
            }
        }
        fs::write(agents::CONFIG, form.config.as_deref().unwrap_or_default())?;
        fs::write(agents::PODS, self.set.manifests())?;
        let Some(mut command) = self.agent.command(form.config.is_some(), true) else {
            return Ok(());
        };
        let since = Since::now();
        // In a service's cgroup of its own, as systemd would.
        let group = self.set.service(self.agent.name)?;
        let process = command.envs(&form.environment).stdin(Stdio::null()).spawn();
        let pid = process.with_context(|| format!("cannot start {}", self.agent.name))?.id();
        fs::write(group.join("cgroup.procs"), pid.to_string())?;
        self.watch.forget(pid);
        match self.agent.ready() {
            Ready::After(ms) => thread::sleep(Duration::from_millis(ms)),
            Ready::Answers(url) => {
                while ureq::get(url).call().is_err() {
                    self.watch.reap();
                    if let Some((_, how)) = self.watch.others.iter().find(|(p, _)| *p == pid) {
                        bail!("{} has ended before it was ready: {how}", self.agent.name);
                    }
                    if !since.within(agents::READY_WITHIN) {
                        bail!("{} is not ready after {:?}", self.agent.name, agents::READY_WITHIN);
                    }
                    thread::sleep(Duration::from_millis(50));
                }
            }
        }
        let known = self.facts.agent.get_or_insert_default();
        known.alive = true;
        known.ready_after_ms = since.elapsed().as_millis() as u64;
        let now = watch::process(pid).unwrap_or_default();
        let before = self.running.take().and_then(|running| running.offer);
        let offer = match before {
            Some(offer) => Some(offer),
            None if self.agent.offers_snapshot => Some(Offer::hear(agents::ADDRESS)?),
            None => None,
        };
        self.running = Some(Running { pid, since: now, last: now, offer });
        Ok(())
    }

    pub(super) fn look_at_agent(&mut self) {
        let Some(running) = &mut self.running else { return };
        let gone = self.watch.others.iter().position(|(pid, _)| *pid == running.pid);
        let known = self.facts.agent.get_or_insert_default();
        if let Some(gone) = gone {
            known.ended.push(self.watch.others.remove(gone).1);
            known.alive = false;
        }
        if let Some(now) = watch::process(running.pid) {
            known.rss_max_kib = known.rss_max_kib.max(now.rss_kib);
            running.last = now;
        }
    }

    /// What the scenario does to the agent.
    pub(super) fn obey(&mut self, what: What) -> Result<()> {
        let Some(pid) = self.running.as_ref().map(|running| running.pid) else { return Ok(()) };
        let signal = match what {
            What::Stop => Signal::STOP,
            What::Cont => Signal::CONT,
            What::Kill => Signal::KILL,
            What::Restart => {
                self.account();
                return self.start_agent();
            }
        };
        kill(pid, signal)?;
        if what == What::Kill {
            let since = Since::now();
            while watch::process(pid).is_some() && since.within(Duration::from_secs(10)) {
                thread::sleep(TICK);
                self.watch.reap();
            }
            self.watch.forget(pid);
        }
        Ok(())
    }

    /// Adds what the agent's process has used.
    fn account(&mut self) {
        let Some(running) = &mut self.running else { return };
        let known = self.facts.agent.get_or_insert_default();
        known.cpu_ms += running.last.cpu_ms.saturating_sub(running.since.cpu_ms);
        known.major_faults += running.last.major_faults.saturating_sub(running.since.major_faults);
        running.since = running.last;
    }

    /// Has the agent leave as a service manager would.
    pub(super) fn end_agent(&mut self) -> Result<()> {
        self.look_at_agent();
        self.account();
        let Some(running) = self.running.take() else { return Ok(()) };
        let known = self.facts.agent.get_or_insert_default();
        if let Some(offer) = &running.offer {
            offer.enough();
        }
        if known.alive {
            kill(running.pid, Signal::TERM)?;
        }
        let since = Since::now();
        while known.alive && watch::process(running.pid).is_some() {
            self.watch.reap();
            if !since.within(LEAVES_WITHIN) {
                known.ended.push(format!("did not leave within {LEAVES_WITHIN:?} of SIGTERM"));
                kill(running.pid, Signal::KILL)?;
                break;
            }
            thread::sleep(TICK);
        }
        known.left_after_ms = since.elapsed().as_millis() as u64;
        known.offered = running.offer.map(Offer::end);
        Ok(())
    }
}

pub(super) fn kill(pid: u32, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(pid.cast_signed()).context("no such process")?;
    kill_process(pid, signal).with_context(|| format!("cannot send a signal to {pid:?}"))
}
