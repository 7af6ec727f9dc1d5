//! The steps of relief for each kind of shortage, gentlest first, and which of them a target admits.

use serde::{Deserialize, Serialize};

use super::Question;
use super::pending::is_empty;
use crate::model::cgroup::Cgroup;
use crate::model::decision::StepKind::{
    self, Evict, KillContainers, Mark, Reclaim, ReleaseMemory, Squeeze, StopContainers,
};
use crate::model::decision::{InForce, Met, Order, StepReason, Target, Trigger};
use crate::model::sample::Sample;
use crate::model::settings::Relief;
use crate::model::threshold::{PressureSignal, Resource, Signal};
use crate::model::units::{Bytes, Nanos};
use crate::policy::assess::pressure::is_emergency;
use crate::policy::rank::harm::HarmStanding;
use crate::policy::rank::{Purpose, REAL_PART};

/// The kernel gives no cgroup less CPU weight.
const LEAST_WEIGHT: u64 = 1;

/// What kind of thing is short, as far as the way to relieve it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Kind {
    /// Memory, with time to try.
    Memory,
    /// Memory, and the limit is about to be reached or has been.
    MemoryNow,
    /// Memory will be gone before a gentler step could take effect.
    MemoryEmergency,
    /// Processors: everything about them can be taken back without ending anything.
    Cpu,
    /// Disk space or inodes: only ending a pod gives them back.
    Storage,
    /// The disk's time.
    DiskTime,
    Pids,
    /// Pids, and all but none is left of what a hard threshold asks for.
    PidsEmergency,
}

impl Kind {
    pub(super) fn of(met: &Met) -> Self {
        match &met.threshold {
            Trigger::Eviction(threshold) => match threshold.signal {
                Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable => {
                    if threshold.is_hard() { Self::MemoryNow } else { Self::Memory }
                }
                // To evict or to stop a pod takes threads that cannot be started.
                Signal::PidAvailable if threshold.is_hard() && is_all_but_gone(met) => {
                    Self::PidsEmergency
                }
                Signal::PidAvailable => Self::Pids,
                _ => Self::Storage,
            },
            Trigger::Pressure(threshold) => match threshold.on {
                PressureSignal::Cpu(_) => Self::Cpu,
                PressureSignal::Disk(_) => Self::DiskTime,
                PressureSignal::Exhaustion(_) if is_emergency(&met.threshold, met.measured) => {
                    Self::MemoryEmergency
                }
                PressureSignal::Exhaustion(_) => Self::MemoryNow,
                PressureSignal::Memory(_) | PressureSignal::Refaults(_) => Self::Memory,
            },
        }
    }

    /// There is no time to be told no: without pids at a hard threshold no program can be started, not
    /// even one that asks for anything.
    pub(super) fn takes_no_refusal(met: &Met) -> bool {
        let is_pids = met.threshold.resource() == Resource::Pids;
        met.presses_for_memory() || is_pids && met.is_hard()
    }

    /// There is no time for a step that is gentler than a kill.
    pub(super) fn is_emergency(self) -> bool {
        matches!(self, Self::MemoryEmergency | Self::PidsEmergency)
    }

    /// The ladder.
    ///
    /// Nothing is evicted for want of CPU: a weight gives it back at once and ends nothing.
    pub(super) fn steps(self) -> &'static [StepKind] {
        match self {
            Self::Memory => {
                &[Reclaim, Squeeze, Evict, StopContainers, KillContainers, ReleaseMemory]
            }
            Self::MemoryNow => &[Reclaim, Evict, StopContainers, KillContainers, ReleaseMemory],
            Self::MemoryEmergency => &[KillContainers, ReleaseMemory],
            Self::Cpu => &[Squeeze],
            Self::Storage => &[Evict, StopContainers],
            Self::DiskTime => &[Squeeze, Evict, StopContainers],
            Self::Pids => &[Evict, StopContainers, KillContainers],
            Self::PidsEmergency => &[KillContainers],
        }
    }
}

