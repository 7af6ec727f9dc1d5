//! Holds what the kernel side counted against what PSI counted of the same node. A program that
//! loads may be blind: then PSI grows and the program's own total does not.
//! In: one sample after the other. Out: which program is blind, and by which figures.

use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::sample::Sample;
use isobar_core::model::stall::MemoryCause;
use isobar_core::model::units::Nanos;

/// PSI must have grown by this much before anything is said: short waits may fall between ticks.
const ENOUGH: Nanos = Nanos(3_000_000_000);

/// So much growth of PSI is looked at, and up to twice as much: a program may go blind after weeks.
const WINDOW: Nanos = Nanos(60_000_000_000);

/// A program that PSI gives the lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Blind {
    /// What it hooks, as the capabilities call it.
    pub(super) target: &'static str,
    pub(super) detail: String,
}

#[derive(Debug, Default)]
pub(super) struct Agreement {
    cpu: Since,
    memory: Since,
}

/// Totals of the moment since which they are compared, and of the one that will take its place.
#[derive(Debug, Default)]
struct Since {
    then: Option<Totals>,
    next: Option<Totals>,
}

/// PSI's, and two of our own, of which the one that grows more counts.
type Totals = (Nanos, [Nanos; 2]);

impl Agreement {
    /// Begins anew with waits: for a time PSI counted them alone.
    pub(super) fn forget_waits(&mut self) {
        self.cpu = Since::default();
    }

    /// Compares what was counted lately, and since the first call at most.
    pub(super) fn check(&mut self, sample: &Sample) -> Vec<Blind> {
        let (cpu, memory) = (waits(sample), stalls(sample));
        let cpu = compare(&mut self.cpu, cpu, "sched_switch");
        cpu.into_iter().chain(compare(&mut self.memory, memory, "psi_memstall_enter")).collect()
    }
}

/// Task time, and what the CPUs' unions sum up to: neither is less than the wall time of PSI, but task
/// time is counted when a wait ends, and a union has no time under a quota.
fn waits(sample: &Sample) -> Option<Totals> {
    let kernel = sample.kernel.as_ref().filter(|kernel| kernel.covers.waits)?;
    // Of a tree that is a part of the node's, the root has another id, and not all that PSI counts.
    sample.cgroups.get(&CgroupId::ROOT)?;
    let wait = kernel.groups.get(&CgroupId::ROOT).map_or(Nanos(0), |group| group.wait);
    let contention = kernel.cpus.iter().fold(Nanos(0), |sum, cpu| sum.plus(cpu.contention));
    Some((sample.node.pressure.cpu?.some?.total.into(), [wait, contention]))
}

/// PSI counts kswapd's stalls too. Tracepoints alone do not see all that PSI sees.
fn stalls(sample: &Sample) -> Option<Totals> {
    let kernel = sample.kernel.as_ref().filter(|k| k.covers.memory && k.covers.memory_causes)?;
    let threads = kernel.memory.causes.get(&MemoryCause::KernelThread);
    let ours = kernel.memory.any.plus(threads.map_or(Nanos(0), |stall| stall.union));
    Some((sample.node.pressure.memory?.some?.total.into(), [ours; 2]))
}

