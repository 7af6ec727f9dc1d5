//! A node of 500 cgroups as a kubelet makes them, at work in part or in whole: what recordings are
//! sized by. A pod has a sandbox that sleeps and one container, and counts what the container does.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::dice::Dice;
use isobar_core::model::cgroup::{
    Cgroup, CgroupId, CgroupPath, CpuFiles, IoStat, Limit, MemoryEvents, MemoryFiles, MemoryStat,
};
use isobar_core::model::node::{CpuTime, Meminfo};
use isobar_core::model::psi::{Line, Pressure, Pressures};
use isobar_core::model::sample::Sample;
use isobar_core::model::stall::{Aggression, CpuStall, GroupStall, KernelStalls};
use isobar_core::model::units::{Bytes, Micros, Nanos, Percent};

const N_PODS: u64 = 160;
const N_SERVICES: u64 = 17;
const N_CPUS: usize = 8;
/// How much of the node is at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// A fifth of the cgroups.
    Fifth,
    /// All of them, and they wait for each other.
    Pressed,
}

impl Load {
    /// Busy pods; their containers are busy, too.
    fn n_busy(self) -> u64 {
        match self {
            Self::Fifth => 45,
            Self::Pressed => N_PODS,
        }
    }

    /// Pairs that meet within a tick: the sampler tells no more than some 500.
    fn n_pairs(self) -> usize {
        match self {
            Self::Fifth => 150,
            Self::Pressed => 500,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Node {
    load: Load,
    dice: Dice,
    sample: Sample,
    busy: Vec<u64>,
}

impl Node {
    pub(crate) fn new(load: Load) -> Self {
        let mut node = Self {
            load,
            dice: Dice(7),
            sample: Sample { kernel: Some(KernelStalls::default()), ..Sample::default() },
            busy: (0..load.n_busy()).map(|i| i * 3 % N_PODS).collect(),
        };
        node.sample.at.wall = Nanos(1_790_000_000_000_000_000);
        node.add(1, "/", None);
        node.add(2, "/kubepods.slice", Some(1));
        node.add(3, "/kubepods.slice/kubepods-burstable.slice", Some(2));
        node.add(4, "/system.slice", Some(1));
        for i in 0..N_SERVICES {
            node.add(10 + i, &format!("/system.slice/some-{i}.service"), Some(4));
        }
        for i in 0..N_PODS {
            let a = node.dice.throw();
            let uid = format!("{:08x}_{:04x}_4b0a_9a52_{:012x}", a >> 32, i, a & 0xffff_ffff_ffff);
            let burstable = "/kubepods.slice/kubepods-burstable.slice";
            let pod = format!("{burstable}/kubepods-burstable-pod{uid}.slice");
            let id = 100 + 3 * i;
            node.add(id, &pod, Some(3));
            for child in [1, 2] {
                let name = format!("{:016x}", node.dice.throw()).repeat(4);
                node.add(id + child, &format!("{pod}/cri-containerd-{name}.scope"), Some(id));
            }
        }
        node
    }

    fn add(&mut self, id: u64, path: &str, parent: Option<u64>) {
        let line = || Some(Line::default());
        let pressure = || Some(Pressure { some: line(), full: line() });
        let (irq, cpu) = (Some(Pressure { some: None, full: line() }), pressure());
        let cgroup = Cgroup {
            is_delegated: false,
            path: CgroupPath(path.into()),
            parent: parent.map(CgroupId),
            pressure: Pressures { cpu, memory: pressure(), io: pressure(), irq },
            cpu: CpuFiles {
                usage: Some(Micros(self.dice.below(1 << 36))),
                periods: Some(0),
                throttled_periods: Some(0),
                throttled: Some(Micros(0)),
                quota: Some(Limit::At(200_000)),
                period: Some(Micros(100_000)),
                weight: Some(100),
            },
            memory: MemoryFiles {
                current: Some(Bytes(self.dice.below(1 << 28) * 16)),
                swap_current: Some(Bytes(0)),
                max: Some(Limit::At(4 << 30)),
                high: Some(Limit::Max),
                low: Some(Limit::At(0)),
                min: Some(Limit::At(0)),
                swap_max: Some(Limit::Max),
                events: Some(MemoryEvents::default()),
                oom_at: None,
                stat: Some(MemoryStat {
                    anon: Bytes(1 << 31),
                    active_anon: Bytes(1 << 31),
                    ..MemoryStat::default()
                }),
            },
            pids_current: Some(12),
            pids_max: Some(Limit::At(4_096)),
            io_limits: Vec::new(),
            io: Some(IoStat::default()),
            n_procs: Some(2),
            preference: None,
        };
        self.sample.cgroups.insert(CgroupId(id), cgroup.into());
        let cpu = CpuStall { nonidle: Nanos(self.dice.below(1 << 45)), ..CpuStall::default() };
        let stall = GroupStall {
            cpus: vec![cpu; N_CPUS],
            histogram: vec![1_000; 32],
            ..GroupStall::default()
        };
        self.kernel().groups.insert(CgroupId(id), stall.into());
    }

    fn kernel(&mut self) -> &mut KernelStalls {
        self.sample.kernel.as_mut().unwrap()
    }

    /// A second later.
    pub(crate) fn tick(&mut self) -> Sample {
        self.sample.tick += 1;
        let late = self.dice.below(300_000);
        let second = Nanos(999_900_000 + late);
        self.sample.at.boot = self.sample.at.boot.plus(second);
        self.sample.at.wall = self.sample.at.wall.plus(second);
        self.kernel().clock = Nanos(self.sample.at.boot.0 + 40_000);
        if self.sample.tick.is_multiple_of(5) {
            // The load moves on, slowly.
            let (i, pod) = (self.dice.below(self.load.n_busy()), self.dice.below(N_PODS));
            self.busy[usize::try_from(i).unwrap()] = pod;
        }
        let pods = self.busy.iter().flat_map(|pod| [100 + 3 * pod, 102 + 3 * pod]);
        let mut at_work: Vec<u64> = pods.chain([1, 2, 3, 4]).chain(10..16).collect();
        at_work.sort_unstable();
        at_work.dedup();
        for id in &at_work {
            // The pod's own figures were read a moment before its container's.
            let skew = self.dice.below(300);
            let seed = self.sample.tick << 20 | if *id >= 100 { (id - 100) / 3 } else { *id << 12 };
            let has_quota = *id >= 100 && ((id - 100) / 3).is_multiple_of(3);
            self.work(CgroupId(*id), &mut Dice(seed), skew, has_quota);
        }
        self.meet(&at_work);
        self.node();
        self.sample.clone()
    }

    fn work(&mut self, id: CgroupId, dice: &mut Dice, skew: u64, has_quota: bool) {
        let updates = self.sample.tick.is_multiple_of(2);
        let cgroup = Arc::make_mut(self.sample.cgroups.get_mut(&id).unwrap());
        let Some(Pressure { some: Some(some), full: Some(full) }) = &mut cgroup.pressure.cpu else {
            return;
        };
        for line in [some, full] {
            line.total.0 += dice.below(40_000) + skew;
            if updates {
                line.avg10 = Percent(u16::try_from(dice.below(900)).unwrap());
                line.avg60 = Percent(u16::try_from(400 + dice.below(60)).unwrap());
                line.avg300 = Percent(u16::try_from(400 + dice.below(12)).unwrap());
            }
        }
        let cpu = &mut cgroup.cpu;
        cpu.usage = cpu.usage.map(|usage| Micros(usage.0 + 20_000 + dice.below(200_000) + skew));
        if has_quota {
            cpu.periods = cpu.periods.map(|n| n + 10);
            cpu.throttled_periods = cpu.throttled_periods.map(|n| n + dice.below(3));
            cpu.throttled = cpu.throttled.map(|time| Micros(time.0 + dice.below(60_000)));
        }
        let grown = |old: Bytes, dice: &mut Dice| {
            Bytes((old.0 + dice.below(400) * 4_096).saturating_sub(200 * 4_096))
        };
        cgroup.memory.current = cgroup.memory.current.map(|old| grown(old, dice));
        if let Some(stat) = &mut cgroup.memory.stat {
            stat.anon = grown(stat.anon, dice);
            stat.active_anon = stat.anon;
            stat.file = grown(stat.file, dice);
            stat.inactive_file = stat.file;
            stat.slab_reclaimable.0 += dice.below(3) * 4_096;
        }
        if let Some(io) = cgroup.io.as_mut().filter(|_| dice.one_in(3)) {
            let n = 1 + dice.below(20);
            (io.writes, io.written.0) = (io.writes + n, io.written.0 + n * 8_192);
        }
        let group = Arc::make_mut(self.kernel().groups.get_mut(&id).unwrap());
        for _ in 0..1 + dice.below(4) {
            let cpu = &mut group.cpus[usize::try_from(dice.below(N_CPUS as u64)).unwrap()];
            cpu.nonidle.0 += dice.below(80_000_000);
            cpu.contention.0 += dice.below(2) * dice.below(6_000_000);
            cpu.switches += dice.below(200);
        }
        group.wait.0 += dice.below(30_000_000);
        group.n_waits += dice.below(300);
        for bucket in &mut group.histogram[2..10] {
            *bucket += dice.below(30);
        }
        if dice.one_in(3) {
            (group.io_wait.0, group.n_io_waits) =
                (group.io_wait.0 + dice.below(4_000_000), group.n_io_waits + dice.below(9));
        }
    }

    /// Who waits for whom: mostly on the CPUs that they share.
    fn meet(&mut self, at_work: &[u64]) {
        let n = at_work.len() as u64;
        let mut pairs = BTreeMap::new();
        for _ in 0..self.load.n_pairs() {
            let victim = self.dice.below(n);
            let aggressor = (victim + self.dice.below(12)) % n;
            let id = |i: u64| CgroupId(at_work[usize::try_from(i).unwrap()]);
            let pair = (id(victim), id(aggressor));
            *pairs.entry(pair).or_insert(100_000) += self.dice.below(1_500) * 1_000;
        }
        let row = |(pair, time): (&(CgroupId, CgroupId), &u64)| Aggression {
            victim: pair.0,
            aggressor: pair.1,
            time: Nanos(*time),
        };
        self.kernel().matrix = pairs.iter().map(row).collect();
    }

    fn node(&mut self) {
        let mut dice = Dice(self.sample.tick);
        let kernel = self.kernel();
        kernel.cpus.resize(N_CPUS, CpuStall::default());
        for cpu in &mut kernel.cpus {
            cpu.contention.0 += dice.below(400_000_000);
            cpu.nonidle.0 += 400_000_000 + dice.below(600_000_000);
            cpu.switches += dice.below(20_000);
        }
        let before = self.sample.node.cpu.unwrap_or_default();
        let (busy, idle) = (before.busy.0 + dice.below(8_000_000_000), before.idle.0);
        self.sample.node.cpu =
            Some(CpuTime { busy: Nanos(busy), idle: Nanos(idle + 10_000_000), ..before });
        self.sample.node.memory = Some(Meminfo {
            total: Bytes(64 << 30),
            free: Bytes((20 << 30) + dice.below(1 << 18) * 4_096),
            available: Bytes((30 << 30) + dice.below(1 << 18) * 4_096),
            ..Meminfo::default()
        });
        self.sample.node.n_threads = Some(4_000 + dice.below(20));
        self.sample.node.n_runnable = Some(dice.below(20));
    }
}