/// What decides which steps are worth trying on a target.
pub(super) struct Able<'a> {
    pub(super) relief: &'a Relief,
    pub(super) sample: &'a Sample,
    pub(super) target: &'a Target,
    pub(super) reason: &'a Met,
    pub(super) want: Option<Bytes>,
    /// What each party makes others wait.
    pub(super) harm: &'a HarmStanding,
    /// How long others wait at least because of one that is squeezed; 0 in the order `kubelet`.
    pub(super) harm_budget: Nanos,
    /// The budget has room for a step that ends work.
    pub(super) may_end: bool,
    /// In the order `cause` cache is taken back where no task stalls, before a candidate is chosen.
    pub(super) is_by_cause: bool,
}

impl<'a> Able<'a> {
    /// Leaves the eviction budget out of account.
    pub(super) fn of(
        question: &Question<'a>,
        target: &'a Target,
        reason: &'a Met,
        want: Option<Bytes>,
    ) -> Self {
        let Question { relief, sample, harm, ranking, .. } = *question;
        let knows_harm = ranking.is_none_or(|ranking| ranking.order != Order::Kubelet);
        let harm_budget = if knows_harm { relief.harm_budget } else { Nanos(0) };
        let is_by_cause = ranking.is_some_and(|ranking| ranking.order == Order::Cause);
        let may_end = true;
        Self { relief, sample, target, reason, want, harm, harm_budget, may_end, is_by_cause }
    }

    pub(super) fn can(&self, step: StepKind) -> bool {
        let group = self.target.cgroup.and_then(|id| self.sample.cgroups.get(&id));
        let group = group.map(|group| &**group);
        let resource = self.reason.threshold.resource();
        is_offered(step, self.relief, self.sample)
            && (self.may_end || !step.is_final())
            && match step {
                // A part of what is wanted would cost its deadline and leave the shortage.
                Reclaim => group.zip(self.want).is_some_and(|(group, want)| {
                    !self.is_by_cause && reclaimable(group, &self.reason.threshold) >= want
                }),
                // The API knows pods by name alone.
                Evict => self.is_known_by_name(),
                Mark => self.has_cgroups(group),
                Squeeze => {
                    self.has_cgroups(group)
                        && !self.is_squeezed(resource)
                        && self.is_in_reach(group)
                }
                StopContainers | KillContainers | ReleaseMemory => {
                    self.has_cgroups(group) && !is_empty(self.target, self.sample)
                }
            }
    }

    /// True if the target is squeezed already for want of `resource`. A squeeze that was only
    /// observed keeps no real one away.
    fn is_squeezed(&self, resource: Resource) -> bool {
        let is_real = self.relief.enforce.contains(&Squeeze);
        self.sample.squeezes().any(|InForce { action, .. }| {
            let mut uids = action.target.uids();
            (action.is_enforced || !is_real)
                && action.reason.threshold.resource() == resource
                && uids.any(|uid| self.target.uids().any(|other| other == uid))
        })
    }

    /// Whether a smaller weight of the target would help others to a CPU: it has not the least already, and
    /// its siblings, whose waits alone its weight decides, wait because of it for as long as the harm budget.
    fn is_in_reach(&self, own: Option<&Cgroup>) -> bool {
        let is_cpu = self.reason.threshold.resource() == Resource::Cpu;
        let has_least =
            own.is_some_and(|group| group.cpu.weight.is_some_and(|w| w <= LEAST_WEIGHT));
        let harm = self.harm.in_reach(Resource::Cpu, self.target);
        let budget = self.harm_budget;
        !is_cpu || (!has_least && harm.is_none_or(|harm| harm > Nanos(0) && harm >= budget))
    }

    /// How much a step gives back. Cache that was not lately used goes first, and the kubelet does not
    /// count it; an eighth more, or the next page would make the threshold met again.
    pub(super) fn amount(&self, step: StepKind) -> Option<Bytes> {
        let group = self.target.cgroup.and_then(|id| self.sample.cgroups.get(&id));
        let stat = group.and_then(|group| group.memory.stat).unwrap_or_default();
        let want = self.want.filter(|_| step == Reclaim).map(|want| {
            let margin = want.0 / REAL_PART;
            Bytes(want.0.saturating_add(margin).saturating_add(stat.inactive_file.0))
        });
        want.or(self.want)
    }

