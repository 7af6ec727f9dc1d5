//! Round after round: wait for what is due, look, have done what was decided, show it.
//! Owns everything that lives from one tick to the next, but the watch, which looks on a thread of
//! its own.

use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::acting::Acting;
use super::limits::{Keeping, Places};
use super::live::chain;
use super::mode::Warrant;
use super::notify::Notify;
use super::pace::Pace;
use super::survive::Survival;
use super::watch::{Again, Orders, Seen, Watch};
use super::{AgentError, Sampler};
use crate::act::{self, Actor};
use crate::serve::publish::Publisher;
use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::sample::Cause;
use isobar_core::model::settings::Settings;

/// A tick that has begun may hold up the exit for so long: on a node without memory it takes its
/// time. With [`FAREWELL`] it is less than a service manager waits (`TimeoutStopSec`).
const LAST_TICK: Duration = Duration::from_secs(5);
/// How long the exit may be held up by what is being done.
const FAREWELL: Duration = Duration::from_secs(2);

/// What is needed from tick to tick.
pub(super) struct Rounds {
    /// Who acts, or why nobody can.
    acting: Result<Acting, String>,
    /// They must know of something that they were not told when they began.
    is_outdated: bool,
    site: Site,
    pace: Pace,
    survival: Option<Survival>,
    /// Who keeps limits written; `None` if nobody can.
    keeping: Option<Keeping>,
    publisher: Publisher,
    notify: Notify,
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
        survival: Option<Survival>,
        publisher: Publisher,
    ) -> Result<(Self, Watch<S>), AgentError> {
        let Orders { mut plan, again, record } = orders;
        let hangup = signal(SignalKind::hangup()).map_err(AgentError::Start)?;
        let pace = Pace::new(sampler.alarms()).map_err(AgentError::Start)?;
        let state = warrant.state.dir().to_owned();
        let site = Site { cgroup_root: sampler.cgroup_root(), state };
        let keeping = site.keep();
        let mut acting = site.begin(&plan.settings);
        if let Err(why) = &acting {
            warrant.unable = Some(why.clone());
            warrant.bind(&mut plan.settings)?;
        }
        let mut watch = Watch::new(sampler, plan, Some(warrant));
        if let Ok(acting) = &mut acting {
            watch.take_over(acting);
        }
        if let Some((path, bounds)) = record {
            watch.record(&path, bounds).map_err(AgentError::Record)?;
        }
        Ok((
            Self {
                acting,
                is_outdated: false,
                site,
                pace,
                survival,
                keeping,
                publisher,
                notify: Notify::from_environment(),
                hangup,
                again,
            },
            watch,
        ))
    }

    /// Takes back what would be nobody's once the agent is gone.
    pub(super) fn leave(self) {
        self.notify.stopping();
        if let Ok(acting) = self.acting {
            acting.leave(FAREWELL);
        }
    }

    /// Once nothing is under way, goes on with somebody who knows what now holds.
    fn begin_anew<S: Sampler>(&mut self, watch: &mut Watch<S>) {
        let is_idle = self.acting.as_ref().is_ok_and(Acting::is_idle);
        if !self.is_outdated || !is_idle {
            return;
        }
        self.is_outdated = false;
        match self.site.begin(watch.settings()) {
            Ok(mut acting) => {
                watch.take_over(&mut acting);
                acting.enforce_only(&watch.settings().relief.enforce);
                self.acting = Ok(acting);
            }
            Err(why) => tracing::error!("the one who acts stays as it was: {why}"),
        }
    }

    /// If nobody could act, sees whether somebody can now: what was in the way may be mended.
    fn try_again<S: Sampler>(&mut self, watch: &mut Watch<S>) {
        if self.acting.is_ok() {
            return;
        }
        self.acting = self.site.begin(watch.settings());
        watch.note_unable(self.acting.as_ref().err().cloned());
        self.is_outdated |= self.acting.is_ok();
    }

    /// Looks, has done, shows, until `over` has come, with what that gives. A tick that has begun
    /// is finished first: what it decides is remembered, so somebody has to be given it.
    pub(super) async fn go<S: Sampler>(
        &mut self,
        mut watch: Watch<S>,
        over: impl Future<Output = Result<(), AgentError>>,
    ) -> Result<(), AgentError> {
        let mut over = pin!(over);
        loop {
            let cause = tokio::select! {
                biased;
                ended = &mut over => return ended,
                Some(()) = self.hangup.recv() => {
                    self.notify.reloading();
                    self.try_again(&mut watch);
                    self.is_outdated |= watch.reload((self.again)());
                    if let Ok(acting) = &self.acting {
                        acting.enforce_only(&watch.settings().relief.enforce);
                    }
                    self.pace.at_once();
                    continue;
                }
                cause = self.pace.due() => cause,
            };
            let mut tick = pin!(self.tick(watch, cause));
            watch = tokio::select! {
                ticked = &mut tick => ticked?,
                ended = &mut over => match timeout(LAST_TICK, tick).await {
                    Ok(ticked) => return ticked.and(ended),
                    Err(_) => {
                        tracing::error!("leaving in the middle of a tick, which hangs");
                        return ended;
                    }
                },
            };
        }
    }

    async fn tick<S: Sampler>(
        &mut self,
        mut watch: Watch<S>,
        cause: Cause,
    ) -> Result<Watch<S>, AgentError> {
        self.begin_anew(&mut watch);
        let heard = self.acting.as_mut().map(Acting::heard).unwrap_or_default();
        // On a thread of its own: a read can hang, and then /livez has to say so.
        let (back, seen) = spawn_blocking(move || {
            let seen = watch.look(cause, heard);
            (watch, seen)
        })
        .await
        .map_err(AgentError::Sampler)?;
        if let Ok(acting) = &mut self.acting {
            acting.hand_over(&seen.step.decision, seen.decided);
        }
        // Only then it is written down: a disk that takes its time holds up nobody's end.
        let (mut watch, seen) = spawn_blocking(move || {
            let (mut watch, mut seen) = (back, seen);
            watch.finish(&mut seen);
            (watch, seen)
        })
        .await
        .map_err(AgentError::Sampler)?;
        let Seen { step, mut capabilities, mut cost, likely, .. } = seen;
        if let Ok(acting) = &mut self.acting {
            cost.handover = acting.handover();
            acting.prepare(likely);
            if acting.is_free() {
                watch.let_go();
            }
        }
        self.pace.saw(cause, &step.decision);
        capabilities.push(capability(&self.acting));
        if let Some(keeping) = &mut self.keeping {
            let (settings, is_enforced) = (watch.settings(), watch.writes_limits());
            let (states, lacking) = keeping.look(step.snapshot.at.boot, settings, is_enforced);
            self.publisher.note_limits(states);
            capabilities.extend(lacking);
        }
        capabilities.extend_from_slice(
            self.survival.as_ref().map(Survival::capabilities).unwrap_or_default(),
        );
        self.notify.ticked(&format!(
            "{}; {} thresholds are met",
            watch.words(),
            step.decision.met.len()
        ));
        self.publisher.publish(step, capabilities, cost);
        Ok(watch)
    }
}

