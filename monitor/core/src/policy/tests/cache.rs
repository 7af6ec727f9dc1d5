//! Page cache that the kubelet's formula counts as used is taken back before any work is ended.

use std::sync::Arc;

use crate::model::cgroup::{Cgroup, CgroupId, CgroupPath, Limit, MemoryFiles, MemoryStat};
use crate::model::decision::StepKind;
use crate::model::node::{Meminfo, Reclaim};
use crate::model::psi::{Line, Pressure};
use crate::model::sample::{Moment, Sample};
use crate::model::settings::Settings;
use crate::model::stall::{
    CauseStall, Coverage, GroupStall, KernelStalls, MemoryCause, MemoryStall,
};
use crate::model::threshold::{Amount, Signal, Threshold};
use crate::model::units::{Bytes, Nanos, Percent};
use crate::policy::engine::{Engine, Standing};

const MIB: u64 = 1 << 20;

/// Path, anonymous memory and cache in use, in MiB.
type Parties = [(&'static str, u64, u64)];

/// PSI memory `some`, and pages that are read back in a second.
type Stalls = (Percent, u64);

/// Its cache is the kernel's: of directories and inodes.
const DENTRIES: &str = "/kubepods/besteffort/poddentries";

const CALM: Stalls = (Percent(0), 0);
const STALLED: Stalls = (Percent(5_00), 2_000);

/// The first step and its victim on parties that hold the same for 20 s of 1,000 MiB, of which 50 are
/// left to all pods or to the node.
fn first_step(signal: Signal, parties: &Parties, some: Stalls) -> Option<(String, StepKind)> {
    step_beside(signal, parties, some, None)
}

/// The same, where a party stalls for this cause, and the others as much as is told.
fn step_beside(
    signal: Signal,
    parties: &Parties,
    (some, refaults): Stalls,
    stalled: Option<(&str, MemoryCause, Percent)>,
) -> Option<(String, StepKind)> {
    let value = Amount::Quantity("100Mi".parse().unwrap());
    let mut settings = Settings::default();
    settings.eviction.thresholds =
        vec![Threshold { signal, value, grace: Nanos(0), min_reclaim: None }];
    let group = |path: &str, anon: u64, cache: u64, max| {
        let (anon, cache) = (Bytes(anon * MIB), Bytes(cache * MIB));
        let stat = match path {
            DENTRIES => MemoryStat { anon, slab_reclaimable: cache, ..MemoryStat::default() },
            _ => MemoryStat { anon, file: cache, active_file: cache, ..MemoryStat::default() },
        };
        let current = Some(Bytes(anon.0 + cache.0));
        let memory =
            MemoryFiles { current, max: Some(max), stat: Some(stat), ..MemoryFiles::default() };
        let path = CgroupPath(path.into());
        Cgroup { path, memory, pids_current: Some(2), ..Cgroup::default() }
    };
    settings.node.system_reserved_cgroup = "/reserved".into();
    let mut engine = Engine::new(settings, Standing::new(1));
    let relief = (1..=40).map(|tick| {
        let at = Nanos(tick * Nanos::SECOND.0);
        let all = |path: &str, max| {
            let below = parties.iter().filter(|party| path == "/" || party.0.starts_with(path));
            let (anon, cache) = below.fold((0, 0), |all, one| (all.0 + one.1, all.1 + one.2));
            group(path, anon, cache, max)
        };
        let all = [all("/", Limit::Max), all("/kubepods", Limit::At(1_000 * MIB))];
        let each = parties.iter().map(|(path, anon, cache)| group(path, *anon, *cache, Limit::Max));
        let pressure = |avg10| {
            let some = Some(Line { avg10, ..Line::default() });
            Some(Pressure { some, full: None })
        };
        let total = Bytes(if signal == Signal::MemoryAvailable { 1_000 } else { 64_000 } * MIB);
        let available = Bytes(total.0 - 100 * MIB);
        let mut sample = Sample { tick, at: Moment { boot: at, wall: at }, ..Sample::default() };
        sample.cgroups =
            (1..).map(CgroupId).zip(all.into_iter().chain(each).map(Arc::new)).collect();
        sample.node.memory =
            Some(Meminfo { total, free: available, available, ..Meminfo::default() });
        sample.node.pressure.memory = pressure(some);
        let refaults = refaults * tick;
        sample.node.reclaim = Some(Reclaim { refaults, ..Reclaim::default() });
        for group in sample.cgroups.values_mut().filter(|group| *group.path.0 == *"/kubepods") {
            let stat = Arc::make_mut(group).memory.stat.as_mut().unwrap();
            stat.workingset_refault_file = refaults;
        }
        let Some((stalled, cause, others)) = stalled else {
            return engine.step(sample).decision.relief;
        };
        let covers = Coverage { memory: true, memory_causes: true, ..Coverage::default() };
        let mut kernel = KernelStalls { covers, ..KernelStalls::default() };
        let is_party = |group: &Cgroup| parties.iter().any(|one| *one.0 == *group.path.0);
        for (id, group) in sample.cgroups.iter_mut().filter(|(_, group)| is_party(group)) {
            let is_stalled = *group.path.0 == *stalled;
            let avg10 = if is_stalled { some } else { others };
            Arc::make_mut(group).pressure.memory = pressure(avg10);
            let union = Nanos(if is_stalled { at.0 / 5 } else { 0 });
            let shortage = if cause.is_shortage() { union } else { Nanos(0) };
            let causes = [(cause, CauseStall { union, time: union, count: tick })].into();
            let memory = MemoryStall { any: union, shortage, causes };
            kernel.groups.insert(*id, Arc::new(GroupStall { memory, ..GroupStall::default() }));
        }
        sample.kernel = Some(kernel);
        engine.step(sample).decision.relief
    });
    let mut actions = relief.flat_map(|relief| relief.actions);
    actions.next().map(|action| (action.target.uid, action.step))
}

#[test]
fn cache_is_taken_back_first() {
    use StepKind::{Reclaim, StopContainers};
    const MAPPED: &str = "/kubepods/besteffort/podmapped";
    const OTHER: &str = "/kubepods/besteffort/podother";
    const GUARANTEED: &str = "/kubepods/podguaranteed";
    type Row = (&'static Parties, Stalls, Option<(&'static str, StepKind)>);
    #[rustfmt::skip]
    let table: [Row; 8] = [
        // pods, stalls, first step
        (&[(DENTRIES, 50, 600), (OTHER, 300, 0)],   CALM,   Some(("dentries", Reclaim))),
        (&[(DENTRIES, 50, 600), (OTHER, 300, 0)],   STALLED, Some(("dentries", StopContainers))),
        (&[(MAPPED, 50, 600), (OTHER, 300, 0)],     CALM,   Some(("mapped", Reclaim))),
        (&[(MAPPED, 50, 200), (OTHER, 100, 600)],   CALM,   Some(("other", Reclaim))),
        // Tasks stall, so the cache is in use; the kubelet's order goes by the working set.
        (&[(MAPPED, 50, 600), (OTHER, 300, 0)],     STALLED, Some(("mapped", StopContainers))),
        // They stall as cache is dropped that is not read back.
        (&[(MAPPED, 50, 600), (OTHER, 300, 0)],     (STALLED.0, 100), Some(("mapped", Reclaim))),
        // Too little of what is missing is cache.
        (&[(MAPPED, 640, 10), (OTHER, 300, 0)],     CALM,   Some(("mapped", StopContainers))),
        // Its cache was promised.
        (&[(GUARANTEED, 50, 600), (OTHER, 300, 0)], CALM,   Some(("other", StopContainers))),
    ];
    for (pods, some, want) in table {
        let got = first_step(Signal::AllocatableMemoryAvailable, pods, some);
        let got = got.as_ref().map(|(uid, step)| (uid.as_str(), *step));
        assert_eq!(got, want, "{pods:?} {some:?}");
    }
}

#[test]
fn cache_of_a_service_is_taken_back_before_a_pod_pays_for_it() {
    use StepKind::{Reclaim, StopContainers};
    const BACKUP: &str = "/system.slice/backup.service";
    const KUBELET: &str = "/system.slice/kubelet.service";
    const RESERVED: &str = "/reserved/helper.service";
    const POD: &str = "/kubepods/besteffort/podother";
    type Row = (&'static Parties, Stalls, Option<(&'static str, StepKind)>);
    #[rustfmt::skip]
    let table: [Row; 8] = [
        // parties, stalls, first step
        (&[(BACKUP, 50, 600), (POD, 300, 0)],   CALM,   Some((BACKUP, Reclaim))),
        (&[(BACKUP, 50, 200), (POD, 100, 600)], CALM,   Some(("other", Reclaim))),
        (&[(BACKUP, 50, 400), (POD, 200, 300)], CALM,   Some((BACKUP, Reclaim))),
        (&[(BACKUP, 50, 600), (POD, 300, 0)],   STALLED, Some(("other", StopContainers))),
        // Many have some, and together more than what is missing.
        (&[(POD, 650, 30), ("/a", 40, 25), ("/b", 40, 25), ("/c", 40, 25), ("/d", 50, 25)],
                                                CALM,   Some(("other", Reclaim))),
        // Of what the node cannot do without nothing is taken, and of what is reserved.
        (&[(KUBELET, 50, 600), (POD, 300, 0)],  CALM,   Some(("other", StopContainers))),
        (&[(RESERVED, 50, 600), (POD, 300, 0)], CALM,   Some(("other", StopContainers))),
        (&[(BACKUP, 10, 0), (POD, 940, 0)],     CALM,   Some(("other", StopContainers))),
    ];
    for (parties, some, want) in table {
        let got = first_step(Signal::MemoryAvailable, parties, some);
        let got = got.as_ref().map(|(uid, step)| (uid.as_str(), *step));
        assert_eq!(got, want, "{parties:?} {some:?}");
    }
    let got = first_step(Signal::MemoryAvailable, &[(DENTRIES, 50, 600), (POD, 300, 0)], CALM);
    assert_eq!(got, Some(("dentries".into(), StopContainers)), "the node's threshold counts none");
    let of_pods = [(BACKUP, 9, 600), (POD, 950, 0)];
    let got = first_step(Signal::AllocatableMemoryAvailable, &of_pods, CALM);
    assert_eq!(got, Some(("other".into(), StopContainers)), "it lies outside of the limit");
}

