//! What pods have on disk where no kubelet tells: walked on a thread of its own, at idle I/O
//! priority, and only while a threshold on a disk is met or nearly.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;

use rustix::process::setpriority_process;

use crate::source::pod_disks::{Budget, Places, Walks, Wanted};
use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::disk::{DiskReading, PodDisks};
use isobar_core::model::pod::Place;
use isobar_core::model::sample::{Gap, Sample};
use isobar_core::model::settings::Settings;
use isobar_core::model::units::Nanos;
use isobar_core::model::workload::by_cgroup_uid;
use isobar_core::policy::assess::nearly::{Nearness, nearness_of_disks};

/// Entries of all pods, and of each, in one walk: at 2 % of a core a minute or two.
const ENTRIES: u64 = 500_000;
const ENTRIES_OF_POD: u64 = 100_000;
/// Between two walks, while a disk is nearly short.
const REST: Nanos = Nanos(60 * Nanos::SECOND.0);
/// The same while it is short: a victim is chosen by what was read since.
const SHORT_REST: Nanos = Nanos(10 * Nanos::SECOND.0);
/// What a walk found is too old so long after its end, if the next one hangs on a disk.
const HANGS: Nanos = Nanos(600 * Nanos::SECOND.0);
/// The least of a thread's claims on CPUs.
const NICE: i32 = 19;

/// The agent's end.
#[derive(Debug, Default)]
pub(super) struct DiskWalks {
    thread: Option<Thread>,
    /// What is known while it is needed.
    known: Option<(PodDisks, Vec<Gap>)>,
    failed: Option<String>,
}

#[derive(Debug)]
struct Thread {
    orders: SyncSender<(Places, Wanted)>,
    found: Receiver<(DiskReading, Vec<Gap>)>,
    is_walking: bool,
    /// When the last walk was over.
    walked: Option<Nanos>,
}

impl DiskWalks {
    /// Has pods' disks walked if no kubelet tells of them and a disk is nearly short. Never waits.
    pub(super) fn look(&mut self, sample: &Sample, settings: &Settings, has_kubelet: bool) {
        let nearness = nearness_of_disks(&settings.eviction, sample).filter(|_| !has_kubelet);
        let Some(nearness) = nearness else {
            (self.known, self.failed) = (None, None);
            return;
        };
        let thread = match &mut self.thread {
            Some(thread) => thread,
            none => match Thread::begin() {
                Ok(thread) => none.insert(thread),
                Err(why) => return self.failed = Some(why.to_string()),
            },
        };
        let now = sample.at.boot;
        match thread.found.try_recv() {
            Ok((reading, gaps)) => {
                self.known = Some((Arc::new(reading), gaps));
                (thread.is_walking, thread.walked) = (false, Some(now));
            }
            Err(TryRecvError::Empty) => {
                let is_old = |walked| now.since(walked) > HANGS;
                let hangs = thread.is_walking && thread.walked.is_some_and(is_old);
                self.known = self.known.take().filter(|_| !hangs);
            }
            Err(TryRecvError::Disconnected) => {
                (self.thread, self.failed) = (None, Some("its thread has ended".into()));
                return;
            }
        }
        let rest = if nearness == Nearness::Short { SHORT_REST } else { REST };
        let has_rested = thread.walked.is_none_or(|walked| now.since(walked) >= rest);
        if has_rested && !thread.is_walking {
            let places = Places::of_kubelet(Path::new(&settings.node.kubelet_root));
            thread.is_walking = thread.orders.try_send((places, wanted(sample))).is_ok();
        }
    }

    /// What the last walks found; `None` while none is needed.
    pub(super) fn reading(&self) -> Option<PodDisks> {
        self.known.as_ref().map(|(reading, _)| reading.clone())
    }

    /// What they left out.
    pub(super) fn gaps(&self) -> Vec<Gap> {
        self.known.as_ref().map(|(_, gaps)| gaps.clone()).unwrap_or_default()
    }

    /// While it is needed.
    pub(super) fn capability(&self) -> Option<Capability> {
        let (state, detail) = match (&self.failed, &self.known, &self.thread) {
            (Some(why), ..) => (CapabilityState::Absent, why.clone()),
            (_, Some((reading, gaps)), _) => {
                let n = reading.pods.len();
                let left_out =
                    gaps.iter().map(|gap| format!("; {}", gap.detail)).collect::<String>();
                (CapabilityState::Attached, format!("{n} pods walked{left_out}"))
            }
            (_, None, Some(_)) => (
                CapabilityState::Attached,
                "a walk is under way; what each has is not known yet".into(),
            ),
            (_, None, None) => return None,
        };
        Some(Capability::new("disk use of pods", state, detail))
    }
}

