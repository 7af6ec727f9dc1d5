//! Samples put together again, tick by tick: the counterpart of `change`.
//! Objects are kept as they were recorded, so that fields of another version are carried along
//! and changes to them find their place.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Number, Value};

use super::format::{One, Rows, Tick};
use super::parts::{Key, Pair, Parts, is_ordered};
use crate::model::cgroup::{Cgroup, CgroupId};
use crate::model::sample::{Gap, Sample};
use crate::model::stall::{Aggression, GroupStall};
use crate::model::units::Nanos;
use crate::model::workload::Pod;

/// Why a line cannot be applied: what it says does not fit what was before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit(pub String);

impl From<serde_json::Error> for Misfit {
    fn from(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}

/// The sample so far.
#[derive(Debug, Default)]
pub struct State {
    rest: Option<Value>,
    cgroups: Table<CgroupId, Cgroup>,
    groups: Table<CgroupId, GroupStall>,
    matrix: Table<Pair, Nanos>,
    /// The matrix, where it is not in order.
    matrix_list: Option<Vec<Aggression>>,
    pods: Table<String, Pod>,
    gaps: Vec<Gap>,
    /// Fields that this version does not know, by JSON pointer.
    pub unknown: Option<String>,
}

impl State {
    /// Begins with a header's sample before, as it was recorded; `Null` if there was none.
    pub fn begin(mut before: Value) -> Result<Self, Misfit> {
        let mut state = Self::default();
        if before.is_null() {
            return Ok(state);
        }
        let mut take = |path: &str| before.pointer_mut(path).map(Value::take).unwrap_or_default();
        let list: Vec<Aggression> = read_or_default(&take("/kernel/matrix"))?;
        state.cgroups.fill(take("/cgroups"))?;
        state.groups.fill(take("/kernel/groups"))?;
        state.gaps = read_or_default(&take("/gaps"))?;
        let pods = take("/pods");
        let has_pods = !pods.is_null();
        state.pods.fill(pods)?;
        state.set_matrix(list)?;
        // What was taken leaves nulls; the rest holds empty lists, as the recorder's did.
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

    /// Takes one line. After an error nothing is certain until the next header.
    pub fn apply<D>(&mut self, tick: Tick<D>) -> Result<D, Misfit> {
        let One { set, add } = tick.sample;
        if let Some(set) = set {
            let rest: Value = serde_json::from_str(set.get())?;
            self.unknown = self.unknown.take().or(unknown::<Sample>(&rest)?);
            self.rest = Some(rest);
        }
        for (path, delta) in add {
            let rest = self.rest.as_mut().ok_or_else(|| Misfit("no sample before".into()))?;
            shift(rest, &path, delta)?;
        }
        let seen = &mut self.unknown;
        self.cgroups.apply(tick.cgroups, seen)?;
        self.groups.apply(tick.groups, seen)?;
        self.pods.apply(tick.pods, seen)?;
        self.gaps = tick.gaps.unwrap_or_else(|| std::mem::take(&mut self.gaps));
        if let Some(list) = tick.matrix_list {
            self.set_matrix(list)?;
        } else if self.matrix_list.is_none() {
            self.matrix.apply(tick.matrix, &mut None)?;
        } else if !tick.matrix.is_empty() {
            return Err(Misfit("rows of a matrix that was not in order".into()));
        }
        Ok(tick.decision)
    }

    /// The sample as it is now.
    pub fn sample(&self) -> Result<Sample, Misfit> {
        let rest = self.rest.as_ref().ok_or_else(|| Misfit("no sample before".into()))?;
        let row = |(pair, time): (&Pair, &Nanos)| Aggression {
            victim: pair.0,
            aggressor: pair.1,
            time: *time,
        };
        let matrix = self.matrix_list.clone();
        let parts = Parts {
            rest: read(rest)?,
            cgroups: self.cgroups.rows.clone(),
            groups: self.groups.rows.clone(),
            matrix: matrix.unwrap_or_else(|| self.matrix.rows.iter().map(row).collect()),
            pods: self.pods.rows.clone(),
            gaps: self.gaps.clone(),
        };
        Ok(parts.into())
    }

    fn set_matrix(&mut self, list: Vec<Aggression>) -> Result<(), Misfit> {
        self.matrix = Table::default();
        self.matrix_list = None;
        if !is_ordered(&list) {
            self.matrix_list = Some(list);
            return Ok(());
        }
        for aggression in list {
            let pair = Pair::of(&aggression);
            self.matrix.values.insert(pair, serde_json::to_value(aggression.time)?);
            self.matrix.rows.insert(pair, aggression.time);
        }
        Ok(())
    }
}

/// Objects as they were recorded, and as this version reads them.
#[derive(Debug)]
struct Table<K, T> {
    values: BTreeMap<K, Value>,
    rows: BTreeMap<K, T>,
}

impl<K, T> Default for Table<K, T> {
    fn default() -> Self {
        Self { values: BTreeMap::new(), rows: BTreeMap::new() }
    }
}

impl<K: Key, T: Serialize + DeserializeOwned> Table<K, T> {
    fn fill(&mut self, all: Value) -> Result<(), Misfit> {
        let Value::Object(all) = all else { return Ok(()) };
        for (key, value) in all {
            let key = parse(&key)?;
            self.rows.insert(K::clone(&key), read(&value)?);
            self.values.insert(key, value);
        }
        Ok(())
    }

