//! The fields of an object, as they were written.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use super::apply::Misfit;
use crate::room;

/// What stands in the place of a list that is kept by itself.
pub(super) const EMPTY: &str = "{}";
pub(super) const NONE: &str = "[]";

#[derive(Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Fields<'a>(#[serde(borrow)] BTreeMap<String, &'a RawValue>);

impl<'a> Fields<'a> {
    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.get(name).copied()
    }

    pub(super) fn insert(&mut self, name: String, field: &'a RawValue) {
        self.0.insert(name, field);
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<&'a RawValue> {
        self.0.remove(name)
    }

    fn of(object: &'a RawValue) -> Result<Self, Misfit> {
        Ok(Self(room::from_slice(object.get().as_bytes())?))
    }

    /// A field; `empty` is left in its place. A field that is missing or null stays so.
    pub(super) fn take(
        &mut self,
        name: &str,
        empty: &'a str,
    ) -> Result<Option<&'a RawValue>, Misfit> {
        let Some(field) = self.0.get_mut(name).filter(|field| field.get() != "null") else {
            return Ok(None);
        };
        Ok(Some(std::mem::replace(field, serde_json::from_str(empty)?)))
    }

    pub(super) fn joined(&self) -> Result<Box<RawValue>, Misfit> {
        Ok(to_raw_value(&self.0)?)
    }
}

/// The fields of an object; an error if one of these lists is kept by itself and yet has something here.
pub(super) fn without<'a>(object: &'a RawValue, lists: &[&str]) -> Result<Fields<'a>, Misfit> {
    let fields = Fields::of(object)?;
    let is_empty = |list: &&str| {
        fields.0.get(*list).is_none_or(|list| [EMPTY, NONE, "null"].contains(&list.get()))
    };
    match lists.iter().find(|list| !is_empty(list)) {
        Some(list) => Err(Misfit(format!("{list} outside of its own changes"))),
        None => Ok(fields),
    }
}
