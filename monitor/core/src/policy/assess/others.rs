//! Which thresholds may be looked at where nothing can be done about the first.

use crate::model::decision::Met;
use crate::model::threshold::Resource;
use crate::policy::rank::Purpose;

/// Those of `due` that are about something else than the first: another resource, disk or scope. Where
/// memory is short, what waits may do so for want of memory.
pub(super) fn others<'a>(first: &Met, met: &[Met], due: impl Iterator<Item = &'a Met>) -> Vec<Met> {
    let purpose = |met: &Met| Purpose::of(&met.threshold);
    let is_memory_short = met.iter().any(|met| met.threshold.resource() == Resource::Memory);
    let is_same = |one: Purpose, other: Purpose| match one.resource() {
        Resource::Memory => (one.resource(), one.scope()) == (other.resource(), other.scope()),
        _ => one == other,
    };
    let mut others: Vec<Met> = Vec::new();
    for met in due.filter(|met| !(is_memory_short && purpose(met).is_about_waiting())) {
        let is_known = |one: &Met| is_same(purpose(one), purpose(met));
        if !is_known(first) && !others.iter().any(is_known) {
            others.push(*met);
        }
    }
    others
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::condition::ScopeName;
    use crate::model::decision::Trigger;
    use crate::model::quantity::Quantity;
    use crate::model::threshold::{Amount, PressureSignal, PressureThreshold, Signal, Threshold};
    use crate::model::units::{Nanos, Percent};

    #[test]
    fn others_are_about_something_else_than_the_first() {
        let met = |threshold| Met {
            threshold,
            since: Nanos(0),
            is_due: true,
            measured: 0,
            missing: None,
        };
        let of_kubelet = |signal, mib: u64| {
            let value = Amount::Quantity(Quantity::bytes(mib << 20));
            let grace = Nanos(0);
            met(Trigger::Eviction(Threshold { signal, value, grace, min_reclaim: None }))
        };
        let ours =
            |on, scope| met(Trigger::Pressure(PressureThreshold { scope, on, grace: Nanos(0) }));
        let (memory, pids) =
            (of_kubelet(Signal::MemoryAvailable, 100), of_kubelet(Signal::PidAvailable, 1));
        let pods = of_kubelet(Signal::AllocatableMemoryAvailable, 100);
        let disks = [Signal::NodefsAvailable, Signal::ImagefsAvailable, Signal::NodefsInodesFree];
        let [nodefs, imagefs, inodes] = disks.map(|signal| of_kubelet(signal, 10));
        let soft = of_kubelet(Signal::NodefsAvailable, 20);
        let exhaustion = ours(PressureSignal::Exhaustion(Nanos(10)), ScopeName::System);
        let cpu = ours(PressureSignal::Cpu(Percent(40_00)), ScopeName::System);
        let cpu_of_pods = ours(PressureSignal::Cpu(Percent(40_00)), ScopeName::Kubepods);
        #[rustfmt::skip]
        let table: [(&[Met], &[Met]); 6] = [
            (&[memory, exhaustion],                         &[]),
            (&[memory, pods, exhaustion, pids],             &[pods, pids]),
            (&[memory, pids, cpu],                          &[pids]),        // it may wait for want of memory
            (&[nodefs, soft, imagefs, inodes, cpu],         &[imagefs, inodes, cpu]),
            (&[nodefs, cpu, cpu_of_pods],                   &[cpu, cpu_of_pods]),
            (&[pids],                                       &[]),
        ];
        for (met, want) in table {
            assert_eq!(others(&met[0], met, met.iter()), want, "{met:?}");
        }
    }
}
