//! How the steps are taken that end no work, and how killed processes are hurried.

use rustix::io::Errno;

use super::ending::HELD;
use super::{Actuator, node, outcome};
use crate::act::cgroup::{CgroupDir, Root};
use crate::act::error::{ActError, Done, of_those_left};
use crate::act::ledger::Override;
use crate::act::mark;
use crate::act::process::{Tally, processes};
use crate::act::reclaim::{self, Reclaim};
use crate::act::target::{self, OpenTarget};
use crate::act::throttle;
use isobar_core::model::decision::{Action, Outcome, Phase, Target};
use isobar_core::model::units::{Bytes, Nanos};

/// Of a step's time, reclaim takes no more than this part, so that its effect is seen in time.
const PART: u64 = 2;

impl Actuator {
    /// The cgroups of a target, each as a whole: for steps that end nothing.
    fn wholes(&mut self, target: &Target) -> Result<Vec<CgroupDir>, ActError> {
        self.deny.find_own(&self.options.proc);
        let each = target::cgroups(target)?.into_iter().map(|(id, path)| {
            let group = target::open(&self.root, &self.deny, id, path)?;
            self.deny.allows_below(&group)?;
            // Its path says where isobar runs only in the host's namespaces; its processes say so
            // anywhere, if all of them are seen.
            let mut pids = Vec::new();
            let hidden = group.pids(&mut pids)?.hidden;
            self.deny.allows_pids(&group.path, &pids)?;
            if hidden > 0 {
                return Err(ActError::Hidden { path: group.path, n: hidden });
            }
            Ok(group)
        });
        of_those_left(each)
    }

    pub(super) fn reclaim(&mut self, action: &Action, began: Nanos) -> Result<Done, ActError> {
        let groups = self.wholes(&action.target)?;
        if !action.is_enforced {
            let would = groups.iter().map(|group| {
                let asked = reclaim::wanted(group, action.want)?;
                Ok(format!("would take {asked} back from {}", group.path))
            });
            return Ok(Done::from(would.collect::<Result<Vec<_>, ActError>>()?.join("; ")));
        }
        if self.reclaims.iter().any(|reclaim| !reclaim.is_leftover) {
            return Err(ActError::Other("the kernel still works at the last reclaim".into()));
        }
        let until = began.plus(Nanos(action.deadline.since(began).0 / PART));
        let reclaim = Reclaim::begin((action.id, began), groups, action.want, until)?;
        reclaim.soon().unwrap_or_else(|| {
            self.reclaims.push(reclaim);
            let who = action.target.full_name();
            Ok(Done::from(format!("the kernel takes memory back from {who}")))
        })
    }

