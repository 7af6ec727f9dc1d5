//! What changed from one sample to the next, as differences of numbers where only numbers changed.
//! In: two samples in parts. Out: the line of the second.
//!
//! Objects are compared as structs, and those that differ value by value: if only numbers differ, their
//! differences are the change. So this code names no field and cannot forget one.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::to_raw_value;

use super::columns::Columns;
use super::format::{One, Rows, Tick};
use super::pairs::Pairs;
use super::parts::{Key, Parts, is_ordered};
use super::values::Values;
use crate::model::cgroup::CgroupId;
use crate::model::decision::Decision;

/// The line of a tick; complete if there is no tick before.
pub fn line<'a>(
    before: Option<&Parts>,
    now: &Parts,
    decision: &'a Decision,
) -> serde_json::Result<Tick<&'a Decision>> {
    let mut tick = without_matrix(before, now, decision)?;
    let matrix = &now.matrix;
    if !is_ordered(matrix) {
        tick.matrix_list = Some(matrix.clone());
    } else if !matrix.is_empty() || before.is_some_and(|before| !before.matrix.is_empty()) {
        tick.pairs = Some(Pairs::of(matrix, &now.cgroups));
    }
    Ok(tick)
}

/// The same without the matrix, which is of one interval and no change to the one before.
pub(super) fn without_matrix<D>(
    before: Option<&Parts>,
    now: &Parts,
    decision: D,
) -> serde_json::Result<Tick<D>> {
    let none = Parts::default();
    let old = before.unwrap_or(&none);
    let mut both = Both::default();
    // A pod and its only busy container change alike. Sorted by depth they make two runs of the same
    // numbers, which the compressor finds.
    let depth = |id: &CgroupId| now.cgroups.get(id).map_or(0, |c| c.path.segments().count());
    Ok(Tick {
        kind: "tick".into(),
        sample: match before {
            Some(old) => both.one(&old.rest, &now.rest)?,
            None => One { set: Some(to_raw_value(&now.rest)?), ..One::default() },
        },
        cgroups: both.rows(by_id(&old.cgroups), by_id(&now.cgroups), depth)?,
        groups: both.rows(by_id(&old.groups), by_id(&now.groups), depth)?,
        pairs: None,
        matrix: Rows::default(),
        matrix_list: None,
        pods: match Arc::ptr_eq(&old.pods, &now.pods) {
            true => Rows::default(),
            false => both.rows(by_id(&old.pods), by_id(&now.pods), |_| 0)?,
        },
        gaps: (old.gaps != now.gaps).then(|| now.gaps.clone()),
        decision,
    })
}

pub(super) fn by_id<K: Clone, T>(map: &BTreeMap<K, T>) -> impl Iterator<Item = (K, &T)> {
    map.iter().map(|(id, row)| (id.clone(), row))
}

/// The values of the two objects that are being compared, allocated once.
#[derive(Debug, Default)]
pub(super) struct Both {
    before: Values,
    now: Values,
}

impl Both {
    /// Where numbers changed and by how much; `None` if anything else did.
    fn compare<T: Serialize>(
        &mut self,
        before: &T,
        now: &T,
    ) -> serde_json::Result<Option<Vec<(usize, i64)>>> {
        self.before.read(before)?;
        self.now.read(now)?;
        Ok(self.now.changes(&self.before))
    }

    pub(super) fn one<T: Serialize + PartialEq>(
        &mut self,
        before: &T,
        now: &T,
    ) -> serde_json::Result<One> {
        if before == now {
            return Ok(One::default());
        }
        Ok(match self.compare(before, now)? {
            Some(add) => {
                let (places, changes): (Vec<_>, Vec<_>) = add.into_iter().unzip();
                let pointers = self.now.pointers(places.into_iter());
                One { set: None, add: pointers.into_iter().zip(changes).collect() }
            }
            None => One { set: Some(to_raw_value(now)?), ..One::default() },
        })
    }

    /// Both sides sorted by key. Changed rows are written by `level`, then key.
    pub(super) fn rows<'a, K: Key, T: Serialize + PartialEq + 'a>(
        &mut self,
        before: impl Iterator<Item = (K, &'a T)>,
        now: impl Iterator<Item = (K, &'a T)>,
        level: impl Fn(&K) -> usize,
    ) -> serde_json::Result<Rows> {
        let mut rows = Rows::default();
        let (mut changed, mut columns) = (Vec::new(), Columns::default());
        let mut before = before.peekable();
        for (key, row) in now {
            while let Some((gone, _)) = before.next_if(|(old, _)| *old < key) {
                rows.gone.push(gone.text());
            }
            let old = before.next_if(|(old, _)| *old == key);
            if old.as_ref().is_some_and(|(_, old)| *old == row) {
                continue;
            }
            let add = old.map(|(_, old)| self.compare(old, row)).transpose()?.flatten();
            match add {
                Some(add) => changed.push((level(&key), key, columns.of(&self.now, add))),
                None => {
                    rows.set.insert(key.text(), to_raw_value(row)?);
                }
            }
        }
        rows.gone.extend(before.map(|(gone, _)| gone.text()));
        changed.sort_unstable_by(|(a, ka, _), (b, kb, _)| (a, ka).cmp(&(b, kb)));
        rows.rows = changed.iter().map(|(_, key, _)| key.text()).collect();
        let changed: Vec<_> = changed.into_iter().map(|(_, _, add)| add).collect();
        rows.add = columns.fill(&changed);
        Ok(rows)
    }
}
