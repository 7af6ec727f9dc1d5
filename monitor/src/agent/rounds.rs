//! Round after round: wait for what is due, look, have done what was decided, show it.
//! Owns everything that lives from one tick to the next, but the watch, which looks on a thread of
//! its own.

use std::path::Path;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::spawn_blocking;

use super::acting::Acting;
use super::limits::{Keeping, Places};
use super::live::chain;
use super::mode::Warrant;
use super::pace::Pace;
use super::watch::{Again, Orders, Seen, Watch};
use super::{AgentError, Sampler};
use crate::act::{self, Actor};
use crate::model::capability::{Capability, CapabilityState};
use crate::model::settings::Settings;
use crate::serve::publish::Publisher;

/// What is needed from tick to tick.
pub(super) struct Rounds {
    /// Who acts, or why nobody can.
    acting: Result<Acting, String>,
    pace: Pace,
    /// Who keeps limits written; `None` if nobody can.
    keeping: Option<Keeping>,
    publisher: Publisher,
    hangup: Signal,
    again: Again,
}

impl Rounds {
    /// Finds somebody to act, and takes up what an agent before this one left.
    ///
    /// # Errors
    /// If the recording cannot be made that was asked for.
    pub(super) fn new<S: Sampler>(
        mut sampler: S,
        orders: Orders,
        mut warrant: Warrant,
        publisher: Publisher,
    ) -> Result<(Self, Watch<S>), AgentError> {
        let Orders { mut plan, again, record } = orders;
        let hangup = signal(SignalKind::hangup()).map_err(AgentError::Start)?;
        let pace = Pace::new(sampler.alarms()).map_err(AgentError::Start)?;
        let acting = begin(&sampler, &plan.settings, warrant.state.dir());
        let keeping = keep(&sampler, warrant.state.dir());
        if let Err(why) = &acting {
            warrant.unable = Some(why.clone());
            warrant.bind(&mut plan.settings)?;
        }
        let mut watch = Watch::new(sampler, plan, Some(warrant));
        if let Some((path, bounds)) = record {
            watch.record(&path, bounds).map_err(AgentError::Record)?;
        }
        Ok((Self { acting, pace, keeping, publisher, hangup, again }, watch))
    }

    /// Looks, has done, shows, for ever.
    pub(super) async fn go<S: Sampler>(&mut self, mut watch: Watch<S>) -> Result<(), AgentError> {
        loop {
            let cause = tokio::select! {
                cause = self.pace.due() => cause,
                Some(()) = self.hangup.recv() => {
                    watch.reload((self.again)());
                    continue;
                }
            };
            let heard = self.acting.as_mut().map(Acting::heard).unwrap_or_default();
            // On a thread of its own: a read can hang, and then /livez has to say so.
            let (back, seen) = spawn_blocking(move || {
                let seen = watch.look(cause, heard);
                (watch, seen)
            })
            .await
            .map_err(AgentError::Sampler)?;
            watch = back;
            let Seen { step, mut capabilities, cost, likely } = seen;
            if let Ok(acting) = &mut self.acting {
                acting.hand_over(&step.decision);
                acting.prepare(likely);
            }
            self.pace.saw(cause, &step.decision);
            capabilities.push(capability(&self.acting));
            if let Some(keeping) = &mut self.keeping {
                let (settings, is_enforced) = watch.settings();
                let (states, lacking) = keeping.look(step.snapshot.at.boot, settings, is_enforced);
                self.publisher.note_limits(states);
                capabilities.extend(lacking);
            }
            self.publisher.publish(step, capabilities, cost);
        }
    }
}

/// Somebody who keeps limits written, where the sampler reads.
fn keep<S: Sampler>(sampler: &S, state: &Path) -> Option<Keeping> {
    let cgroup_root = sampler.cgroup_root()?;
    let places =
        Places { proc: "/proc".into(), sys: "/sys".into(), cgroup_root: Some(cgroup_root.clone()) };
    let acts = act::limits::Places { cgroup_root, proc: places.proc.clone(), state: state.into() };
    let failed = |why: &std::io::Error| tracing::error!("limits are not written: no thread: {why}");
    Keeping::begin(places, acts).inspect_err(failed).ok()
}

/// Somebody who acts where the sampler reads.
fn begin<S: Sampler>(sampler: &S, settings: &Settings, state: &Path) -> Result<Acting, String> {
    let Some(cgroup_root) = sampler.cgroup_root() else {
        return Err("there is no cgroup tree".into());
    };
    let options = act::Options {
        cgroup_root,
        proc: "/proc".into(),
        state: state.into(),
        never_touch: settings.relief.never_touch.clone(),
    };
    let actor = Actor::open(options).map_err(|why| chain(&why))?;
    Acting::begin(actor).map_err(|why| format!("no thread can be made: {why}"))
}

fn capability(acting: &Result<Acting, String>) -> Capability {
    match acting {
        Ok(acting) => acting.capability(),
        Err(why) => Capability {
            name: "actor".into(),
            state: CapabilityState::Absent,
            detail: why.clone(),
            remedy: Some("run as root, in the node's own namespaces".into()),
        },
    }
}
