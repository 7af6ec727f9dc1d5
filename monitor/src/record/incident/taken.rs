//! Who took memory in a span: the largest loss of its ticks, and the process that took most of it.

use isobar_core::model::cgroup::CgroupPath;
use isobar_core::model::decision::{Decision, Loss};
use isobar_core::model::snapshot::Snapshot;
use isobar_core::model::units::Bytes;
use isobar_core::policy::explain;
use isobar_core::view::headline::taking_process;

#[derive(Debug, Default)]
pub(super) struct Taken {
    loss: Option<Loss>,
    /// The process that took most, and the taker that it belongs to, of the last tick that knew one;
    /// where no memory of cgroups is accounted for, of the machine.
    process: Option<(Option<CgroupPath>, String)>,
}

impl Taken {
    /// What was lost before the incident counts if memory has been short since.
    pub(super) fn see(&mut self, decision: &Decision, is_before: bool) {
        if is_before && decision.loss().is_none() {
            *self = Self::default();
        }
        let most = self.loss.as_ref().map_or(Bytes(0), |loss| loss.lost);
        if let Some(loss) = decision.loss().filter(|loss| loss.lost > most) {
            self.loss = Some(loss.clone());
        }
    }

    /// Only while memory is short: processes are looked for earlier.
    pub(super) fn see_process(&mut self, decision: &Decision, snapshot: &Snapshot) {
        if let Some(process) = taking_process(snapshot, decision) {
            self.process = Some((decision.loss().and_then(first), process));
        }
    }

    /// In words; `None` if no memory was lost that anybody is known to have taken.
    pub(super) fn told(&self) -> Option<String> {
        let process_of = |taker: Option<CgroupPath>| {
            self.process.as_ref().filter(|(of, _)| *of == taker).map(|(_, process)| process)
        };
        let Some(loss) = &self.loss else {
            return process_of(None).map(|process| format!("most was taken by {process}"));
        };
        let process = process_of(first(loss)).map(|process| format!("; most of all {process}"));
        Some(explain::lost(loss) + &process.unwrap_or_default())
    }
}

/// Who took most; `None` if most belongs to no cgroup.
fn first(loss: &Loss) -> Option<CgroupPath> {
    let taker = loss.takers.first().filter(|_| !loss.is_of_no_cgroup());
    taker.map(|taker| taker.path.clone())
}

#[cfg(test)]
mod tests {
    use isobar_core::model::cgroup::CgroupId;
    use isobar_core::model::decision::{Order, Ranking, Taker};
    use isobar_core::model::sample::{Resident, Runner};
    use isobar_core::model::snapshot::Scope;
    use isobar_core::model::units::Nanos;

    use super::*;

    fn decision(taker: Option<&str>, mib: u64) -> Decision {
        let of = |path: &str| Taker {
            uid: path.into(),
            path: CgroupPath(path.into()),
            taken: Bytes(90 << 20),
            ..Taker::default()
        };
        let loss = Loss {
            lost: Bytes(mib << 20),
            over: Nanos(10 * Nanos::SECOND.0),
            takers: taker.map(of).into_iter().collect(),
            unattributed: Bytes(0),
        };
        let ranking = Ranking {
            signal: "memory.available".into(),
            order: Order::Cause,
            loss: Some(loss),
            ..Ranking::default()
        };
        Decision { ranking: Some(ranking), ..Decision::default() }
    }

    /// A process of the cgroup `/a`, or of the machine.
    fn snapshot(is_of_machine: bool) -> Snapshot {
        let memory = Some(Resident { held: Bytes(300 << 20), growth: Bytes(20 << 20) });
        let cgroup = (!is_of_machine).then_some(CgroupId(2));
        let (pid, name) = (7, "hog".into());
        let scope = Scope { path: CgroupPath("/a".into()), ..Scope::default() };
        Snapshot {
            scopes: [(CgroupId(2), scope)].into(),
            runners: vec![Runner { pid, name, cgroup, is_of_machine, memory, ..Runner::default() }],
            ..Snapshot::default()
        }
    }

    #[test]
    fn taken_names_the_process_of_who_took_most() {
        let hog = "hog, pid 7: 300Mi, growing by 20Mi/s";
        let (calm, of_machine) = (Decision::default(), snapshot(true));
        #[rustfmt::skip]
        let table = [
            // ticks, what is said
            (vec![(decision(Some("/a"), 100), snapshot(false))],
             Some(format!("/a took 90Mi of the 100Mi that were lost in 10s; most of all {hog}"))),
            // The largest loss was another's.
            (vec![(decision(Some("/a"), 100), snapshot(false)), (decision(Some("/b"), 101), snapshot(false))],
             Some("/b took 90Mi of the 101Mi that were lost in 10s".into())),
            (vec![(decision(Some("/b"), 101), snapshot(false)), (decision(Some("/a"), 100), snapshot(false))],
             Some("/b took 90Mi of the 101Mi that were lost in 10s".into())),
            (vec![(decision(None, 100), of_machine.clone())],
             Some(format!("no party took a real part of the 100Mi that were lost in 10s; most of all {hog}"))),
            (vec![(calm.clone(), of_machine)], Some(format!("most was taken by {hog}"))),
            (vec![(calm.clone(), snapshot(false))], None),
        ];
        for (ticks, want) in table {
            let mut taken = Taken::default();
            for (decision, snapshot) in &ticks {
                taken.see(decision, false);
                taken.see_process(decision, snapshot);
            }
            assert_eq!(taken.told(), want);
        }
        // The larger loss was that of a shortage before, or this shortage began before the incident.
        for (between, want) in [(calm, "/a"), (decision(Some("/a"), 50), "/b")] {
            let mut taken = Taken::default();
            taken.see(&decision(Some("/b"), 101), true);
            taken.see(&between, true);
            taken.see(&decision(Some("/a"), 100), false);
            assert!(taken.told().is_some_and(|told| told.starts_with(want)), "{want}");
        }
    }
}
