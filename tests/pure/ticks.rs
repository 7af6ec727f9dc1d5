//! Samples of nodes that do not exist: one where anything happens, and one as nodes are.

use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use crate::dice::Dice;
use isobar_core::model::cgroup::{
    Cgroup, CgroupId, CgroupPath, CpuFiles, IoStat, Limit, MemoryFiles, MemoryStat,
};
use isobar_core::model::decision::{Outcome, OutcomeResult};
use isobar_core::model::node::{CpuTime, Filesystem, Meminfo};
use isobar_core::model::psi::{Line, Pressure, Pressures};
use isobar_core::model::quantity::Quantity;
use isobar_core::model::sample::{Gap, GapReason, Sample};
use isobar_core::model::stall::{
    Aggression, CauseStall, CpuStall, GroupStall, KernelStalls, MemoryCause, OomKill, ShortLived,
};
use isobar_core::model::units::{Bytes, Micros, Nanos, Percent};
use isobar_core::model::workload::{Container, Pod, Pods};

impl Dice {
    fn any(&mut self) -> u64 {
        match self.below(5) {
            0 => 0,
            1 => self.below(10),
            2 => self.below(1 << 40),
            3 => u64::MAX,
            _ => self.throw(),
        }
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (!self.one_in(3)).then(|| make(self))
    }

    fn some<T>(&mut self, make: impl Fn(&mut Self) -> T) -> Vec<T> {
        (0..self.below(4)).map(|_| make(self)).collect()
    }

    fn text(&mut self) -> String {
        let all = ["", "/", "a\"b", "\\", "\u{0}\n", "🦀", "12", "{}", "a/b~c", "/kubepods/pod1"];
        all[usize::try_from(self.below(10)).unwrap()].into()
    }
}

/// The tick after `before`, if anything may happen from one to the next.
pub(crate) fn anything(before: &Sample, dice: &mut Dice) -> Sample {
    let mut next = before.clone();
    next.tick += 1;
    next.at.boot = before.at.boot.plus(Nanos(dice.below(2_000_000_000)));
    next.at.wall = Nanos(dice.any());
    next.generation = dice.any();
    change(
        &mut next.cgroups,
        dice,
        |d| CgroupId(d.below(40)),
        |d| any_cgroup(d).into(),
        |c, d| {
            let c = Arc::make_mut(c);
            c.cpu.usage = Some(Micros(d.any()));
            if let Some(Pressure { some: Some(line), .. }) = &mut c.pressure.cpu {
                line.avg10 = Percent(u16::try_from(d.below(65_536)).unwrap());
            }
        },
    );
    if dice.one_in(3) {
        next.kernel = dice.maybe(any_kernel);
    }
    if let Some(kernel) = &mut next.kernel {
        change(
            &mut kernel.groups,
            dice,
            |d| CgroupId(d.below(40)),
            |d| any_group(d).into(),
            |g, d| {
                Arc::make_mut(g).wait = Nanos(d.any());
            },
        );
        if dice.one_in(2) {
            kernel.matrix = dice.some(any_aggression);
        }
        if !dice.one_in(4) {
            kernel.matrix.sort();
            kernel.matrix.dedup_by_key(|a| (a.victim, a.aggressor));
        }
        for aggression in &mut kernel.matrix {
            aggression.time = aggression.time.plus(Nanos(dice.below(1_000)));
        }
        kernel.oom_kills = dice.some(any_oom_kill);
    }
    if dice.one_in(3) {
        next.pods = dice.maybe(|_| Pods::default());
    }
    if let Some(pods) = &mut next.pods {
        change(Arc::make_mut(pods), dice, Dice::text, any_pod, |p, d| {
            p.priority = Some(i32::try_from(d.below(1 << 31)).unwrap() - (1 << 30));
        });
    }
    next.node.memory = dice.maybe(|d| Meminfo { total: Bytes(d.any()), ..Meminfo::default() });
    next.node.cpu = dice.maybe(|d| CpuTime { busy: Nanos(d.any()), ..CpuTime::default() });
    next.node.filesystems.nodefs =
        dice.maybe(|d| Filesystem { inodes: d.any(), ..Filesystem::default() });
    if dice.one_in(2) {
        next.gaps = dice.some(any_gap);
        next.outcomes = dice.some(any_outcome);
    }
    next
}

