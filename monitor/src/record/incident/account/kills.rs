//! Judges each OOM kill of a span: whose limit was reached, and why isobar did not prevent it.

use std::sync::Arc;

use super::deeds::Stance;
use super::{Account, KEPT};
use crate::record::incident::Score;
use isobar_core::model::cgroup::{Cgroup, CgroupId, Limit};
use isobar_core::model::pod::Place;
use isobar_core::model::request::request;
use isobar_core::model::sample::{Moment, PAUSE, Sample};
use isobar_core::model::snapshot::{Snapshot, working_set};
use isobar_core::model::stall::OomKill;
use isobar_core::model::units::Bytes;
use isobar_core::policy::explain::relief;
use isobar_core::view::foresight::OomLimit;

/// The memory that the pod of a cgroup used, and requests.
fn of_pod(victim: CgroupId, before: &Sample) -> Option<(Bytes, Bytes)> {
    let places = before.places();
    let (Place::Pod { uid, .. } | Place::Container { pod: uid, .. }) =
        places.place(&before.cgroups.get(&victim)?.path)
    else {
        return None;
    };
    let is_it = |cgroup: &&Arc<Cgroup>| match places.place(&cgroup.path) {
        Place::Pod { uid: other, .. } => other == uid,
        _ => false,
    };
    let used = working_set(before.cgroups.values().find(is_it)?)?;
    Some((used, Bytes(request(before.pod(&uid)?, "memory").to_u64())))
}

impl Account {
    /// Judged on the ticks before: what this one decides came after the kill. A kill before the incident
    /// belongs to an earlier one.
    pub(super) fn killed(
        &mut self,
        kill: &OomKill,
        at: Moment,
        sample: &Sample,
        snapshot: &Snapshot,
    ) {
        if !self.has_begun {
            return;
        }
        let cgroup = |id: CgroupId| sample.cgroups.get(&id);
        let path = |id: CgroupId| cgroup(id).map(|one| &one.path).or_else(|| self.known.path(id));
        let named = |id: CgroupId| self.named(id, path(id));
        let unknown = || "a cgroup that is gone".to_owned();
        let reached = OomLimit::of(kill, snapshot);
        let foreseen = self.foresight.of(kill, reached);
        let own = (reached == OomLimit::Own).then_some(kill.limit).flatten();
        let limit = own.map(|id| {
            let name = named(id).unwrap_or_else(unknown);
            match cgroup(id).map_or_else(|| self.known.max(id), |one| one.memory.max) {
                Some(Limit::At(bytes)) => format!("{name} ({})", Bytes(bytes)),
                Some(Limit::Max) | None => name,
            }
        });
        let asked = Some(kill.trigger).filter(|id| own.is_some() && *id != kill.victim);
        let victim = named(kill.victim).unwrap_or_else(unknown);
        let marks = [sample, &self.before];
        let was_marked = path(kill.victim)
            .is_some_and(|path| marks.iter().any(|sample| sample.was_marked(path, kill.at)));
        // Two containers of a pod have its name.
        let asked = asked.and_then(named).filter(|asked| *asked != victim);
        let why = match (&limit, &self.stance) {
            (Some(limit), ..) => {
                let by = asked.as_ref().map(|who| format!(" by {who}")).unwrap_or_default();
                format!(
                    "the limit of {limit} was reached{by}, not the node's memory: ending work \
                     outside it would not have helped"
                )
            }
            (None, ..) if was_marked => {
                "it had raised the OOM score of this one, so that the kernel would take it".into()
            }
            (_, Some(Stance::Acted { text, is_enforced: true })) => {
                format!("it acted, and that was not enough: {text}")
            }
            (_, Some(Stance::Acted { text, is_enforced: false })) => {
                format!("it only observes: it {text}")
            }
            (_, Some(Stance::Held(hold, said))) => relief::no_action(hold, said.boot),
            (_, None) if foreseen.is_some() => "no threshold was due yet".into(),
            (_, None) => "it saw no shortage of memory before the kill".into(),
        };
        let at = Moment { boot: kill.at, wall: at.wall.since(at.boot.since(kill.at)) };
        let (pid, comm, more) = (kill.victim_pid, kill.victim_comm.clone(), kill.more);
        let is_recent = kill.at <= self.before.at.boot.plus(PAUSE);
        let before = Some(&self.before).filter(|_| is_recent);
        let (used, request) = before.and_then(|one| of_pod(kill.victim, one)).unzip();
        self.told(Score {
            at,
            victim,
            pid,
            comm,
            more,
            limit,
            asked,
            used,
            request,
            foreseen,
            why,
        });
    }

    /// One for want of the node's memory has a place before those at limits of their own.
    fn told(&mut self, kill: Score) {
        if self.kills.len() < KEPT {
            return self.kills.push(kill);
        }
        let own = self.kills.iter().rposition(|one| one.limit.is_some());
        let place = own.filter(|_| kill.limit.is_none());
        let left_out = match place {
            Some(place) => {
                let own = self.kills.remove(place);
                self.kills.push(kill);
                own
            }
            None => kill,
        };
        let more = self.more_kills.get_or_insert_default();
        match left_out.limit {
            Some(_) => more.own += left_out.processes(),
            None => {
                more.others += left_out.processes();
                more.foreseen += left_out.foreseen.map_or(0, |_| left_out.processes());
            }
        }
    }
}