    fn has_cgroups(&self, own: Option<&Cgroup>) -> bool {
        own.is_some() || !self.target.members.is_empty()
    }

    fn is_known_by_name(&self) -> bool {
        let pods = self.sample.pods.as_ref();
        pods.is_some_and(|pods| self.target.uids().all(|uid| pods.contains_key(uid)))
    }

    /// The gentlest step below `after` that `is_new` and can be tried, and why it is that one.
    pub(super) fn next(
        &self,
        after: Option<StepKind>,
        is_new: impl Fn(&StepKind) -> bool,
    ) -> Option<(StepKind, StepReason)> {
        let kind = Kind::of(self.reason);
        let steps = match kind {
            // What takes longer than a kill is better than nothing.
            Kind::MemoryEmergency if !is_offered(KillContainers, self.relief, self.sample) => {
                Kind::MemoryNow.steps()
            }
            Kind::PidsEmergency if !is_offered(KillContainers, self.relief, self.sample) => {
                Kind::Pids.steps()
            }
            kind => kind.steps(),
        };
        let from = match after {
            Some(after) => steps.iter().position(|step| *step > after)?,
            None => 0,
        };
        // The living give nothing back: only who was killed before can be hurried.
        let is_dead = after.is_some_and(StepKind::is_final);
        let fits = |step: &StepKind| self.can(*step) && (*step != ReleaseMemory || is_dead);
        let step = *steps[from..].iter().find(|step| fits(step) && is_new(step))?;
        let why = match kind {
            kind if kind.is_emergency() => StepReason::Emergency,
            _ if steps.len() == 1 => StepReason::OnlyOne,
            _ => StepReason::Gentlest,
        };
        Some((step, why))
    }
}

/// Whether less is left than a real part of what must be.
fn is_all_but_gone(met: &Met) -> bool {
    met.missing
        .is_some_and(|missing| met.measured < missing.saturating_add(met.measured) / REAL_PART)
}

/// Whether the configuration allows a step and the node can take it: else it would cost its deadline
/// and do nothing. Where a step that ends work is enforced, one that is only observed, or would only
/// hurry the dead, is none: after it, nothing more would be done about the shortage.
pub(super) fn is_offered(step: StepKind, relief: &Relief, sample: &Sample) -> bool {
    let can = |step: &StepKind| {
        let steps = sample.available_steps.as_ref();
        relief.steps.contains(step) && steps.is_none_or(|steps| steps.contains(step))
    };
    let ends = |step: &StepKind| step.is_final() && can(step);
    let is_idle = |step: &StepKind| {
        let is_about_ends = step.is_final() || *step == ReleaseMemory;
        is_about_ends && !relief.enforce.contains(step) && relief.enforce.iter().any(ends)
    };
    can(&step) && !is_idle(&step)
}

/// What reclaim gives back of what a threshold of the kubelet counts as used: active cache and, below the
/// limit of all pods, slab; of these what `memory.min` does not protect. The kubelet sets that with
/// MemoryQoS on pods and the same on their containers, and `memory.reclaim` spares containers up to it.
///
/// Source: `mem_cgroup_calculate_protection`, mm/memcontrol.c.
pub(super) fn reclaimable(group: &Cgroup, against: &Trigger) -> Bytes {
    let stat = group.memory.stat.unwrap_or_default();
    let counts_slab = Purpose::of(against).is_pods_limit;
    let slab = if counts_slab { stat.slab_reclaimable.0 } else { 0 };
    let protected = group.memory.min.map_or(0, |min| min.at().unwrap_or(u64::MAX));
    let bare = group.memory.current.map_or(u64::MAX, |held| held.0.saturating_sub(protected));
    let bare = bare.saturating_sub(stat.inactive_file.0);
    Bytes(stat.active_file.0.saturating_add(slab).min(bare))
}
