//! What spares the next agent its warm-up, in the state directory: `averages.json`, and the pods that the
//! cluster has named, `pods.json`. Written every five seconds, the pods if they have changed, the averages
//! at the end, too. Whatever is wrong with them costs a warm-up, no more.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::state;
use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::units::Nanos;
use isobar_core::model::workload::Pods;
use isobar_core::policy::engine::{Standing, WarmStart};

const AVERAGES: &str = "averages.json";
const PODS: &str = "pods.json";
/// A killed agent loses so much, and averages bridge a pause of ten seconds.
const EVERY: Nanos = Nanos(5 * Nanos::SECOND.0);

/// What an agent leaves to the next one in the same boot.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Left<T> {
    boot_id: String,
    #[serde(alias = "warm")]
    left: T,
}

/// Keeps the files.
#[derive(Debug)]
pub(super) struct Warm {
    dir: PathBuf,
    boot_id: String,
    saved: Option<Nanos>,
    /// The cgroup of all pods, as of the last tick.
    kubepods: Option<CgroupId>,
    /// Those that are in their file.
    pods: Option<Pods>,
    has_warned: bool,
}

impl Warm {
    /// Also reads what an agent before this one left in the same boot, if it can be read.
    pub(super) fn open(state_dir: &Path, boot_id: &str) -> (Self, WarmStart, Option<Pods>) {
        let averages = read(&state_dir.join(AVERAGES), boot_id);
        let pods: Option<Pods> = read(&state_dir.join(PODS), boot_id);
        let warm = Self {
            dir: state_dir.into(),
            boot_id: boot_id.into(),
            saved: None,
            kubepods: None,
            pods: pods.clone(),
            has_warned: false,
        };
        (warm, averages, pods)
    }

    /// Keeps what a tick left, once in a while, and the pods that the cluster has named.
    pub(super) fn tick(
        &mut self,
        now: Nanos,
        standing: &Standing,
        kubepods: Option<CgroupId>,
        pods: Option<&Pods>,
    ) {
        self.kubepods = kubepods;
        if self.saved.is_some_and(|saved| now.since(saved) < EVERY) {
            return;
        }
        self.saved = Some(now);
        self.save(standing);
        let is_kept = |pods: &Pods| self.pods.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, pods));
        if let Some(pods) = pods.filter(|pods| !is_kept(pods)) {
            self.pods = Some(Arc::clone(pods));
            self.write(PODS, pods);
        }
    }

    /// Keeps what the last tick left; nothing before the first.
    pub(super) fn save(&mut self, standing: &Standing) {
        if self.saved.is_some() {
            self.write(AVERAGES, standing.warm_start(self.kubepods));
        }
    }

    fn write(&mut self, file: &str, left: impl Serialize) {
        let (path, boot_id) = (self.dir.join(file), self.boot_id.clone());
        let text = serde_json::to_vec(&Left { boot_id, left }).expect("numbers and texts");
        if let Err(why) = state::replace(&path, &text)
            && !self.has_warned
        {
            self.has_warned = true;
            let path = path.display();
            tracing::warn!("cannot write {path}; a restarted agent has to warm up: {why}");
        }
    }
}

fn read<T: Default + DeserializeOwned>(path: &Path, boot_id: &str) -> T {
    let read = match state::read(path) {
        Ok(text) => serde_json::from_slice::<Left<T>>(&text).map_err(io::Error::from),
        Err(why) if why.kind() == io::ErrorKind::NotFound => return T::default(),
        Err(why) => Err(why),
    };
    match read {
        Ok(read) if read.boot_id == boot_id => read.left,
        Ok(_) => T::default(),
        Err(why) => {
            tracing::warn!("cannot read {}; the agent warms up anew: {why}", path.display());
            T::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isobar_core::model::cgroup::{Cgroup, CgroupPath};
    use isobar_core::model::node::NodeReading;
    use isobar_core::model::sample::{Moment, Sample};
    use isobar_core::model::settings::Settings;
    use isobar_core::model::stall::{Coverage, CpuStall, GroupStall, KernelStalls};
    use isobar_core::model::workload::Pod;
    use isobar_core::policy::engine::Engine;
    use std::collections::BTreeMap;
    use std::fs;

    /// A node with pods, on whose one CPU tasks wait all the time.
    fn sample(second: u64) -> Sample {
        let now = Nanos(second * Nanos::SECOND.0);
        let covers = Coverage { waits: true, throttling: true, ..Coverage::default() };
        let cpu = CpuStall { contention: now, nonidle: now, switches: second };
        let mut kernel = KernelStalls { clock: now, covers, cpus: vec![cpu], ..Default::default() };
        let mut pods = Cgroup { path: CgroupPath("/kubepods".into()), ..Cgroup::default() };
        pods.cpu.weight = Some(100);
        let group = GroupStall { cpus: vec![cpu], ..GroupStall::default() };
        kernel.groups.insert(CgroupId(28), group.into());
        Sample {
            at: Moment { boot: now, wall: now },
            cgroups: [(CgroupId(28), pods.into())].into(),
            kernel: Some(kernel),
            node: NodeReading::default(),
            ..Sample::default()
        }
    }

    #[test]
    fn warm_start_is_that_of_the_agent_before_in_the_same_boot() {
        let dir = tempfile::tempdir().unwrap();
        let (mut warm, none, _) = Warm::open(dir.path(), "one");
        assert_eq!(none, WarmStart::default());
        let mut engine = Engine::new(Settings::default(), Standing::new(1));
        let mut left = WarmStart::default();
        let pods = |name: &str| Pods::from(BTreeMap::from([(name.to_owned(), Pod::default())]));
        for second in 1..=20 {
            let step = engine.step(sample(second));
            let now = Nanos(second * Nanos::SECOND.0);
            let pods = pods(if second < 15 { "before" } else { "last" });
            warm.tick(now, engine.standing(), step.kubepods, Some(&pods));
            left = engine.standing().warm_start(step.kubepods);
        }
        warm.save(engine.standing());
        assert_ne!(left, WarmStart::default());
        let of = |boot_id: &str| {
            let (_, left, pods) = Warm::open(dir.path(), boot_id);
            (left, pods)
        };
        assert_eq!(of("one"), (left, Some(pods("last"))));
        assert_eq!(of("two"), (WarmStart::default(), None), "after a reboot");
        for file in [AVERAGES, PODS] {
            fs::write(dir.path().join(file), "{").unwrap();
        }
        assert_eq!(of("one"), (WarmStart::default(), None), "costs a warm-up");
    }
}
