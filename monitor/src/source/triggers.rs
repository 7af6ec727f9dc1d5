//! PSI triggers: the kernel reports a memory stall between two ticks.
//! In: the cgroup tree of each tick, and the suspected aggressors. Out: one descriptor that becomes
//! readable when any trigger fires.
//! Source: Documentation/accounting/psi.rst; `psi_trigger_create`, kernel/sched/psi.c, Linux 5.2+.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::event::{Timespec, epoll};
use rustix::fs::OFlags;

use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::cgroup::{Cgroup, CgroupId};
use isobar_core::model::sample::Sample;
use isobar_core::model::units::Nanos;

/// Each cgroup with a trigger costs a kernel thread of real-time priority, which wakes ten times
/// per window while tasks stall there.
const MAX_TRIGGERS: usize = 16;
/// 50 ms of stall within half a second, the shortest window that Linux 6.1 takes. The kernel checks
/// every tenth of a window, so the trigger fires 50 to 100 ms after the stall began. A stall below
/// a tenth of the time is no emergency: the next tick sees it. `psi_write` overwrites the last
/// byte, hence the zero.
const TRIGGER: &[u8] = b"some 50000 500000\0";
/// How long a cgroup stays suspected: opening and closing triggers wakes kernel threads.
const SUSPECTED: Nanos = Nanos(60 * Nanos::SECOND.0);
/// When a trigger that failed is tried again.
const RETRY_AFTER: Nanos = Nanos(60 * Nanos::SECOND.0);

/// All triggers of this node.
#[derive(Debug)]
pub struct Triggers {
    proc: PathBuf,
    cgroup_root: PathBuf,
    epoll: OwnedFd,
    /// By id, so that a new cgroup of the same name gets its own trigger.
    open: BTreeMap<CgroupId, File>,
    /// When each is tried again, and why it failed.
    failed: BTreeMap<CgroupId, (Nanos, String)>,
    /// When each cgroup was last suspected.
    suspects: BTreeMap<CgroupId, Nanos>,
    /// Why this process can have no triggers at all.
    refused: Option<String>,
}

impl Triggers {
    /// Opens no trigger before the first [`Triggers::follow`].
    ///
    /// # Errors
    /// If this process may open no more descriptors.
    pub fn new(proc: &Path, cgroup_root: &Path) -> io::Result<Self> {
        Ok(Self {
            proc: proc.into(),
            cgroup_root: cgroup_root.into(),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            open: BTreeMap::new(),
            failed: BTreeMap::new(),
            suspects: BTreeMap::new(),
            refused: None,
        })
    }

    /// A descriptor that becomes readable when any trigger fires, also one opened later.
    ///
    /// # Errors
    /// If this process may open no more descriptors.
    pub fn alarm(&self) -> io::Result<OwnedFd> {
        self.epoll.try_clone()
    }

    /// Watches these cgroups too, as far as there is room.
    pub fn suspect(&mut self, suspects: impl IntoIterator<Item = CgroupId>, now: Nanos) {
        self.suspects.extend(suspects.into_iter().map(|id| (id, now)));
    }

    /// Opens and closes triggers so that they match the tree: first the root, the pods' cgroup and
    /// the QoS slices, then suspects.
    pub fn follow(&mut self, sample: &Sample) {
        let now = sample.at.boot;
        self.close_ended();
        let tree = &sample.cgroups;
        self.suspects.retain(|id, at| tree.contains_key(id) && now.since(*at) < SUSPECTED);
        self.failed.retain(|id, (retry_at, _)| tree.contains_key(id) && now < *retry_at);
        let wanted = self.wanted(sample);
        self.open.retain(|id, _| wanted.contains(id));
        for id in wanted {
            if self.refused.is_some() {
                return;
            }
            if !self.open.contains_key(&id) && !self.failed.contains_key(&id) {
                self.open(id, &tree[&id].path.0, now);
            }
        }
    }

    /// Suspects with a trigger come before suspects without one.
    fn wanted(&self, sample: &Sample) -> Vec<CgroupId> {
        let places = sample.places();
        let all = |is: &dyn Fn(&Cgroup) -> bool| {
            let found = sample.cgroups.iter().filter(|(_, group)| is(group));
            found.map(|(id, _)| *id).collect::<Vec<_>>()
        };
        let node = all(&|group| group.path.is_root());
        let pods = all(&|group| places.is_shared(&group.path));
        let mut wanted: Vec<CgroupId> = node.into_iter().chain(pods).take(MAX_TRIGGERS).collect();
        let (old, new): (Vec<CgroupId>, _) =
            self.suspects.keys().partition(|id| self.open.contains_key(id));
        for id in old.into_iter().chain(new) {
            if wanted.len() < MAX_TRIGGERS && !wanted.contains(&id) {
                wanted.push(id);
            }
        }
        wanted
    }

    fn open(&mut self, id: CgroupId, path: &str, now: Nanos) {
        let file = match path {
            "/" => self.proc.join("pressure/memory"),
            path => self.cgroup_root.join(path.trim_start_matches('/')).join("memory.pressure"),
        };
        let error = match self.write(id, &file) {
            Ok(trigger) => return drop(self.open.insert(id, trigger)),
            Err(error) => error,
        };
        let reason = format!("{}: {error}", file.display());
        match error.kind() {
            // Without CAP_SYS_RESOURCE a window must be a multiple of two seconds, which is no
            // sooner than the tick; Linux before 6.5 refuses to open the file.
            io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput => {
                self.refused = Some(reason);
            }
            _ => drop(self.failed.insert(id, (now.plus(RETRY_AFTER), reason))),
        }
    }

    fn write(&self, id: CgroupId, file: &Path) -> io::Result<File> {
        let nonblock = OFlags::NONBLOCK.bits().cast_signed();
        let mut trigger =
            OpenOptions::new().read(true).write(true).custom_flags(nonblock).open(file)?;
        trigger.write_all(TRIGGER)?;
        let data = epoll::EventData::new_u64(id.0);
        epoll::add(&self.epoll, &trigger, data, epoll::EventFlags::PRI)?;
        Ok(trigger)
    }

    /// Clears the alarm. Closes triggers whose cgroup was removed or whose pressure was switched
    /// off: they would fire for ever.
    fn close_ended(&mut self) {
        let mut events = Vec::with_capacity(MAX_TRIGGERS);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let room = rustix::buffer::spare_capacity(&mut events);
        if epoll::wait(&self.epoll, room, Some(&now)).is_err() {
            return;
        }
        for epoll::Event { flags, data } in events {
            if flags.contains(epoll::EventFlags::ERR) {
                self.open.remove(&CgroupId(data.u64()));
            }
        }
    }

    /// How many triggers are open, or why none is.
    pub fn capability(&self) -> Capability {
        let is = |state, detail| Capability::new("pressure triggers", state, detail);
        let failed = self.failed.values().next().map(|(_, reason)| reason.clone());
        if let Some(reason) = self.refused.clone().or(failed.filter(|_| self.open.is_empty())) {
            let remedy = self.refused.as_ref().map(|_| "run with CAP_SYS_RESOURCE".to_owned());
            let detail = format!("memory stalls are noticed only once a second: {reason}");
            return Capability { remedy, ..is(CapabilityState::Absent, detail) };
        }
        let detail = format!("on memory, {} of {MAX_TRIGGERS}", self.open.len());
        is(CapabilityState::Attached, detail)
    }
}

#[cfg(test)]
mod tests;
