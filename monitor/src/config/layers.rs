//! What files say, by the path of each key: checked against the table of keys, in layers.

use std::collections::BTreeMap;
use std::str::FromStr;

use isobar_core::model::duration::GoDuration;
use isobar_core::model::quantity::Quantity;
use isobar_core::model::units::Nanos;
use serde::Deserialize;
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error, StrDeserializer};

use super::fields::{Field, Fields};
use super::keys::{Key, Kind};

/// The valid keys of one file, by path; items of lists as `evictionPressure[0].scope`. A key whose
/// value is wrong has become a problem and counts as missing.
#[derive(Debug, Default)]
pub(super) struct Layer<'a>(BTreeMap<String, Field<'a>>);

impl<'a> Layer<'a> {
    /// Takes `keys` from `fields`.
    pub(super) fn take(&mut self, fields: &mut Fields<'a>, keys: &'static [Key], above: &str) {
        for key in keys {
            let Some(field) = fields.field(key.name) else { continue };
            let path = path(above, key.name);
            match key.kind {
                Kind::Map(below) => {
                    if let Some(mut map) = field.map() {
                        self.take(&mut map, below, &path);
                    }
                }
                Kind::List(of) => {
                    for (n, item) in field.list().unwrap_or_default().iter().enumerate() {
                        let Some(mut map) = item.map() else { continue };
                        for key in of.iter().filter(|key| key.default.is_none()) {
                            map.required(key.name);
                        }
                        self.take(&mut map, of, &format!("{path}[{n}]"));
                    }
                    self.0.insert(path, field);
                }
                _ if key.kind.accepts(&field) => {
                    self.0.insert(path, field);
                }
                _ => {}
            }
        }
    }
}

/// The path of a key below another.
pub(super) fn path(above: &str, name: &str) -> String {
    if above.is_empty() { name.into() } else { format!("{above}.{name}") }
}

/// A mapping in a list.
pub(super) struct Item<'l, 'a> {
    layer: &'l Layer<'a>,
    path: String,
}

impl<'a> Item<'_, 'a> {
    /// The value of a key, if the file has it and it is valid.
    pub(super) fn get(&self, key: &str) -> Option<&Field<'a>> {
        self.layer.0.get(&format!("{}.{key}", self.path))
    }
}

/// The effective configuration: an earlier layer hides a later one, key by key.
#[derive(Debug, Default)]
pub(super) struct Layers<'a> {
    /// First isobar's own file, then the kubelet's fields.
    pub(super) files: Vec<Layer<'a>>,
    pub(super) defaults: Layer<'a>,
}

impl<'a> Layers<'a> {
    /// What a file says of a key; `None` if the default applies.
    pub(super) fn given(&self, path: &str) -> Option<&Field<'a>> {
        self.files.iter().find_map(|layer| layer.0.get(path))
    }

    /// Whether isobar's own file sets nothing, and the kubelet does.
    pub(super) fn is_kubelets(&self, path: &str) -> bool {
        let first = self.files.iter().position(|layer| layer.0.contains_key(path));
        first.is_some_and(|n| n > 0)
    }

    pub(super) fn get(&self, path: &str) -> Option<&Field<'a>> {
        self.given(path).or_else(|| self.default_of(path))
    }

    pub(super) fn default_of(&self, path: &str) -> Option<&Field<'a>> {
        self.defaults.0.get(path)
    }

    /// The items of a list of mappings.
    pub(super) fn items(&self, path: &str) -> Vec<Item<'_, 'a>> {
        let has = |layer: &&Layer<'a>| layer.0.contains_key(path);
        let layer = self.files.iter().find(has).unwrap_or(&self.defaults);
        let items = layer.0.get(path).and_then(Field::list).unwrap_or_default();
        items.iter().map(|item| Item { layer, path: item.path().into() }).collect()
    }

    /// The text of a scalar; empty if there is none.
    pub(super) fn text(&self, path: &str) -> &'a str {
        self.get(path).and_then(|field| field.scalar("a text")).unwrap_or_default()
    }

    /// A scalar that the table of keys has checked already.
    pub(super) fn parsed<T: FromStr + Default>(&self, path: &str) -> T {
        self.text(path).parse().unwrap_or_default()
    }

    /// One of a few words that the table of keys has checked already, as JSON has them.
    pub(super) fn word<T: Deserialize<'a> + Default>(&self, path: &str) -> T {
        let text: StrDeserializer<'a, Error> = self.text(path).into_deserializer();
        T::deserialize(text).unwrap_or_default()
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

    pub(super) fn list(&self, path: &str) -> Vec<Field<'a>> {
        self.get(path).and_then(Field::list).unwrap_or_default()
    }

    /// The words of a list, each as the value that `named` pairs it with, and its field.
    pub(super) fn words<T: Copy>(&self, path: &str, named: &[(&str, T)]) -> Vec<(T, Field<'a>)> {
        let items = self.list(path).into_iter();
        items.filter_map(|item| Some((item.one_of(named)?, item))).collect()
    }

    /// A mapping with free keys, sorted by key.
    pub(super) fn entries(&self, path: &str) -> Vec<(&'a str, Field<'a>)> {
        entries(self.get(path))
    }
}

/// See [`Layers::entries`].
pub(super) fn entries<'a>(field: Option<&Field<'a>>) -> Vec<(&'a str, Field<'a>)> {
    let map = field.and_then(Field::map);
    let mut entries = map.map(|mut map| map.each()).unwrap_or_default();
    entries.sort_unstable_by_key(|(key, _)| *key);
    entries
}
