//! What pods have on the node's disks, where no kubelet tells: emptyDir volumes, logs and writable
//! layers are walked, at the pace that a [`Budget`] allows.
//!
//! Not by project quota: a directory needs a project first, which only a kubelet gives it, and that
//! kubelet tells itself (`/stats/summary`). What `du` counts is counted: blocks, each
//! inode once. Figures are lower bounds wherever a gap says that something was left out.

mod budget;
mod layers;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

pub use self::budget::Budget;
use self::layers::Layers;
use self::tree::{Left, Tree};
use super::gap::{Gaps, ReadError};
use crate::clock;
use isobar_core::model::disk::{ContainerDisk, DiskReading, DiskSource, DiskUse, PodDisk};
use isobar_core::model::sample::{Gap, GapReason};

/// The inodes that were counted and have other names.
type Seen = BTreeSet<u64>;

/// Where a kubelet keeps its files, unless it is told otherwise.
const KUBELET: &str = "var/lib/kubelet";
/// Volumes of these kinds lie on the node's disks. One of memory is a mount of its own.
const VOLUMES: [&str; 2] = ["kubernetes.io~empty-dir", "kubernetes.io~configmap"];

/// What the gaps are about.
const OBJECT: &str = "disk use of pods";

/// Where pods have their files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Of each pod, by its uid.
    pods: PathBuf,
    /// Of each pod, as `NAMESPACE_NAME_UID`.
    logs: PathBuf,
    /// What precedes the node's paths, in a container that has them below a directory of its own.
    host: PathBuf,
    /// The mount point of procfs.
    proc: PathBuf,
}

impl Places {
    /// Those of a kubelet that keeps its files in `root`; logs lie where every kubelet has them.
    pub fn of_kubelet(root: &Path) -> Self {
        let host = match root.ends_with(KUBELET) {
            true => root.ancestors().nth(3).unwrap_or(Path::new("/")),
            false => Path::new("/"),
        };
        Self {
            pods: root.join("pods"),
            logs: host.join("var/log/pods"),
            host: host.into(),
            proc: "/proc".into(),
        }
    }

    /// The directory that has one of each pod, as `NAMESPACE_NAME_UID`.
    pub fn logs(&self) -> &Path {
        &self.logs
    }
}

/// The pods that are looked for, and their containers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// By the uid of the pod's cgroup: names of containers by their ids.
    pub pods: BTreeMap<String, BTreeMap<String, String>>,
}

/// The walks so far: a pod that the budget did not reach keeps its figures, and is first next time.
#[derive(Debug, Default)]
pub struct Walks {
    known: BTreeMap<String, PodDisk>,
    /// The uid at which the next one begins.
    next: Option<String>,
}

impl Walks {
    /// Walks what `wanted` have, and returns what is known then, with what was left out.
    pub fn walk(
        &mut self,
        places: &Places,
        wanted: &Wanted,
        budget: &mut Budget,
    ) -> (DiskReading, Vec<Gap>) {
        let at = clock::now().boot;
        let mut gaps = Gaps::default();
        let layers = gaps.ok(Layers::read(places)).unwrap_or_default();
        let logs = logs(&places.logs).unwrap_or_else(|why| {
            let Gap { object, why, detail } = why.gap();
            let detail = format!("logs of containers are not measured: {object}: {detail}");
            gaps.add(Gap { object: OBJECT.into(), why, detail });
            BTreeMap::new()
        });
        self.known.retain(|uid, _| wanted.pods.contains_key(uid));
        let turn = |uid: &str| self.next.as_deref().is_some_and(|next| uid < next);
        let mut pods: Vec<_> = wanted.pods.iter().collect();
        pods.sort_unstable_by_key(|(uid, _)| (turn(uid), uid.as_str()));
        self.next = None;
        let mut missed = Missed::default();
        for (uid, containers) in pods {
            if !budget.next_pod() {
                self.next.get_or_insert_with(|| uid.clone());
                missed.n_pods += 1;
                continue;
            }
            let mut pod = Pod { disk: PodDisk::default(), budget, missed: &mut missed };
            pod.volumes(&places.pods.join(uid).join("volumes"));
            pod.logs(logs.get(uid));
            pod.layers(containers, &layers);
            let disk = pod.disk;
            self.known.insert(uid.clone(), disk);
        }
        missed.tell(wanted.pods.len(), &mut gaps);
        let reading = DiskReading { at, pods: self.known.clone(), source: DiskSource::Walk };
        (reading, gaps.finish())
    }
}

