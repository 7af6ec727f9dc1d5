//! Which party made which other wait for a CPU, for how long, and what that cost: the pairs that
//! matter, of any number. A pair is kept while few have cost more lately; what the others waited is
//! one sum.

use std::collections::BTreeMap;

use super::Names;
use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::pod::Place;
use isobar_core::model::snapshot::{Blame, Snapshot};
use isobar_core::model::units::Nanos;
use isobar_core::view::cpu_loss::Harm;

/// Pairs that are kept, and how many of a tick are looked at.
const KEPT: usize = 16;
/// What a tick leaves of [`Pair::lately`], in parts of [`WHOLE`]: half of it after 44 ticks.
const FADES: u64 = 63;
const WHOLE: u64 = 64;
/// The aggressor of a wait in which the CPU was idle: the latency of the wake-up itself.
const IDLE: CgroupId = CgroupId(0);

#[derive(Debug, Clone, Default)]
pub(in crate::serve) struct Pairs {
    /// By aggressor and sufferer.
    pub(in crate::serve) kept: BTreeMap<(String, String), Pair>,
    /// Waits of all other pairs, and of those whose aggressor is not known.
    pub(in crate::serve) others: Nanos,
    /// Waits were measured at least once.
    pub(in crate::serve) is_measured: bool,
}

#[derive(Debug, Clone, Copy, Default)]
pub(in crate::serve) struct Pair {
    /// Since it is kept.
    pub(in crate::serve) total: Harm,
    /// Fades from tick to tick.
    lately: Harm,
}

impl Pairs {
    pub(super) fn tick(&mut self, snapshot: &Snapshot, names: &Names) {
        self.is_measured |= snapshot.covers.waits;
        for pair in self.kept.values_mut() {
            let Harm { loss, time } = pair.lately;
            let [loss, time] = [loss, time].map(|Nanos(ns)| Nanos(ns / WHOLE * FADES));
            pair.lately = Harm { loss, time };
        }
        let (first, rest) = snapshot.aggressions.split_at(snapshot.aggressions.len().min(KEPT));
        for blame in first {
            if let Some(parties) = parties(snapshot, names, blame) {
                self.add(parties, Harm::of(blame));
            } else if blame.aggressor == CgroupId::UNKNOWN {
                self.others = self.others.plus(blame.time);
            }
        }
        let is_other = |blame: &&Blame| blame.aggressor != IDLE && blame.aggressor != blame.victim;
        for blame in rest.iter().filter(is_other) {
            self.others = self.others.plus(blame.time);
        }
    }

    fn add(&mut self, parties: (String, String), harm: Harm) {
        if self.kept.len() == KEPT && !self.kept.contains_key(&parties) {
            let least = self.kept.iter().min_by_key(|(_, pair)| pair.lately);
            match least.map(|(parties, pair)| (parties.clone(), pair.lately)) {
                Some((least, lately)) if lately < harm => self.kept.remove(&least),
                _ => {
                    self.others = self.others.plus(harm.time);
                    return;
                }
            };
        }
        let pair = self.kept.entry(parties).or_default();
        (pair.total, pair.lately) = (pair.total.plus(harm), pair.lately.plus(harm));
    }
}

/// Aggressor and sufferer; `None` if the aggressor is not known, or the sufferer itself.
fn parties(snapshot: &Snapshot, names: &Names, blame: &Blame) -> Option<(String, String)> {
    if [IDLE, CgroupId::UNKNOWN].contains(&blame.aggressor) {
        return None;
    }
    let aggressor = party(snapshot, names, blame.aggressor, blame.aggressor_path.as_ref());
    let victim = party(snapshot, names, blame.victim, blame.victim_path.as_ref());
    (aggressor != victim).then_some((aggressor, victim))
}

/// The pod that a cgroup belongs to, or its path.
fn party(snapshot: &Snapshot, names: &Names, id: CgroupId, path: Option<&CgroupPath>) -> String {
    let scope = snapshot.scopes.get(&id);
    match scope.map(|scope| &scope.place) {
        Some(Place::Pod { uid, .. } | Place::Container { pod: uid, .. }) => match names.get(&**uid)
        {
            Some((namespace, name)) => format!("{namespace}/{name}"),
            None => format!("pod {uid}"),
        },
        _ => {
            let path = scope.map(|scope| &scope.path).or(path);
            path.map_or_else(|| "unknown".into(), |path| path.0.to_string())
        }
    }
}
