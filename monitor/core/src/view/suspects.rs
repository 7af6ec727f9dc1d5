//! Whose processes are looked for: those of the cgroup that the headline names, of the root cgroup where
//! no other one is to be named, and of the machine where that cannot be told.

use super::aggressor;
use super::holders::{holders, is_of_no_cgroup};
use super::movers::{self, MUCH, is_partial, movers};
use super::verdict::{Mood, Resource, memory};
use super::waiting::Level;
use crate::model::cgroup::{CgroupId, CgroupPath};
use crate::model::decision::Decision;
use crate::model::snapshot::Snapshot;
use crate::model::threshold;
use crate::model::units::{Bytes, Percent};

/// Processes are looked for from this share of the time on that others waited.
pub(super) const SUSPECTED: Percent = Percent(5_00);

/// Whose processes are to be looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Suspect {
    Cgroup {
        id: CgroupId,
        /// Whose processes count: its own and, of a pod or service, those of all cgroups in it.
        paths: Vec<CgroupPath>,
    },
    /// All processes: which cgroup it is was not measured.
    Machine,
}

impl Suspect {
    /// `None` of the machine.
    pub fn cgroup(&self) -> Option<CgroupId> {
        match self {
            Self::Cgroup { id, .. } => Some(*id),
            Self::Machine => None,
        }
    }
}

/// Who uses what is short; `None` while nothing of it is.
pub fn suspect(resource: Resource, snapshot: &Snapshot, decision: &Decision) -> Option<Suspect> {
    match resource {
        Resource::Cpu => aggressor::suspect(snapshot),
        Resource::Memory => is_short_of_memory(snapshot, decision).then(|| {
            let loss = decision.loss().filter(|loss| loss.lost > Bytes(0));
            let of_root = || root(snapshot).filter(|_| is_accounted(snapshot));
            let of_unit =
                || within(snapshot, taker(snapshot, decision).or_else(|| holder(snapshot)));
            match loss {
                Some(loss) if loss.is_of_no_cgroup() => of_root().unwrap_or(Suspect::Machine),
                None if is_of_no_cgroup(snapshot) => of_root().unwrap_or_else(of_unit),
                _ => of_unit(),
            }
        }),
        Resource::Io => {
            let raw = snapshot.whole.pressure.io.and_then(|pressure| pressure.some);
            let waits = raw.is_some_and(|line| line.avg10 >= SUSPECTED);
            // Where the IO is known, and nobody does any, no process is to be named.
            match waits.then(|| movers(snapshot))? {
                None => Some(Suspect::Machine),
                Some(_) if movers::root(snapshot).is_some() => root(snapshot),
                Some(all) => match all.first() {
                    Some(one) if one.share >= MUCH => Some(within(snapshot, Some(one.cgroup))),
                    _ if is_partial(snapshot) => Some(Suspect::Machine),
                    most => most.map(|one| within(snapshot, Some(one.cgroup))),
                },
            }
        }
    }
}

/// Work waits for memory, a threshold of memory is met, or it is foretold to run out, which is a
/// threshold too.
pub(super) fn is_short_of_memory(snapshot: &Snapshot, decision: &Decision) -> bool {
    let mood = memory(snapshot).mood;
    let mut met = decision.assessment.met.iter().map(|met| met.threshold.resource());
    matches!(mood, Mood::Waits | Mood::Pressed)
        || met.any(|resource| resource == threshold::Resource::Memory)
}

/// Who took most of the memory that was lost.
fn taker(snapshot: &Snapshot, decision: &Decision) -> Option<CgroupId> {
    let loss = decision.loss().filter(|loss| loss.lost > Bytes(0))?;
    let path = &loss.takers.first()?.path;
    snapshot.scopes.iter().find(|(_, scope)| scope.path == *path).map(|(id, _)| *id)
}

fn holder(snapshot: &Snapshot) -> Option<CgroupId> {
    holders(snapshot).first().map(|one| one.cgroup)
}

