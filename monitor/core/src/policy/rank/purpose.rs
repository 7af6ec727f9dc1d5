//! What is short, and so by which figures pods are compared.

use crate::model::condition::ScopeName;
use crate::model::decision::Trigger;
use crate::model::threshold::{PressureSignal, Resource, Signal};

/// For which signal a ranking is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Purpose {
    name: &'static str,
    resource: Resource,
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
        Self { name: signal.name(), resource: signal.resource(), is_waiting: false }
    }

    fn of_pressure(scope: ScopeName, on: PressureSignal) -> Self {
        // Memory can run out although nobody waits for it yet.
        let is_waiting = !matches!(on, PressureSignal::Exhaustion(_));
        Self { name: on.name(scope), resource: on.resource(), is_waiting }
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
    pub fn resource(self) -> Resource {
        self.resource
    }

    /// True if it is about work that waits, not about an amount that is used up. Only then does
    /// it help nobody to evict a pod for which nobody but itself waits: a pod that uses up
    /// memory, disk or pids gives them back, whoever has waited so far.
    #[must_use]
    pub fn is_about_waiting(self) -> bool {
        self.is_waiting
    }
}
