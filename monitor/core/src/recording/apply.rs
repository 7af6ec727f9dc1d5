//! Rebuilds samples tick by tick: the counterpart of `change`.
//! Objects are kept as they were recorded, so that changes to fields of another version apply too.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::format::{One, Rows, Tick};
use super::parts::{Key, Pair, Parts, is_ordered};
use super::row::{Form, Forms, Row};
use crate::model::cgroup::{Cgroup, CgroupId};
use crate::model::sample::{Gap, Sample};
use crate::model::stall::{Aggression, GroupStall};
use crate::model::units::Nanos;
use crate::model::workload::Pod;

/// Why a line cannot be applied to the tick before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit(pub String);

impl From<serde_json::Error> for Misfit {
    fn from(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}

/// The latest sample.
#[derive(Debug, Default)]
pub struct State {
    rest: Object,
    cgroups: Table<CgroupId, Arc<Cgroup>>,
    groups: Table<CgroupId, GroupStall>,
    matrix: Vec<Aggression>,
    pods: Table<String, Pod>,
    gaps: Vec<Gap>,
}

impl State {
    /// Begins with the sample in a header, as it was recorded; `Null` if there was none.
    pub fn begin(mut before: Value) -> Result<Self, Misfit> {
        let mut state = Self::default();
        if before.is_null() {
            return Ok(state);
        }
        let mut take = |path: &str| before.pointer_mut(path).map(Value::take).unwrap_or_default();
        state.matrix = read_or_default(&take("/kernel/matrix"))?;
        state.cgroups.fill(take("/cgroups"))?;
        state.groups.fill(take("/kernel/groups"))?;
        state.gaps = read_or_default(&take("/gaps"))?;
        let pods = take("/pods");
        let has_pods = !pods.is_null();
        state.pods.fill(pods)?;
        // Taking leaves nulls; the recorder's rest has empty lists.
        for (path, empty) in [
            ("/cgroups", Value::Object(serde_json::Map::new())),
            ("/kernel/groups", Value::Object(serde_json::Map::new())),
            ("/kernel/matrix", Value::Array(Vec::new())),
            ("/gaps", Value::Array(Vec::new())),
        ] {
            if let Some(slot) = before.pointer_mut(path) {
                *slot = empty;
            }
        }
        if has_pods && let Some(slot) = before.pointer_mut("/pods") {
            *slot = Value::Object(serde_json::Map::new());
        }
        state.rest = Object::new(before);
        Ok(state)
    }

    /// Applies one line. After an error the state is undefined until the next header.
    pub fn apply<D>(&mut self, tick: Tick<D>) -> Result<D, Misfit> {
        self.rest.apply(tick.sample)?;
        self.cgroups.apply(tick.cgroups)?;
        self.groups.apply(tick.groups)?;
        self.pods.apply(tick.pods)?;
        self.gaps = tick.gaps.unwrap_or_else(|| std::mem::take(&mut self.gaps));
        match (tick.pairs, tick.matrix_list) {
            (Some(pairs), _) => self.matrix = pairs.matrix(&self.cgroups.rows)?,
            (None, Some(list)) => self.matrix = list,
            (None, None) if !tick.matrix.is_empty() => self.change_matrix(&tick.matrix)?,
            (None, None) => {}
        }
        Ok(tick.decision)
    }

    pub fn sample(&self) -> Result<Sample, Misfit> {
        let parts = Parts {
            rest: self.rest.read()?,
            cgroups: BTreeMap::clone(&self.cgroups.rows),
            groups: BTreeMap::clone(&self.groups.rows),
            matrix: self.matrix.clone(),
            pods: Arc::clone(&self.pods.rows),
            gaps: self.gaps.clone(),
        };
        Ok(parts.into())
    }

    /// As version 3 has it.
    fn change_matrix(&mut self, change: &Rows) -> Result<(), Misfit> {
        if !is_ordered(&self.matrix) {
            return Err(Misfit("rows of a matrix that was not in order".into()));
        }
        let mut times: BTreeMap<Pair, Nanos> =
            self.matrix.iter().map(|one| (Pair::of(one), one.time)).collect();
        for key in &change.gone {
            times.remove(&parse(key)?);
        }
        for (key, time) in &change.set {
            times.insert(parse(key)?, serde_json::from_str(time.get())?);
        }
        let grown = change.add.get("").map(Vec::as_slice).unwrap_or_default();
        for (key, delta) in change.rows.iter().zip(grown) {
            let pair = parse(key)?;
            let time = times.get_mut(&pair).ok_or_else(|| missing(&pair))?;
            *time = Nanos(time.0.checked_add_signed(*delta).ok_or_else(|| missing(&pair))?);
        }
        let row = |(Pair(victim, aggressor), time)| Aggression { victim, aggressor, time };
        self.matrix = times.into_iter().map(row).collect();
        Ok(())
    }
}

/// One object as it was recorded.
#[derive(Debug, Default)]
pub(super) struct Object(Option<Row>);

impl Object {
    pub(super) fn new(value: Value) -> Self {
        Self(Some(Forms::default().row(value)))
    }

