//! Who holds the memory, where nobody took more of it just now. Page cache gives way and is not held.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::figure::{Figure, Told};
use super::verdict::Resource;
use super::waiting::{
    self, Level, busiest_of_machine, innermost, largest, short_name, with_process,
};
use crate::model::cgroup::CgroupId;
use crate::model::pod::Place;
use crate::model::snapshot::{Scope, Snapshot};
use crate::model::stall::MemoryCause;
use crate::model::units::{Bytes, Nanos};
use crate::policy::takers::held;

/// A pod or service that holds memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    pub cgroup: CgroupId,
    /// Without page cache, which gives way.
    pub held: Bytes,
}

/// Those first that hold most that cannot be dropped; pods alone where it is their common limit that
/// is reached. Whose memory is not accounted for is left out.
pub(super) fn holders(snapshot: &Snapshot) -> Vec<Holder> {
    let is_of_pods = is_limit_of_pods(snapshot);
    let counts = |scope: &Scope| match is_of_pods {
        true => matches!(scope.place, Place::Pod { .. }),
        false => Level::Units.shows(scope),
    };
    let units = snapshot.scopes.iter().filter(|(_, scope)| counts(scope));
    let holding = units
        .filter_map(|(id, scope)| Some(Holder { cgroup: *id, held: held(scope.files.as_ref()?)? }));
    let holding = holding.filter(|one| one.held > Bytes(0)).collect();
    let mut holding = innermost(snapshot, holding, |one| (one.cgroup, one.held.0));
    holding.sort_by_key(|one| (Reverse(one.held), one.cgroup));
    holding
}

/// Whether it is the common limit of all pods that is reached.
fn is_limit_of_pods(snapshot: &Snapshot) -> bool {
    let causes = snapshot.whole.memory.iter().flat_map(|memory| &memory.causes);
    let short = causes.filter(|(cause, wait)| cause.is_shortage() && wait.union.now > Nanos(0));
    let longest = short.max_by_key(|(_, wait)| wait.union.now);
    longest.is_some_and(|(cause, _)| *cause == MemoryCause::AllocatableLimit)
}

/// Whether more belongs to no cgroup, processes in the root cgroup or the kernel, than to any pod or
/// service.
pub(super) fn is_of_no_cgroup(snapshot: &Snapshot) -> bool {
    let scopes = &snapshot.scopes;
    let is_top = |scope: &&Scope| scope.parent.is_none_or(|above| !scopes.contains_key(&above));
    let tops = scopes.values().filter(is_top).filter_map(|scope| held(scope.files.as_ref()?));
    let below = tops.fold(0u64, |sum, held| sum.saturating_add(held.0));
    let used = snapshot.node.memory.map_or(0, |memory| memory.in_use().0);
    let most = holders(snapshot).first().map(|one| one.held);
    most.is_some_and(|most| used.saturating_sub(below) > most.0) && !is_limit_of_pods(snapshot)
}

