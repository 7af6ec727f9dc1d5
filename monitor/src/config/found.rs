//! What a file says, by the path of each key: checked against the table, in layers.

use std::collections::BTreeMap;
use std::str::FromStr;

use isobar_core::model::duration::GoDuration;
use isobar_core::model::quantity::Quantity;
use isobar_core::model::units::Nanos;

use super::fields::{Field, Fields};
use super::keys::{Key, Kind};

/// The keys of one file that are of their kind. What is not has become a problem, and is as good
/// as missing.
#[derive(Debug, Default)]
pub(super) struct Found<'a> {
    values: BTreeMap<String, Field<'a>>,
    /// Items of lists of mappings, by the path of the list.
    items: BTreeMap<String, Vec<Item<'a>>>,
}

/// A mapping in a list.
#[derive(Debug)]
pub(super) struct Item<'a> {
    values: BTreeMap<String, Field<'a>>,
}

impl<'a> Item<'a> {
    /// The value of a key, if it is of its kind.
    pub(super) fn get(&self, key: &str) -> Option<&Field<'a>> {
        self.values.get(key)
    }
}

impl<'a> Found<'a> {
    /// Takes `keys` from `fields`, which the caller finishes.
    pub(super) fn take(&mut self, fields: &mut Fields<'a>, keys: &'static [Key], above: &str) {
        for key in keys {
            let Some(field) = fields.field(key.name) else { continue };
            let path = path(above, key.name);
            match key.kind {
                Kind::Map(below) => {
                    let Some(mut map) = field.map() else { continue };
                    self.take(&mut map, below, &path);
                    map.finish();
                }
                Kind::List(of) => {
                    let list = field.list().unwrap_or_default();
                    let items = list.iter().filter_map(|item| self::item(item, of)).collect();
                    self.items.insert(path.clone(), items);
                    self.values.insert(path, field);
                }
                _ if key.kind.takes(&field) => {
                    self.values.insert(path, field);
                }
                _ => {}
            }
        }
    }
}

/// An item with all the keys that it must have.
fn item<'a>(field: &Field<'a>, keys: &'static [Key]) -> Option<Item<'a>> {
    let mut map = field.map()?;
    for key in keys.iter().filter(|key| key.default.is_none()) {
        map.required(key.name);
    }
    let mut found = Found::default();
    found.take(&mut map, keys, "");
    map.finish();
    Some(Item { values: found.values })
}

/// The path of a key below another.
pub(super) fn path(above: &str, name: &str) -> String {
    if above.is_empty() { name.into() } else { format!("{above}.{name}") }
}

/// What holds in the end: an earlier layer hides a later one, key by key.
#[derive(Debug)]
pub(super) struct Layers<'a> {
    /// What files say: first ours, then the kubelet's.
    pub(super) files: Vec<Found<'a>>,
    /// The defaults.
    pub(super) defaults: Found<'a>,
}

impl<'a> Layers<'a> {
    /// What a file says of a key; `None` if it is left to the default.
    pub(super) fn given(&self, path: &str) -> Option<&Field<'a>> {
        self.files.iter().find_map(|layer| layer.values.get(path))
    }

    /// What holds.
    pub(super) fn get(&self, path: &str) -> Option<&Field<'a>> {
        self.given(path).or_else(|| self.default(path))
    }

    /// What would hold without any file.
    pub(super) fn default(&self, path: &str) -> Option<&Field<'a>> {
        self.defaults.values.get(path)
    }

    /// The items of a list of mappings.
    pub(super) fn items(&self, path: &str) -> &[Item<'a>] {
        let given = self.files.iter().find_map(|layer| layer.items.get(path));
        given.or_else(|| self.defaults.items.get(path)).map_or(&[], Vec::as_slice)
    }

    /// The text of a scalar; empty if there is none.
    pub(super) fn text(&self, path: &str) -> &'a str {
        self.get(path).and_then(|field| field.scalar("a text")).unwrap_or_default()
    }

    /// What the scalar parses as; the table has seen to it that it does.
    pub(super) fn parsed<T: FromStr + Default>(&self, path: &str) -> T {
        self.text(path).parse().unwrap_or_default()
    }

    pub(super) fn flag(&self, path: &str) -> bool {
        self.get(path).and_then(Field::flag).unwrap_or_default()
    }

    pub(super) fn number<T: TryFrom<i64> + Default>(&self, path: &str) -> T {
        self.get(path).and_then(Field::number::<T>).unwrap_or_default()
    }

    pub(super) fn time(&self, path: &str) -> Nanos {
        self.parsed::<GoDuration>(path).nanos()
    }

    pub(super) fn quantity(&self, path: &str) -> Quantity {
        self.parsed(path)
    }

    /// The values of a list.
    pub(super) fn list(&self, path: &str) -> Vec<Field<'a>> {
        self.get(path).and_then(Field::list).unwrap_or_default()
    }

    /// A mapping with free keys, in the order of their names.
    pub(super) fn entries(&self, path: &str) -> Vec<(&'a str, Field<'a>)> {
        entries(self.get(path))
    }
}

/// See [`Layers::entries`].
pub(super) fn entries<'a>(field: Option<&Field<'a>>) -> Vec<(&'a str, Field<'a>)> {
    let map = field.and_then(Field::map);
    let mut entries = map.map(|mut map| map.each()).unwrap_or_default();
    entries.sort_by_key(|(key, _)| *key);
    entries
}