/// Some go, some come, some change in numbers, some in everything, and some not at all.
fn change<K: Ord, T>(
    all: &mut BTreeMap<K, T>,
    dice: &mut Dice,
    key: impl Fn(&mut Dice) -> K,
    any: impl Fn(&mut Dice) -> T,
    count: impl Fn(&mut T, &mut Dice),
) {
    all.retain(|_, _| !dice.one_in(8));
    for row in all.values_mut() {
        match dice.below(6) {
            0 => *row = any(dice),
            1..4 => count(row, dice),
            _ => {}
        }
    }
    for _ in 0..dice.below(3) {
        all.insert(key(dice), any(dice));
    }
}

fn any_line(d: &mut Dice) -> Line {
    let mut percent = || Percent(u16::try_from(d.below(65_536)).unwrap());
    let (avg10, avg60, avg300) = (percent(), percent(), percent());
    Line { avg10, avg60, avg300, total: Micros(d.any()) }
}

fn any_pressures(d: &mut Dice) -> Pressures {
    let any = |d: &mut Dice| Pressure { some: d.maybe(any_line), full: d.maybe(any_line) };
    Pressures { cpu: d.maybe(any), memory: d.maybe(any), io: d.maybe(any), irq: d.maybe(any) }
}

fn any_limit(d: &mut Dice) -> Limit {
    if d.one_in(2) { Limit::Max } else { Limit::At(d.any()) }
}

fn any_cgroup(d: &mut Dice) -> Cgroup {
    Cgroup {
        path: CgroupPath(d.text().into()),
        parent: d.maybe(|d| CgroupId(d.any())),
        pressure: any_pressures(d),
        cpu: CpuFiles {
            usage: d.maybe(|d| Micros(d.any())),
            quota: d.maybe(any_limit),
            ..CpuFiles::default()
        },
        memory: MemoryFiles {
            current: d.maybe(|d| Bytes(d.any())),
            max: d.maybe(any_limit),
            stat: d.maybe(|d| MemoryStat { anon: Bytes(d.any()), ..MemoryStat::default() }),
            ..MemoryFiles::default()
        },
        pids_max: d.maybe(any_limit),
        io: d.maybe(|d| IoStat { reads: d.any(), ..IoStat::default() }),
        ..Cgroup::default()
    }
}

fn any_group(d: &mut Dice) -> GroupStall {
    let cpu = |d: &mut Dice| CpuStall { nonidle: Nanos(d.any()), ..CpuStall::default() };
    let mut group = GroupStall { wait: Nanos(d.any()), ..GroupStall::default() };
    group.cpus = d.some(cpu);
    group.histogram = d.some(Dice::any);
    if d.one_in(3) {
        let stall = CauseStall { count: d.any(), ..CauseStall::default() };
        group.memory.causes.insert(MemoryCause::Global, stall);
    }
    group
}

fn any_aggression(d: &mut Dice) -> Aggression {
    let (victim, aggressor) = (CgroupId(d.below(4)), CgroupId(d.below(4)));
    Aggression { victim, aggressor, time: Nanos(d.any()) }
}

fn any_kernel(d: &mut Dice) -> KernelStalls {
    let mut kernel = KernelStalls { clock: Nanos(d.any()), ..KernelStalls::default() };
    kernel.covers.waits = d.one_in(2);
    kernel.short_lived =
        d.some(|d| ShortLived { id: CgroupId(d.any()), path: CgroupPath(d.text().into()) });
    kernel
}

fn any_oom_kill(d: &mut Dice) -> OomKill {
    OomKill {
        at: Nanos(d.any()),
        victim: CgroupId(d.any()),
        victim_pid: d.maybe(|_| 7),
        victim_comm: Some("java".into()),
        more: d.any(),
        limit: d.maybe(|d| CgroupId(d.any())),
        limit_known: d.one_in(2),
        trigger: CgroupId(d.any()),
    }
}

fn any_pod(d: &mut Dice) -> Pod {
    let mut pod = Pod { uid: d.text(), name: d.text(), ..Pod::default() };
    pod.labels.insert(d.text(), d.text());
    pod.started = d.maybe(|d| i64::from_ne_bytes(d.any().to_ne_bytes()));
    pod.overhead.insert(d.text(), Quantity::milli(d.below(1 << 50)));
    pod.containers = d.some(|d| Container { id: d.maybe(Dice::text), ..Container::default() });
    pod
}

fn any_gap(d: &mut Dice) -> Gap {
    Gap { object: d.text(), why: GapReason::Torn, detail: d.text() }
}

fn any_outcome(d: &mut Dice) -> Outcome {
    let freed = d.maybe(|d| Bytes(d.any()));
    let (result, took) = (OutcomeResult::Done, Nanos(d.any()));
    let ended = d.maybe(Dice::any);
    let (action, detail, never_begun) = (d.any(), d.text(), d.below(2) == 0);
    Outcome { action, result, detail, took, freed, ended, never_begun }
}
