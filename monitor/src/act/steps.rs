//! Each step, from the action to what came of it.

use rustix::io::Errno;

use super::failure::Failure;
use super::journal::Entry;
use super::mrelease::Tally;
use super::reclaim;
use super::reclaiming::Reclaiming;
use super::running::{Running, ask};
use super::scene::{Scene, Stage};
use super::{Actor, Group, size, squeeze, work};
use crate::clock;
use isobar_core::model::decision::{
    Action, Outcome, OutcomeResult, Release, ReleaseReason, StepKind, Target,
};
use isobar_core::model::units::{Bytes, Nanos};

/// A kill is waited for so long; what has not ended then is told later.
const PATIENCE: Nanos = Nanos(200_000_000);
/// Processes that are held while they end, at most.
const HELD: usize = 512;
/// What could not be taken back is tried again after so long.
const AGAIN: Nanos = Nanos(Nanos::SECOND.0);
/// Of a step's time, reclaim takes no more than this part, so that its effect is seen in time.
const PART: u64 = 2;

/// What a step that is over came to.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) detail: String,
    pub(super) freed: Option<Bytes>,
}

impl From<String> for Done {
    fn from(detail: String) -> Self {
        Self { detail, freed: None }
    }
}

impl Actor {
    pub(super) fn step(&mut self, action: &Action) -> Outcome {
        let began = clock::now().boot;
        let done = match action.step {
            StepKind::Reclaim => self.reclaim(action, began),
            StepKind::Squeeze => self.squeeze(action).map(Done::from),
            StepKind::Evict => Err(Failure::Told(
                "nobody here speaks to the API server, who alone can evict".into(),
            )),
            StepKind::StopContainers => match self.stop(action, began) {
                Ok(outcome) => return outcome,
                Err(failure) => Err(failure),
            },
            StepKind::KillContainers => match self.kill(action, began) {
                Ok(outcome) => return outcome,
                Err(failure) => Err(failure),
            },
            StepKind::ReleaseMemory => self.release_memory(action),
        };
        outcome(action.id, began, done)
    }

    /// The cgroups of a target, each as a whole: for steps that end nothing.
    fn wholes(&mut self, target: &Target) -> Result<Vec<Group>, Failure> {
        self.guard.find_own(&self.options.proc);
        let mut groups = Vec::new();
        for (id, path) in work::cgroups(target)? {
            let group = work::open(&self.root, &self.guard, id, path)?;
            self.guard.allows_below(&group)?;
            // Its path says where isobar runs only in the host's namespaces; its processes say so
            // anywhere, if all of them are seen.
            let mut pids = Vec::new();
            let hidden = group.pids(&mut pids)?;
            self.guard.allows_pids(&group.path, &pids)?;
            if hidden > 0 {
                return Err(Failure::Hidden { path: group.path, n: hidden });
            }
            groups.push(group);
        }
        Ok(groups)
    }

    fn reclaim(&mut self, action: &Action, began: Nanos) -> Result<Done, Failure> {
        let groups = self.wholes(&action.target)?;
        if !action.is_enforced {
            let would = groups.iter().map(|group| {
                let asked = size(reclaim::wanted(group, action.want)?);
                Ok(format!("would take {asked} back from {}", group.path))
            });
            let told: Result<Vec<_>, Failure> = would.collect();
            return Ok(Done::from(told?.join("; ")));
        }
        if !self.reclaiming.is_empty() {
            return Err(Failure::Told("the kernel still works at the reclaim before this".into()));
        }
        let until = began.plus(Nanos(action.deadline.since(began).0 / PART));
        let reclaiming = Reclaiming::begin((action.id, began), groups, action.want, until)?;
        reclaiming.soon().unwrap_or_else(|| {
            self.reclaiming.push(reclaiming);
            let who = action.target.full_name();
            Ok(Done::from(format!("the kernel takes memory back from {who}")))
        })
    }

    /// What has come of the reclaim that was not waited for.
    pub(super) fn reclaimed(&mut self) -> Vec<Outcome> {
        let mut news = Vec::new();
        self.reclaiming.retain(|one| match one.look() {
            Some(done) => {
                news.push(outcome(one.action, one.began, done));
                false
            }
            None => true,
        });
        news
    }

