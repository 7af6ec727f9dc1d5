//! One play inside the guest: the test bed put up, the agent at work, the loads, the measured time.

mod watching;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};

use super::TICK;
use super::agent::Running;
use super::churn::Churn;
use super::frozen::Clock;
use super::listen::Listener;
use super::testbed::{GO, Loading, Testbed};
use super::watch::{self, Role, Watch};
use crate::agents::Agent;
use crate::clock::{Since, monotonic_ns};
use crate::facts::Facts;
use crate::form::group::{self, Load, Order};
use crate::form::{Form, Scenario};
use watching::BEGINS_WITHIN;

/// How long all that was started is given to come to rest.
const SETTLES: Duration = Duration::from_secs(2);
/// Loads last for so much longer than is measured: they are ended, they do not end.
const SPARE: Duration = Duration::from_secs(90);

/// Plays one scenario. `running` is the agent of the play before, and afterwards that of this one,
/// if others may share it.
pub(super) fn play(
    scenario: &Scenario,
    agent: Agent,
    mount: &Path,
    running: &mut Option<Running>,
) -> Result<Facts> {
    let mut watch = Watch::default();
    watch.reap();
    let shared = match running.take() {
        Some(shared) if shared.will_do(agent, &scenario.form) => Some(shared),
        Some(other) => {
            let mut known = crate::facts::Agent { alive: true, ..Default::default() };
            other.end(&mut watch, &mut known)?;
            if !known.ended.is_empty() {
                bail!("the agent of the plays before did not live and leave: {:?}", known.ended);
            }
            None
        }
        None => None,
    };
    let testbed = Testbed::up(&scenario.form, mount)?;
    let mut trial = Trial::new(scenario, agent, testbed, shared)?;
    let facts = trial.begin().and_then(|()| trial.run());
    if facts.is_ok() {
        *running = trial.running.take();
    }
    if let Err(why) = trial.take_down() {
        // What was seen holds all the same; the guest is left for a new one if anything stands.
        eprintln!("{why:#}");
    }
    facts
}

/// A play that is on.
struct Trial<'a> {
    form: &'a Form,
    scenario: &'a Scenario,
    agent: Agent,
    testbed: Testbed,
    watch: Watch,
    running: Option<Running>,
    said: File,
    loading: Loading,
    facts: Facts,
    /// Containers in which a process was seen.
    seen: BTreeMap<String, bool>,
    orders: Vec<Order>,
}

impl<'a> Trial<'a> {
    fn new(
        scenario: &'a Scenario,
        agent: Agent,
        testbed: Testbed,
        running: Option<Running>,
    ) -> Result<Self> {
        let (said, end) = pipe()?;
        let form = &scenario.form;
        let measured = form.idle() + form.settle() + form.seconds.0;
        let seconds = measured + (BEGINS_WITHIN + SPARE).as_secs_f64();
        let (watch, loading) = (Watch::over(&testbed), Loading { seconds, said: end });
        let (facts, seen, orders) = (Facts::default(), BTreeMap::new(), form.agent.clone());
        Ok(Self {
            form,
            scenario,
            agent,
            testbed,
            watch,
            running,
            said,
            loading,
            facts,
            seen,
            orders,
        })
    }

    /// Sandboxes, loads (all but the steady ones wait) and the agent, in this order.
    fn begin(&mut self) -> Result<()> {
        for place in self.testbed.places.clone() {
            if let Some(process) = self.testbed.sandbox(&place)? {
                let name = place.name.clone();
                self.watch.add(process.id(), Role { name, sandbox: true, ..Role::default() });
            }
        }
        if Path::new(GO).exists() {
            fs::remove_file(GO)?;
        }
        let places = self.testbed.places.clone();
        for steady in [true, false] {
            for place in &places {
                for load in place.loads.iter().filter(|load| load.steady == steady) {
                    let process = self.testbed.load(place, load, &self.loading)?;
                    let Load { ends, killed, .. } = *load;
                    let role = Role { name: place.name.clone(), sandbox: false, ends, killed };
                    self.watch.add(process.id(), role);
                }
            }
        }
        self.start_agent()
    }

