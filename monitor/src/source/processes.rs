//! Reads the processes of cgroups: once, for an operator who asks. Keeps nothing open.
//!
//! A process may exit, and its pid be reused, between being listed in `cgroup.procs` and being
//! read. A process that has exited is left out; one that cannot be read is a gap.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use rustix::io::Errno;

use super::gap::{self, Gaps, ReadError};
use super::lines::{Torn, lines, number, only_line};
use super::mounts::Root;
use super::{OpenError, Roots};
use isobar_core::model::cgroup::{Cgroup, CgroupId, CgroupPath};
use isobar_core::model::cpuset::CpuSet;
use isobar_core::model::sample::{Gap, GapReason};
use isobar_core::model::units::Bytes;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// In this process's own PID namespace.
    pub pid: u32,
    /// `Name` in `/proc/PID/status`: `comm`, at most 15 bytes.
    pub name: String,
    /// `/proc/PID/oom_score_adj`: -1000, never killed, to 1000, killed first.
    pub oom_score_adj: i32,
    /// `Cpus_allowed_list` of its main thread; other threads may have others.
    pub cpus_allowed: CpuSet,
    /// `VmRSS`: resident memory, shared pages included; `None` without an address space (zombies,
    /// kernel threads).
    pub memory: Option<Bytes>,
    /// `kthreadd`, or a child of it.
    pub is_kernel_thread: bool,
}

/// A cgroup with processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Members {
    /// Path of the cgroup.
    pub path: CgroupPath,
    /// Its own processes, not its descendants', by pid; never empty.
    pub processes: Vec<Process>,
}

/// The processes of a cgroup tree.
#[derive(Debug)]
pub struct Processes {
    proc: PathBuf,
    root: Root,
}

impl Processes {
    /// Opens the tree.
    ///
    /// # Errors
    /// If there is no cgroup v2 tree.
    pub fn open(roots: &Roots) -> Result<Self, OpenError> {
        let root = Root::locate(&roots.proc, roots.cgroup.as_deref())?;
        Ok(Self { proc: roots.proc.clone(), root })
    }

    /// Reads the cgroups that are `wanted` and have processes, by path, and the gaps.
    pub fn read(&self, wanted: impl Fn(&CgroupPath) -> bool) -> (Vec<Members>, Vec<Gap>) {
        let (mut found, mut gaps) = (Vec::new(), Gaps::default());
        let mut to_visit = vec![CgroupPath::root()];
        while let Some(path) = to_visit.pop() {
            match children(&self.root.path_of(&path, ""), &mut gaps) {
                Ok(names) => to_visit.extend(names.iter().map(|name| path.child(name))),
                Err(error) => note(&mut gaps, "cgroup", &error),
            }
            if !wanted(&path) {
                continue;
            }
            let processes = self.members(&path, &mut gaps);
            if !processes.is_empty() {
                found.push(Members { path, processes });
            }
        }
        found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        (found, gaps.finish())
    }

    /// The cgroups of the tree, with their paths and what tells how far these count, and no more:
    /// for [`Places`](isobar_core::model::places::Places). What cannot be read is a gap of `read`.
    pub fn cgroups(&self) -> BTreeMap<CgroupId, Arc<Cgroup>> {
        let mut found = BTreeMap::new();
        let mut to_visit = vec![(CgroupPath::root(), false)];
        // Root, but for a tree of one's own.
        let mut owner = None;
        while let Some((path, is_above)) = to_visit.pop() {
            let dir = self.root.path_of(&path, "");
            let Ok(stat) = fs::metadata(&dir) else { continue };
            let owner = *owner.get_or_insert(stat.uid());
            let is_delegated = is_above || stat.uid() != 0 && stat.uid() != owner;
            let names = children(&dir, &mut Gaps::default()).unwrap_or_default();
            to_visit.extend(names.iter().map(|name| (path.child(name), is_delegated)));
            let cgroup = Cgroup { path, is_delegated, ..Cgroup::default() };
            found.insert(CgroupId(stat.ino()), Arc::new(cgroup));
        }
        found
    }

    fn members(&self, path: &CgroupPath, gaps: &mut Gaps) -> Vec<Process> {
        let file = self.root.path_of(path, "cgroup.procs");
        let read = gap::read(&file, |text| pids(text).collect::<Result<Vec<_>, _>>());
        let mut pids = read.unwrap_or_else(|error| {
            note(gaps, "cgroup.procs", &error);
            Vec::new()
        });
        pids.sort_unstable();
        // A process with threads in several cgroups may be listed more than once: cgroup-v2.rst.
        pids.dedup();
        if pids.first() == Some(&0) {
            pids.remove(0);
            let detail = "has processes of another PID namespace: run isobar with hostPID".into();
            let object = file.display().to_string();
            gaps.add_of("namespace", Gap { object, why: GapReason::Denied, detail });
        }
        let read = |pid| self.process(pid).inspect_err(|error| note(gaps, "process", error)).ok();
        pids.into_iter().filter_map(read).collect()
    }