    fn squeeze(&mut self, action: &Action) -> Result<String, Failure> {
        let groups = self.wholes(&action.target)?;
        let squeeze = |group| squeeze::squeeze(group, action, &mut self.journal);
        let told: Result<Vec<_>, _> = groups.iter().map(squeeze).collect();
        told.map(|told| told.join("; ")).map_err(|failure| {
            // A squeeze in part would be one that nobody takes back.
            match self.put_back(action.id, &action.target, action.is_enforced) {
                Ok(_) => failure,
                Err(also) => {
                    let (action, target) = (action.id, action.target.clone());
                    let why = ReleaseReason::NoEffect;
                    self.owed.push(Release { action, target, why, is_enforced: true });
                    Failure::Told(format!("{failure}; {also}"))
                }
            }
        })
    }

    /// The target, opened before or now, as it is now.
    fn scene(&mut self, target: &Target) -> Result<Scene, Failure> {
        if let Some(known) = self.likely.iter().position(|scene| scene.is_of(target)) {
            let mut scene = self.likely.swap_remove(known);
            scene.refresh();
            return Ok(scene);
        }
        self.guard.find_own(&self.options.proc);
        let stage = Stage { root: &self.root, proc: &self.options.proc, guard: &self.guard };
        Scene::open(stage, target, HELD)
    }

    fn kill(&mut self, action: &Action, began: Nanos) -> Result<Outcome, Failure> {
        let mut scene = self.scene(&action.target)?;
        let (n, who) = (scene.n_work(), action.target.full_name());
        let n_before = scene.n_before;
        if !action.is_enforced {
            let would = format!("would end {n_before} processes in {n} cgroups of {who}");
            self.likely.push(scene);
            return Ok(outcome(action.id, began, Ok(Done::from(would))));
        }
        let stage = Stage { root: &self.root, proc: &self.options.proc, guard: &self.guard };
        let how = scene.kill(stage)?;
        let issued = clock::now().boot.since(began).0 / 1000;
        scene.kill_new(stage)?;
        let left = scene.wait(stage, PATIENCE);
        let n_before = scene.n_before;
        let story =
            format!("{how} after {issued} µs: {n_before} processes in {n} cgroups of {who}");
        Ok(self.follow(Running::new(action, scene, began, story), &left))
    }

    fn stop(&mut self, action: &Action, began: Nanos) -> Result<Outcome, Failure> {
        self.guard.find_own(&self.options.proc);
        let stage = Stage { root: &self.root, proc: &self.options.proc, guard: &self.guard };
        let mut scene = Scene::open(stage, &action.target, HELD)?;
        let (n, who) = (scene.n_work(), action.target.full_name());
        let grace = action.grace.unwrap_or_default();
        let seconds = grace.0 / Nanos::SECOND.0;
        if !action.is_enforced {
            let would = format!(
                "would send SIGTERM in {n} cgroups of {who}, and SIGKILL to whoever of {} \
                 processes is left after {seconds} s",
                scene.n_before
            );
            return Ok(outcome(action.id, began, Ok(Done::from(would))));
        }
        let n_asked = ask(stage.proc, &scene)?;
        let mut story = format!("SIGTERM to {n_asked} processes in {n} cgroups of {who}");
        if scene.is_frozen() {
            story += ", who are frozen and do not see it";
        }
        let left = scene.left();
        Ok(self.follow(Running::new(action, scene, began, story).after(grace), &left))
    }

    /// Hurries those who were killed before, and where nobody was, whoever is dying.
    fn release_memory(&mut self, action: &Action) -> Result<Done, Failure> {
        let ids: Vec<_> = work::cgroups(&action.target)?.into_iter().map(|(id, _)| id).collect();
        let stage = Stage { root: &self.root, proc: &self.options.proc, guard: &self.guard };
        let is_it = |running: &Running| running.scene.ids().eq(ids.iter().copied());
        let mut opened = None;
        let scene = match self.running.iter_mut().position(|running| is_it(running)) {
            Some(i) => &mut self.running[i].scene,
            None => opened.insert(Scene::open(stage, &action.target, HELD)?),
        };
        let who = action.target.full_name();
        let dying: Result<Vec<_>, _> = scene.held.iter().map(|held| held.fd.try_clone()).collect();
        let dying = dying.map_err(|why| Failure::Told(format!("cannot hold a process: {why}")))?;
        let n = dying.len();
        if !action.is_enforced {
            return Ok(Done::from(format!("would take back the memory of {n} processes of {who}")));
        }
        let held = scene.memory();
        let tally = self.releaser.release(dying)?;
        let freed = held.zip(scene.memory()).map(|(a, b)| Bytes(a.0.saturating_sub(b.0)));
        match tally {
            None => Ok(Done { detail: format!("the kernel still works on {n} processes"), freed }),
            Some(Tally { refused: Some(why), .. }) => {
                Err(Failure::Told(format!("process_mrelease is refused: {}", refused(why))))
            }
            Some(tally) => Ok(Done { detail: tally.to_string(), freed }),
        }
    }