/// One pod's walk.
struct Pod<'a> {
    disk: PodDisk,
    budget: &'a mut Budget,
    missed: &'a mut Missed,
}

impl Pod<'_> {
    fn volumes(&mut self, volumes: &Path) {
        for kind in VOLUMES.map(|kind| volumes.join(kind)) {
            let Ok(entries) = fs::read_dir(&kind) else { continue };
            let Ok(device) = fs::symlink_metadata(&kind).map(|kind| kind.dev()) else { continue };
            for volume in entries.flatten() {
                let used = self.measure(&volume.path(), Some(device));
                let Some(used) = used else { continue };
                self.disk.whole = self.disk.whole.plus(used);
                self.disk.volumes.insert(text(&volume.file_name()), used);
            }
        }
    }

    fn logs(&mut self, logs: Option<&PathBuf>) {
        let entries = logs.and_then(|logs| fs::read_dir(logs).ok());
        for container in entries.into_iter().flatten().flatten() {
            let Some(used) = self.measure(&container.path(), None) else { continue };
            self.disk.whole = self.disk.whole.plus(used);
            self.container(text(&container.file_name())).logs = used;
        }
    }

    fn layers(&mut self, containers: &BTreeMap<String, String>, layers: &Layers) {
        for (id, name) in containers {
            let Some(upper) = layers.of(id) else {
                self.missed.n_layers += 1;
                continue;
            };
            let Some(used) = self.measure(upper, None) else { continue };
            self.disk.whole = self.disk.whole.plus(used);
            self.container(name.clone()).layer = used;
        }
    }

    fn container(&mut self, name: String) -> &mut ContainerDisk {
        self.disk.containers.entry(name).or_default()
    }

    /// `None` if the directory is gone, or is another file system than `device`.
    fn measure(&mut self, dir: &Path, device: Option<u64>) -> Option<DiskUse> {
        let tree = match Tree::open(dir) {
            Ok(tree) => tree.filter(|tree| device.is_none_or(|device| device == tree.device()))?,
            Err(_) => {
                self.missed.n_refused += 1;
                return None;
            }
        };
        let (used, left) = tree.measure(self.budget);
        match left {
            None => {}
            Some(Left::Budget) => self.missed.n_large += 1,
            Some(Left::Refused) => self.missed.n_refused += 1,
            Some(Left::Deep) => self.missed.n_deep += 1,
        }
        Some(used)
    }
}

/// What was left out.
#[derive(Default)]
struct Missed {
    n_pods: usize,
    /// Directories with more entries than a pod is walked for.
    n_large: usize,
    n_deep: usize,
    n_refused: usize,
    n_layers: usize,
}

impl Missed {
    fn tell(&self, n_pods: usize, gaps: &mut Gaps) {
        let Self { n_pods: unreached, n_large, n_deep, n_refused, n_layers } = self;
        #[rustfmt::skip]
        let all = [
            (*unreached, GapReason::Full, format!("{unreached} of {n_pods} pods were not reached: they are first in the next walk")),
            (*n_large,   GapReason::Full, format!("{n_large} directories have more entries than are walked: they have at least what is reported")),
            (*n_deep,    GapReason::Full, format!("{n_deep} directories are nested too deeply to be walked to their end")),
            (*n_refused, GapReason::Denied, format!("{n_refused} directories cannot be read")),
            (*n_layers,  GapReason::Unsupported, format!("{n_layers} containers have no overlay mount with their id: their writable layers are not measured")),
        ];
        for (n, why, detail) in all {
            if n > 0 {
                gaps.add(Gap { object: OBJECT.into(), why, detail });
            }
        }
    }
}

/// The directories of pods' logs, by uid. The name before it may hold anything but `_`.
fn logs(dir: &Path) -> Result<BTreeMap<String, PathBuf>, ReadError> {
    let entries = fs::read_dir(dir).map_err(|why| ReadError::io(dir, why))?;
    let by_uid = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let (_, uid) = name.to_str()?.rsplit_once('_')?;
        Some((uid.to_owned(), entry.path()))
    };
    Ok(entries.flatten().filter_map(by_uid).collect())
}

fn text(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
