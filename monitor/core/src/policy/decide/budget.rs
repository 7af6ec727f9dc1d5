//! How many victims there may be in a while, and which count.

use super::pending::Pending;
use super::standing::ReliefStanding;
use super::steps::Kind;
use crate::model::decision::{InForce, Met};
use crate::model::sample::Sample;
use crate::model::settings::Relief;
use crate::model::threshold::Resource;
use crate::model::units::Nanos;

impl ReliefStanding {
    /// Whether it was ended within the budget's window, and counts still.
    pub(super) fn is_victim(&self, uid: &str) -> bool {
        self.victims.iter().any(|(_, victim)| victim == uid)
    }

    /// When the last victim was chosen.
    pub(super) fn last_victim(&self) -> Option<Nanos> {
        self.victims.last().map(|(at, _)| *at)
    }

    /// Who was ended, for want of this if that is known, counts from now on.
    pub(super) fn add_victim(&mut self, at: Nanos, uid: &str, resource: Option<Resource>) {
        self.victims.push((at, uid.into()));
        self.ended_for.extend(resource.map(|resource| (at, uid.into(), resource)));
    }

    /// The last end of this one was refused: it does not count.
    pub(super) fn take_back(&mut self, uid: &str) {
        let last = self.victims.iter().rposition(|(_, victim)| victim == uid);
        last.map(|last| self.victims.remove(last));
    }

    /// This step was not begun, and is not ordered again: where no other end of its target was begun, as
    /// the ledger tells, that does not count. Whether nothing was begun.
    pub(super) fn take_back_unbegun(&mut self, step: &Pending, sample: &Sample) -> bool {
        let uid = &step.action.target.uid;
        let its = self.victims.iter().rev().find(|(_, victim)| victim == uid);
        let chosen = its.map(|(at, _)| *at).unwrap_or_default();
        let is_end = |InForce { action, since, .. }: &InForce| {
            let is_its = action.target.uid == *uid && *since >= chosen;
            is_its && action.is_enforced && action.step.is_final()
        };
        let is_final = step.action.step.is_final();
        let is_none = step.is_unbegun && !(is_final && sample.in_force.iter().any(is_end));
        if is_none && is_final {
            self.take_back(uid);
        }
        is_none
    }

    /// When the budget has room for a victim against this again; `None` if it has.
    pub(super) fn budget_again(&self, relief: &Relief, against: &Met) -> Option<Nanos> {
        let presses = Kind::takes_no_refusal(against).then(|| against.threshold.resource());
        self.room_again(relief, presses)
    }

    /// When there is room again; `None` if there is. Of a resource that `presses` its own victims count.
    fn room_again(&self, relief: &Relief, presses: Option<Resource>) -> Option<Nanos> {
        let is_of = |(at, uid): &(Nanos, String), resource| {
            self.ended_for.contains(&(*at, uid.clone(), resource))
        };
        let counts = |one: &&(Nanos, String)| presses.is_none_or(|resource| is_of(one, resource));
        let mut victims = self.victims.iter().filter(counts);
        let n = victims.clone().count();
        let (oldest, _) = victims.next()?;
        let is_spent = usize::try_from(relief.budget).is_ok_and(|most| n >= most);
        is_spent.then(|| oldest.plus(relief.budget_window))
    }

    /// Drops who was ended before the window, and takers of what `is_over`.
    pub(super) fn forget_victims(
        &mut self,
        is_within: impl Fn(Nanos) -> bool,
        is_over: impl Fn(&str) -> bool,
    ) {
        let Self { victims, takers, ended_for, .. } = self;
        let has_helped = |uid: &String| takers.get(uid).is_some_and(|name| is_over(name));
        victims.retain(|(at, uid)| is_within(*at) && !has_helped(uid));
        takers.retain(|uid, _| victims.iter().any(|(_, victim)| victim == uid));
        let is_kept = |at: Nanos, uid: &str| victims.iter().any(|one| one.0 == at && one.1 == uid);
        ended_for.retain(|(at, uid, _)| is_kept(*at, uid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn victims_of_something_else_leave_room_where_memory_or_pids_press() {
        let relief = Relief { budget: 2, budget_window: Nanos(600), ..Relief::default() };
        const MEMORY: Option<Resource> = Some(Resource::Memory);
        const PIDS: Option<Resource> = Some(Resource::Pids);
        const STORAGE: Option<Resource> = Some(Resource::Storage);
        type Row = (&'static [Option<Resource>], [Option<u64>; 3]);
        #[rustfmt::skip]
        let table: [Row; 7] = [
            // what victims were ended for, one at each instant; when there is room again, and where memory
            // presses, or pids
            (&[],                        [None,      None,      None]),
            (&[STORAGE],                 [None,      None,      None]),
            (&[STORAGE, PIDS],           [Some(600), None,      None]),
            (&[PIDS, MEMORY, PIDS],      [Some(600), None,      Some(600)]),
            (&[None, None],              [Some(600), None,      None]),
            (&[STORAGE, MEMORY, MEMORY], [Some(600), Some(601), None]),
            (&[MEMORY, STORAGE, MEMORY], [Some(600), Some(600), None]),
        ];
        for (ended, want) in table {
            let mut standing = ReliefStanding::default();
            for (at, resource) in ended.iter().enumerate() {
                // It is started again each time.
                standing.add_victim(Nanos(at as u64), "a", *resource);
            }
            let got = [None, MEMORY, PIDS].map(|presses| standing.room_again(&relief, presses));
            assert_eq!(got, want.map(|at| at.map(Nanos)), "{ended:?}");
            standing.forget_victims(|at| at > Nanos(0), |_| false);
            assert_eq!(standing.victims.len(), ended.len().saturating_sub(1));
        }
    }
}
