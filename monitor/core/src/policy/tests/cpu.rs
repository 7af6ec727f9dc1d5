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
const DAEMON: CgroupId = CgroupId(12);

/// A node with one CPU that is never idle, on which the threads of `hog` wait for each other.
struct Busy {
    /// Milliseconds in each second for which `web` waits because of `hog`, and a daemon outside pods.
    waits: [u64; 2],
    /// For how long they have waited until now.
    waited: [u64; 2],
    /// Of `hog`.
    weight: u64,
}

impl Busy {
    fn sample(&mut self, tick: u64) -> Sample {
        let at = Nanos(tick * Nanos::SECOND.0);
        let mut sample = Sample { tick, at: Moment { boot: at, wall: at }, ..Sample::default() };
        for (all, now) in self.waited.iter_mut().zip(self.waits) {
            *all += now;
        }
        let covers = Coverage { waits: true, throttling: true, ..Coverage::default() };
        let cpu = CpuStall { contention: at, nonidle: at, switches: tick };
        let cpus = vec![cpu];
        let mut kernel = KernelStalls { covers, clock: at, cpus, ..KernelStalls::default() };
        let tree = [
            (CgroupId(1), 0, "/"),
            (CgroupId(2), 1, "/kubepods"),
            (CgroupId(3), 1, "/system.slice"),
            (CgroupId(4), 2, "/kubepods/besteffort"),
            (WEB, 4, "/kubepods/besteffort/podweb"),
            (HOG, 4, "/kubepods/besteffort/podhog"),
            (DAEMON, 3, "/system.slice/daemon.service"),
        ];
        for (id, parent, path) in tree {
            let weight = Some(if id == HOG { self.weight } else { 100 });
            let cpu =
                CpuFiles { usage: Some(Micros(tick * 400_000)), weight, ..CpuFiles::default() };
            let parent = (parent > 0).then_some(CgroupId(parent));
            let group = Cgroup { path: CgroupPath(path.into()), parent, cpu, ..Cgroup::default() };
            sample.cgroups.insert(id, Arc::new(group));
            let wait = match id {
                WEB => Nanos(self.waited[0] * MS),
                DAEMON => Nanos(self.waited[1] * MS),
                _ => at,
            };
            let stall = GroupStall { cpus: kernel.cpus.clone(), wait, ..GroupStall::default() };
            kernel.groups.insert(id, Arc::new(stall));
        }
        let pairs = [WEB, DAEMON].into_iter().zip(self.waits);
        let pair = |(victim, ms)| Aggression { victim, aggressor: HOG, time: Nanos(ms * MS) };
        kernel.matrix = pairs.map(pair).collect();
        sample.kernel = Some(kernel);
        sample
    }

    /// What is squeezed within a minute in which `web` waits so long once `hog` is, and why the first
    /// squeeze is taken back.
    fn relieved(mut self, after: u64) -> (Vec<String>, Option<ReleaseReason>) {
        let mut settings = Settings::default();
        let on = PressureSignal::Cpu(Percent(50_00));
        let scope = ScopeName::Kubepods;
        settings.eviction.pressure = vec![PressureThreshold { scope, on, grace: Nanos(0) }];
        settings.relief.enforce = [StepKind::Squeeze].into();
        let mut engine = Engine::new(settings, Standing::new(1));
        let mut in_force = Vec::<InForce>::new();
        let (mut squeezed, mut releases) = (Vec::new(), Vec::<Release>::new());
        let before = self.waits[0];
        for tick in 1..=60 {
            self.waits[0] = if in_force.is_empty() { before } else { after };
            let mut sample = self.sample(tick);
            sample.in_force = in_force.clone();
            let since = sample.at.boot;
            let relief = engine.step(sample).decision.relief;
            let new = relief.actions.into_iter();
            in_force.extend(new.map(|action| {
                squeezed.push(action.target.uid.clone());
                InForce { action, since, held: None, phase: Phase::Squeezed, largest: None }
            }));
            in_force.retain(|one| relief.releases.iter().all(|it| it.action != one.action.id));
            releases.extend(relief.releases);
        }
        (squeezed, releases.first().map(|release| release.why))
    }
}

#[test]
fn squeeze_has_served_when_its_siblings_wait_less() {
    let (stays, vain) = (None, Some(ReleaseReason::NoEffect));
    #[rustfmt::skip]
    let table = [
        // ms/s for which web and a daemon wait because of the hog, web once it is squeezed; the hog's
        // weight; whether it is squeezed, and why that is taken back while the CPU is as busy as before
        ([500, 0],   0,   100, true,  stays),
        ([500, 0],   100, 100, true,  stays),
        ([500, 0],   300, 100, true,  vain),
        ([500, 0],   500, 100, true,  vain),
        // Weights of slices decide how long the daemon waits.
        ([500, 900], 100, 100, true,  stays),
        ([500, 900], 300, 100, true,  vain),
        ([0, 900],   0,   100, false, None),
        ([40, 900],  0,   100, false, None), // below the harm budget
        ([500, 0],   500, 1,   false, None), // it has the least weight already
    ];
    for (waits, after, weight, is_squeezed, why) in table {
        let got = Busy { waits, waited: [0, 0], weight }.relieved(after);
        let want = if is_squeezed { vec!["hog".to_owned()] } else { vec![] };
        assert_eq!(got, (want, why), "{waits:?} {after} {weight}");
    }
}