    pub(super) fn poll_reclaims(&mut self) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        self.reclaims.retain(|one| match one.poll() {
            None => true,
            Some(Err(why)) if one.is_leftover => {
                tracing::debug!("page cache of a victim was not taken back: {why}");
                false
            }
            Some(Ok(done)) if one.is_leftover => {
                let detail = format!("page cache that the victim left: {}", done.detail);
                outcomes.push(outcome(one.action, one.began, Ok(Done { detail, ..done })));
                false
            }
            Some(done) => {
                outcomes.push(outcome(one.action, one.began, done));
                false
            }
        });
        outcomes
    }

    pub(super) fn squeeze(&mut self, action: &Action, began: Nanos) -> Result<String, ActError> {
        let groups = self.wholes(&action.target)?;
        let held = groups.iter().filter_map(|group| group.bytes("memory.current"));
        let held = held.reduce(u64::saturating_add).map(Bytes);
        // A squeeze that cannot be remembered is refused by the limits' own entries.
        let _ = self.ledger.begin(action, began, held, Phase::Squeezed);
        let squeeze = |group: &CgroupDir| throttle::squeeze(group, action, &mut self.ledger);
        let done = of_those_left(groups.iter().map(squeeze));
        self.keep_or_undo(action, done)
    }

    pub(super) fn mark(&mut self, action: &Action, began: Nanos) -> Result<String, ActError> {
        self.deny.find_own(&self.options.proc);
        let node = node(&self.root, &self.options, &self.deny, &self.killer);
        let target = OpenTarget::open(node, &action.target, 0)?;
        let _ = self.ledger.begin(action, began, target.before(), Phase::Marked);
        let mark = |group| mark::mark(&self.options.proc, group, action, &mut self.ledger);
        let (done, refused): (Vec<_>, Vec<_>) = target.work().map(mark).partition(Result::is_ok);
        // One of several containers may be empty, or be protected by its scores.
        let done = match done.is_empty() {
            true => refused.into_iter().collect(),
            false => done.into_iter().collect(),
        };
        self.ledger.weigh(action.id, mark::largest(&self.options.proc, &target));
        self.keep_or_undo(action, done)
    }

    /// What was done to all cgroups of a target, or to none.
    fn keep_or_undo(
        &mut self,
        action: &Action,
        done: Result<Vec<String>, ActError>,
    ) -> Result<String, ActError> {
        done.map(|details| details.join("; ")).map_err(|error| {
            // A squeeze in part would be one that no release undoes.
            match self.put_back(action.id, action.is_enforced) {
                Ok(_) => {
                    self.ledger.remove(action.id);
                    error
                }
                Err(also) => ActError::Other(format!("{error}; {also}")),
            }
        })
    }

    /// Hurries processes that were killed before, and where none was, those that are dying.
    pub(super) fn release_memory(&mut self, action: &Action) -> Result<Done, ActError> {
        let ids: Vec<_> = target::cgroups(&action.target)?.into_iter().map(|(id, _)| id).collect();
        let node = node(&self.root, &self.options, &self.deny, &self.killer);
        let mut opened = None;
        let its = self.endings.iter().position(|ending| ending.target.is_within(&ids));
        let target = match its {
            Some(i) => &mut self.endings[i].target,
            None => opened.insert(OpenTarget::open(node, &action.target, HELD)?),
        };
        let who = action.target.full_name();
        let dying: Result<Vec<_>, _> = target.held.iter().map(|held| held.fd.try_clone()).collect();
        let dying = dying.map_err(|why| ActError::Other(format!("cannot copy a pidfd: {why}")))?;
        let processes = processes(dying.len() as u64);
        if !action.is_enforced {
            return Ok(Done::from(format!("would take back the memory of {processes} of {who}")));
        }
        let held = target.memory();
        let tally = self.releaser.release(dying)?;
        let freed = held.zip(target.memory()).map(|(a, b)| Bytes(a.0.saturating_sub(b.0)));
        match tally {
            None => Ok(Done { detail: format!("the kernel still works on {processes}"), freed }),
            Some(Tally { refused: Some(why), .. }) => {
                Err(ActError::Other(format!("process_mrelease is refused: {}", refused(why))))
            }
            Some(tally) => Ok(Done { detail: tally.to_string(), freed }),
        }
    }

    /// Puts back what was written for an action, as far as it can be; the first error counts.
    pub(super) fn put_back(&mut self, action: u64, is_enforced: bool) -> Result<String, ActError> {
        let overrides = self.ledger.overrides().iter();
        let overrides: Vec<_> =
            overrides.filter(|one| one.actions.contains(&action)).cloned().collect();
        if overrides.is_empty() {
            return Ok(format!("no limit of action {action} is in force"));
        }
        let one = |entry: Override| {
            let group = CgroupDir::open(&self.root, &entry.path, entry.cgroup);
            let done = group.and_then(|group| {
                let (proc, ledger) = (&self.options.proc, &mut self.ledger);
                throttle::release(proc, &group, &entry, action, is_enforced, ledger)
            });
            match done {
                // With the cgroup, or with its controller, the limit has gone as well.
                Err(error)
                    if is_enforced
                        && (error.is_gone() || matches!(error, ActError::Lacking { .. })) =>
                {
                    if entry.file == mark::SCORE {
                        mark::undo_left(&self.options.proc, &entry)?;
                    }
                    self.ledger.forget(entry.cgroup, &entry.file);
                    Ok(error.to_string())
                }
                done => done,
            }
        };
        let details: Vec<Result<String, ActError>> = overrides.into_iter().map(one).collect();
        Ok(details.into_iter().collect::<Result<Vec<_>, _>>()?.join("; "))
    }
}

/// Takes back the page cache that a victim has left behind.
pub(super) fn leftovers(root: &Root, target: &OpenTarget, action: u64) -> Option<Reclaim> {
    let opened = target.work().filter_map(|work| CgroupDir::open(root, &work.path, work.id).ok());
    Reclaim::of_leftovers(action, opened)
}

fn refused(why: Errno) -> String {
    match why {
        Errno::NOSYS => "Linux is older than 5.15".into(),
        Errno::PERM => "not permitted: missing CAP_SYS_PTRACE or CAP_SYS_NICE".into(),
        why => why.to_string(),
    }
}
