//! What spares the next agent its warm-up, in the state directory: `averages.json`.
//! Written every five seconds and at the end. Whatever is wrong with it costs a warm-up, no more.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::state;
use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::units::Nanos;
use isobar_core::model::workload::Pods;
use isobar_core::policy::engine::{Standing, WarmStart};

const FILE: &str = "averages.json";
/// A killed agent loses so much, and averages bridge a pause of ten seconds.
const EVERY: Nanos = Nanos(5 * Nanos::SECOND.0);

/// What an agent leaves to the next one in the same boot.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Left {
    boot_id: String,
    pub(super) warm: WarmStart,
    /// Who must not be evicted is known before the API server answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pods: Option<Pods>,
}

/// Keeps the file.
#[derive(Debug)]
pub(super) struct Warm {
    path: PathBuf,
    boot_id: String,
    saved: Option<Nanos>,
    /// The cgroup of all pods, as of the last tick.
    kubepods: Option<CgroupId>,
    has_warned: bool,
}

impl Warm {
    /// Also reads what an agent before this one left in the same boot, if it can be read.
    pub(super) fn open(state_dir: &Path, boot_id: &str) -> (Self, Left) {
        let path = state_dir.join(FILE);
        let read = match state::read(&path) {
            Ok(text) => serde_json::from_slice::<Left>(&text).map_err(io::Error::from),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(Left::default()),
            Err(why) => Err(why),
        };
        let read = read.unwrap_or_else(|why| {
            tracing::warn!("cannot read {}; the agent warms up anew: {why}", path.display());
            Left::default()
        });
        let left = if read.boot_id == boot_id { read } else { Left::default() };
        let boot_id = boot_id.to_owned();
        (Self { path, boot_id, saved: None, kubepods: None, has_warned: false }, left)
    }

    /// Keeps what a tick left, once in a while.
    pub(super) fn tick(&mut self, now: Nanos, standing: &Standing, kubepods: Option<CgroupId>) {
        self.kubepods = kubepods;
        if self.saved.is_none_or(|saved| now.since(saved) >= EVERY) {
            self.saved = Some(now);
            self.save(standing);
        }
    }

    /// Keeps what the last tick left; nothing before the first.
    pub(super) fn save(&mut self, standing: &Standing) {
        if self.saved.is_none() {
            return;
        }
        let warm = standing.warm_start(self.kubepods);
        let pods = standing.before.as_ref().and_then(|before| before.pods.clone());
        let left = Left { boot_id: self.boot_id.clone(), warm, pods };
        let text = serde_json::to_vec(&left).expect("numbers and texts");
        if let Err(why) = state::replace(&self.path, &text)
            && !self.has_warned
        {
            self.has_warned = true;
            let path = self.path.display();
            tracing::warn!("cannot write {path}; a restarted agent has to warm up: {why}");
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
    use std::sync::Arc;

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
        let (mut warm, none) = Warm::open(dir.path(), "one");
        assert_eq!(none, Left::default());
        let mut engine = Engine::new(Settings::default(), Standing::new(1));
        let mut left = WarmStart::default();
        let pods = Pods::from(BTreeMap::from([("u1".into(), Pod::default())]));
        for second in 1..=20 {
            let pods = Some(Arc::clone(&pods));
            let step = engine.step(Sample { pods, ..sample(second) });
            let now = Nanos(second * Nanos::SECOND.0);
            warm.tick(now, engine.standing(), step.kubepods);
            left = engine.standing().warm_start(step.kubepods);
        }
        warm.save(engine.standing());
        assert_ne!(left, WarmStart::default());
        let of = |boot_id: &str| Warm::open(dir.path(), boot_id).1;
        assert_eq!((of("one").warm, of("one").pods), (left, Some(pods)));
        assert_eq!(of("two"), Left::default(), "after a reboot");
        fs::write(dir.path().join(FILE), "{").unwrap();
        assert_eq!(of("one"), Left::default(), "costs a warm-up");
    }
}
