//! The kernel's own OOM killer: what it has just killed gives back its memory in a moment, and a
//! second victim would die for the first one's.

use serde::{Deserialize, Serialize};

use super::Question;
use crate::model::cgroup::{CgroupId, CgroupPath};
use crate::model::decision::Met;
use crate::model::kills::counted;
use crate::model::places::Places;
use crate::model::pod::Place;
use crate::model::sample::Sample;
use crate::model::threshold::Resource;
use crate::model::units::Nanos;

/// How long a process that the kernel has killed is given to give its memory back. Kills that
/// follow upon one another do not prolong it: then they do not suffice.
const SETTLE: Nanos = Nanos(2 * Nanos::SECOND.0);

/// Kills of the kernel that may still be at work.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct KernelKills(Vec<Series>);

/// Kills for one reason, none longer after the one before than a kill is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Series {
    relieves: Relieves,
    first: Nanos,
    last: Nanos,
}

/// Whom a kill gives memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Relieves {
    /// The node, or all pods: it was they who had none left.
    All,
    /// Whoever lies in this cgroup, which had reached a limit of its own.
    In(CgroupPath),
}

impl KernelKills {
    /// Takes note of what the kernel has killed since the sample before.
    pub(super) fn hear(&mut self, question: &Question<'_>) {
        let (sample, now) = (question.sample, question.sample.at.boot);
        let events = sample.kernel.iter().flat_map(|kernel| &kernel.oom_kills);
        for kill in events.filter(|kill| kill.limit_known || !is_counted(kill.victim, question)) {
            self.add(relieved(kill.victim, kill.limit, question), kill.at);
        }
        // The kernel counts before it kills, and its event may come a sample later, or not at all.
        let counted = question.before.map(|before| counted(before.into(), sample.into()));
        for kill in counted.into_iter().flatten() {
            self.add(relieved(kill.victim, kill.limit, question), now);
        }
        self.0.retain(|series| now.since(series.last) <= SETTLE);
    }

    fn add(&mut self, relieves: Relieves, at: Nanos) {
        let known = self.0.iter_mut().find(|series| series.relieves == relieves);
        match known {
            Some(series) if at.since(series.last) <= SETTLE => series.last = series.last.max(at),
            Some(series) => (series.first, series.last) = (at, at),
            None => self.0.push(Series { relieves, first: at, last: at }),
        }
    }

    /// Until when no further victim is chosen for memory; `None` if no recent kill of the kernel helps.
    pub(super) fn settle_until(&self, question: &Question<'_>, first: &Met) -> Option<Nanos> {
        if first.threshold.resource() != Resource::Memory {
            return None;
        }
        let places = question.sample.places();
        let next = question.ranking.and_then(|ranking| ranking.candidates.first());
        let helps = |series: &&Series| match &series.relieves {
            Relieves::All => true,
            Relieves::In(path) => {
                next.is_some_and(|next| next.uids().any(|uid| lies_in(path, uid, &places)))
            }
        };
        let now = question.sample.at.boot;
        let until = self.0.iter().filter(helps).map(|series| series.first.plus(SETTLE)).max()?;
        (now < until).then_some(until)
    }
}

/// Whether the victim's `memory.events` tells of the kill, so that its counters find the limit. Taken for
/// the node's, kills at a pod's own limit would hold back all relief of memory.
fn is_counted(victim: CgroupId, question: &Question<'_>) -> bool {
    let is_read = |sample: &Sample| sample.cgroups.get(&victim)?.memory.events;
    question.before.is_some_and(|before| is_read(question.sample).or(is_read(before)).is_some())
}

/// A limit that is not known may have been anybody's. Where the limit is known and the victim is not
/// (Linux 6.1 names a process, whose cgroup may be gone as well), it died below that limit.
fn relieved(victim: CgroupId, limit: Option<CgroupId>, question: &Question<'_>) -> Relieves {
    let path = |id: CgroupId| path_of(id, question);
    let Some(limit) = limit.and_then(path) else { return Relieves::All };
    match question.sample.places().place(limit) {
        Place::Pod { .. } | Place::Container { .. } | Place::Other => {
            Relieves::In(path(victim).unwrap_or(limit).clone())
        }
        Place::Node | Place::Kubepods | Place::Qos { .. } => Relieves::All,
    }
}

/// Where a cgroup lies, or lay until a moment ago.
fn path_of<'a>(id: CgroupId, question: &Question<'a>) -> Option<&'a CgroupPath> {
    let Question { sample, before, .. } = *question;
    let known = |sample: &'a Sample| Some(&sample.cgroups.get(&id)?.path);
    // A runtime removes a container's cgroup within a tenth of a second.
    known(sample).or_else(|| known(before?)).or_else(|| {
        let mut gone = sample.kernel.iter().flat_map(|kernel| &kernel.short_lived);
        gone.find(|one| one.id == id).map(|one| &one.path)
    })
}

/// True for a cgroup of the pod of that uid, of the workload of that path, or of several workloads
/// of which that is one.
fn lies_in(path: &CgroupPath, uid: &str, places: &Places<'_>) -> bool {
    match places.place(path) {
        Place::Pod { uid: own, .. } | Place::Container { pod: own, .. } => *own == *uid,
        Place::Other => is_at_or_below(&path.0, uid) || is_at_or_below(uid, &path.0),
        _ => false,
    }
}

fn is_at_or_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