    /// Tells what is known of a step by now, and follows it if it is not over.
    fn follow(&mut self, mut running: Running, left: &[u32]) -> Outcome {
        let first = running.first(&self.options.proc, left);
        // The same victims are watched once: the later step has them.
        self.running.retain(|old| !old.scene.ids().eq(running.scene.ids()));
        if left.is_empty() {
            self.sweeps.begin(running.action, &self.root, &running.scene);
        } else {
            self.running.push(running);
        }
        first
    }

    pub(super) fn undo(&mut self, release: &Release) -> Outcome {
        let began = clock::now().boot;
        let Release { action, target, is_enforced, .. } = release;
        let done = self.put_back(*action, target, *is_enforced).map(Done::from);
        self.owed.retain(|old| old.action != *action || old.target != *target);
        if done.is_err() && *is_enforced {
            self.owed.push(release.clone());
        }
        outcome(*action, began, done)
    }

    /// Tries again, once in a while, what could not be taken back when it was asked for. That it
    /// failed was told then; what is told here is that it did not.
    pub(super) fn settle(&mut self, now: Nanos) -> Vec<Outcome> {
        if self.owed.is_empty() || now.since(self.settled) < AGAIN {
            return Vec::new();
        }
        self.settled = now;
        let mut owed = std::mem::take(&mut self.owed);
        // Some were taken back by another name meanwhile.
        let in_force = self.journal.entries();
        owed.retain(|one| in_force.iter().any(|entry| entry.actions.contains(&one.action)));
        let tried = owed.iter().map(|release| self.undo(release));
        tried.filter(|outcome| outcome.result == OutcomeResult::Done).collect()
    }

    /// Puts back what was written for an action, as far as it can be; the first failure counts.
    fn put_back(&mut self, action: u64, at: &Target, is_enforced: bool) -> Result<String, Failure> {
        let ids = work::cgroups(at).unwrap_or_default();
        let is_its = |id| ids.is_empty() || ids.iter().any(|(own, _)| *own == id);
        let entries = self.journal.entries().iter();
        let entries = entries.filter(|e| e.actions.contains(&action) && is_its(e.cgroup));
        let entries: Vec<_> = entries.cloned().collect();
        if entries.is_empty() {
            return Ok(format!("nothing that action {action} wrote is in force"));
        }
        let one = |entry: Entry| {
            let done = match Group::open(&self.root, &entry.path, entry.cgroup) {
                Ok(group) => {
                    squeeze::release(&group, &entry, action, is_enforced, &mut self.journal)
                }
                Err(failure @ (Failure::Gone(_) | Failure::Stranger { .. })) if is_enforced => {
                    squeeze::forget(&mut self.journal, &entry).map(|()| failure.to_string())
                }
                Err(failure) => Err(failure),
            };
            if done.is_err() {
                self.journal.orphan(&entry);
            }
            done
        };
        let told: Vec<Result<String, Failure>> = entries.into_iter().map(one).collect();
        Ok(told.into_iter().collect::<Result<Vec<_>, _>>()?.join("; "))
    }
}

fn refused(why: Errno) -> String {
    match why {
        Errno::NOSYS => "Linux is older than 5.15".into(),
        Errno::PERM => "not permitted: missing CAP_SYS_PTRACE or CAP_SYS_NICE".into(),
        why => why.to_string(),
    }
}

fn outcome(action: u64, began: Nanos, done: Result<Done, Failure>) -> Outcome {
    let (result, detail, freed) = match done {
        Ok(Done { detail, freed }) => (OutcomeResult::Done, detail, freed),
        Err(failure) => (OutcomeResult::Failed, failure.to_string(), None),
    };
    Outcome { action, result, detail, took: clock::now().boot.since(began), freed, ended: None }
}
