//! Page cache that is taken back before any work is ended for want of memory.

use std::collections::BTreeSet;

use super::standing::ReliefStanding;
use super::steps::{Able, is_offered, reclaimable};
use super::target::{target_of, uid};
use super::{Proposal, Question, wanted};
use crate::model::cgroup::{Cgroup, CgroupId};
use crate::model::decision::{Candidate, Met, StepKind};
use crate::model::pod::Place;
use crate::policy::assess::{CALM, THRASH};
use crate::policy::rank::{Field, REAL_PART};

/// Where what is missing is clean cache that the kubelet's formula counts as used, and no task
/// stalls or next to nothing of it is read back: the largest cache gives it back, a pod's or, for the
/// node, a service's.
pub(super) fn reclaim_first(
    question: &Question<'_>,
    standing: &ReliefStanding,
    field: &Field<'_>,
    first: &Met,
) -> Option<Proposal> {
    let want = wanted(first)?;
    let Question { sample, snapshot, .. } = *question;
    let stalls = field.stalls()?;
    let refaults = question.outlook_where(first).and_then(|outlook| outlook.refaults);
    let is_in_use = stalls.some >= CALM && refaults.is_none_or(|refaults| refaults >= THRASH);
    if !is_offered(StepKind::Reclaim, question.relief, sample) || is_in_use {
        return None;
    }
    let of_pod = |group: &Cgroup| reclaimable(group, &first.threshold);
    let candidates = field.first(usize::MAX, |_| true);
    let candidates: BTreeSet<&str> =
        candidates.iter().flat_map(Candidate::uids).map(String::as_str).collect();
    let open = snapshot.scopes.iter().filter(|(id, _)| !stalls.limited.contains(id));
    let parties = open.filter_map(|(id, scope)| {
        let (uid, group) = (uid(scope)?, scope.files.as_deref()?);
        let active = match scope.place {
            Place::Pod { .. } => candidates.contains(uid).then(|| of_pod(group)),
            _ => field.cache_outside(*id),
        };
        Some((active?.0, *id, uid, group))
    });
    let parties: Vec<(u64, CgroupId, &str, &Cgroup)> = parties.collect();
    let sum = parties.iter().map(|(active, ..)| *active).fold(0, u64::saturating_add);
    let untried = parties.iter().filter(|(active, _, uid, _)| {
        *active >= want.0 / REAL_PART && !standing.was_tried(first, uid, StepKind::Reclaim)
    });
    let (.., uid, _) = untried.max_by_key(|(active, id, ..)| (*active, *id))?;
    let pod = sample.pod(uid);
    let last = uid.rsplit('/').next().unwrap_or_default();
    let candidate = Candidate {
        name: pod.map_or(last, |pod| &pod.name).into(),
        namespace: pod.map(|pod| pod.namespace.clone()).unwrap_or_default(),
        uid: (*uid).into(),
        ..Candidate::default()
    };
    (sum >= want.0).then(|| {
        let target = target_of(&candidate, question);
        let amount = Able::of(question, &target, first, Some(want)).amount(StepKind::Reclaim);
        Proposal { want: amount, ..Proposal::gentle(StepKind::Reclaim, target, first) }
    })
}
