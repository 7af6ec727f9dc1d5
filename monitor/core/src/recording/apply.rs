//! Rebuilds samples tick by tick: the counterpart of `change`.
//! Objects are kept as they were recorded, so that changes to fields of another version apply too.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Number, Value};

use super::format::{One, Rows, Tick};
use super::parts::{Key, Pair, Parts, is_ordered};
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
    rest: Option<Value>,
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
        state.rest = Some(before);
        Ok(state)
    }

    /// Applies one line. After an error the state is undefined until the next header.
    pub fn apply<D>(&mut self, tick: Tick<D>) -> Result<D, Misfit> {
        match (&mut self.rest, tick.sample) {
            (Some(rest), change) => shift_all(rest, change)?,
            (None, One { set: Some(set), .. }) => {
                self.rest = Some(serde_json::from_slice(set.get().as_bytes())?);
            }
            (None, change) if change.is_empty() => {}
            (None, _) => return Err(Misfit("no sample in the tick before".into())),
        }
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
        let rest =
            self.rest.as_ref().ok_or_else(|| Misfit("no sample in the tick before".into()))?;
        let parts = Parts {
            rest: read(rest)?,
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

/// Objects as they were recorded, and as this version reads them.
#[derive(Debug)]
pub(super) struct Table<K, T> {
    values: BTreeMap<K, Value>,
    /// Shared with the samples in which they are: pods change far less often than samples are taken.
    rows: Arc<BTreeMap<K, T>>,
}

impl<K, T> Default for Table<K, T> {
    fn default() -> Self {
        Self { values: BTreeMap::new(), rows: Arc::default() }
    }
}

impl<K: Key, T: DeserializeOwned + Clone> Table<K, T> {
    pub(super) fn fill(&mut self, all: Value) -> Result<(), Misfit> {
        let Value::Object(all) = all else { return Ok(()) };
        let known = Arc::make_mut(&mut self.rows);
        for (key, value) in all {
            let key = parse(&key)?;
            known.insert(K::clone(&key), read(&value)?);
            self.values.insert(key, value);
        }
        Ok(())
    }

    pub(super) fn apply(&mut self, change: Rows) -> Result<(), Misfit> {
        if change.is_empty() {
            return Ok(());
        }
        let known = Arc::make_mut(&mut self.rows);
        for key in &change.gone {
            let key = parse(key)?;
            self.values.remove(&key);
            known.remove(&key);
        }
        for (key, text) in &change.set {
            let value: Value = serde_json::from_slice(text.get().as_bytes())?;
            let key = parse(key)?;
            known.insert(K::clone(&key), read(&value)?);
            self.values.insert(key, value);
        }
        let keys = change.rows.iter().map(|key| parse::<K>(key)).collect::<Result<Vec<_>, _>>()?;
        let mut places: BTreeMap<&K, usize> = keys.iter().zip(0..).collect();
        let mut rows: Vec<Option<&mut Value>> = keys.iter().map(|_| None).collect();
        for (key, value) in &mut self.values {
            if let Some(place) = places.remove(key) {
                rows[place] = Some(value);
            }
        }
        let mut none = keys.iter().zip(&rows).filter(|(_, row)| row.is_none());
        if let Some((key, _)) = none.next() {
            return Err(missing(key));
        }
        for (path, column) in &change.add {
            if column.len() != keys.len() {
                return Err(Misfit(format!("{path} has {} of {}", column.len(), keys.len())));
            }
            let path = Pointer::parse(path);
            for (row, delta) in rows.iter_mut().flatten().zip(column).filter(|(_, n)| **n != 0) {
                shift(row, &path, *delta)?;
            }
        }
        for (key, row) in keys.into_iter().zip(rows.into_iter().flatten()) {
            known.insert(key, read(row)?);
        }
        Ok(())
    }

    pub(super) fn into_rows(self) -> BTreeMap<K, T> {
        Arc::unwrap_or_clone(self.rows)
    }
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

/// A JSON pointer (RFC 6901), taken apart once for all rows of a column.
struct Pointer<'a> {
    text: &'a str,
    steps: Vec<Cow<'a, str>>,
}

impl<'a> Pointer<'a> {
    fn parse(text: &'a str) -> Self {
        let plain = |step: &'a str| match step.contains('~') {
            true => Cow::Owned(step.replace("~1", "/").replace("~0", "~")),
            false => Cow::Borrowed(step),
        };
        Self { text, steps: text.split('/').skip(1).map(plain).collect() }
    }

    fn find<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        // Without a slash in front it would point to nothing.
        if !(self.text.is_empty() || self.text.starts_with('/')) {
            return None;
        }
        self.steps.iter().try_fold(value, |value, step| match value {
            Value::Object(fields) => fields.get_mut(step.as_ref()),
            Value::Array(items) if is_index(step) => items.get_mut(step.parse::<usize>().ok()?),
            _ => None,
        })
    }
}

/// Digits alone, without a zero in front.
fn is_index(step: &str) -> bool {
    step.bytes().all(|byte| byte.is_ascii_digit()) && (step == "0" || !step.starts_with('0'))
}

/// Changes one object.
pub(super) fn shift_all(value: &mut Value, change: One) -> Result<(), Misfit> {
    let One { set, add } = change;
    if let Some(set) = set {
        *value = serde_json::from_slice(set.get().as_bytes())?;
    }
    add.iter().try_for_each(|(path, delta)| shift(value, &Pointer::parse(path), *delta))
}

/// Adds to the number at `path`, in units of its last decimal.
fn shift(value: &mut Value, path: &Pointer<'_>, delta: i64) -> Result<(), Misfit> {
    let misfit = |why: &str| Misfit(format!("{}: {why}", path.text));
    let slot = path.find(value).ok_or_else(|| misfit("missing in the tick before"))?;
    let Value::Number(number) = &*slot else {
        return Err(misfit("not a number in the tick before"));
    };
    let shifted = if let Some(whole) = number.as_i128() {
        Number::from_i128(whole + i128::from(delta))
    } else {
        let hundredths = number.as_f64().map(|n| (n * 100.0).round()).unwrap_or_default();
        Number::from_f64((hundredths + delta as f64) / 100.0)
    };
    *slot = Value::Number(shifted.ok_or_else(|| misfit("out of range"))?);
    Ok(())
}
