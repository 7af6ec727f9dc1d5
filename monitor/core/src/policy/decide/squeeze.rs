//! Squeezes and marks in force, and when each is taken back: none lasts longer than it serves.
//! Which are in force stands in the sample, as the actuator's ledger has it.

use super::Question;
use super::pending::is_gone;
use super::protected::is_protected;
use super::standing::ReliefStanding;
use crate::model::decision::{Action, InForce, Phase, Release, ReleaseReason, StepKind, Trigger};
use crate::model::threshold::PressureSignal;
use crate::model::units::{Bytes, Nanos, scale};
use crate::policy::assess::growth;
use crate::policy::rank::Purpose;
use crate::policy::scope;

/// No squeeze lasts longer. After ten minutes it has not helped against a shortage that lasts, and
/// a pod that is slowed for ever is as good as ended without anybody being told: its controller
/// starts no other one.
const LONGEST: Nanos = Nanos(600 * Nanos::SECOND.0);

/// An older mark may be of another shortage.
const OF_BEFORE: Nanos = Nanos(60 * Nanos::SECOND.0);

/// How fast memory is lost where a squeeze is against exhaustion or a hard threshold, or a mark against
/// exhaustion. Such a squeeze is not waited for: it gives nothing back.
pub(super) fn growth_against(question: &Question<'_>, action: &Action) -> Option<Bytes> {
    match action.step == StepKind::Squeeze && action.reason.is_hard() {
        true => question.growth(&action.reason),
        false => question.outlook(&action.reason)?.growth,
    }
}

/// Whether memory would last if it were lost as fast again as when this squeeze or mark began; where a
/// kubelet's hard threshold demanded a squeeze, for as long as that may be in force. A mark is
/// not needed, either, with more than a tenth of it left, when a forecast would not be due, or after ten
/// minutes without one.
fn would_last(
    question: &Question<'_>,
    standing: &ReliefStanding,
    action: &Action,
    calm: Nanos,
) -> bool {
    let is_mark = action.step == StepKind::Mark;
    let (scope, within) = match action.reason.threshold {
        Trigger::Pressure(on) => match on.on {
            PressureSignal::Exhaustion(within) => (on.scope, within),
            _ => return true,
        },
        // Others pay for what it took, and would again.
        Trigger::Eviction(_) if action.reason.is_hard() && !is_mark => {
            (Purpose::of(&action.reason.threshold).scope, LONGEST)
        }
        Trigger::Eviction(_) => return true,
    };
    let left = question.outlook_where(&action.reason).and_then(|outlook| outlook.left);
    let growth = standing.growth_before(action.id);
    let known = left.zip(growth);
    let pods = scope::kubepods(question.snapshot);
    let is_low = || growth::low(question.outlooks, question.sample, pods).contains(&scope);
    let lasts =
        |(left, growth): (Bytes, Bytes)| left.0 > scale(growth.0, within.0, Nanos::SECOND.0);
    // Of a mark of an earlier agent it is not known how fast that was.
    known.map_or(!is_mark, lasts) || is_mark && (calm >= LONGEST || !is_low())
}

/// Whether others than a mark's target take memory of its scope now, and it takes none.
fn is_of_another(question: &Question<'_>, mark: &Action) -> bool {
    let Some(relieved) = question.first.or(question.foretold) else { return false };
    let [now, then] = [&relieved.threshold, &mark.reason.threshold].map(Purpose::of);
    let loss = question.ranking.and_then(|ranking| ranking.loss.as_ref());
    let (Some(loss), Some(field)) = (loss, question.field) else { return false };
    now.scope == then.scope
        && !now.is_about_waiting
        && !loss.takers.is_empty()
        && mark.target.cgroup.is_some_and(|id| !field.took(id))
}

impl ReliefStanding {
    /// Takes note of thresholds that marks are about and that this tick could not measure.
    pub(super) fn note_unmeasured(&mut self, question: &Question<'_>) {
        let names = question.sample.marks().map(|entry| entry.action.reason.threshold.name());
        let unmeasured = names.filter(|name| !question.is_measured(name));
        let since = |name| {
            let before = self.unmeasured.get(&name).copied();
            (name, before.unwrap_or(question.sample.at.boot))
        };
        self.unmeasured = unmeasured.map(since).collect();
    }

    fn unmeasured_for(&self, mark: &Action, now: Nanos) -> Nanos {
        let since = self.unmeasured.get(&mark.reason.threshold.name());
        since.map_or(Nanos(0), |since| now.since(*since))
    }
}

/// The squeezes and marks whose time is over. The actuator drops by itself those whose cgroups are gone.
pub(super) fn releases(question: &Question<'_>, standing: &ReliefStanding) -> Vec<Release> {
    let (sample, now) = (question.sample, question.sample.at.boot);
    let due = |InForce { action, since, phase, .. }: &InForce| {
        if is_gone(&action.target, sample) {
            return None;
        }
        let calm = standing.calm_for(&action.reason.threshold.name(), now);
        let why = match () {
            () if is_protected(&action.target, question) => ReleaseReason::Protected,
            () if calm.is_some_and(|calm| {
                calm >= question.relief.cool_down && would_last(question, standing, action, calm)
            }) =>
            {
                ReleaseReason::Over
            }
            () if standing.is_given_up(action.id) => ReleaseReason::NoEffect,
            // A mark slows nothing down.
            () if *phase == Phase::Squeezed && now.since(*since) >= LONGEST => {
                ReleaseReason::Expired
            }
            // It may never be measured again: the limit that it is about was taken away.
            () if *phase == Phase::Marked && standing.unmeasured_for(action, now) >= LONGEST => {
                ReleaseReason::Expired
            }
            // Beside those who take memory now the kernel would take it in their place.
            () if *phase == Phase::Marked
                && now.since(*since) >= OF_BEFORE
                && is_of_another(question, action) =>
            {
                ReleaseReason::Expired
            }
            () => return None,
        };
        let Action { id, step, is_enforced, .. } = *action;
        Some(Release { action: id, step, target: action.target.clone(), why, is_enforced })
    };
    sample.squeezes().chain(sample.marks()).filter_map(due).collect()
}
