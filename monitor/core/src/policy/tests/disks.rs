//! A disk runs short: who fills it is ended, by what was read since, and no pod of which it is not
//! known that it has a real part of what is missing.

use std::sync::Arc;

use crate::model::cgroup::{Cgroup, CgroupId, CgroupPath};
use crate::model::decision::Hold;
use crate::model::disk::{DiskReading, DiskSource, DiskUse, PodDisk};
use crate::model::node::Filesystem;
use crate::model::sample::{Moment, Sample};
use crate::model::settings::Settings;
use crate::model::threshold::{Amount, Signal, Threshold};
use crate::model::units::{Bytes, Nanos};
use crate::policy::engine::{Engine, Standing};

const MIB: u64 = 1 << 20;
const TICKS: u64 = 240;

/// Path, MiB on the disk at the start, and how many more each second.
type Pods = [(&'static str, u64, u64)];

/// The first victim and when it was chosen, else the last hold, on a disk of 1,000 MiB of which 200
/// should be left, whose pods are walked each `walked` seconds; `None`: never.
fn first_victim(pods: &Pods, walked: Option<u64>) -> Result<(String, u64), Option<Hold>> {
    let value = Amount::Quantity("200Mi".parse().unwrap());
    let threshold =
        Threshold { signal: Signal::NodefsAvailable, value, grace: Nanos(0), min_reclaim: None };
    let mut settings = Settings::default();
    settings.eviction.thresholds = vec![threshold];
    let mut engine = Engine::new(settings, Standing::new(1));
    let mut held = None;
    let sum = |of: fn(&(&str, u64, u64)) -> u64| pods.iter().map(of).sum::<u64>();
    // Once the disk is full, nothing is written.
    let full = (1_000 - sum(|pod| pod.1)) / sum(|pod| pod.2).max(1);
    for tick in 1..=TICKS {
        let at = |tick: u64| Nanos(tick * Nanos::SECOND.0);
        let has = |(_, n, each): &(&str, u64, u64), tick| (n + each * full.min(tick)) * MIB;
        let group = |path: &str| {
            let path = CgroupPath(path.into());
            Cgroup { path, pids_current: Some(1), ..Cgroup::default() }
        };
        let all = std::iter::once("/kubepods").chain(pods.iter().map(|(path, ..)| *path));
        let moment = Moment { boot: at(tick), wall: at(tick) };
        let mut sample = Sample { tick, at: moment, ..Sample::default() };
        sample.cgroups = (1..).map(CgroupId).zip(all.map(group).map(Arc::new)).collect();
        let used: u64 = pods.iter().map(|pod| has(pod, tick)).sum();
        sample.node.filesystems.at = at(tick);
        sample.node.filesystems.nodefs = Some(Filesystem {
            available: Bytes((1_000 * MIB).saturating_sub(used)),
            capacity: Bytes(1_000 * MIB),
            ..Filesystem::default()
        });
        sample.pod_disks = walked.map(|each| {
            let then = tick - tick % each;
            let is_pod = |pod: &&(&'static str, u64, u64)| pod.0.contains("/pod");
            let disk = |pod: &(&'static str, u64, u64)| {
                // Of a pod without a directory a walk knows nothing.
                let bytes = Some(Bytes(has(pod, then))).filter(|has| *has > Bytes(0));
                let whole = DiskUse { bytes, inodes: None };
                let volumes = [("data".into(), whole)].into();
                let uid = pod.0.rsplit_once("/pod").unwrap().1.to_owned();
                (uid, PodDisk { volumes, whole, ..PodDisk::default() })
            };
            let pods = pods.iter().filter(is_pod).map(disk).collect();
            Arc::new(DiskReading { at: at(then), pods, source: DiskSource::Walk })
        });
        let relief = engine.step(sample).decision.relief;
        if let Some(action) = relief.actions.first() {
            return Ok((action.target.uid.clone(), tick));
        }
        held = relief.held.or(held);
    }
    Err(held)
}

#[test]
fn disk_is_paid_for_by_who_fills_it() {
    const BATCH: &str = "/kubepods/besteffort/podbatch";
    const CACHE: &str = "/kubepods/besteffort/podcache";
    const LOGS: &str = "/kubepods/burstable/podlogs";
    const DAEMON: &str = "/system.slice/journal.service";
    let by_other = Hold::TakenByOther { taker: String::new() };
    type Row = (&'static Pods, Option<u64>, Result<(&'static str, u64), Option<Hold>>);
    #[rustfmt::skip]
    let table: [Row; 15] = [
        (&[(BATCH, 1, 0), (CACHE, 30, 0), (LOGS, 0, 16)],  Some(1),  Ok(("logs", 49))),
        // What was read before it ran short says too little: another one was the largest then.
        (&[(BATCH, 1, 0), (CACHE, 300, 0), (LOGS, 0, 12)], Some(30), Ok(("logs", 60))),
        // Who fills it, not who has had most all along.
        (&[(BATCH, 1, 0), (CACHE, 600, 0), (LOGS, 0, 12)], Some(5),  Ok(("logs", 20))),
        (&[(CACHE, 700, 0), (LOGS, 0, 2)],                 Some(10), Ok(("logs", 60))),
        (&[(CACHE, 735, 0), (LOGS, 0, 1)],                 Some(10), Ok(("logs", 70))),
        // So slowly that ten seconds of it say nothing.
        (&[(CACHE, 740, 0), (DAEMON, 0, 1)],               Some(10), Err(Some(by_other.clone()))),
        // None fills it, which is known after a minute: who has most.
        (&[(CACHE, 801, 0), (LOGS, 0, 0)],                 Some(10), Ok(("cache", 60))),
        (&[(BATCH, 1, 0), (CACHE, 30, 0), (LOGS, 0, 16)],  None,     Err(Some(Hold::UseUnknown))),
        // A daemon fills it.
        (&[(BATCH, 1, 0), (CACHE, 3, 0), (DAEMON, 0, 16)],   Some(10), Err(Some(by_other.clone()))),
        (&[(BATCH, 1, 1), (CACHE, 300, 0), (DAEMON, 0, 6)], Some(10), Err(Some(by_other.clone()))),
        // It stays so once the disk is full.
        (&[(CACHE, 60, 0), (DAEMON, 0, 16)],               Some(10), Err(Some(by_other.clone()))),
        // It was full before isobar came: what pods have is less than what is missing, or enough.
        (&[(CACHE, 60, 0), (LOGS, 70, 0), (DAEMON, 860, 0)], Some(10), Err(Some(by_other))),
        (&[(CACHE, 90, 0), (LOGS, 150, 0), (DAEMON, 750, 0)], Some(10), Ok(("logs", 60))),
        (&[(CACHE, 3, 0), (LOGS, 6, 0), (DAEMON, 980, 0)], Some(10), Err(Some(Hold::NothingHelps))),
        (&[(BATCH, 1, 0)],                                 Some(1),  Err(None)),
    ];
    for (pods, walked, want) in table {
        let got = first_victim(pods, walked);
        let got = got.as_ref().map(|(uid, at)| (uid.as_str(), *at)).map_err(Clone::clone);
        assert_eq!(got, want, "{pods:?} {walked:?}");
    }
}