impl Thread {
    fn begin() -> io::Result<Self> {
        let (orders, from_orders) = sync_channel::<(Places, Wanted)>(1);
        let (to_found, found) = sync_channel(1);
        thread::Builder::new().name("disks".into()).spawn(move || {
            // Both may fail in a sandbox; the budget holds all the same.
            let _ = setpriority_process(None, NICE);
            idle_io();
            let mut walks = Walks::default();
            for (places, wanted) in from_orders {
                let mut budget = Budget::new(ENTRIES, ENTRIES_OF_POD);
                if to_found.send(walks.walk(&places, &wanted, &mut budget)).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self { orders, found, is_walking: false, walked: None })
    }
}

/// The pods that have a cgroup; names of their containers where the pods are known.
fn wanted(sample: &Sample) -> Wanted {
    let names = sample.pods.as_ref().map(by_cgroup_uid).unwrap_or_default();
    let mut pods = BTreeMap::<String, BTreeMap<String, String>>::new();
    let places = sample.places();
    for group in sample.cgroups.values() {
        let (uid, id) = match places.place(&group.path) {
            Place::Pod { uid, .. } => (uid, None),
            Place::Container { pod, id, .. } => (pod, Some(id)),
            _ => continue,
        };
        let known = names.get(&*uid);
        let containers = pods.entry(uid.as_ref().into()).or_default();
        let Some(id) = id.map(|id| id.as_ref().to_owned()) else { continue };
        match known {
            // Its sandbox has no name, and counts for nothing.
            Some(pod) => {
                let own = pod.containers.iter().find(|one| one.id.as_ref() == Some(&id));
                containers.extend(own.map(|own| (id, own.name.clone())));
            }
            None => drop(containers.insert(id.clone(), id)),
        }
    }
    Wanted { pods }
}

/// The disk serves this thread when it is idle, where its scheduler knows priorities.
/// Source: `IOPRIO_WHO_PROCESS` of the calling thread, `IOPRIO_CLASS_IDLE`, linux/ioprio.h.
fn idle_io() {
    const WHO_PROCESS: libc::c_int = 1;
    const CLASS_IDLE: libc::c_int = 3 << 13;
    // SAFETY: sets a number of the calling thread.
    unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, CLASS_IDLE) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use isobar_core::model::cgroup::{Cgroup, CgroupId, CgroupPath};
    use isobar_core::model::workload::{Container, Pod};

    #[test]
    fn wanted_names_containers_where_it_can() {
        let id = |letter: &str| letter.repeat(64);
        let (uid, other) =
            ("44444444-1111-4111-8111-444444444444", "55555555-1111-4111-8111-444444444444");
        let paths = [
            format!("/kubepods/burstable/pod{uid}"),
            format!("/kubepods/burstable/pod{uid}/{}", id("a")),
            format!("/kubepods/burstable/pod{uid}/{}", id("5")),
            format!("/kubepods/besteffort/pod{other}/{}", id("b")),
            "/system.slice/ssh.service".into(),
        ];
        let group = |(n, path): (u64, String)| {
            let path = CgroupPath(path.as_str().into());
            (CgroupId(n), Arc::new(Cgroup { path, ..Cgroup::default() }))
        };
        let container = Container { name: "app".into(), id: Some(id("a")), ..Container::default() };
        let pod = Pod { uid: uid.into(), containers: vec![container], ..Pod::default() };
        let sample = Sample {
            cgroups: (2..).zip(paths).map(group).collect(),
            pods: Some(Arc::new(BTreeMap::from([(uid.into(), pod)]))),
            ..Sample::default()
        };
        let want = BTreeMap::from([
            (uid.to_owned(), BTreeMap::from([(id("a"), "app".to_owned())])),
            (other.to_owned(), BTreeMap::from([(id("b"), id("b"))])),
        ]);
        assert_eq!(wanted(&sample).pods, want);
    }

    #[test]
    fn look_walks_only_where_no_kubelet_tells() {
        let (sample, settings) = (Sample::default(), Settings::default());
        for has_kubelet in [true, false] {
            let mut walks = DiskWalks::default();
            walks.look(&sample, &settings, has_kubelet);
            assert!(walks.thread.is_none(), "no threshold on a disk is near");
            assert_eq!((walks.reading(), walks.capability()), (None, None));
        }
    }
}
