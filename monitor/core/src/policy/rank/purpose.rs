//! The resource that is short, and so the figures by which candidates are compared.

use crate::model::condition::ScopeName;
use crate::model::decision::{Decision, Trigger};
use crate::model::threshold::{PressureSignal, Resource, Signal};

/// The signal that a ranking is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Purpose {
    pub name: &'static str,
    /// The resource that is short.
    pub resource: Resource,
    /// True for signals of waiting work, false for amounts that are used up. Only for waiting does
    /// it not help to evict a pod that harms only itself: a pod that uses up memory, disk or pids
    /// frees them for all.
    pub is_about_waiting: bool,
    /// Where it is short.
    pub scope: ScopeName,
    /// The kubelet's signal that says so; `None` if it is one of isobar's.
    pub signal: Option<Signal>,
    /// True if what is short lies below the limit of all pods: nothing outside can give it back.
    pub is_pods_limit: bool,
}

impl Purpose {
    /// For the threshold that started relief.
    pub fn of(trigger: &Trigger) -> Self {
        match trigger {
            Trigger::Eviction(threshold) => Self::of_signal(threshold.signal),
            Trigger::Pressure(threshold) => Self::of_pressure(threshold.scope, threshold.on),
        }
    }

    /// For `memory.available`, where nothing else was asked for.
    pub fn usual() -> Self {
        Self::of_signal(Signal::MemoryAvailable)
    }

    /// For what a decision relieves first; the usual one where that is nothing.
    pub fn of_decision(decision: &Decision) -> Self {
        let first = decision.assessment.first.as_ref();
        first.map_or_else(Self::usual, |first| Self::of(&first.threshold))
    }

    /// For one of the kubelet's signals.
    pub fn of_signal(signal: Signal) -> Self {
        let is_pods_limit = signal == Signal::AllocatableMemoryAvailable;
        let scope = if is_pods_limit { ScopeName::Kubepods } else { ScopeName::System };
        let (name, resource) = (signal.name(), signal.resource());
        Self { name, resource, is_about_waiting: false, scope, signal: Some(signal), is_pods_limit }
    }

    fn of_pressure(scope: ScopeName, on: PressureSignal) -> Self {
        // Memory can run out although nobody waits for it yet.
        let is_about_waiting = !matches!(on, PressureSignal::Exhaustion(_));
        let is_pods_limit = !is_about_waiting && scope == ScopeName::Kubepods;
        let (name, resource) = (on.name(scope), on.resource());
        Self { name, resource, is_about_waiting, scope, signal: None, is_pods_limit }
    }

    /// The kubelet's signals, then isobar's.
    pub fn all() -> impl Iterator<Item = Self> {
        let pressures = |scope| PressureSignal::ALL.map(|on| Self::of_pressure(scope, on));
        let pressure = [ScopeName::System, ScopeName::Kubepods].into_iter().flat_map(pressures);
        Signal::ALL.into_iter().map(Self::of_signal).chain(pressure)
    }

    /// The purpose for the signal `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|purpose| purpose.name == name)
    }
}
