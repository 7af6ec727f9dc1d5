//! How many victims there may be in a while, and which count.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::model::settings::Relief;
use crate::model::threshold::Resource;
use crate::model::units::Nanos;

/// Victims of the budget's window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Budget {
    /// When each was chosen, and its uid.
    victims: Vec<(Nanos, String)>,
    /// Of these, who took what was short, by uid, and the threshold: they count until that is over.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    takers: BTreeMap<String, String>,
    /// Of these, who was not ended for want of memory: they leave room where memory presses.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    for_others: BTreeSet<String>,
}

impl Budget {
    pub(super) fn has(&self, uid: &str) -> bool {
        self.victims.iter().any(|(_, victim)| victim == uid)
    }

    /// When the last victim was chosen.
    pub(super) fn last(&self) -> Option<Nanos> {
        self.victims.last().map(|(at, _)| *at)
    }

    /// Who was ended for want of this counts from now on.
    pub(super) fn add(&mut self, at: Nanos, uid: &str, resource: Resource) {
        self.victims.push((at, uid.into()));
        match resource {
            Resource::Memory => self.for_others.remove(uid),
            _ => self.for_others.insert(uid.into()),
        };
    }

    /// This one counts until the threshold is over.
    pub(super) fn add_taker(&mut self, uid: &str, threshold: String) {
        self.takers.insert(uid.into(), threshold);
    }

    /// The last end of this one was refused: it does not count.
    pub(super) fn take_back(&mut self, uid: &str) {
        let last = self.victims.iter().rposition(|(_, victim)| victim == uid);
        last.map(|last| self.victims.remove(last));
    }

    /// When there is room again; `None` if there is. Where memory `presses`, its own victims alone count.
    pub(super) fn again(&self, relief: &Relief, presses: bool) -> Option<Nanos> {
        let counts = |uid: &String| !(presses && self.for_others.contains(uid));
        let mut victims = self.victims.iter().filter(|(_, uid)| counts(uid));
        let n = victims.clone().count();
        let (oldest, _) = victims.next()?;
        let is_spent = usize::try_from(relief.budget).is_ok_and(|most| n >= most);
        is_spent.then(|| oldest.plus(relief.budget_window))
    }

    /// The thresholds until which takers count.
    pub(super) fn thresholds(&self) -> impl Iterator<Item = &String> {
        self.takers.values()
    }

    /// Drops who was ended before the window, and takers of what `is_over`.
    pub(super) fn forget(&mut self, since: impl Fn(Nanos) -> bool, is_over: impl Fn(&str) -> bool) {
        let Self { victims, takers, for_others } = self;
        let has_helped = |uid: &String| takers.get(uid).is_some_and(|name| is_over(name));
        victims.retain(|(at, uid)| since(*at) && !has_helped(uid));
        let is_known = |uid: &String| victims.iter().any(|(_, victim)| victim == uid);
        takers.retain(|uid, _| is_known(uid));
        for_others.retain(is_known);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.victims.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn victims_of_something_else_leave_room_where_memory_presses() {
        let relief = Relief { budget: 2, budget_window: Nanos(600), ..Relief::default() };
        use Resource::{Memory, Pids, Storage};
        #[rustfmt::skip]
        let table: [(&[Resource], Option<u64>, Option<u64>); 5] = [
            // whom they were ended for, one at each instant; when there is room again, and where memory presses
            (&[],                        None,      None),
            (&[Storage],                 None,      None),
            (&[Storage, Pids],           Some(600), None),
            (&[Storage, Memory, Memory], Some(600), Some(601)),
            (&[Memory, Storage, Memory], Some(600), Some(600)),
        ];
        for (ended, want, pressing) in table {
            let mut budget = Budget::default();
            for (at, resource) in ended.iter().enumerate() {
                budget.add(Nanos(at as u64), &at.to_string(), *resource);
            }
            let got = [false, true].map(|presses| budget.again(&relief, presses));
            assert_eq!(got, [want, pressing].map(|at| at.map(Nanos)), "{ended:?}");
            let text = serde_json::to_string(&budget).unwrap();
            assert_eq!(serde_json::from_str::<Budget>(&text).unwrap(), budget, "{text}");
            budget.forget(|at| at > Nanos(0), |_| false);
            assert_eq!(budget.len(), ended.len().saturating_sub(1));
        }
    }
}