/// Where to act, and where to remember it.
struct Site {
    cgroup_root: Option<PathBuf>,
    state: PathBuf,
}

impl Site {
    /// Somebody who acts, or why nobody can.
    fn begin(&self, settings: &Settings) -> Result<Acting, String> {
        let Some(cgroup_root) = self.cgroup_root.clone() else {
            return Err("there is no cgroup tree".into());
        };
        let options = act::Options {
            cgroup_root,
            proc: "/proc".into(),
            state: self.state.clone(),
            never_touch: settings.relief.never_touch.clone(),
        };
        let actor = Actor::open(options).map_err(|why| chain(&why))?;
        Acting::begin(actor).map_err(|why| format!("no thread can be made: {why}"))
    }

    /// Somebody who keeps limits written, where the sampler reads.
    fn keep(&self) -> Option<Keeping> {
        let cgroup_root = self.cgroup_root.clone()?;
        let places = Places {
            proc: "/proc".into(),
            sys: "/sys".into(),
            cgroup_root: Some(cgroup_root.clone()),
        };
        let acts = act::limits::Places {
            cgroup_root,
            proc: places.proc.clone(),
            state: self.state.clone(),
        };
        let failed =
            |why: &std::io::Error| tracing::error!("limits are not written: no thread: {why}");
        Keeping::begin(places, acts).inspect_err(failed).ok()
    }
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
