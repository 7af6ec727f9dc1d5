//! Which processes of a cgroup use what is short: CPUs, memory or disks. Its name alone may say little,
//! and that of the root cgroup says nothing.
//! In: which cgroup it is, or that nobody knows which. Out: its processes that use most, or those of
//! the machine, for [`Sample::runners`].
//!
//! [`Sample::runners`]: isobar_core::model::sample::Sample::runners

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, mem};

use super::gap::{self, ReadError};
use super::processes;
use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::sample::{Gap, Resident, Runner, Sample};
use isobar_core::model::units::{Bytes, MilliCpu, Nanos, scale};
use isobar_core::view::suspects::Suspect;
use isobar_core::view::verdict::Resource;

use io::{IoReader, Moved, bound, moved_of};
use process::{Stat, stat_of};

pub(super) use process::split;

/// Processes that are looked at, the youngest first, and the next ones the next time: a look at each
/// takes some 10 µs.
const LOOKED_AT: usize = 512;
/// Cgroups whose processes are listed for one look, and the next ones the next time.
const LISTED: usize = 64;
/// From so many processes on, no further cgroup is listed.
const LISTED_PIDS: usize = 8 * LOOKED_AT;
/// Before all were looked at, only one that uses so much is named: others may use more than a lesser.
const CERTAIN: MilliCpu = MilliCpu(500);
/// The same of memory and IO, per second.
const CERTAIN_BYTES: Bytes = Bytes(16 << 20);
/// Growth per second from which on a process is named for it, and not for what it has: that of any
/// process sways.
const GROWS: Bytes = Bytes(1 << 20);
/// Processes that are named.
const NAMED: usize = 3;
/// Between the two looks of a pair, at least.
const APART: Nanos = Nanos(Nanos::SECOND.0 / 2);
/// From one pair of looks at a suspect to the next at the same one.
const REST: Nanos = Nanos(10 * Nanos::SECOND.0);
/// From one pair of looks to the next, also of another suspect.
const SHORTEST_REST: Nanos = Nanos(2 * Nanos::SECOND.0);

mod io;
mod process;

/// See the module.
#[derive(Debug)]
pub struct Runners {
    /// What they are looked for because of.
    resource: Resource,
    proc: PathBuf,
    io: IoReader,
    cgroup_root: PathBuf,
    ticks_per_second: u64,
    page_size: u64,
    /// Whose processes are looked at next.
    next: Option<Suspect>,
    before: Option<(Look, Suspect)>,
    /// What the last two looks found.
    found: Vec<Runner>,
    looked: Option<Nanos>,
    progress: Progress,
    /// That processes may not be looked at was told.
    is_told: bool,
}

/// How far a look at all processes of a suspect has come: it is taken in parts.
#[derive(Debug, Default)]
struct Progress {
    /// `None`: of the machine.
    whose: Option<CgroupId>,
    /// How many of its cgroups were looked at wholly.
    cgroups: usize,
    /// Of the next ones, how many of the youngest were looked at.
    next: usize,
    is_whole: bool,
    /// Of one that was looked at since it began, nothing is known.
    is_torn: bool,
    /// The busiest so far, which are looked at each time.
    best: Vec<u32>,
}

/// What processes had used, by pid and time of start.
#[derive(Debug)]
struct Look {
    at: Nanos,
    /// Bytes that all of them had read and written, by `io.stat`.
    moved: Option<u64>,
    used: BTreeMap<(u32, u64), Used>,
}

#[derive(Debug, Clone, Copy)]
struct Used {
    /// CPU time, in ticks of the kernel's clock for user space.
    ticks: u64,
    /// Resident memory, in pages.
    pages: u64,
    /// Bytes read and written; looked at for IO alone.
    moved: Option<u64>,
    /// Has grown if a child has ended, whose whole life is in `moved` then.
    reaped: u64,
}

impl Runners {
    pub fn new(resource: Resource, proc: &Path, cgroup_root: &Path) -> Self {
        Self {
            resource,
            proc: proc.into(),
            io: IoReader::new(proc),
            cgroup_root: cgroup_root.into(),
            ticks_per_second: rustix::param::clock_ticks_per_second().max(1),
            page_size: rustix::param::page_size() as u64,
            next: None,
            before: None,
            found: Vec::new(),
            looked: None,
            progress: Progress::default(),
            is_told: false,
        }
    }

    pub fn resource(&self) -> Resource {
        self.resource
    }

    /// Whether [`Runners::suspect`] is to be called: a suspect costs a look at the whole snapshot.
    pub fn is_due(&self, now: Nanos) -> bool {
        self.before.is_none() && self.next.is_none() && self.has_rested(SHORTEST_REST, now)
    }

    /// Whose processes are looked at next, for the same suspect twice in ten seconds; `None` if no
    /// cgroup is suspected.
    pub fn suspect(&mut self, whose: Option<Suspect>, now: Nanos) {
        let Some(whose) = whose else { return self.found.clear() };
        let is_another = self.progress.whose != whose.cgroup();
        self.next = (is_another || self.has_rested(REST, now)).then_some(whose);
    }

