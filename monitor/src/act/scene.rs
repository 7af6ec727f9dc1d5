//! Whom a final step is about, opened before it is taken: cgroups, the files that end them and
//! tell their memory, and a hold on their processes.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::OFlags;
use rustix::io::{pread, retry_on_intr};

use super::cgroup::{Group, Root};
use super::failure::Failure;
use super::guard::Guard;
use super::process::{Held, Listed, Stat, hold, wait_for};
use super::{kill, work};
use crate::clock;
use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::decision::Target;
use isobar_core::model::units::{Bytes, Nanos};

/// Processes that are told one by one among those that are left.
const TOLD: usize = 3;
/// Processes that are held of those who came late.
const CAUGHT: usize = 128;
/// One look at who is left takes at most so many milliseconds.
const LOOK: i64 = 10;

/// Where a scene is set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stage<'a> {
    pub(super) root: &'a Root,
    pub(super) proc: &'a Path,
    pub(super) guard: &'a Guard,
}

/// One cgroup of the target.
#[derive(Debug)]
struct Part {
    whole: Group,
    work: Vec<Group>,
    /// `cgroup.kill` of each cgroup of `work`, where there is one.
    doors: Vec<Option<OwnedFd>>,
    memory: Option<OwnedFd>,
    before: Option<Bytes>,
    now: Option<Bytes>,
}

/// All of the target.
#[derive(Debug)]
pub(super) struct Scene {
    parts: Vec<Part>,
    containers: Vec<String>,
    pub(super) held: Vec<Held>,
    /// Processes that were there before anything was done.
    pub(super) n_before: u64,
    /// Why some of them are not held.
    pub(super) unseen: Option<Failure>,
}

impl Scene {
    /// Opens a target, if all of its work may be ended. At most `most` processes are held.
    pub(super) fn open(stage: Stage<'_>, target: &Target, most: usize) -> Result<Self, Failure> {
        let containers = target.containers.clone();
        let mut scene =
            Self { parts: Vec::new(), containers, held: Vec::new(), n_before: 0, unseen: None };
        for (id, path) in work::cgroups(target)? {
            let whole = work::open(stage.root, stage.guard, id, path)?;
            let work = work::of(stage.root, stage.proc, &whole, &scene.containers)?;
            scene.parts.push(Part::open(whole, work));
        }
        scene.look(stage, most)?;
        Ok(scene)
    }

    /// Looks again who is there, and whether they may be ended.
    pub(super) fn look(&mut self, stage: Stage<'_>, most: usize) -> Result<(), Failure> {
        self.held.retain(|held| !held.has_ended());
        (self.n_before, self.unseen) = (0, None);
        for group in self.parts.iter().flat_map(|part| &part.work) {
            stage.guard.allows(&group.path)?;
            stage.guard.allows_below(group)?;
            let Listed { pids, hidden, refused } = hold(group, &mut self.held, most)?;
            stage.guard.allows_pids(&group.path, &pids)?;
            if hidden > 0 {
                // Who they are cannot be told: process 1 may be among them.
                return Err(Failure::Hidden { path: group.path.clone(), n: hidden });
            }
            work::allows_critical(stage.proc, &group.path, &pids)?;
            self.n_before += pids.len() as u64;
            self.unseen = self.unseen.take().or(refused);
        }
        self.parts.iter_mut().for_each(|part| part.before = part.read());
        Ok(())
    }

    /// Reads again, on what is open, what it had when it was opened: that may be long ago.
    pub(super) fn refresh(&mut self) {
        let before = self.held.len();
        self.held.retain(|held| !held.has_ended());
        let n_gone = before - self.held.len();
        self.n_before = self.n_before.saturating_sub(n_gone as u64);
        self.parts.iter_mut().for_each(|part| part.before = part.read());
    }

    /// The cgroups of the target.
    pub(super) fn ids(&self) -> impl Iterator<Item = CgroupId> {
        self.parts.iter().map(|part| part.whole.id)
    }

    /// True if it was opened for this target.
    pub(super) fn is_of(&self, target: &Target) -> bool {
        let cgroups = work::cgroups(target).unwrap_or_default();
        self.containers == target.containers && cgroups.iter().map(|(id, _)| *id).eq(self.ids())
    }

    /// True if no container has come or gone since.
    pub(super) fn is_fresh(&self, stage: Stage<'_>) -> bool {
        self.parts.iter().all(|part| {
            let now = work::of(stage.root, stage.proc, &part.whole, &self.containers);
            now.is_ok_and(|now| now.iter().map(|group| group.id).eq(part.work_ids()))
        })
    }

    /// How many cgroups are ended with it.
    pub(super) fn n_work(&self) -> usize {
        self.parts.iter().map(|part| part.work.len()).sum()
    }

    /// The cgroups that are ended with it.
    pub(super) fn work(&self) -> impl Iterator<Item = &Group> {
        self.parts.iter().flat_map(|part| &part.work)
    }

