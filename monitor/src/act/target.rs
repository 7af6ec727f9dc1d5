//! The target of a stop or a kill, opened before the step is taken: its cgroups, the files that end
//! them and tell their memory, and pidfds of its processes.

mod containers;

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::OFlags;
use rustix::io::{pread, retry_on_intr};

use super::cgroup::{CgroupDir, Killer, Root};
use super::deny::DenyList;
use super::error::{ActError, of_those_left};
use super::process::{Held, Listed, Stat, hold, one_by_one, thawed_one_by_one, wait_for};
use crate::clock;
pub(super) use containers::{cgroups, open};
use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::decision::Target;
use isobar_core::model::units::{Bytes, Nanos};

/// Processes that are named among those that are left.
const NAMED: usize = 3;
/// Processes of which pidfds are kept, of those that were started meanwhile.
const CAUGHT: usize = 128;
/// One wait for an end takes at most so many milliseconds.
const LOOK: i64 = 10;

/// What it takes to open a target.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node<'a> {
    pub(super) root: &'a Root,
    pub(super) proc: &'a Path,
    pub(super) deny: &'a DenyList,
    pub(super) killer: &'a Killer,
}

/// One cgroup of the target.
#[derive(Debug)]
struct Part {
    whole: CgroupDir,
    /// The cgroups that are ended: its containers, or itself.
    work: Vec<CgroupDir>,
    /// `cgroup.kill` of each cgroup of `work`, where there is one.
    kill_files: Vec<Option<OwnedFd>>,
    memory: Option<OwnedFd>,
    before: Option<Bytes>,
    now: Option<Bytes>,
}

#[derive(Debug)]
pub(super) struct OpenTarget {
    parts: Vec<Part>,
    /// The cgroups of the target that it was opened for, also those that the kubelet had removed before.
    wanted: Vec<CgroupId>,
    containers: Vec<String>,
    pub(super) held: Vec<Held>,
    /// Processes that were there before anything was done.
    pub(super) n_before: u64,
    /// Why some of them have no pidfd.
    pub(super) unseen: Option<ActError>,
    /// At the last look processes were left in more cgroups than are looked at, or one could not be read.
    pub(super) may_be_more: bool,
}

impl OpenTarget {
    /// Opens a target, if it has work and all of that may be ended. At most `most` processes are held.
    pub(super) fn open(node: Node<'_>, target: &Target, most: usize) -> Result<Self, ActError> {
        let opened = Self::open_idle(node, target, most)?;
        match opened.parts.first().filter(|_| opened.n_work() == 0) {
            None => Ok(opened),
            Some(Part { whole, .. }) => Err(ActError::NoWork {
                path: whole.path.clone(),
                why: "all that it has look like sandboxes, or are empty",
            }),
        }
    }

    /// The same of a target that need not have work: the kubelet ends a pod whose containers wait to
    /// be started again, and its volumes with it.
    pub(super) fn open_idle(
        node: Node<'_>,
        target: &Target,
        most: usize,
    ) -> Result<Self, ActError> {
        let (containers, cgroups) = (target.containers.clone(), cgroups(target)?);
        let wanted = cgroups.iter().map(|(id, _)| *id).collect();
        let parts = of_those_left(cgroups.into_iter().map(|(id, path)| {
            let whole = open(node.root, node.deny, id, path)?;
            let work = containers::of(node.root, node.proc, &whole, &containers)?;
            Ok(Part::open(whole, work))
        }))?;
        let (held, unseen, n_before, may_be_more) = Default::default();
        let mut opened = Self { parts, wanted, containers, held, n_before, unseen, may_be_more };
        opened.look(node, most)?;
        Ok(opened)
    }

    /// Lists its processes again, and checks that all of them may be ended.
    pub(super) fn look(&mut self, node: Node<'_>, most: usize) -> Result<(), ActError> {
        self.held.retain(|held| !held.has_ended());
        self.held.truncate(most);
        (self.n_before, self.unseen) = (0, None);
        let mut n_left = self.n_work();
        for group in self.parts.iter().flat_map(|part| &part.work) {
            node.deny.allows(group)?;
            node.deny.allows_below(group)?;
            // One with many processes leaves the others their share.
            let most = self.held.len() + most.saturating_sub(self.held.len()) / n_left;
            n_left -= 1;
            let Listed { pids, hidden, refused, .. } = hold(group, &mut self.held, most)?;
            node.deny.allows_pids(&group.path, &pids)?;
            if hidden > 0 {
                // They cannot be identified: process 1 may be among them.
                return Err(ActError::Hidden { path: group.path.clone(), n: hidden });
            }
            // Where the API names the containers it has told the policy the priority as well.
            if self.containers.is_empty() {
                containers::allows_critical(node.proc, group, &pids)?;
            }
            self.n_before += pids.len() as u64;
            self.unseen = self.unseen.take().or(refused);
        }
        self.parts.iter_mut().for_each(|part| part.before = part.read());
        Ok(())
    }