/// Only its own limit holds up a pod: the cache of others is not in use for all that.
#[test]
fn cache_is_taken_back_beside_a_pod_at_its_own_limit() {
    use StepKind::{Reclaim, StopContainers};
    const SMALL: &str = "/kubepods/burstable/podsmall";
    const MAPPED: &str = "/kubepods/besteffort/podmapped";
    const OTHER: &str = "/kubepods/besteffort/podother";
    use MemoryCause::{Global, OwnLimit};
    type Row = (&'static Parties, MemoryCause, Stalls, (&'static str, StepKind));
    #[rustfmt::skip]
    let table: [Row; 4] = [
        // pods, why the small one stalls, PSI some of the others, first step
        (&[(SMALL, 30, 20), (MAPPED, 50, 600), (OTHER, 250, 0)], OwnLimit, CALM,   ("mapped", Reclaim)),
        // It alone stalls, and the node is short.
        (&[(SMALL, 30, 20), (MAPPED, 50, 600), (OTHER, 250, 0)], Global,   CALM,   ("mapped", StopContainers)),
        (&[(SMALL, 30, 20), (MAPPED, 50, 600), (OTHER, 250, 0)], OwnLimit, STALLED, ("mapped", StopContainers)),
        // Its own cache is in use.
        (&[(SMALL, 30, 600), (MAPPED, 50, 20), (OTHER, 250, 0)], OwnLimit, CALM,   ("other", StopContainers)),
    ];
    for (pods, cause, others, want) in table {
        for signal in [Signal::MemoryAvailable, Signal::AllocatableMemoryAvailable] {
            let got = step_beside(signal, pods, STALLED, Some((SMALL, cause, others.0)));
            let got = got.as_ref().map(|(uid, step)| (uid.as_str(), *step));
            assert_eq!(got, Some(want), "{pods:?} {cause:?} {others:?}");
        }
    }
}
