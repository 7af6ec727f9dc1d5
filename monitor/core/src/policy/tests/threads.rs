//! Pids run low: who started the threads is ended, not who has had many or is of the lowest class.

use std::sync::Arc;

use crate::model::cgroup::{Cgroup, CgroupId, CgroupPath, MemoryFiles, MemoryStat};
use crate::model::decision::{Hold, StepKind};
use crate::model::sample::{Moment, Sample};
use crate::model::settings::Settings;
use crate::model::threshold::{Amount, Signal, Threshold};
use crate::model::units::Nanos;
use crate::policy::engine::{Engine, Standing};

/// Path, threads at the start, and how many more each second.
type Parties = [(&'static str, u64, u64)];

/// The first victim, else the last hold, on a node that lets 4,000 threads run and on which fewer than
/// 2,000 should.
fn first_victim(parties: &Parties) -> Result<String, Option<Hold>> {
    let value = Amount::Quantity("2000".parse().unwrap());
    let threshold =
        Threshold { signal: Signal::PidAvailable, value, grace: Nanos(0), min_reclaim: None };
    let mut settings = Settings::default();
    settings.eviction.thresholds = vec![threshold];
    let mut engine = Engine::new(settings, Standing::new(1));
    let mut held = None;
    for tick in 1..=60 {
        let at = Nanos(tick * Nanos::SECOND.0);
        let threads = |n: u64, each: u64| n + each * tick;
        let group = |path: &str, n: u64| {
            let memory =
                MemoryFiles { stat: Some(MemoryStat::default()), ..MemoryFiles::default() };
            let path = CgroupPath(path.into());
            Arc::new(Cgroup { path, memory, pids_current: Some(n), ..Cgroup::default() })
        };
        let all = parties.iter().map(|(path, n, each)| group(path, threads(*n, *each)));
        let mut sample = Sample { tick, at: Moment { boot: at, wall: at }, ..Sample::default() };
        let kubepods = std::iter::once(group("/kubepods", 0));
        sample.cgroups = (1..).map(CgroupId).zip(kubepods.chain(all)).collect();
        sample.node.max_threads = Some(4_000);
        sample.node.n_threads = Some(parties.iter().map(|(_, n, each)| threads(*n, *each)).sum());
        let relief = engine.step(sample).decision.relief;
        if let Some(action) = relief.actions.first() {
            assert_eq!(action.step, StepKind::StopContainers);
            return Ok(action.target.uid.clone());
        }
        held = relief.held.or(held);
    }
    Err(held)
}

#[test]
fn threads_are_paid_for_by_who_started_them() {
    const BATCH: &str = "/kubepods/besteffort/podbatch";
    const POOL: &str = "/kubepods/besteffort/podpool";
    const BOMB: &str = "/kubepods/burstable/podbomb";
    const DAEMON: &str = "/system.slice/daemon.service";
    let of_daemon = Hold::TakenByOther { taker: DAEMON.into() };
    #[rustfmt::skip]
    let table: [(&'static Parties, Result<&str, Option<Hold>>); 7] = [
        (&[(BATCH, 5, 0), (POOL, 40, 0), (BOMB, 10, 40)],                     Ok("bomb")),
        // Less than the pool has had all along.
        (&[(BATCH, 5, 0), (POOL, 1_500, 0), (BOMB, 10, 15)],                  Ok("bomb")),
        (&[(POOL, 200, 0), (DAEMON, 1_400, 0), (BOMB, 10, 12)],               Ok("bomb")),
        // Slowly: no more than 20 threads in five minutes name no taker, so the largest pays.
        (&[(BATCH, 5, 0), (POOL, 1_990, 0), (BOMB, 10, 0)],                   Ok("pool")),
        (&[(BATCH, 5, 0), (POOL, 300, 0), (DAEMON, 40, 50)],                  Err(Some(of_daemon.clone()))),
        (&[(BATCH, 5, 1), (POOL, 300, 2), (DAEMON, 40, 50)],                  Err(Some(of_daemon))),
        (&[(BATCH, 5, 0), (POOL, 300, 30), (DAEMON, 40, 40)],                 Ok("pool")),
    ];
    for (parties, want) in table {
        let got = first_victim(parties);
        assert_eq!(got.as_deref().map_err(Clone::clone), want, "{parties:?}");
    }
}