    pub(super) fn apply(&mut self, change: One) -> Result<(), Misfit> {
        let One { set, add } = change;
        if let Some(set) = set {
            *self = Self::new(serde_json::from_str(set.get())?);
        }
        for (path, delta) in add {
            let row = self.0.as_mut().ok_or_else(none_before)?;
            let place = row.form().place(&path);
            place.and_then(|at| row.shift(at, delta)).ok_or_else(|| no_number(&path))?;
        }
        Ok(())
    }

    /// By way of a [`Value`], because it may have keys that are numbers.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, Misfit> {
        let row = self.0.as_ref().ok_or_else(none_before)?;
        read(&row.read()?)
    }
}

/// Objects as they were recorded, and as this version reads them.
#[derive(Debug)]
pub(super) struct Table<K, T> {
    forms: Forms,
    recorded: BTreeMap<K, Row>,
    /// Shared with the samples in which they are: pods change far less often than samples are taken.
    rows: Arc<BTreeMap<K, T>>,
}

impl<K, T> Default for Table<K, T> {
    fn default() -> Self {
        Self { forms: Forms::default(), recorded: BTreeMap::new(), rows: Arc::default() }
    }
}

impl<K: Key, T: DeserializeOwned + Clone> Table<K, T> {
    pub(super) fn fill(&mut self, all: Value) -> Result<(), Misfit> {
        let Value::Object(all) = all else { return Ok(()) };
        all.into_iter().try_for_each(|(key, value)| self.set(&key, value))
    }

    fn set(&mut self, key: &str, value: Value) -> Result<(), Misfit> {
        let key: K = parse(key)?;
        let row = self.forms.row(value);
        Arc::make_mut(&mut self.rows).insert(key.clone(), row.read()?);
        self.recorded.insert(key, row);
        Ok(())
    }

    pub(super) fn apply(&mut self, change: Rows) -> Result<(), Misfit> {
        if change.is_empty() {
            return Ok(());
        }
        for key in &change.gone {
            let key = parse(key)?;
            self.recorded.remove(&key);
            Arc::make_mut(&mut self.rows).remove(&key);
        }
        for (key, text) in &change.set {
            self.set(key, serde_json::from_str(text.get())?)?;
        }
        if !(change.gone.is_empty() && change.set.is_empty()) {
            self.forms.tidy();
        }
        self.shift(&change.rows, &change.add)
    }

    /// Adds columns to numbers of these rows.
    fn shift(
        &mut self,
        keys: &[String],
        columns: &BTreeMap<String, Vec<i64>>,
    ) -> Result<(), Misfit> {
        if let Some((path, column)) = columns.iter().find(|(_, column)| column.len() != keys.len())
        {
            return Err(Misfit(format!("{path} has {} of {}", column.len(), keys.len())));
        }
        let known = Arc::make_mut(&mut self.rows);
        // Where the columns' numbers are in rows of each form.
        let mut places: Vec<(Arc<Form>, Vec<Option<usize>>)> = Vec::new();
        for (i, key) in keys.iter().enumerate() {
            let key = parse(key)?;
            let row = self.recorded.get_mut(&key).ok_or_else(|| missing(&key))?;
            let n = places.iter().position(|(form, _)| Arc::ptr_eq(form, row.form()));
            let n = n.unwrap_or_else(|| {
                let form = row.form();
                places.push((
                    Arc::clone(form),
                    columns.keys().map(|path| form.place(path)).collect(),
                ));
                places.len() - 1
            });
            for ((path, column), place) in columns.iter().zip(&places[n].1) {
                if column[i] != 0 {
                    place.and_then(|at| row.shift(at, column[i])).ok_or_else(|| no_number(path))?;
                }
            }
            known.insert(key, row.read()?);
        }
        Ok(())
    }

    pub(super) fn into_rows(self) -> BTreeMap<K, T> {
        Arc::unwrap_or_clone(self.rows)
    }
}

fn none_before() -> Misfit {
    Misfit("no sample in the tick before".into())
}

fn no_number(path: &str) -> Misfit {
    Misfit(format!("{path}: no number in the tick before, or the sum is out of range"))
}

fn missing(key: &impl Key) -> Misfit {
    Misfit(format!("no {} in the tick before", key.text()))
}

fn parse<K: Key>(text: &str) -> Result<K, Misfit> {
    K::parse(text).ok_or_else(|| Misfit(format!("{text:?} is not a key")))
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<T, Misfit> {
    Ok(T::deserialize(value)?)
}

fn read_or_default<T: DeserializeOwned + Default>(value: &Value) -> Result<T, Misfit> {
    if value.is_null() { Ok(T::default()) } else { read(value) }
}
