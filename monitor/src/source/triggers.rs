//! PSI triggers: the kernel says when work has begun to wait for memory, between two ticks.
//! In: the cgroup tree of each tick, and who may be to blame. Out: one descriptor that becomes
//! readable when any of them fires.
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
use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::pod::Place;
use isobar_core::model::sample::Sample;
use isobar_core::model::units::Nanos;

/// Each group with a trigger costs a kernel thread of real-time priority that looks ten times in a
/// window for as long as work waits there.
const MOST: usize = 16;
/// Half a second is the shortest window that Linux 6.1 takes, and the kernel looks every tenth of
/// it: 50 ms of stall are told after 50 to 100 ms. Less stall than a tenth of the time is no
/// emergency, and the next tick sees it anyhow. The zero at the end is needed: `psi_write` takes
/// the last byte for it.
const ASKED: &[u8] = b"some 50000 500000\0";
/// Somebody stays suspected for so long: opening and closing triggers wakes kernel threads.
const SUSPECTED: Nanos = Nanos(60 * Nanos::SECOND.0);
/// What failed is tried again after so long.
const AGAIN: Nanos = Nanos(60 * Nanos::SECOND.0);

/// All triggers of this node, and what they are joined in.
#[derive(Debug)]
pub struct Triggers {
    proc: PathBuf,
    cgroup_root: PathBuf,
    joined: OwnedFd,
    /// By cgroup, so that another cgroup of the same name gets one of its own.
    open: BTreeMap<CgroupId, File>,
    failed: BTreeMap<CgroupId, Failed>,
    suspects: BTreeMap<CgroupId, Nanos>,
    /// Why there can be none at all, if so.
    refused: Option<String>,
}

#[derive(Debug)]
struct Failed {
    again_at: Nanos,
    why: String,
}

impl Triggers {
    /// None are open before the first [`Triggers::follow`].
    ///
    /// # Errors
    /// If this process may have no more descriptors.
    pub fn new(proc: &Path, cgroup_root: &Path) -> io::Result<Self> {
        Ok(Self {
            proc: proc.into(),
            cgroup_root: cgroup_root.into(),
            joined: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            open: BTreeMap::new(),
            failed: BTreeMap::new(),
            suspects: BTreeMap::new(),
            refused: None,
        })
    }

    /// Becomes readable when one of them fires, also of those that are opened later.
    ///
    /// # Errors
    /// If this process may have no more descriptors.
    pub fn alarm(&self) -> io::Result<OwnedFd> {
        self.joined.try_clone()
    }

    /// Watches these cgroups, too, as far as there is room.
    pub fn suspect(&mut self, suspects: impl IntoIterator<Item = CgroupId>, now: Nanos) {
        self.suspects.extend(suspects.into_iter().map(|id| (id, now)));
    }

    /// Opens what has come, closes what has gone: the node, the cgroup of all pods, the slices of
    /// the classes, then suspects.
    pub fn follow(&mut self, sample: &Sample) {
        let now = sample.at.boot;
        self.drop_ended();
        let tree = &sample.cgroups;
        self.suspects.retain(|id, at| tree.contains_key(id) && now.since(*at) < SUSPECTED);
        self.failed.retain(|id, failed| tree.contains_key(id) && now < failed.again_at);
        let wanted = self.wanted(sample);
        self.open.retain(|id, _| wanted.contains(id));
        for id in wanted {
            if self.refused.is_some() {
                return;
            }
            if !self.open.contains_key(&id) && !self.failed.contains_key(&id) {
                self.arm(id, &tree[&id].path.0, now);
            }
        }
    }

    /// Those that stand and will be kept before those that would be new.
    fn wanted(&self, sample: &Sample) -> Vec<CgroupId> {
        let at = |is: fn(&Place) -> bool| {
            let all = sample.cgroups.iter();
            all.filter(move |(_, group)| is(&Place::of(&group.path))).map(|(id, _)| *id)
        };
        let node = at(|place| matches!(place, Place::Node));
        let pods = at(|place| matches!(place, Place::Kubepods | Place::Qos { .. }));
        let mut wanted: Vec<CgroupId> = node.chain(pods).take(MOST).collect();
        let (old, new): (Vec<CgroupId>, _) =
            self.suspects.keys().partition(|id| self.open.contains_key(id));
        for id in old.into_iter().chain(new) {
            if wanted.len() < MOST && !wanted.contains(&id) {
                wanted.push(id);
            }
        }
        wanted
    }

    fn arm(&mut self, id: CgroupId, path: &str, now: Nanos) {
        let file = match path {
            "/" => self.proc.join("pressure/memory"),
            path => self.cgroup_root.join(path.trim_start_matches('/')).join("memory.pressure"),
        };
        match self.arm_file(id, &file) {
            Ok(trigger) => drop(self.open.insert(id, trigger)),
            Err(error) => {
                let why = format!("{}: {error}", file.display());
                // Without CAP_SYS_RESOURCE a window must be of whole two seconds, and comes no
                // sooner than the tick; Linux before 6.5 refuses the file.
                let is_denied = matches!(
                    error.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput
                );
                if is_denied {
                    self.refused = Some(why);
                } else {
                    self.failed.insert(id, Failed { again_at: now.plus(AGAIN), why });
                }
            }
        }
    }

    fn arm_file(&self, id: CgroupId, file: &Path) -> io::Result<File> {
        let nonblock = OFlags::NONBLOCK.bits().cast_signed();
        let mut trigger =
            OpenOptions::new().read(true).write(true).custom_flags(nonblock).open(file)?;
        trigger.write_all(ASKED)?;
        let data = epoll::EventData::new_u64(id.0);
        epoll::add(&self.joined, &trigger, data, epoll::EventFlags::PRI)?;
        Ok(trigger)
    }

    /// Closes those whose cgroup is gone, or whose pressure was switched off: they would fire for
    /// ever. What fired says nothing else: this tick is there already.
    fn drop_ended(&mut self) {
        let mut events = Vec::with_capacity(MOST);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let room = rustix::buffer::spare_capacity(&mut events);
        if epoll::wait(&self.joined, room, Some(&now)).is_err() {
            return;
        }
        for event in events {
            let epoll::Event { flags, data } = event;
            if flags.contains(epoll::EventFlags::ERR) {
                self.open.remove(&CgroupId(data.u64()));
            }
        }
    }

    /// How many there are, or why there are none.
    #[must_use]
    pub fn capability(&self) -> Capability {
        let name = "pressure triggers".into();
        let failed = self.failed.values().next().map(|failed| failed.why.clone());
        if let Some(why) = self.refused.clone().or(failed.filter(|_| self.open.is_empty())) {
            let remedy = self.refused.as_ref().map(|_| "run with CAP_SYS_RESOURCE".to_owned());
            let detail = format!("ticks come once a second, however memory stalls: {why}");
            return Capability { name, state: CapabilityState::Absent, detail, remedy };
        }
        let detail = format!("on memory, {} of {MOST}", self.open.len());
        Capability { name, state: CapabilityState::Attached, detail, remedy: None }
    }
}

#[cfg(test)]
mod tests;
