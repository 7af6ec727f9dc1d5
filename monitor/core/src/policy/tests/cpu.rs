//! A CPU is short, and who makes others wait is slowed down.

use std::sync::Arc;

use crate::model::cgroup::{Cgroup, CgroupId, CgroupPath, CpuFiles};
use crate::model::condition::ScopeName;
use crate::model::decision::{InForce, Phase, Release, ReleaseReason, StepKind};
use crate::model::sample::{Moment, Sample};
use crate::model::settings::Settings;
use crate::model::stall::{Aggression, Coverage, CpuStall, GroupStall, KernelStalls};
use crate::model::threshold::{PressureSignal, PressureThreshold};
use crate::model::units::{Micros, Nanos, Percent};
use crate::policy::engine::{Engine, Standing};

const MS: u64 = 1_000_000;
const WEB: CgroupId = CgroupId(10);
const HOG: CgroupId = CgroupId(11);

/// A second of a node with one CPU that is never idle: for so long `web` has waited because of `hog`, and
/// the threads of `hog` have waited for each other.
fn sample(tick: u64, waited: &mut u64, ms: u64) -> Sample {
    let at = Nanos(tick * Nanos::SECOND.0);
    let mut sample = Sample { tick, at: Moment { boot: at, wall: at }, ..Sample::default() };
    *waited += ms;
    let paths = ["/", "/kubepods", "/kubepods/besteffort/podweb", "/kubepods/besteffort/podhog"];
    let ids = [CgroupId(1), CgroupId(2), WEB, HOG];
    let covers = Coverage { waits: true, throttling: true, ..Coverage::default() };
    let cpu = CpuStall { contention: at, nonidle: at, switches: tick };
    let mut kernel = KernelStalls { covers, clock: at, cpus: vec![cpu], ..KernelStalls::default() };
    for (id, path) in ids.into_iter().zip(paths) {
        let usage = Some(Micros(tick * 400_000));
        let cpu = CpuFiles { usage, weight: Some(100), ..CpuFiles::default() };
        let group = Cgroup { path: CgroupPath(path.into()), cpu, ..Cgroup::default() };
        sample.cgroups.insert(id, Arc::new(group));
        let wait = if id == WEB { Nanos(*waited * MS) } else { at };
        let stall = GroupStall { cpus: kernel.cpus.clone(), wait, ..GroupStall::default() };
        kernel.groups.insert(id, Arc::new(stall));
    }
    let time = Nanos(ms * MS);
    kernel.matrix = vec![Aggression { victim: WEB, aggressor: HOG, time }];
    sample.kernel = Some(kernel);
    sample
}

#[test]
fn squeeze_has_served_when_others_wait_less() {
    let (over, vain) = (None, Some(ReleaseReason::NoEffect));
    // Milliseconds a second for which others wait because of the hog once it is squeezed; why it is
    // released again while the CPU is as busy as before.
    for (after, want) in [(0, over), (100, over), (300, vain), (500, vain)] {
        let mut settings = Settings::default();
        let on = PressureSignal::Cpu(Percent(50_00));
        let scope = ScopeName::Kubepods;
        settings.eviction.pressure = vec![PressureThreshold { scope, on, grace: Nanos(0) }];
        settings.relief.enforce = [StepKind::Squeeze].into();
        let mut engine = Engine::new(settings, Standing::new(1));
        let (mut waited, mut in_force) = (0, Vec::<InForce>::new());
        let (mut squeezed, mut releases) = (Vec::new(), Vec::<Release>::new());
        for tick in 1..=60 {
            let ms = if in_force.is_empty() { 500 } else { after };
            let mut sample = sample(tick, &mut waited, ms);
            sample.in_force = in_force.clone();
            let since = sample.at.boot;
            let relief = engine.step(sample).decision.relief;
            let new = relief.actions.into_iter();
            in_force.extend(new.map(|action| {
                squeezed.push(action.target.uid.clone());
                InForce { action, since, held: None, phase: Phase::Squeezed }
            }));
            in_force.retain(|one| relief.releases.iter().all(|it| it.action != one.action.id));
            releases.extend(relief.releases);
        }
        let why = releases.first().map(|release| release.why);
        assert_eq!((&squeezed[..], why), (&["hog".to_owned()][..], want), "{after}");
    }
}