    fn start_agent(&mut self) -> Result<()> {
        let known = self.facts.agent.get_or_insert_default();
        match &self.running {
            Some(running) => {
                known.alive = true;
                if let Some(listener) = &running.listener {
                    listener.begin();
                }
            }
            None => {
                let watch = &mut self.watch;
                self.running = Running::start(self.agent, self.form, &self.testbed, watch, known)?;
            }
        }
        if self.running.is_none() {
            self.facts.agent = None;
        }
        Ok(())
    }

    /// Idle, then the loads, then the end.
    fn run(&mut self) -> Result<Facts> {
        let clock = self.testbed.has_bystander().then(Clock::start).transpose()?;
        self.rest()?;
        let before = watch::vmstat();
        let churn = self.let_loads_begin()?;
        self.wait(self.form.settle(), 0.0)?;
        self.begin_views()?;
        self.wait(self.form.seconds.0, 0.0)?;
        self.facts.end_ns = monotonic_ns();
        self.read_figures()?;
        if let Some(churn) = churn {
            self.facts.troubles.extend(churn.end());
        }
        self.listen_to_loads();
        let (vmstat, oom_kills) = watch::vmstat();
        let facts = &mut self.facts;
        facts.vmstat = vmstat.since(before.0);
        facts.kernel_oom_kills = oom_kills - before.1;
        facts.groups = self.watch.groups();
        facts.deaths = std::mem::take(&mut self.watch.deaths);
        facts.moments = std::mem::take(&mut self.watch.moments);
        facts.frozen = clock.map_or_else(Vec::new, Clock::end);
        self.end_agent()?;
        self.facts.limits_left = self.testbed.changed();
        Ok(std::mem::take(&mut self.facts))
    }

    /// Lets all that was started come to rest, and then the idle time go by.
    fn rest(&mut self) -> Result<()> {
        if self.testbed.has_bystander() {
            // Starting up is no idle time: programs are loaded, memory is touched for the first time.
            thread::sleep(SETTLES);
        }
        self.watch.reap();
        if let Some(death) = self.watch.deaths.first() {
            bail!("{} ended before anything had begun: {death:?}", death.name);
        }
        self.facts.idle_ns = monotonic_ns();
        let idle = self.form.idle();
        self.wait(idle, -idle)?;
        if let Some(running) = &mut self.running {
            running.begin_account();
        }
        Ok(())
    }

    fn let_loads_begin(&mut self) -> Result<Option<Churn>> {
        let began = monotonic_ns();
        let known = &self.watch.churned;
        let start =
            |churn: group::Churn| Churn::start(churn.per_second, &self.testbed, Arc::clone(known));
        let churn = self.form.churn.map(start).transpose()?;
        fs::write(GO, "")?;
        if let Some(listener) = self.listener() {
            listener.onset();
        }
        // On a machine that is frozen a load may take its time, and is watched no less for that.
        self.facts.onset_ns = self.onset()?.unwrap_or(began);
        Ok(churn)
    }

    fn listener(&self) -> Option<&Listener> {
        self.running.as_ref()?.listener.as_ref()
    }

    /// Has the agent leave, but for one that the next play may share.
    fn end_agent(&mut self) -> Result<()> {
        let known = self.facts.agent.get_or_insert_default();
        let Some(mut running) = self.running.take() else {
            self.facts.agent = None;
            return Ok(());
        };
        if !self.form.shares_agent() {
            return running.end(&mut self.watch, known);
        }
        running.look(&mut self.watch, known);
        running.account(known);
        known.served = running.listener.as_ref().map(Listener::take);
        self.running = Some(running);
        Ok(())
    }

    /// Ends what still runs, removes what stands.
    fn take_down(mut self) -> Result<()> {
        if let Some(running) = self.running.take() {
            // Fails only if it has ended already.
            let _ = running.kill(&mut self.watch);
        }
        let down = self.testbed.down();
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
