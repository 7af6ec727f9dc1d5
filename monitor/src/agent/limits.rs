//! Keeps limits of the node written, on a thread of its own: to lower a limit may take the kernel
//! seconds, and neither the loop nor the actuator may wait for that.
//! In: the settings. Out: what the node has for pods, how each limit stands, and what is not written
//! and why.

mod intruders;
mod survey;

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use crate::act::limits as act;
use crate::clock;
use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::limit::{LimitResult, LimitState, NodeResources};
use isobar_core::model::settings::{Node, Settings, WrittenLimit};
use isobar_core::model::units::Nanos;
use isobar_kubelet::cpus::Pool;
use isobar_kubelet::writes::{Refusal, Writes};

pub use intruders::{Intruder, intruders};
pub use survey::{CPU_STATE, Places, Survey, look, spelled};

/// From one look to the next.
const EVERY: Nanos = Nanos(10 * Nanos::SECOND.0);
/// The same where no limit is kept and no CPU is given away: what a node has changes rarely.
const SELDOM: Nanos = Nanos(60 * Nanos::SECOND.0);
/// How often the processes are counted that still may run on reserved CPUs: every process of a pod
/// is read for it.
const COUNTED: Nanos = Nanos(60 * Nanos::SECOND.0);

/// On what terms limits are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Terms {
    /// Limits are written. Else the agent only tells what it would write.
    pub(super) is_enforced: bool,
    /// The kubelet has told what it reserves. Without that the settings may have the defaults, by which
    /// nothing is reserved.
    pub(super) is_told: bool,
}

/// What is asked for.
struct Order {
    settings: Settings,
    terms: Terms,
}

/// What was found and done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Report {
    states: Vec<LimitState>,
    refused: Vec<Refusal>,
    pool: Option<Pool>,
    resources: Option<NodeResources>,
    /// Why nothing could be looked at.
    trouble: Option<String>,
}

/// The loop's end of it.
pub(super) struct Keeping {
    orders: SyncSender<Order>,
    reports: Receiver<Report>,
    last: Report,
    /// When the last order was given, and by which generation of the settings.
    asked: Option<(Nanos, u64)>,
}