/// Whether the memory of each pod and service is known: what belongs to no cgroup is not theirs then.
fn is_accounted(snapshot: &Snapshot) -> bool {
    let mut units = snapshot.scopes.values().filter(|scope| Level::Units.shows(scope));
    units.all(|scope| scope.files.as_ref().is_some_and(|files| files.memory.stat.is_some()))
}

/// The processes in the root cgroup itself; `None` where no cgroup tells its id.
fn root(snapshot: &Snapshot) -> Option<Suspect> {
    let above = snapshot.scopes.values().filter_map(|scope| scope.parent);
    let id = { above }.find(|id| !snapshot.scopes.contains_key(id))?;
    Some(Suspect::Cgroup { id, paths: vec![CgroupPath::root()] })
}

/// A cgroup and all that lie in it; without one, the machine.
fn within(snapshot: &Snapshot, unit: Option<CgroupId>) -> Suspect {
    let found = unit.and_then(|id| Some((id, &snapshot.scopes.get(&id)?.path)));
    let Some((id, above)) = found else { return Suspect::Machine };
    let paths = snapshot.scopes.values().map(|scope| &scope.path);
    let paths = paths.filter(|path| path.is_within(above)).cloned().collect();
    Suspect::Cgroup { id, paths }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::cgroup::{Cgroup, MemoryStat};
    use crate::model::decision::{Loss, Met, Taker, Trigger, made};
    use crate::model::node::Meminfo;
    use crate::model::pod::{Place, QosClass, Runtime};
    use crate::model::psi::{Line, Pressure, Pressures};
    use crate::model::snapshot::{IoRate, Scope};
    use crate::model::units::Nanos;
    use crate::view::headline::tests::ranking;

    /// A pod with a container, and a service that has more memory and does less IO.
    fn node(avg10: u16, is_accounted: bool) -> Snapshot {
        let class = QosClass::Burstable;
        let pod = Place::Pod { uid: "u".into(), class };
        let (id, runtime) = ("c".into(), Runtime::CriO);
        let container = Place::Container { pod: "u".into(), class, id, runtime };
        let scope = |path: &str, place, mib: u64, io: u64| {
            let mut files = Cgroup::default();
            files.memory.current = is_accounted.then_some(Bytes(mib << 20));
            let stat = MemoryStat { anon: Bytes(mib << 20), ..MemoryStat::default() };
            files.memory.stat = is_accounted.then_some(stat);
            let io = is_accounted.then_some(IoRate { read: Bytes(io), ..IoRate::default() });
            let (path, files) = (CgroupPath(path.into()), Some(Arc::new(files)));
            Scope { path, place, files, io, ..Scope::default() }
        };
        let all = [
            scope("/p", pod, 100, 7),
            scope("/p/c", container, 100, 7),
            scope("/pq.service", Place::Other, 300, 3),
        ];
        let line = Line { avg10: Percent(avg10), ..Line::default() };
        let file = Some(Pressure { some: Some(line), full: None });
        let pressure = Pressures { cpu: None, memory: file, io: file, irq: None };
        Snapshot {
            whole: Scope { pressure, ..Scope::default() },
            scopes: (1..).map(CgroupId).zip(all).collect(),
            ..Snapshot::default()
        }
    }

    /// A threshold of memory is met and, where `path` is told, that cgroup took what was lost.
    fn met(path: Option<&str>) -> Decision {
        let mut thresholds = made::usual_pressure_thresholds().into_iter().map(Trigger::Pressure);
        let threshold =
            thresholds.find(|one| one.resource() == threshold::Resource::Memory).unwrap();
        let met = Met { threshold, since: Nanos(0), is_due: false, measured: 0, missing: None };
        let mut decision = Decision::default();
        decision.assessment.met = vec![met];
        decision.ranking = path.map(|path| {
            let taker = Taker {
                uid: path.into(),
                path: CgroupPath(path.into()),
                taken: Bytes(9),
                ..Taker::default()
            };
            let (lost, over) = (Bytes(9), Nanos::SECOND);
            ranking(Loss { lost, over, takers: vec![taker], unattributed: Bytes(0) })
        });
        decision
    }

    #[test]
    fn suspect_of_memory_and_io_is_whom_the_headline_names() {
        use Resource::{Io, Memory};
        let cgroup = |id, paths: &[&str]| {
            let paths = paths.iter().map(|path| CgroupPath((*path).into())).collect();
            Some(Suspect::Cgroup { id: CgroupId(id), paths })
        };
        let (pod, service) = (|| cgroup(1, &["/p", "/p/c"]), || cgroup(3, &["/pq.service"]));
        #[rustfmt::skip]
        let table = [
            // of what, raw PSI, cgroups are accounted for, decision, suspect
            (Memory, 4_99,  true,  Decision::default(),        None),
            (Memory, 5_00,  true,  Decision::default(),        service()),
            (Memory, 0,     true,  met(None),                  service()),
            (Memory, 0,     true,  met(Some("/p")),            pod()),
            (Memory, 0,     true,  met(Some("/gone.service")), service()),
            (Memory, 5_00,  false, Decision::default(),        Some(Suspect::Machine)),
            (Io,     4_99,  true,  met(None),                  None),
            (Io,     5_00,  true,  Decision::default(),        pod()),
            (Io,     5_00,  false, Decision::default(),        Some(Suspect::Machine)),
        ];
        for (of, avg10, is_accounted, decision, want) in table {
            let got = suspect(of, &node(avg10, is_accounted), &decision);
            assert_eq!(got, want, "{of:?} {avg10} {is_accounted}");
        }
        let of_root = || Some(Suspect::Cgroup { id: CgroupId(9), paths: vec![CgroupPath::root()] });
        #[rustfmt::skip]
        let table = [
            // what all do, MiB that belong to no cgroup of 9, cgroups are accounted for, suspect for IO and for memory
            (10, 0, true,  pod(),              service()),
            (17, 5, true,  pod(),              of_root()), // the root cgroup does as much as the pod
            (18, 4, true,  of_root(),          service()),
            (18, 5, false, Some(Suspect::Machine), Some(Suspect::Machine)),
        ];
        let rooted = |all, is_accounted| {
            let mut snapshot = node(5_00, is_accounted);
            snapshot.scopes.values_mut().for_each(|scope| scope.parent = Some(CgroupId(9)));
            snapshot.scopes.get_mut(&CgroupId(2)).unwrap().parent = Some(CgroupId(1));
            snapshot.whole.io = Some(IoRate { read: Bytes(all), ..IoRate::default() });
            snapshot
        };
        for (all, unattributed, is_accounted, io, memory) in table {
            let snapshot = rooted(all, is_accounted);
            let mut decision = met(Some("/pq.service"));
            let loss = decision.ranking.as_mut().unwrap().loss.as_mut().unwrap();
            (loss.unattributed, loss.takers[0].taken) = (Bytes(unattributed), Bytes(4));
            assert_eq!(suspect(Io, &snapshot, &decision), io, "{all} {is_accounted}");
            assert_eq!(suspect(Memory, &snapshot, &decision), memory, "{unattributed}");
        }
        // In its grace period nothing is ranked: the service has 300 MiB, the pod 100.
        for (used, want) in [(700, service()), (701, of_root())] {
            let mut snapshot = rooted(10, true);
            let (total, available) = (Bytes(used << 20), Bytes(0));
            snapshot.node.memory = Some(Meminfo { total, available, ..Meminfo::default() });
            assert_eq!(suspect(Memory, &snapshot, &met(None)), want, "{used}");
        }
        let mut idle = node(90_00, true);
        idle.scopes.values_mut().for_each(|scope| scope.io = Some(IoRate::default()));
        assert_eq!(suspect(Io, &idle, &Decision::default()), None, "nobody does any IO");
    }
}