fn compare(since: &mut Since, now: Option<Totals>, target: &'static str) -> Option<Blind> {
    let (psi, ours) = now?;
    let next = *since.next.get_or_insert((psi, ours));
    let (psi_then, ours_then) = *since.then.get_or_insert(next);
    if psi.since(next.0) >= WINDOW {
        *since = Since { then: Some(next), next: Some((psi, ours)) };
    }
    let [one, other] = [0, 1].map(|i: usize| ours[i].since(ours_then[i]));
    let (psi, ours) = (psi.since(psi_then), one.max(other));
    // A half leaves room for all that PSI and we are known to weigh differently.
    let is_blind = psi > ENOUGH && ours.0 < psi.0 / 2;
    let ms = |time: Nanos| time.0 / 1_000_000;
    is_blind.then(|| Blind {
        target,
        detail: format!("PSI counted {} ms of stall, it saw {} ms", ms(psi), ms(ours)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use isobar_core::model::cgroup::{Cgroup, CgroupPath};
    use isobar_core::model::psi::{Line, Pressure};
    use isobar_core::model::stall::{Coverage, CpuStall, GroupStall, KernelStalls};
    use isobar_core::model::units::Micros;

    /// Milliseconds of PSI and of our own total, for CPU and memory alike.
    fn sample(psi: u64, ours: u64) -> Sample {
        let ours = Nanos(ours * 1_000_000);
        let line = Line { total: Micros(psi * 1_000), ..Line::default() };
        let pressure = Some(Pressure { some: Some(line), full: None });
        let mut sample = Sample::default();
        (sample.node.pressure.cpu, sample.node.pressure.memory) = (pressure, pressure);
        let root = Cgroup { path: CgroupPath::root(), ..Cgroup::default() };
        sample.cgroups.insert(CgroupId(1), root.into());
        let mut kernel = KernelStalls { covers: Coverage::ALL, ..KernelStalls::default() };
        kernel
            .groups
            .insert(CgroupId(1), GroupStall { wait: ours, ..GroupStall::default() }.into());
        kernel.memory.any = ours;
        sample.kernel = Some(kernel);
        sample
    }

    #[test]
    fn check_finds_a_program_that_misses_most_of_psi() {
        #[rustfmt::skip]
        let table = [
            // psi, ours, how many are blind
            (90_000, 90_000, 0), // what was there before the agent counts for nothing
            (92_000, 90_000, 0), // too little to say
            (94_000, 90_000, 2),
            (94_000, 91_900, 2),
            (94_000, 92_000, 0), // half of it seen
            (94_000, 99_000, 0), // many tasks wait at once
        ];
        let mut agreement = Agreement::default();
        for (psi, ours, want) in table {
            let blind = agreement.check(&sample(psi, ours));
            assert_eq!(blind.len(), want, "psi {psi} ours {ours}: {blind:?}");
        }
    }

    #[test]
    fn check_finds_a_program_that_goes_blind_late() {
        let mut agreement = Agreement::default();
        let minutes = |n: u64| n * 60_000;
        for minute in 0..1_000 {
            assert_eq!(agreement.check(&sample(minutes(minute), minutes(minute))), []);
        }
        let mut blind = |minute| agreement.check(&sample(minutes(minute), minutes(999))).len();
        assert_eq!((1_000..1_004).map(&mut blind).collect::<Vec<_>>(), [0, 2, 2, 2]);
        // And once it sees again.
        let mut blind =
            |minute| agreement.check(&sample(minutes(minute), minutes(minute - 4))).len();
        assert_eq!((1_004..1_008).map(&mut blind).collect::<Vec<_>>(), [0, 0, 0, 0]);
    }

    #[test]
    fn check_knows_waits_that_have_not_ended() {
        #[rustfmt::skip]
        let table = [
            // id of the tree's root, what a CPU counted of the 9 s of PSI, blind
            (1, 0,     vec!["sched_switch"]),
            (1, 9_000, vec![]), // of a task that is never let run
            (5, 0,     vec![]), // a part of the node's tree
        ];
        for (root, counted, want) in table {
            let mut agreement = Agreement::default();
            let at = |psi: u64, contention: u64| {
                let mut sample = sample(psi, 90_000);
                let mut kernel = sample.kernel.take().unwrap();
                kernel.memory.any = Nanos(psi * 1_000_000);
                let contention = Nanos(contention * 1_000_000);
                kernel.cpus = vec![CpuStall { contention, ..CpuStall::default() }];
                let group = sample.cgroups.remove(&CgroupId(1)).unwrap();
                sample.cgroups.insert(CgroupId(root), group);
                Sample { kernel: Some(kernel), ..sample }
            };
            assert_eq!(agreement.check(&at(10_000, 10_000)), []);
            let blind = agreement.check(&at(19_000, 10_000 + counted));
            let blind: Vec<_> = blind.iter().map(|blind| blind.target).collect();
            assert_eq!(blind, want, "root {root}, {counted} ms");
        }
    }

    #[test]
    fn check_ignores_what_is_not_measured() {
        let mut agreement = Agreement::default();
        let mut unmeasured = sample(9_000, 0);
        unmeasured.kernel = None;
        assert_eq!(agreement.check(&sample(0, 0)), []);
        assert_eq!(agreement.check(&unmeasured), []);
    }
}
