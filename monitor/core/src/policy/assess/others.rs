//! In which order thresholds are relieved, and which may be looked at where nothing can be done about the
//! first.

use crate::model::decision::{Met, Order};
use crate::model::threshold::Resource;
use crate::model::units::Percent;
use crate::policy::rank::Purpose;

/// PSI memory `some` over ten seconds below which no task counts as stalled. It includes refaults, which
/// belong to no cause.
pub(crate) const CALM: Percent = Percent(1_00);

/// Which thresholds may be met for want of memory: while memory is short and tasks stall for it, they read
/// their pages back from the disk, and a CPU reclaims. `stalled` tells how long they stalled, but for those
/// at limits of their own.
pub(super) fn waits_for_memory<F: FnOnce() -> Option<Percent>>(
    met: &[Met],
    stalled: F,
) -> impl Fn(&Met) -> bool + use<F> {
    let is_short = met.iter().any(is_of_memory) && stalled().is_none_or(|some| some >= CALM);
    move |met| is_short && !is_of_memory(met) && Purpose::of(&met.threshold).is_about_waiting
}

/// Sorts what is met as it is relieved: memory, then the rest as configured. Without pids no program can
/// be started, not even one that would free a disk: only memory that presses comes before them, except in
/// the kubelet's order.
pub(super) fn sort(met: &mut [Met], order: Order) {
    let memory_presses = met.iter().any(|met| met.is_due && met.presses_for_memory());
    met.sort_by_key(|met| match met.threshold.resource() {
        Resource::Memory => 1,
        Resource::Pids if order != Order::Kubelet && met.is_hard() => 2 * u8::from(memory_presses),
        _ => 3,
    });
}

fn is_of_memory(met: &Met) -> bool {
    met.threshold.resource() == Resource::Memory
}

/// Those of `due` that are about something else than the first: another resource, disk or scope.
pub(super) fn others<'a>(first: &Met, due: impl Iterator<Item = &'a Met>) -> Vec<Met> {
    let purpose = |met: &Met| Purpose::of(&met.threshold);
    let is_same = |one: Purpose, other: Purpose| match one.resource {
        Resource::Memory => (one.resource, one.scope) == (other.resource, other.scope),
        _ => one == other,
    };
    let mut others: Vec<Met> = Vec::new();
    // How long tasks stall for want of memory says no more than what made it the first.
    for met in due.filter(|met| !(is_of_memory(met) && purpose(met).is_about_waiting)) {
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
    use crate::model::decision::{Trigger, made};
    use crate::model::quantity::Quantity;
    use crate::model::threshold::{Amount, PressureSignal, PressureThreshold, Signal, Threshold};
    use crate::model::units::{Nanos, Percent};

    #[test]
    fn pids_come_before_memory_that_does_not_press() {
        let of_kubelet = |signal, seconds| {
            let (value, grace) = (Amount::Quantity(Quantity::bytes(1 << 20)), Nanos(seconds));
            made::met(Trigger::Eviction(Threshold { signal, value, grace, min_reclaim: None }))
        };
        let [hard, soft] = [0, 1].map(|grace| of_kubelet(Signal::MemoryAvailable, grace));
        let [pids, soft_pids] = [0, 1].map(|grace| of_kubelet(Signal::PidAvailable, grace));
        let lasts = made::pressed(PressureSignal::Exhaustion(Nanos(10)));
        let not_due = Met { is_due: false, ..lasts };
        let (stalls, disk) = (
            made::pressed(PressureSignal::Memory(Percent(60_00))),
            of_kubelet(Signal::NodefsAvailable, 0),
        );
        #[rustfmt::skip]
        let table: [(&[Met], Order, &[Met]); 7] = [
            (&[disk, soft, pids],            Order::Cause,   &[pids, soft, disk]),
            (&[disk, stalls, pids],          Order::Qos,     &[pids, stalls, disk]),
            (&[disk, pids, hard],            Order::Cause,   &[hard, pids, disk]),
            (&[pids, soft, lasts],           Order::Cause,   &[soft, lasts, pids]),
            (&[soft, not_due, pids],         Order::Cause,   &[pids, soft, not_due]),
            (&[disk, soft_pids, soft],       Order::Cause,   &[soft, disk, soft_pids]),
            (&[disk, pids, soft],            Order::Kubelet, &[soft, disk, pids]),
        ];
        for (met, order, want) in table {
            let mut got = met.to_vec();
            sort(&mut got, order);
            assert_eq!(got, want, "{order:?}");
        }
    }

    #[test]
    fn others_are_about_something_else_than_the_first() {
        let met = made::met;
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
            (&[memory, pids, cpu],                          &[pids, cpu]),
            (&[nodefs, soft, imagefs, inodes, cpu],         &[imagefs, inodes, cpu]),
            (&[nodefs, cpu, cpu_of_pods],                   &[cpu, cpu_of_pods]),
            (&[pids],                                       &[]),
        ];
        for (met, want) in table {
            assert_eq!(others(&met[0], met.iter()), want, "{met:?}");
        }
        #[rustfmt::skip]
        let table = [
            // what is met, PSI memory `some`; may CPUs and disks be waited for for want of memory
            (&[memory, cpu][..], Some(Percent(1_00)), true),
            (&[memory, cpu],     Some(Percent(99)),   false),
            (&[memory, cpu],     None,                true),
            (&[pids, cpu],       Some(Percent(50_00)), false),
        ];
        for (met, some, want) in table {
            let waits = waits_for_memory(met, || some);
            assert_eq!([waits(&met[0]), waits(&cpu)], [false, want], "{met:?} {some:?}");
        }
    }
}
