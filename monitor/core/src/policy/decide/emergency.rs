//! No time is left: what is done in the place of a step that is waited for.

use super::pending::{self, Pending, is_other};
use super::protected::is_protected;
use super::standing::ReliefStanding;
use super::steps::{Able, Kind};
use super::{Counts, Proposal, Question, WORTH, begin, due, of_those};
use crate::model::decision::{Action, Candidate, Loss, Met, Relief, StepKind};
use crate::model::threshold::Resource;
use crate::model::workload::Pod;

/// A kill of the candidate that the kubelet evicts, where there is no time to wait for its end.
pub(super) fn hurried(
    question: &Question<'_>,
    standing: &ReliefStanding,
    first: &Met,
) -> Option<Proposal> {
    let Pod { uid, name, namespace, .. } = standing.endings.hurried(question, first)?;
    let is_it = |one: &&Candidate| one.uids().any(|own| own == uid);
    let named = question.ranking?.candidates.iter().find(is_it).cloned();
    let beyond = || question.field?.first(1, |contender| contender.uid == *uid).pop();
    // Of a group it is the only one that ends anyway.
    let alone = Candidate {
        name: name.clone(),
        namespace: namespace.clone(),
        uid: uid.clone(),
        members: Vec::new(),
        ..named.or_else(beyond)?
    };
    of_those(question, standing, first, &[&alone])
}

/// The threshold for which a gentler step that is pending must give way to a kill, or one against want of
/// something else to a step where memory presses or, but for one against that, at a hard
/// threshold of pids. `None` where there is time, or where a victim is being killed already.
pub(super) fn emergency(
    question: &Question<'_>,
    standing: &ReliefStanding,
    pending: &Pending,
) -> Option<Met> {
    let first = question.first?;
    let action = &pending.action;
    let is_kill = matches!(action.step, StepKind::KillContainers | StepKind::ReleaseMemory);
    let is_urgent = match is_other(&first, action) {
        true => {
            let is_of_memory = action.reason.presses_for_memory();
            let presses =
                first.presses_for_memory() || Kind::takes_no_refusal(&first) && !is_of_memory;
            presses && due(question, standing).is_ok()
        }
        false => Kind::of(&first).is_emergency() && !is_kill,
    };
    if !is_urgent || pending.is_back(question.sample) {
        return None;
    }
    // What the kernel has just killed for gives back memory already.
    standing.kernel_kills.settle_until(question, &first).is_none().then_some(first)
}

/// Does not wait for the deadline of the step that is pending. A victim that is chosen already for want
/// of memory is the one that is killed: a second one would die for its memory. But where all that it holds
/// would be lost again in ten seconds, the first candidate that took memory is.
pub(super) fn hurry(
    question: &Question<'_>,
    standing: &mut ReliefStanding,
    pending: &Pending,
    first: Met,
    relief: &mut Relief,
) {
    let action = &pending.action;
    if !action.step.is_final() || is_other(&first, action) {
        return begin(question, standing, first, relief);
    }
    let is_of_memory = first.threshold.resource() == Resource::Memory;
    let growth = question.growth(&first).filter(|_| is_of_memory).unwrap_or_default();
    let suffices = pending::held(&action.target, question.sample)
        .is_none_or(|held| held.0 >= growth.0.saturating_mul(WORTH));
    if !suffices && let Some(new) = other_taker(question, standing, action, &first) {
        return relief.actions.push(new.begin(question, standing));
    }
    let able = Able::of(question, &action.target, &first, None);
    let next = standing.untried(&able, None);
    if let Some((step, why)) = next.filter(|_| !is_protected(&action.target, question)) {
        let target = action.target.clone();
        let new =
            Proposal { step, why, target, reason: first, want: None, counts: Counts::Already };
        relief.actions.push(new.begin(question, standing));
    }
}

/// A kill of the first candidate, if that is another one than the victim of `action`, and took memory.
fn other_taker(
    question: &Question<'_>,
    standing: &ReliefStanding,
    action: &Action,
    first: &Met,
) -> Option<Proposal> {
    let ranking = question.ranking?;
    let candidate = ranking.candidates.first()?;
    let is = |uid: &str| candidate.uids().any(|own| *own == *uid);
    let took = |loss: &Loss| loss.takers.iter().any(|taker| is(&taker.uid));
    let is_other =
        !action.target.uids().any(|uid| is(uid)) && ranking.loss.as_ref().is_none_or(took);
    is_other.then(|| of_those(question, standing, first, &[candidate]))?
}