    /// Counts and measures again what was opened, possibly long ago.
    pub(super) fn refresh(&mut self) {
        let before = self.held.len();
        self.held.retain(|held| !held.has_ended());
        let n_gone = before - self.held.len();
        self.n_before = self.n_before.saturating_sub(n_gone as u64);
        self.parts.iter_mut().for_each(|part| part.before = part.read());
    }

    /// True if it is opened for a part of what has these cgroups, or for all of that, and for nothing
    /// else that is left.
    pub(super) fn is_within(&self, ids: &[CgroupId]) -> bool {
        let is_in = |part: &Part| ids.contains(&part.whole.id);
        self.parts.iter().any(is_in)
            && self.parts.iter().all(|part| is_in(part) || part.whole.is_gone())
    }

    /// The cgroups of the target that it was opened for.
    pub(super) fn wanted(&self) -> &[CgroupId] {
        &self.wanted
    }

    /// True if it was opened for this target.
    pub(super) fn is_of(&self, target: &Target) -> bool {
        let cgroups = cgroups(target).unwrap_or_default();
        self.containers == target.containers && cgroups.iter().map(|(id, _)| id).eq(&self.wanted)
    }

    /// True if no container has started or gone since.
    pub(super) fn is_fresh(&self, node: Node<'_>) -> bool {
        self.parts.iter().all(|part| {
            let now = containers::of(node.root, node.proc, &part.whole, &self.containers);
            now.is_ok_and(|now| now.iter().map(|group| group.id).eq(part.work_ids()))
        })
    }

    /// True if all of its cgroups have been removed.
    pub(super) fn is_gone(&self) -> bool {
        self.parts.iter().all(|part| part.whole.is_gone())
    }

    /// How many cgroups are ended.
    pub(super) fn n_work(&self) -> usize {
        self.parts.iter().map(|part| part.work.len()).sum()
    }

    /// The cgroups that are ended.
    pub(super) fn work(&self) -> impl Iterator<Item = &CgroupDir> {
        self.parts.iter().flat_map(|part| &part.work)
    }

    /// Ends its processes; how, and what could not be ended, in words.
    ///
    /// # Errors
    /// If nothing was ended.
    pub(super) fn kill(&self, node: Node<'_>) -> Result<String, ActError> {
        for group in self.work() {
            node.deny.allows_below(group)?;
        }
        let (mut done, mut failed) = (None, None);
        for part in &self.parts {
            for (group, file) in part.work.iter().zip(&part.kill_files) {
                match kill(node, group, file.as_ref()) {
                    Ok(how) => done = done.or(Some(how)),
                    // A cgroup that is gone is as good as ended.
                    Err(ActError::Gone(_)) => {}
                    Err(why) => failed = failed.or(Some(why)),
                }
            }
        }
        match (done, failed) {
            (None, Some(why)) => Err(why),
            (done, None) => Ok(done.unwrap_or("nothing to do").into()),
            (Some(how), Some(why)) => Ok(format!("{how}, but {why}")),
        }
    }

    /// Ends containers that were started since it was opened; why one of them was not ended.
    pub(super) fn kill_new(&mut self, node: Node<'_>) -> Option<ActError> {
        let mut failed = None;
        let mut note =
            |why: ActError| failed = failed.take().or(Some(why)).filter(|w| !w.is_gone());
        for part in &mut self.parts {
            let now = containers::of(node.root, node.proc, &part.whole, &self.containers);
            let known: BTreeSet<_> = part.work_ids().collect();
            for new in now.map_err(&mut note).unwrap_or_default() {
                if !known.contains(&new.id) && node.deny.allows(&new).is_ok() {
                    let _ = kill(node, &new, None).map_err(&mut note);
                    part.kill_files.push(kill_file(&new).ok());
                    part.work.push(new);
                }
            }
        }
        self.catch();
        failed
    }

    /// Opens pidfds of processes that were started since the last look.
    pub(super) fn catch(&mut self) {
        let before = self.held.len();
        for group in self.parts.iter().flat_map(|part| &part.work) {
            // A cgroup that cannot be read any more is gone.
            let _ = hold(group, &mut self.held, before + CAUGHT);
        }
        self.n_before = self.n_before.max(self.held.len() as u64);
    }

