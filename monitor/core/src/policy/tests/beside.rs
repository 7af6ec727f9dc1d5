//! Two things run short at once: where nothing can be done about the first, the second is looked at.

use std::sync::Arc;

use crate::model::cgroup::{Cgroup, CgroupId, CgroupPath, MemoryFiles, MemoryStat};
use crate::model::decision::{Decision, Hold, StepKind};
use crate::model::node::Meminfo;
use crate::model::sample::{Moment, Sample};
use crate::model::settings::Settings;
use crate::model::threshold::{Amount, Signal, Threshold};
use crate::model::units::{Bytes, Nanos};
use crate::policy::engine::{Engine, Standing};

const MIB: u64 = 1 << 20;
const DAEMON: &str = "/system.slice/daemon.service";

/// Path, MiB at the start and more each second, threads at the start and more each second.
type Party = (&'static str, [u64; 2], [u64; 2]);

fn sample(parties: &[Party], tick: u64) -> Sample {
    let at = Nanos(tick * Nanos::SECOND.0);
    let now = |[first, each]: [u64; 2]| first + each * tick;
    let group = |path: &str, held: u64, threads: u64| {
        let anon = Bytes(held * MIB);
        let stat = Some(MemoryStat { anon, ..MemoryStat::default() });
        let memory = MemoryFiles { current: Some(anon), stat, ..MemoryFiles::default() };
        let path = CgroupPath(path.into());
        Arc::new(Cgroup { path, memory, pids_current: Some(threads), ..Cgroup::default() })
    };
    let all = parties.iter().map(|(path, held, threads)| group(path, now(*held), now(*threads)));
    let sum = |of: fn(&Party) -> [u64; 2]| parties.iter().map(|one| now(of(one))).sum::<u64>();
    let (held, threads) = (sum(|one| one.1), sum(|one| one.2));
    let root = [group("/", held, threads), group("/kubepods", 0, 0)];
    let free = Bytes(4_096 * MIB - held * MIB);
    let memory = Meminfo { total: Bytes(4_096 * MIB), available: free, free, ..Meminfo::default() };
    let mut sample = Sample { tick, at: Moment { boot: at, wall: at }, ..Sample::default() };
    sample.cgroups = (1..).map(CgroupId).zip(root.into_iter().chain(all)).collect();
    sample.node.memory = Some(memory);
    sample.node.max_threads = Some(4_000);
    sample.node.n_threads = Some(threads);
    sample
}

/// What was decided in a minute, each second, on a node of 4 GiB that lets 4,000 threads run: no less
/// than 500 MiB and 2,000 threads should be left.
fn decisions(parties: &[Party], enforced: &[StepKind]) -> Vec<Decision> {
    let least = |signal, value: &str| {
        let value = Amount::Quantity(value.parse().unwrap());
        Threshold { signal, value, grace: Nanos(0), min_reclaim: None }
    };
    let mut settings = Settings::default();
    settings.eviction.thresholds =
        vec![least(Signal::MemoryAvailable, "500Mi"), least(Signal::PidAvailable, "2000")];
    settings.relief.enforce = enforced.iter().copied().collect();
    let mut engine = Engine::new(settings, Standing::new(1));
    (1..=60).map(|tick| engine.step(sample(parties, tick)).decision).collect()
}

/// Who is ended first for want of each signal.
fn victims(decisions: &[Decision]) -> Vec<(String, String)> {
    let actions = decisions.iter().flat_map(|one| &one.relief.actions);
    let mut all: Vec<(String, String)> = Vec::new();
    for action in actions.filter(|action| action.step.is_final()) {
        let name = action.reason.threshold.name();
        if !all.iter().any(|(known, _)| *known == name) {
            all.push((name, action.target.uid.clone()));
        }
    }
    all
}

#[test]
fn what_runs_short_beside_a_shortage_without_an_answer_is_looked_at() {
    const WEB: Party = ("/kubepods/besteffort/podweb", [20, 0], [5, 0]);
    const BOMB: Party = ("/kubepods/burstable/podbomb", [20, 0], [10, 45]);
    const LEAK: Party = ("/kubepods/burstable/podleak", [20, 19], [10, 0]);
    const OF_DAEMON: Party = (DAEMON, [2_880, 19], [40, 0]);
    let pids = ("pid.available", "bomb");
    let memory = ("memory.available", "leak");
    type Row<'a> = (&'a [Party], &'a [(&'a str, &'a str)]);
    #[rustfmt::skip]
    let table: [Row<'_>; 4] = [
        (&[WEB, BOMB, OF_DAEMON],                                    &[pids]),
        // Threads of a daemon: nothing is done about them, and memory comes first anyway.
        (&[WEB, LEAK, (DAEMON, [2_880, 0], [40, 45])],               &[memory]),
        (&[WEB, BOMB, LEAK, ("/system.slice/db", [2_880, 0], [0, 0])], &[memory, pids]),
        (&[WEB, (DAEMON, [2_880, 19], [40, 45])],                    &[]),
    ];
    for (parties, want) in table {
        let want: Vec<_> = want.iter().map(|(of, uid)| ((*of).into(), (*uid).into())).collect();
        for enforced in [&[][..], &[StepKind::StopContainers, StepKind::Mark][..]] {
            let got = decisions(parties, enforced);
            assert_eq!(victims(&got), want, "{parties:?}, enforced {enforced:?}");
        }
    }
    // The first shortage is told all along, but in the tick in which the second one is answered.
    let of_daemon = Hold::TakenByOther { taker: DAEMON.into() };
    let got = decisions(&[WEB, BOMB, OF_DAEMON], &[]);
    let ends = |one: &&Decision| one.relief.actions.iter().any(|action| action.step.is_final());
    let answered = got.iter().find(ends).unwrap();
    assert_eq!(answered.assessment.first.unwrap().threshold.name(), pids.0);
    assert_eq!(answered.ranking.as_ref().unwrap().signal, "pid.available");
    let held = got.iter().filter(|one| one.relief.held.as_ref() == Some(&of_daemon));
    assert!(held.clone().count() > 1, "held for the daemon");
    let is_of_memory = |one: &Decision| {
        let first = one.assessment.first.unwrap();
        first.threshold.name() == memory.0
    };
    assert!(held.clone().all(is_of_memory));
}

#[test]
fn no_pod_pays_before_a_slow_leak_would_show() {
    const LARGE: Party = ("/kubepods/besteffort/podlarge", [1_400, 0], [5, 0]);
    // MiB a second of a service that no step is possible on; when the first pod is ended.
    for (each, want) in [(0, 31), (1, 22)] {
        let service = ("/system.slice/db.service", [2_200, each], [5, 0]);
        let got = decisions(&[LARGE, service], &[StepKind::StopContainers]);
        let ends = got.iter().find(|one| !one.relief.actions.is_empty()).unwrap();
        assert_eq!(ends.tick, want as u64, "{each} MiB a second");
        let before = got[1..want - 1].iter().all(|one| one.relief.held == Some(Hold::NotYetKnown));
        assert!(before, "{each} MiB a second");
    }
}
