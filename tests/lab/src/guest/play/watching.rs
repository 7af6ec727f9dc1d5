//! Watching a play: when loads begin, what becomes of them and the agent, what is done to the agent
//! meanwhile, and what it measured.

use std::io::Read as _;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use rustix::process::Signal;

use super::Trial;
use crate::clock::{Since, monotonic_ns};
use crate::form::group::{Order, What};
use crate::guest::TICK;
use crate::guest::measure::{self, Seen};

/// The first load has begun by then, or it never will.
pub(super) const BEGINS_WITHIN: Duration = Duration::from_secs(90);
/// The tick that ends the measured time has come by then.
const TICKS_WITHIN: Duration = Duration::from_secs(5);
/// The agent has seen a new cgroup by then.
const SEEN_WITHIN: Duration = Duration::from_secs(10);

impl Trial<'_> {
    /// When the first load begins, once it has; `None` if none is to begin.
    pub(super) fn onset(&mut self) -> Result<Option<u64>> {
        if self.form.loads().all(|load| load.steady) {
            return Ok(None);
        }
        let since = Since::now();
        loop {
            self.listen_to_loads();
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
    pub(super) fn wait(&mut self, seconds: f64, from: f64) -> Result<()> {
        // Where figures are measured, watching must not be a load itself.
        let pause = if self.testbed.has_bystander() { TICK } else { 10 * TICK };
        let since = Since::now();
        let (mut n, mut next_look) = (0u64, 0.0);
        loop {
            let at = since.elapsed().as_secs_f64();
            if at >= seconds {
                return Ok(());
            }
            self.watch.reap();
            self.follow_orders(from + at)?;
            if at >= next_look {
                self.look();
                n += 1;
                next_look = n as f64;
            }
            let rest = Duration::try_from_secs_f64(seconds - at).unwrap_or_default();
            thread::sleep(pause.min(rest));
        }
    }

    fn look(&mut self) {
        if self.testbed.has_bystander() {
            self.watch.moment();
        }
        self.watch.look(&mut self.seen);
        if let Some(running) = &mut self.running {
            let known = self.facts.agent.get_or_insert_default();
            running.look(&mut self.watch, known);
        }
        self.listen_to_loads();
    }

    fn follow_orders(&mut self, at: f64) -> Result<()> {
        let killed = self.watch.deaths.iter().map(|death| death.at_ns).min();
        let killed = killed.map(|at_ns| monotonic_ns().saturating_sub(at_ns) as f64 / 1e9);
        let is_due = |order: &Order| match order.since_kill {
            false => order.after.0 <= at,
            true => killed.is_some_and(|ago| order.after.0 <= ago),
        };
        while self.orders.first().is_some_and(is_due) {
            let order = self.orders.remove(0);
            let Some(running) = &mut self.running else { continue };
            let known = self.facts.agent.get_or_insert_default();
            match order.what {
                What::Stop => running.signal(Signal::STOP)?,
                What::Cont => running.signal(Signal::CONT)?,
                What::Kill => running.kill(&mut self.watch)?,
                What::Leave => running.leave(&mut self.watch, known)?,
                What::Restart => running.restart(self.form, &mut self.watch, known)?,
            }
        }
        Ok(())
    }

    /// Takes down what the loads have said; what is no JSON goes to the console.
    pub(super) fn listen_to_loads(&mut self) {
        let mut text = Vec::new();
        let mut block = [0; 4096];
        // The pipe does not block: an error is its end for now.
        while let Ok(n @ 1..) = self.said.read(&mut block) {
            text.extend_from_slice(&block[..n]);
        }
        for line in String::from_utf8_lossy(&text).lines() {
            match serde_json::from_str(line) {
                Ok(json) => self.facts.loads.push(json),
                Err(_) => eprintln!("{}: {line}", self.scenario.name),
            }
        }
    }

    /// Has each view kept from the first one on that has every cgroup of the scenario.
    pub(super) fn begin_views(&mut self) -> Result<()> {
        if self.form.expect.figures.is_empty() {
            return Ok(());
        }
        let Some(listener) = self.listener() else { return Ok(()) };
        listener.keep_views();
        let paths = self.form.cgroup.iter().map(|cgroup| cgroup.path.get_ref().clone());
        let (paths, since): (Vec<String>, _) = (paths.collect(), Since::now());
        while !listener.sees(&paths) {
            if !since.within(SEEN_WITHIN) {
                bail!("the agent does not see all of {}", paths.join(", "));
            }
            thread::sleep(TICK);
        }
        Ok(())
    }

    /// Both numbers of each claim, while all of it still stands.
    pub(super) fn read_figures(&mut self) -> Result<()> {
        if self.form.expect.figures.is_empty() {
            return Ok(());
        }
        let Some(listener) = self.listener() else { return Ok(()) };
        let (since, wanted) = (Since::now(), self.form.seconds.0);
        while (listener.covered().0 as f64) < wanted * 1e9 {
            if !since.within(TICKS_WITHIN) {
                bail!("the agent took no sample in the last of {wanted} s");
            }
            thread::sleep(TICK);
        }
        let views = listener.take_views();
        let seen = Seen { views: &views, mount: self.testbed.mount() };
        let claims = self.form.expect.figures.iter();
        self.facts.readings = claims.map(|claim| measure::read(claim.get_ref(), &seen)).collect();
        Ok(())
    }
}
