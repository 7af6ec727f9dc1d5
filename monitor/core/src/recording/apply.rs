//! Rebuilds samples tick by tick: the counterpart of `change`.
//! Objects are kept as they were recorded, so that changes to fields of another version apply too.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeOwned, Deserializer as _, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::fields::without;
use super::format::{One, Rows, Tick};
use super::parts::{Key, Pair, Parts, is_ordered};
use super::row::{Form, Forms, Read, Row};
use crate::model::cgroup::{Cgroup, CgroupId};
use crate::model::sample::{Gap, Sample};
use crate::model::snapshot::Meters;
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

/// Bytes that a table may take: what it holds adds up over the lines of a recording, and a replay has
/// several samples at once. 2,048 cgroups that waited on 256 CPUs take 85 MiB.
const TABLE: usize = 128 << 20;
/// The longest text in a row: a path of 8 KiB of which no byte is UTF-8 takes three times as much. Readers
/// keep names of what is gone, by their number.
const TEXT: usize = 24 << 10;
/// Pairs of a matrix. The kernel side has 16 for each cgroup that it has room for.
const PAIRS: usize = 1 << 20;

/// The latest sample.
#[derive(Debug, Default)]
pub struct State {
    pub(super) rest: Object,
    pub(super) cgroups: Table<CgroupId, Arc<Cgroup>>,
    pub(super) groups: Table<CgroupId, Arc<GroupStall>>,
    pub(super) matrix: Vec<Aggression>,
    pub(super) pods: Table<String, Pod>,
    pub(super) gaps: Vec<Gap>,
    /// The averages by cgroup id in the header, until its first tick: a mark is a change to them.
    pub(super) meters: Option<Table<CgroupId, Meters>>,
}

impl State {
    /// Applies one line. After an error the state is undefined until the next header.
    pub fn apply<D>(&mut self, tick: Tick<D>) -> Result<D, Misfit> {
        self.meters = None;
        if let Some(set) = &tick.sample.set {
            let mut set = without(set, &["cgroups", "pods", "gaps"])?;
            let kernel = set.remove("kernel").filter(|kernel| kernel.get() != "null");
            kernel.map(|kernel| without(kernel, &["groups", "matrix"])).transpose()?;
        }
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
        self.check_pairs()?;
        Ok(tick.decision)
    }

    /// An error if the matrix takes too much memory.
    pub(super) fn check_pairs(&self) -> Result<(), Misfit> {
        match self.matrix.len() {
            0..=PAIRS => Ok(()),
            _ => Err(Misfit(format!("more than {PAIRS} pairs who wait for each other"))),
        }
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
    pub(super) fn new(text: &RawValue) -> Result<Self, Misfit> {
        Ok(Self(Some(Forms::default().row(text)?)))
    }

    pub(super) fn apply(&mut self, change: One) -> Result<(), Misfit> {
        let One { set, add } = change;
        if let Some(set) = set {
            *self = Self::new(&set)?;
        }
        for (path, delta) in add {
            let row = self.0.as_mut().ok_or_else(none_before)?;
            let place = row.form().place(&path);
            place.and_then(|at| row.shift(at, delta)).ok_or_else(|| no_number(&path))?;
        }
        Ok(())
    }

    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, Misfit> {
        Ok(self.0.as_ref().ok_or_else(none_before)?.read()?.0)
    }
}

/// Objects as they were recorded, and as this version reads them.
#[derive(Debug)]
pub(super) struct Table<K, T> {
    forms: Forms,
    recorded: BTreeMap<K, Held>,
    /// Of all of them.
    size: usize,
    /// Shared with the samples in which they are: pods change far less often than samples are taken.
    rows: Arc<BTreeMap<K, T>>,
}

/// An object, and the bytes that it takes as it was recorded and as it was read.
#[derive(Debug)]
struct Held {
    row: Row,
    size: usize,
}

impl<K, T> Default for Table<K, T> {
    fn default() -> Self {
        Self { forms: Forms::default(), recorded: BTreeMap::new(), size: 0, rows: Arc::default() }
    }
}

impl<K: Key, T: DeserializeOwned + Clone> Table<K, T> {
    /// All objects by key; `None` if there are none.
    pub(super) fn fill(&mut self, all: Option<&RawValue>) -> Result<(), Misfit> {
        let Some(all) = all else { return Ok(()) };
        let mut from = serde_json::Deserializer::from_str(all.get());
        let mut misfit = None;
        let filled = from.deserialize_map(Filled { table: self, misfit: &mut misfit });
        misfit.map_or(Ok(()), Err)?;
        Ok(filled?)
    }