/// Who holds most memory or, where that is not known, which process; in a sentence.
pub(super) fn told(snapshot: &Snapshot) -> Option<Told> {
    let Some(Holder { cgroup, held }) = holders(snapshot).into_iter().next() else {
        let process = busiest_of_machine(snapshot, Resource::Memory)?;
        return Some(Told::plain(format!("The process that takes or has most memory: {process}.")));
    };
    let of_root = || largest(None, held, snapshot).filter(|_| !is_limit_of_pods(snapshot));
    if let Some(process) = of_root() {
        let root = with_process("The root cgroup", &process);
        return Some(Told::plain(format!("{root} has more memory than any pod or service.")));
    }
    let scope = snapshot.scopes.get(&cgroup)?;
    let figures = vec![Figure::Holds { aggressor: waiting::name(scope), bytes: held }];
    let name = short_name(scope);
    let name = match largest(Some(cgroup), Bytes(0), snapshot) {
        Some(process) => with_process(&name, &process),
        None => name,
    };
    Some(Told { text: format!("{name} holds most memory: {held}."), figures })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::cgroup::{Cgroup, CgroupPath, MemoryStat};
    use crate::model::pod::QosClass;
    use crate::model::sample::{Resident, Runner};
    use crate::model::snapshot::{MemoryCauseWait, MemoryWait, Waited};

    #[test]
    fn holders_are_told_with_the_process_that_has_most() {
        let scope = |path: &str, place, mib: Option<u64>| {
            let mut files = Cgroup::default();
            files.memory.current = mib.map(|mib| Bytes((mib + 5) << 20));
            let (anon, cache) = (Bytes(mib.unwrap_or(0) << 20), Bytes(5 << 20));
            let stat =
                MemoryStat { anon, file: cache, active_file: cache, ..MemoryStat::default() };
            files.memory.stat = mib.map(|_| stat);
            let path = CgroupPath(path.into());
            Scope { path, place, files: Some(Arc::new(files)), ..Scope::default() }
        };
        let pod = || Place::Pod { uid: "u".into(), class: QosClass::BestEffort };
        let runner = |cgroup: Option<u64>, growth: u64| Runner {
            pid: 7,
            name: "hog".into(),
            cgroup: cgroup.map(CgroupId),
            is_of_machine: cgroup.is_none(),
            memory: Some(Resident { held: Bytes(300 << 20), growth: Bytes(growth << 20) }),
            ..Runner::default()
        };
        let of_root = || Runner { is_of_machine: false, ..runner(None, 0) };
        let root = "The root cgroup (most of all hog, pid 7: 300Mi) has more memory than any pod or service.";
        #[rustfmt::skip]
        let table = [
            (Some(200), Some(100), false, vec![of_root()], Some(root)),
            (Some(200), Some(300), false, vec![of_root()], Some("a.service holds most memory: 300Mi.")),
            (Some(200), Some(100), true,  vec![of_root()], Some("pod u holds most memory: 200Mi.")),
            // MiB of a pod and of a service, short for pods alone, processes, what is said
            (Some(200), Some(400), false, vec![], Some("a.service holds most memory: 400Mi.")),
            (Some(200), Some(400), true,  vec![], Some("pod u holds most memory: 200Mi.")),
            (None,      Some(400), false, vec![runner(Some(3), 0)],
             Some("a.service (most of all hog, pid 7: 300Mi) holds most memory: 400Mi.")),
            (Some(200), None,      false, vec![runner(Some(2), 20)],
             Some("pod u (most of all hog, pid 7: 300Mi, growing by 20Mi/s) holds most memory: 200Mi.")),
            (Some(500), Some(400), false, vec![runner(Some(3), 0)], Some("pod u holds most memory: 500Mi.")),
            (None,      None,      false, vec![runner(None, 20)],
             Some("The process that takes or has most memory: hog, pid 7: 300Mi, growing by 20Mi/s.")),
            (None,      None,      false, vec![runner(Some(3), 0)], None),
        ];
        for (pod_has, service_has, is_of_pods, runners, want) in table {
            let all = [scope("/p", pod(), pod_has), scope("/a.service", Place::Other, service_has)];
            let mut snapshot = Snapshot { runners, ..Snapshot::default() };
            snapshot.scopes = (2..).map(CgroupId).zip(all).collect();
            let union = Waited { now: Nanos(9), total: Nanos(9) };
            let wait = MemoryCauseWait { union, ..MemoryCauseWait::default() };
            let cause =
                if is_of_pods { MemoryCause::AllocatableLimit } else { MemoryCause::Global };
            let causes = [(cause, wait)].into();
            snapshot.whole.memory = Some(MemoryWait { causes, ..MemoryWait::default() });
            let told = told(&snapshot);
            let holds = |figure: &Figure| matches!(figure, Figure::Holds { .. });
            let figures = told.iter().flat_map(|told| &told.figures);
            let has_figure = figures.filter(|figure| holds(figure)).count() == 1;
            assert_eq!(has_figure, want.is_some_and(|want| want.contains("holds")), "{want:?}");
            let got = told.map(|told| told.text);
            assert_eq!(got.as_deref(), want, "{pod_has:?} {service_has:?}");
        }
    }
}
