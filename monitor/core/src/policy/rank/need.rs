//! What is short, and so by which figures pods are compared.

use crate::model::condition::ScopeName;
use crate::model::decision::Trigger;
use crate::model::threshold::{PressureSignal, Signal};

/// What there is too little of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Memory: working sets, in bytes.
    Memory,
    /// Disk space: ephemeral storage, in bytes.
    Storage,
    /// Inodes.
    Inodes,
    /// Pids: processes.
    Pids,
    /// CPU time: CPUs.
    Cpu,
    /// Disk time: bytes read and written a second.
    Io,
}

/// For which signal a ranking is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Purpose {
    name: &'static str,
    need: Need,
    is_waiting: bool,
}

impl Purpose {
    /// That of what started relief.
    #[must_use]
    pub fn of(trigger: &Trigger) -> Self {
        match trigger {
            Trigger::Eviction(threshold) => Self::of_signal(threshold.signal),
            Trigger::Pressure(threshold) => Self::of_pressure(threshold.scope, threshold.on),
        }
    }

    /// That of one of the kubelet's signals.
    #[must_use]
    pub fn of_signal(signal: Signal) -> Self {
        let need = match signal {
            Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable => Need::Memory,
            Signal::NodefsAvailable | Signal::ImagefsAvailable | Signal::ContainerfsAvailable => {
                Need::Storage
            }
            Signal::NodefsInodesFree
            | Signal::ImagefsInodesFree
            | Signal::ContainerfsInodesFree => Need::Inodes,
            Signal::PidAvailable => Need::Pids,
        };
        Self { name: signal.name(), need, is_waiting: false }
    }

    fn of_pressure(scope: ScopeName, on: PressureSignal) -> Self {
        let (need, is_waiting) = match on {
            PressureSignal::Cpu(_) => (Need::Cpu, true),
            PressureSignal::Memory(_) | PressureSignal::Refaults(_) => (Need::Memory, true),
            PressureSignal::Disk(_) => (Need::Io, true),
            // Memory runs out, although nobody may wait for it yet.
            PressureSignal::Exhaustion(_) => (Need::Memory, false),
        };
        Self { name: on.name(scope), need, is_waiting }
    }

    /// Every purpose there is: the kubelet's signals, then ours.
    pub fn all() -> impl Iterator<Item = Self> {
        let pressures = |scope| PressureSignal::ALL.map(|on| Self::of_pressure(scope, on));
        let ours = [ScopeName::System, ScopeName::Kubepods].into_iter().flat_map(pressures);
        Signal::ALL.into_iter().map(Self::of_signal).chain(ours)
    }

    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|purpose| purpose.name == name)
    }

    /// The signal's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.name
    }

    /// What is short.
    #[must_use]
    pub fn need(self) -> Need {
        self.need
    }

    /// True if it is about work that waits, not about an amount that is used up. Only then does
    /// it help nobody to evict a pod for which nobody but itself waits: a pod that uses up
    /// memory, disk or pids gives them back, whoever has waited so far.
    #[must_use]
    pub fn is_about_waiting(self) -> bool {
        self.is_waiting
    }
}