    /// Sets an object that is not there yet.
    fn add(&mut self, key: &str, read: Read<'_>) -> Result<(), Misfit> {
        let parsed = parse(key)?;
        if self.recorded.contains_key(&parsed) {
            return Err(Misfit(format!("{key:?} occurs twice")));
        }
        let row = self.forms.of(read)?;
        self.set(parsed, row)
    }

    fn set(&mut self, key: K, row: Row) -> Result<(), Misfit> {
        if row.longest_text() > TEXT {
            return Err(Misfit(format!("a text of more than {} KiB", TEXT >> 10)));
        }
        let (read, size) = row.read()?;
        Arc::make_mut(&mut self.rows).insert(key.clone(), read);
        let before = self.recorded.insert(key, Held { row, size });
        self.size = self.size + size - before.map_or(0, |before| before.size);
        if self.size + self.forms.size > TABLE {
            self.forms.tidy();
        }
        if self.size + self.forms.size > TABLE {
            let most = TABLE >> 20;
            return Err(Misfit(format!("the sample would take more than {most} MiB of memory")));
        }
        Ok(())
    }

    pub(super) fn apply(&mut self, change: Rows) -> Result<(), Misfit> {
        if change.is_empty() {
            return Ok(());
        }
        for key in &change.gone {
            let key = parse(key)?;
            self.size -= self.recorded.remove(&key).map_or(0, |gone| gone.size);
            Arc::make_mut(&mut self.rows).remove(&key);
        }
        for (key, text) in &change.set {
            let row = self.forms.row(text)?;
            self.set(parse(key)?, row)?;
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
        // Each row walks along them.
        let columns: Vec<(&String, &Vec<i64>)> = columns.iter().collect();
        let known = Arc::make_mut(&mut self.rows);
        // Where the columns' numbers are in rows of each form.
        let mut places: Vec<(Arc<Form>, Vec<Option<usize>>)> = Vec::new();
        for (i, key) in keys.iter().enumerate() {
            let key = parse(key)?;
            let row = self.recorded.get_mut(&key).ok_or_else(|| missing(&key))?;
            let row = &mut row.row;
            let n = places.iter().position(|(form, _)| Arc::ptr_eq(form, row.form()));
            let n = n.unwrap_or_else(|| {
                let form = row.form();
                let found = columns.iter().map(|(path, _)| form.place(path)).collect();
                places.push((Arc::clone(form), found));
                places.len() - 1
            });
            for ((path, column), place) in columns.iter().zip(&places[n].1) {
                if column[i] != 0 {
                    place.and_then(|at| row.shift(at, column[i])).ok_or_else(|| no_number(path))?;
                }
            }
            known.insert(key, row.read()?.0);
        }
        Ok(())
    }

    pub(super) fn rows(&self) -> &BTreeMap<K, T> {
        &self.rows
    }

    pub(super) fn into_rows(self) -> BTreeMap<K, T> {
        Arc::unwrap_or_clone(self.rows)
    }
}

/// Fills a table with the objects of a map.
struct Filled<'t, K, T> {
    table: &'t mut Table<K, T>,
    /// Why one of them cannot be taken: serde would tell a place in the text with it.
    misfit: &'t mut Option<Misfit>,
}

impl<'de, K: Key, T: DeserializeOwned + Clone> Visitor<'de> for Filled<'_, K, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("objects by key")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<(), A::Error> {
        while let Some(key) = from.next_key::<String>()? {
            let read = from.next_value_seed(self.table.forms.whole())?;
            if let Err(why) = self.table.add(&key, read) {
                *self.misfit = Some(why);
                return Err(A::Error::custom("it does not fit"));
            }
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;

    use super::*;
    use crate::model::cgroup::CgroupPath;
    use crate::model::stall::CpuStall;

    fn size<T: serde::Serialize + DeserializeOwned>(object: &T) -> usize {
        let row = Forms::default().row(&to_raw_value(object).unwrap()).unwrap();
        row.read::<T>().unwrap().1
    }

    #[test]
    fn table_has_room_for_large_nodes() {
        let cpu =
            CpuStall { contention: Nanos(1 << 50), nonidle: Nanos(1 << 60), switches: 1 << 40 };
        let histogram = vec![1 << 40; 32];
        let stall = GroupStall { cpus: vec![cpu; 256], histogram, ..GroupStall::default() };
        let path = format!("/kubepods.slice/{}", "x".repeat(200));
        let cgroup = Cgroup { path: CgroupPath(path.into()), ..Cgroup::default() };
        #[rustfmt::skip]
        let table = [
            // what, how many, bytes of one
            ("cgroups that waited", 2_048, size(&stall)),
            ("cgroups",             5_000, size(&cgroup)),
        ];
        for (what, n, one) in table {
            assert!(n * one < TABLE, "{n} {what} of {one} bytes");
        }
    }
}