    fn has_rested(&self, rest: Nanos, now: Nanos) -> bool {
        self.looked.is_none_or(|last| now.since(last) >= rest)
    }

    /// Adds what the last two looks found. It is kept until the next two, or until no cgroup is
    /// suspected. Where a process may not be looked at, nobody is named: it may be the one.
    pub fn read(&mut self, sample: &mut Sample) {
        let now = sample.at.boot;
        // An urgent tick comes too soon for the kernel's clock, which counts hundredths of a second.
        let is_due = |(before, _): &mut (Look, Suspect)| now.since(before.at) >= APART;
        let read = if let Some((before, whose)) = self.before.take_if(is_due) {
            self.busiest(&before, &whose, sample).map(|found| self.found = found)
        } else if let Some(suspect) = self.next.take() {
            self.looked = Some(now);
            self.look(&suspect, sample).map(|look| self.before = Some((look, suspect)))
        } else {
            Ok(())
        };
        if let Err(why) = read {
            self.found.clear();
            (self.progress.is_whole, self.progress.is_torn) = (false, true);
            if !mem::replace(&mut self.is_told, true) {
                sample.gaps.push(unnamed(&why));
            }
        }
        sample.runners.extend_from_slice(&self.found);
    }

    fn look(&mut self, whose: &Suspect, sample: &Sample) -> Result<Look, ReadError> {
        let pids = match whose {
            Suspect::Cgroup { id, paths } => {
                let begin = self.progress.begin(Some(*id), paths.len());
                let (pids, listed) = self.pids(&paths[begin..]);
                let end = begin + listed;
                self.progress.part(&pids, if end == paths.len() { 0 } else { end })
            }
            Suspect::Machine => {
                self.progress.begin(None, 1);
                self.progress.part(&self.all_pids(), 0)
            }
        };
        let mut moved = self.moved(&pids);
        let all = pids.into_iter().filter_map(|pid| {
            let stat = stat_of(&self.proc, pid)?;
            let used = self.used(pid, &stat, &mut moved).transpose()?;
            Some(used.map(|used| ((pid, stat.started), used)))
        });
        let used = all.collect::<Result<_, _>>()?;
        Ok(Look { at: sample.at.boot, moved: moved_of(whose, sample), used })
    }

    /// Of processes that are looked at for IO. One that did not answer in time may be the one.
    fn moved(&mut self, pids: &[u32]) -> Moved {
        if self.resource != Resource::Io {
            return Moved::new();
        }
        let moved = self.io.read(pids);
        if moved.len() < pids.len() {
            (self.progress.is_whole, self.progress.is_torn) = (false, true);
        }
        moved
    }

    /// `None` if it is gone, or not known in time.
    ///
    /// # Errors
    /// If it is alive and may not be looked at, as another user's is without CAP_SYS_PTRACE.
    fn used(&self, pid: u32, stat: &Stat, read: &mut Moved) -> Result<Option<Used>, ReadError> {
        let is_alive = || stat_of(&self.proc, pid).is_some_and(|now| now.started == stat.started);
        let moved = match (self.resource, read.remove(&pid)) {
            (Resource::Cpu | Resource::Memory, _) => None,
            (_, Some(Ok(moved))) => Some(moved),
            (_, Some(Err(why))) if is_alive() => return Err(why),
            (_, Some(Err(_)) | None) => return Ok(None),
        };
        Ok(Some(Used { ticks: stat.used, pages: stat.resident, moved, reaped: stat.reaped }))
    }

    fn busiest(
        &mut self,
        before: &Look,
        whose: &Suspect,
        sample: &Sample,
    ) -> Result<Vec<Runner>, ReadError> {
        let passed = sample.at.boot.since(before.at);
        let mut parents = BTreeSet::new();
        let (cgroup, is_of_machine) = match whose {
            Suspect::Cgroup { id, paths } => {
                (Some(*id).filter(|_| !paths.iter().any(CgroupPath::is_root)), false)
            }
            Suspect::Machine => (None, true),
        };
        let pids: Vec<u32> = before.used.keys().map(|(pid, _)| *pid).collect();
        let mut moved = self.moved(&pids);
        let all = before.used.iter().filter_map(|((pid, started), earlier)| {
            let stat = stat_of(&self.proc, *pid).filter(|stat| stat.started == *started)?;
            let used = self.used(*pid, &stat, &mut moved).transpose()?;
            if stat.reaped != earlier.reaped {
                parents.insert(*pid);
            }
            let used = used.map(|now| self.between(*earlier, now, passed)).transpose()?;
            Some(used.map(|(used, memory, io)| Runner {
                pid: *pid,
                name: stat.name,
                used,
                cgroup,
                is_of_machine,
                memory,
                io,
            }))
        });
        let mut all = all.collect::<Result<Vec<_>, _>>()?;
        if self.resource == Resource::Io {
            let now = moved_of(whose, sample);
            let moved = before.moved.zip(now).map(|(before, now)| now.saturating_sub(before));
            bound(&mut all, &parents, Bytes(scale(moved.unwrap_or(0), Nanos::SECOND.0, passed.0)));
        }
        all.sort_unstable_by_key(|runner| (Reverse(self.weight(runner)), runner.pid));
        all.truncate(NAMED);
        self.progress.best = all.iter().map(|runner| runner.pid).collect();
        self.is_told &= !self.progress.is_whole;
        let may_name = self.progress.is_whole || all.iter().any(is_certain);
        Ok(if may_name { all } else { Vec::new() })
    }