    /// Waits for the end of all processes, `patience` at most; those that are left then. A child
    /// that was being forked is ended too: before Linux 6.14 it could escape.
    pub(super) fn wait(&mut self, node: Node<'_>, patience: Nanos) -> Vec<u32> {
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
            self.end_newcomers(node, &left);
        }
    }

    /// Ends processes that were started after all were ended; whether there were any.
    pub(super) fn end_newcomers(&mut self, node: Node<'_>, left: &[u32]) -> bool {
        let is_held = |pid: &u32| self.held.iter().any(|held| held.pid == *pid);
        if left.iter().all(is_held) {
            return false;
        }
        for part in &self.parts {
            for (group, file) in part.work.iter().zip(&part.kill_files) {
                // It succeeded before: a cgroup where it fails now is gone.
                let _ = kill(node, group, file.as_ref());
            }
        }
        self.catch();
        true
    }

    /// True if a part of it is frozen.
    pub(super) fn is_frozen(&self) -> bool {
        let is_one = |text: Result<String, _>| text.is_ok_and(|text| text.contains("frozen 1"));
        self.work().any(|group| is_one(group.read("cgroup.events")))
    }

    /// The processes that have not ended, as far as they are looked at.
    pub(super) fn left(&mut self) -> Vec<u32> {
        self.held.retain(|held| !held.has_ended());
        let mut left: Vec<u32> = self.held.iter().map(|held| held.pid).collect();
        let mut may_be_more = false;
        for group in self.parts.iter().flat_map(|part| &part.work) {
            // The processes of a cgroup that is gone have pidfds.
            may_be_more |= match group.pids(&mut left) {
                Ok(unlisted) => unlisted.is_cut && group.is_populated(),
                Err(why) => !why.is_gone(),
            };
        }
        self.may_be_more = may_be_more;
        left.sort_unstable();
        left.dedup();
        left
    }

    /// Measures its memory again.
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

    /// What it held before the step; `None` where memory is not accounted.
    pub(super) fn before(&self) -> Option<Bytes> {
        self.parts
            .iter()
            .filter_map(|part| part.before)
            .map(|b| b.0)
            .reduce(u64::saturating_add)
            .map(Bytes)
    }

    /// Memory that came back, as far as it was measured.
    pub(super) fn freed(&self) -> Option<Bytes> {
        let each = self.parts.iter().filter_map(|part| part.before.zip(part.now));
        let freed = each.map(|(before, now)| before.0.saturating_sub(now.0));
        freed.reduce(u64::saturating_add).map(Bytes)
    }
}

impl Part {
    fn open(whole: CgroupDir, work: Vec<CgroupDir>) -> Self {
        let kill_files = work.iter().map(|group| kill_file(group).ok()).collect();
        let memory = whole.file("memory.current", OFlags::RDONLY).ok();
        Self { whole, work, kill_files, memory, before: None, now: None }
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

/// The processes that are left, in words: a few of them, each with its state.
pub(super) fn describe(proc: &Path, left: &[u32]) -> String {
    let each = left.iter().take(NAMED).map(|pid| match Stat::of(proc, *pid) {
        Some(stat) => format!("{pid} ({}, {})", stat.name, state(stat.state)),
        None => pid.to_string(),
    });
    let each: Vec<_> = each.collect();
    let more = if left.len() > NAMED { ", ..." } else { "" };
    format!("{} left: {}{more}", left.len(), each.join(", "))
}

/// `/proc/PID/stat`, in words.
fn state(letter: char) -> String {
    match letter {
        'D' => "D: uninterruptible sleep in the kernel".into(),
        'T' | 't' => format!("{letter}: stopped"),
        'Z' | 'X' => format!("{letter}: ended, not yet reaped by its parent"),
        letter => letter.to_string(),
    }
}

/// The file that ends a cgroup, opened before it is needed.
fn kill_file(group: &CgroupDir) -> Result<OwnedFd, ActError> {
    let file = group.file("cgroup.kill", OFlags::WRONLY);
    file.map_err(|why| group.unwritten("cgroup.kill", "1", why))
}

/// Ends all processes in and below `group`; what was done, in words.
///
/// From Linux 5.14 on `cgroup.kill` ends all at once, forks included, also in a frozen cgroup.
/// Without it, or if it takes long, each process is signalled until none is left.
fn kill(
    node: Node<'_>,
    group: &CgroupDir,
    file: Option<&OwnedFd>,
) -> Result<&'static str, ActError> {
    let write = |file: &OwnedFd| {
        node.killer.write(file).map_err(|why| group.unwritten("cgroup.kill", "1", why))
    };
    let written = match file {
        Some(file) => write(file),
        None => kill_file(group).and_then(|file| write(&file)),
    };
    match written {
        Ok(true) => Ok("cgroup.kill"),
        // Thawing would wait for the same lock; what is not signalled `cgroup.kill` still ends.
        Ok(false) => Ok(one_by_one(node.proc, group)
            .map_or("cgroup.kill takes long", |_| "SIGKILL to each, as cgroup.kill takes long")),
        Err(failure @ ActError::Gone(_)) => Err(failure),
        Err(first) => thawed_one_by_one(node.proc, group).map_err(|second| match second {
            ActError::Signal { .. } | ActError::Hidden { .. } => {
                ActError::Other(format!("{first}; {second}"))
            }
            other => other,
        }),
    }
}