    /// Ends what is open; how, in words.
    pub(super) fn kill(&self, stage: Stage<'_>) -> Result<&'static str, Failure> {
        for group in self.work() {
            stage.guard.allows_below(group)?;
        }
        let mut how = Ok("nothing to do");
        for part in &self.parts {
            for (group, door) in part.work.iter().zip(&part.doors) {
                how = worse(how, kill::kill(stage.proc, group, door.as_ref()));
            }
        }
        how
    }

    /// Ends what was begun since it was opened.
    pub(super) fn kill_new(&mut self, stage: Stage<'_>) -> Result<(), Failure> {
        let mut how = Ok("");
        for part in &mut self.parts {
            let now = work::of(stage.root, stage.proc, &part.whole, &self.containers);
            let known: BTreeSet<_> = part.work_ids().collect();
            // What cannot be listed any more is gone.
            for new in now.unwrap_or_default() {
                if !known.contains(&new.id) && stage.guard.allows(&new.path).is_ok() {
                    how = worse(how, kill::kill(stage.proc, &new, None));
                    part.doors.push(kill::door(&new).ok());
                    part.work.push(new);
                }
            }
        }
        self.catch();
        how.map(drop)
    }

    /// Holds who came since it was last looked, as far as they have not ended.
    fn catch(&mut self) {
        let before = self.held.len();
        for group in self.parts.iter().flat_map(|part| &part.work) {
            // What cannot be read any more is gone.
            let _ = hold(group, &mut self.held, before + CAUGHT);
        }
        self.n_before = self.n_before.max(self.held.len() as u64);
    }

    /// Waits for the end of all of it, `patience` at most; who is left then. Whoever slipped
    /// through is ended, too: before Linux 6.14 a child could, that was being born.
    pub(super) fn wait(&mut self, stage: Stage<'_>, patience: Nanos) -> Vec<u32> {
        let until = clock::now().boot.plus(patience);
        loop {
            let left = self.left();
            if left.is_empty() || clock::now().boot >= until {
                self.measure();
                return left;
            }
            let mut ends: Vec<_> =
                self.held.iter().map(|held| PollFd::new(&held.fd, PollFlags::IN)).collect();
            wait_for(&mut ends, LOOK);
            self.end_newcomers(stage, &left);
        }
    }

    /// Ends who came after all were ended.
    pub(super) fn end_newcomers(&mut self, stage: Stage<'_>, left: &[u32]) {
        let is_held = |pid: &u32| self.held.iter().any(|held| held.pid == *pid);
        if left.iter().all(is_held) {
            return;
        }
        for part in &self.parts {
            for (group, door) in part.work.iter().zip(&part.doors) {
                // It succeeded before; what fails now is gone.
                let _ = kill::kill(stage.proc, group, door.as_ref());
            }
        }
        self.catch();
    }

    /// True if somebody has frozen a part of it.
    pub(super) fn is_frozen(&self) -> bool {
        let is_one = |text: Result<String, _>| text.is_ok_and(|text| text.contains("frozen 1"));
        self.work().any(|group| is_one(group.read("cgroup.events")))
    }

    /// Who has not ended.
    pub(super) fn left(&mut self) -> Vec<u32> {
        self.held.retain(|held| !held.has_ended());
        let mut left: Vec<u32> = self.held.iter().map(|held| held.pid).collect();
        for group in self.parts.iter().flat_map(|part| &part.work) {
            // What cannot be read any more is gone; of what is left besides, there is a hold.
            let _ = group.pids(&mut left);
        }
        left.sort_unstable();
        left.dedup();
        left
    }

    /// Reads again what it holds.
    pub(super) fn measure(&mut self) {
        for part in &mut self.parts {
            part.now = part.read().or(part.now);
        }
    }

    /// What it holds now; `None` where memory is not accounted.
    pub(super) fn memory(&self) -> Option<Bytes> {
        let each = self.parts.iter().filter_map(Part::read).map(|bytes| bytes.0);
        each.reduce(u64::saturating_add).map(Bytes)
    }

    /// Memory that came back, as far as it was measured.
    pub(super) fn freed(&self) -> Option<Bytes> {
        let each = self.parts.iter().filter_map(|part| part.before.zip(part.now));
        let freed = each.map(|(before, now)| before.0.saturating_sub(now.0));
        freed.reduce(u64::saturating_add).map(Bytes)
    }
}

impl Part {
    fn open(whole: Group, work: Vec<Group>) -> Self {
        let doors = work.iter().map(|group| kill::door(group).ok()).collect();
        let memory = whole.file("memory.current", OFlags::RDONLY).ok();
        Self { whole, work, doors, memory, before: None, now: None }
    }

    fn work_ids(&self) -> impl Iterator<Item = CgroupId> {
        self.work.iter().map(|group| group.id)
    }

    /// Allocates nothing: it is read between a decision and its kill.
    fn read(&self) -> Option<Bytes> {
        let (memory, mut text) = (self.memory.as_ref()?, [0; 24]);
        let n = retry_on_intr(|| pread(memory, &mut text, 0)).ok()?;
        str::from_utf8(&text[..n]).ok()?.trim_end().parse().ok().map(Bytes)
    }
}

/// Of several, one that failed counts; one that is gone is as good as ended.
fn worse(
    one: Result<&'static str, Failure>,
    other: Result<&'static str, Failure>,
) -> Result<&'static str, Failure> {
    match (one, other) {
        (Err(failure), _) => Err(failure),
        (one, Err(Failure::Gone(_))) => one,
        (Ok(_), other) => other,
    }
}

/// Who is left, in words: a few of them, each with the state that it waits in.
pub(super) fn told(proc: &Path, left: &[u32]) -> String {
    let each = left.iter().take(TOLD).map(|pid| match Stat::of(proc, *pid) {
        Some(stat) => format!("{pid} ({}, {})", stat.name, state(stat.state)),
        None => pid.to_string(),
    });
    let each: Vec<_> = each.collect();
    let more = if left.len() > TOLD { ", ..." } else { "" };
    format!("{} left: {}{more}", left.len(), each.join(", "))
}

/// `/proc/PID/stat`, in words.
fn state(letter: char) -> String {
    match letter {
        'D' => "D: it waits in the kernel and cannot be interrupted".into(),
        'T' | 't' => format!("{letter}: stopped"),
        'Z' | 'X' => format!("{letter}: ended, and not yet noticed by its parent"),
        letter => letter.to_string(),
    }
}