    /// What a process used between two looks; `None` if that is nothing.
    fn between(
        &self,
        before: Used,
        now: Used,
        passed: Nanos,
    ) -> Option<(MilliCpu, Option<Resident>, Option<Bytes>)> {
        let per_second = |amount| scale(amount, Nanos::SECOND.0, passed.0.max(1));
        let ticks = now.ticks.saturating_sub(before.ticks);
        let used = MilliCpu(per_second(scale(ticks, 1_000, self.ticks_per_second)));
        match self.resource {
            Resource::Cpu => (used > MilliCpu(0)).then_some((used, None, None)),
            Resource::Memory => {
                let bytes = |pages: u64| Bytes(pages.saturating_mul(self.page_size));
                let Bytes(grown) = bytes(now.pages.saturating_sub(before.pages));
                let growth = Bytes(per_second(grown));
                let memory = Resident { held: bytes(now.pages), growth };
                (memory.held > Bytes(0)).then_some((used, Some(memory), None))
            }
            Resource::Io => {
                let moved = Bytes(per_second(now.moved?.saturating_sub(before.moved?)));
                (moved > Bytes(0)).then_some((used, None, Some(moved)))
            }
        }
    }

    /// What processes are sorted by, the greatest first.
    fn weight(&self, Runner { used, memory, io, .. }: &Runner) -> (u64, u64) {
        let memory = memory.unwrap_or_default();
        match self.resource {
            Resource::Cpu => (used.0, 0),
            Resource::Memory => {
                (if memory.growth >= GROWS { memory.growth.0 } else { 0 }, memory.held.0)
            }
            Resource::Io => (io.unwrap_or_default().0, 0),
        }
    }

    /// The youngest first, without those of another PID namespace, which the kernel lists as 0; and
    /// how many of the cgroups they are of.
    fn pids(&self, cgroups: &[CgroupPath]) -> (Vec<u32>, usize) {
        let parse = |text: &[u8]| processes::pids(text).collect::<Result<Vec<_>, _>>();
        let of = |cgroup: &CgroupPath| {
            let dir = self.cgroup_root.join(cgroup.0.trim_start_matches('/'));
            gap::read(&dir.join("cgroup.procs"), parse).unwrap_or_default()
        };
        let (mut pids, mut listed) = (Vec::new(), 0);
        for cgroup in cgroups.iter().take(LISTED) {
            if pids.len() >= LISTED_PIDS {
                break;
            }
            pids.extend(of(cgroup));
            listed += 1;
        }
        pids.sort_unstable();
        pids.dedup();
        (pids.into_iter().rev().filter(|pid| *pid > 0).collect(), listed)
    }

    /// Every process of the machine, the youngest first: its directories in procfs.
    fn all_pids(&self) -> Vec<u32> {
        let entries = fs::read_dir(&self.proc).into_iter().flatten().flatten();
        let mut pids: Vec<u32> =
            entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        pids.sort_unstable_by_key(|pid| Reverse(*pid));
        pids
    }
}

/// That nobody is named, and why.
fn unnamed(why: &ReadError) -> Gap {
    let mut gap = why.gap();
    gap.detail.push_str(": no process is named for IO");
    gap
}

/// Whether it uses so much that it may be named before all were looked at.
fn is_certain(Runner { used, memory, io, .. }: &Runner) -> bool {
    match (memory, io) {
        (Some(Resident { growth: bytes, .. }), _) | (None, Some(bytes)) => *bytes >= CERTAIN_BYTES,
        (None, None) => *used >= CERTAIN,
    }
}

impl Progress {
    /// From which of so many cgroups on it goes on: cgroups of a suspect come and go meanwhile.
    fn begin(&mut self, whose: Option<CgroupId>, cgroups: usize) -> usize {
        if self.whose != whose {
            *self = Self { whose, ..Self::default() };
        }
        if self.cgroups >= cgroups {
            (self.cgroups, self.next) = (0, 0);
        }
        self.is_torn &= (self.cgroups, self.next) != (0, 0);
        self.cgroups
    }

    /// Those to be looked at now, of all in the cgroups from which it goes on; `then` are those after
    /// them, 0 if they are the last.
    fn part(&mut self, all: &[u32], then: usize) -> Vec<u32> {
        let begin = if self.next < all.len() { self.next } else { 0 };
        let end = all.len().min(begin + LOOKED_AT);
        // Processes that have come since are the youngest: it begins with them again.
        (self.cgroups, self.next) = if end == all.len() { (then, 0) } else { (self.cgroups, end) };
        self.is_whole |= (self.cgroups, self.next) == (0, 0) && !self.is_torn;
        let mut part = all[begin..end].to_vec();
        part.extend(self.best.iter().filter(|pid| !all[begin..end].contains(pid)));
        part
    }
}

#[cfg(test)]
mod tests;