impl Keeping {
    /// Gives it a thread.
    ///
    /// # Errors
    /// If none can be made.
    pub(super) fn begin(places: Places, acts: act::Places) -> io::Result<Self> {
        let (orders, inbox) = sync_channel::<Order>(1);
        let (outbox, reports) = sync_channel(1);
        let mut keeper = Keeper {
            places,
            limits: act::Limits::new(acts),
            counted: None,
            intruders: String::new(),
        };
        thread::Builder::new().name("limits".into()).spawn(move || {
            while let Ok(order) = inbox.recv() {
                if outbox.send(keeper.keep(&order)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { orders, reports, last: Report::default(), asked: None })
    }

    /// Has it look if it is time to, or if the settings have changed; never waits. How the limits
    /// were found to stand, and what could not be done.
    pub(super) fn look(
        &mut self,
        now: Nanos,
        settings: &Settings,
        terms: Terms,
    ) -> (&[LimitState], Vec<Capability>) {
        if let Ok(report) = self.reports.try_recv() {
            tell(&self.last, &report);
            self.last = report;
        }
        let node = &settings.node;
        let is_seldom = node.write_limits.is_empty() && !node.static_cpus && !node.is_told();
        // What was found for other settings is no answer.
        if is_seldom || self.asked.is_some_and(|(_, of)| of != settings.generation) {
            let Report { resources, trouble, .. } = std::mem::take(&mut self.last);
            self.last = Report { resources, trouble, ..Report::default() };
        }
        let every = if is_seldom { SELDOM } else { EVERY };
        let is_due = self.asked.is_none_or(|(then, generation)| {
            generation != settings.generation || now.since(then) >= every
        });
        // One that is still busy is asked again at the next tick.
        if is_due && self.orders.try_send(Order { settings: settings.clone(), terms }).is_ok() {
            self.asked = Some((now, settings.generation));
        }
        (&self.last.states, self.last.capabilities())
    }

    /// What the CPU manager leaves to whom, and what the node has for pods, by the last look.
    pub(super) fn node(&self) -> (Option<&Pool>, Option<&NodeResources>) {
        (self.last.pool.as_ref(), self.last.resources.as_ref())
    }
}

impl Report {
    fn capabilities(&self) -> Vec<Capability> {
        let absent = |name: &str, why: &str| Capability::new(name, CapabilityState::Absent, why);
        let refused = self.refused.iter().map(|refusal| {
            let name = format!("limits of {}", refusal.level);
            absent(&name, &refusal.why).remedied(&refusal.remedy)
        });
        let trouble = self.trouble.iter().map(|trouble| absent("limits", trouble));
        refused.chain(trouble).collect()
    }
}

/// Why this is not written without what the kubelet reserves: the defaults would take back what a kubelet
/// has written that reserves more. `None` if isobar's own file is enough.
pub fn untold_by_kubelet(node: &Node, what: WrittenLimit) -> Option<Refusal> {
    let has_both = !node.kube_reserved.is_empty() && !node.system_reserved.is_empty();
    let (level, keys, is_own) = match what {
        WrittenLimit::Allocatable => ("allocatable", "kubeReserved and systemReserved", has_both),
        WrittenLimit::ReservedCpus => {
            ("reserved CPUs", "reservedSystemCPUs", has_both || node.reserved_cpus.is_some())
        }
    };
    let remedy = format!(
        "name the kubelet's file by kubeletConfig, let it answer to /configz, or set {keys} in \
         isobar's own configuration"
    );
    let why = "what the kubelet reserves is not known".into();
    (!is_own).then_some(Refusal { level, why, remedy })
}

/// The thread's end of it.
struct Keeper {
    places: Places,
    limits: act::Limits,
    /// When processes on reserved CPUs were last counted.
    counted: Option<Nanos>,
    /// What that came to, in words.
    intruders: String,
}

impl Keeper {
    fn keep(&mut self, order: &Order) -> Report {
        let survey = match Survey::of(&self.places, &order.settings) {
            Ok(survey) => survey,
            Err(why) => return Report { trouble: Some(why.to_string()), ..Report::default() },
        };
        let (pool, resources) = (survey.pool().cloned(), Some(survey.resources()));
        let node = &order.settings.node;
        let Terms { is_enforced, is_told } = order.terms;
        let others = [WrittenLimit::Allocatable].into_iter();
        let others =
            others.filter(|one| node.is_told() && !node.write_limits.contains(one)).collect();
        let refusal = |one: &WrittenLimit| {
            Some(*one).filter(|_| !is_told).and_then(|one| untold_by_kubelet(node, one))
        };
        let wanted = node.write_limits.iter();
        let what = wanted.clone().filter(|one| refusal(one).is_none()).copied().collect();
        // What the kubelet would refuse to write is no limit to compare.
        let mut states = self.limits.compare(&survey.writes(&others).writes);
        let Writes { writes, mut refused, withdrawn } = survey.writes(&what);
        refused.extend(wanted.filter_map(refusal));
        if !what.is_empty() {
            let now = clock::now().boot;
            for what in withdrawn.into_iter().filter(|_| is_enforced) {
                states.extend(self.limits.roll_back(what));
            }
            states.extend(self.limits.hold(&writes, is_enforced, now));
            self.count(&survey, &mut states, now);
        }
        Report { states, refused, pool, resources, trouble: None }
    }

    /// Says of the reserved CPUs who may run there all the same: after they were written, and
    /// every now and then.
    fn count(&mut self, survey: &Survey, states: &mut [LimitState], now: Nanos) {
        let of_cpus = |state: &&mut LimitState| state.write.what == WrittenLimit::ReservedCpus;
        let is_new = |state: &LimitState| {
            matches!(state.result, LimitResult::Written | LimitResult::Drifted)
        };
        let is_any_new = states.iter().any(is_new);
        let Some(state) = states.iter_mut().find(of_cpus) else { return };
        if is_any_new || self.counted.is_none_or(|then| now.since(then) >= COUNTED) {
            self.counted = Some(now);
            self.intruders = match survey.intruders() {
                Ok((found, _)) if found.is_empty() => String::new(),
                Ok((found, _)) => intruders::words(&found),
                Err(why) => why.to_string(),
            };
        }
        let parts = [state.detail.as_str(), self.intruders.as_str()];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        state.detail = parts.join("; ");
    }
}

/// Tells in the log what has happened, and what is otherwise than at the last look.
fn tell(before: &Report, now: &Report) {
    for refusal in now.refused.iter().filter(|refusal| !before.refused.contains(refusal)) {
        let Refusal { level, why, remedy } = refusal;
        tracing::warn!("limits of {level} are not written: {why}; {remedy}");
    }
    for trouble in now.trouble.iter().filter(|_| now.trouble != before.trouble) {
        tracing::warn!("limits are not written: {trouble}");
    }
    for state in &now.states {
        let LimitState { write, before: was, detail, result, .. } = state;
        let (cgroup, file, value) = (&write.cgroup, &write.file, &write.value);
        // The numbers in the words of a failure change all the time.
        let was_so = |old: &&LimitState| old.write == *write && old.result == *result;
        let is_news = !before.states.iter().any(|old| was_so(&old));
        match result {
            LimitResult::Kept | LimitResult::Observed if is_news && !detail.is_empty() => {
                tracing::info!("{file} of {cgroup}: {detail}");
            }
            LimitResult::Kept | LimitResult::Observed => {}
            LimitResult::Written => {
                let was = was.as_deref().unwrap_or_default();
                tracing::info!(
                    "{file} of {cgroup} is {value} now, at first it was {was:?}; {detail}"
                );
            }
            LimitResult::Drifted => tracing::warn!("{file} of {cgroup}: {detail}"),
            LimitResult::Failed if is_news => {
                tracing::warn!("{file} of {cgroup} is not {value}: {detail}");
            }
            LimitResult::Failed => {}
        }
    }
}

#[cfg(test)]
mod tests;