    fn apply(&mut self, change: Rows, seen: &mut Option<String>) -> Result<(), Misfit> {
        for key in &change.gone {
            let key = parse(key)?;
            self.values.remove(&key);
            self.rows.remove(&key);
        }
        for (key, text) in &change.set {
            let value = self.set(parse(key)?, text)?;
            if seen.is_none() {
                *seen = unknown::<T>(value)?;
            }
        }
        let keys = change.rows.iter().map(|key| parse::<K>(key)).collect::<Result<Vec<_>, _>>()?;
        for (path, column) in &change.add {
            if column.len() != keys.len() {
                return Err(Misfit(format!("{path} has {} of {}", column.len(), keys.len())));
            }
            for (key, delta) in keys.iter().zip(column).filter(|(_, delta)| **delta != 0) {
                let row = self.values.get_mut(key);
                shift(
                    row.ok_or_else(|| Misfit(format!("no {} before", key.text())))?,
                    path,
                    *delta,
                )?;
            }
        }
        for key in keys {
            let value = self.values.get(&key);
            let value = value.ok_or_else(|| Misfit(format!("no {} before", key.text())))?;
            self.rows.insert(key.clone(), read(value)?);
        }
        Ok(())
    }

    fn set(&mut self, key: K, text: &RawValue) -> Result<&Value, Misfit> {
        let value: Value = serde_json::from_str(text.get())?;
        self.rows.insert(key.clone(), read(&value)?);
        let slot = self.values.entry(key).or_default();
        *slot = value;
        Ok(slot)
    }
}

fn parse<K: Key>(text: &str) -> Result<K, Misfit> {
    K::parse(text).ok_or_else(|| Misfit(format!("{text:?} is no key")))
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<T, Misfit> {
    Ok(T::deserialize(value)?)
}

fn read_or_default<T: DeserializeOwned + Default>(value: &Value) -> Result<T, Misfit> {
    if value.is_null() { Ok(T::default()) } else { read(value) }
}

/// Adds to the number at `path`, in its last decimal.
fn shift(value: &mut Value, path: &str, delta: i64) -> Result<(), Misfit> {
    let misfit = |why: &str| Misfit(format!("{path}: {why}"));
    let slot = value.pointer_mut(path).ok_or_else(|| misfit("nothing there before"))?;
    let Value::Number(number) = &*slot else { return Err(misfit("no number before")) };
    let shifted = if let Some(whole) = number.as_i128() {
        Number::from_i128(whole + i128::from(delta))
    } else {
        let hundredths = number.as_f64().map(|n| (n * 100.0).round()).unwrap_or_default();
        Number::from_f64((hundredths + delta as f64) / 100.0)
    };
    *slot = Value::Number(shifted.ok_or_else(|| misfit("out of range"))?);
    Ok(())
}

/// The first field that was recorded and that this version drops.
pub fn unknown<T: Serialize + DeserializeOwned>(
    recorded: &Value,
) -> Result<Option<String>, Misfit> {
    let known = serde_json::to_value(read::<T>(recorded)?)?;
    Ok(dropped(recorded, &known))
}

fn dropped(recorded: &Value, known: &Value) -> Option<String> {
    match (recorded, known) {
        (Value::Object(recorded), Value::Object(known)) => recorded.iter().find_map(|(key, a)| {
            let Some(b) = known.get(key) else { return Some(format!("/{key}")) };
            dropped(a, b).map(|path| format!("/{key}{path}"))
        }),
        (Value::Array(recorded), Value::Array(known)) => {
            let mut pairs = recorded.iter().zip(known).enumerate();
            pairs.find_map(|(i, (a, b))| dropped(a, b).map(|path| format!("/{i}{path}")))
        }
        _ => None,
    }
}