    fn process(&self, pid: u32) -> Result<Process, ReadError> {
        /// The kernel starts it second on every node.
        const KTHREADD: u32 = 2;
        let dir = self.proc.join(pid.to_string());
        let Status { name, cpus_allowed, memory, parent } = gap::read(&dir.join("status"), status)?;
        let oom_score_adj = gap::read(&dir.join("oom_score_adj"), oom_score_adj)?;
        let is_kernel_thread =
            memory.is_none() && (pid == KTHREADD || parent == Some(KTHREADD.into()));
        Ok(Process { pid, name, oom_score_adj, cpus_allowed, memory, is_kernel_thread })
    }
}

/// Adds a gap, unless the cgroup or process is gone.
fn note(gaps: &mut Gaps, kind: &'static str, error: &ReadError) {
    let errno = match error {
        ReadError::Io { source, .. } => Errno::from_io_error(source),
        _ => None,
    };
    // A threaded cgroup has no list: its processes are in that of its domain.
    let is_routine = [Errno::NOENT, Errno::NODEV, Errno::SRCH, Errno::OPNOTSUPP];
    if !errno.is_some_and(|errno| is_routine.contains(&errno)) {
        gaps.add_of(kind, error.gap());
    }
}

/// The names of the directories below `dir`.
fn children(dir: &Path, gaps: &mut Gaps) -> Result<Vec<String>, ReadError> {
    let failed = |error: io::Error| ReadError::io(dir, error);
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        match entry.file_name().into_string() {
            Ok(name) => names.push(name),
            Err(_) => {
                let object = entry.path().display().to_string();
                let detail = "its name is not UTF-8, so it and its descendants are left out".into();
                gaps.add_of("name", Gap { object, why: GapReason::Unsupported, detail });
            }
        }
    }
    Ok(names)
}

/// `cgroup.procs`. A process of another PID namespace is listed as 0.
pub(super) fn pids(text: &[u8]) -> impl Iterator<Item = Result<u32, Torn>> {
    lines(text).map(|line| {
        let (n, line) = line?;
        let pid = number(line).and_then(|pid| u32::try_from(pid).ok());
        pid.ok_or_else(|| Torn::new(n, "a pid", line))
    })
}

/// `/proc/PID/oom_score_adj`.
pub(super) fn oom_score_adj(text: &[u8]) -> Result<i32, Torn> {
    let line = only_line(text)?;
    let number = str::from_utf8(line).ok().and_then(|line| line.parse().ok());
    number.ok_or_else(|| Torn::new(1, "a number, perhaps negative", line))
}

/// The fields of `/proc/PID/status` that are used.
#[derive(Debug)]
pub(super) struct Status {
    name: String,
    cpus_allowed: CpuSet,
    memory: Option<Bytes>,
    parent: Option<u64>,
}

/// `/proc/PID/status`.
pub(super) fn status(text: &[u8]) -> Result<Status, Torn> {
    let (mut name, mut cpus, mut last) = (None, None, 1);
    let (mut memory, mut parent) = (None, None);
    for line in lines(text) {
        let (n, line) = line?;
        last = n;
        if let Some(rest) = line.strip_prefix(b"Name:\t") {
            name = Some(String::from_utf8_lossy(rest).into_owned());
        } else if let Some(rest) = line.strip_prefix(b"Cpus_allowed_list:\t") {
            let set = str::from_utf8(rest).ok().and_then(|list| list.parse().ok());
            cpus = Some(set.ok_or_else(|| Torn::new(n, "a list of CPUs", line))?);
        } else if let Some(rest) = line.strip_prefix(b"PPid:\t") {
            parent = number(rest);
        } else if let Some(rest) = line.strip_prefix(b"VmRSS:\t") {
            let kib = rest.strip_suffix(b" kB").and_then(|kib| number(kib.trim_ascii_start()));
            let kib = kib.ok_or_else(|| Torn::new(n, "an amount in kB", line))?;
            memory = Some(Bytes(kib.saturating_mul(1 << 10)));
        }
    }
    let name = name.ok_or_else(|| Torn::new(last, "a line with Name", b""))?;
    let cpus_allowed = cpus.ok_or_else(|| Torn::new(last, "a line with Cpus_allowed_list", b""))?;
    Ok(Status { name, cpus_allowed, memory, parent })
}

#[cfg(test)]
mod tests;
