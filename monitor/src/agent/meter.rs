//! What the agent itself costs, and how long it was blind.

use crate::clock;
use isobar_core::model::cost::{Cost, KernelCost};
use isobar_core::model::units::{Bytes, MilliCpu, Nanos};

/// Meters one tick after the other.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// When the tick began.
    begun: Option<Nanos>,
    /// When all was read.
    read: Option<Nanos>,
    longest_gap: Nanos,
    /// When the last tick was metered, and how long it took from then on.
    metered: Nanos,
    publishing: Nanos,
    /// Boot clock and CPU time at the end of the tick before.
    before: Option<(Nanos, Nanos)>,
}

impl Meter {
    /// A tick begins.
    pub(super) fn begin(&mut self) {
        let now = clock::now().boot;
        self.longest_gap = self.longest_gap.max(now.since(self.begun.unwrap_or(now)));
        self.begun = Some(now);
    }

    /// All was read.
    pub(super) fn has_read(&mut self) {
        self.read = Some(clock::now().boot);
    }

    /// The tick is over.
    pub(super) fn ends(&mut self) {
        self.publishing = clock::now().boot.since(self.metered);
    }

    /// The cost of the tick so far. `decided` is when the engine had decided, `handover` how long
    /// the actuator took to begin with the last step.
    pub(super) fn cost(
        &mut self,
        decided: Nanos,
        handover: Option<Nanos>,
        kernel: KernelCost,
    ) -> Cost {
        let (now, used) = (clock::now().boot, clock::used_by_this_process());
        let cpu = self.before.map(|(then, had)| MilliCpu::rate(used.since(had), now.since(then)));
        self.before = Some((now, used));
        self.metered = now;
        let publishing = self.publishing;
        let begun = self.begun.unwrap_or(now);
        let (resident, major_faults) = own_memory();
        let (tick, decision) = (now.since(begun), decided.since(begun));
        let reading = self.read.unwrap_or(begun).since(begun);
        let longest_gap = self.longest_gap;
        Cost {
            cpu,
            used: Some(used),
            resident,
            tick,
            publishing,
            reading,
            decision,
            handover,
            longest_gap,
            major_faults,
            kernel,
        }
    }
}

/// Resident memory of this process, and its major faults; `None` if `/proc` does not say.
pub(super) fn own_memory() -> (Option<Bytes>, Option<u64>) {
    let Ok(me) = procfs::process::Process::myself() else { return (None, None) };
    let resident = me.statm().ok().map(|statm| statm.resident);
    let resident = resident.map(|pages| Bytes(pages.saturating_mul(procfs::page_size())));
    (resident, me.stat().ok().map(|stat| stat.majflt))
}
