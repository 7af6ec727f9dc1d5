//! Reads a row: its tree, with numbers and texts taken from their lists in turn.

use std::borrow::Cow;
use std::slice::Iter;

use serde::de::value::{BorrowedStrDeserializer, MapAccessDeserializer};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Number};

use super::Tree;
use crate::room::{GROWN, LEAF, Room};

/// Numbers and texts that are not read yet.
pub(super) struct Rest<'r> {
    pub(super) numbers: Iter<'r, Number>,
    pub(super) texts: Iter<'r, Box<str>>,
    /// For what is made.
    pub(super) room: &'r Room,
}

impl Rest<'_> {
    /// Leaves out what belongs to a value.
    fn pass(&mut self, tree: &Tree<'_>) {
        match tree {
            Tree::Null | Tree::Bool(_) => {}
            Tree::Number => drop(self.numbers.next()),
            Tree::Text => drop(self.texts.next()),
            Tree::List(items) => items.iter().for_each(|item| self.pass(item)),
            Tree::Object(fields) => fields.all.iter().for_each(|(_, value)| self.pass(value)),
        }
    }
}

/// A value of a row that is being read.
pub(super) struct At<'a, 'r> {
    pub(super) tree: &'r Tree<'static>,
    pub(super) rest: &'a mut Rest<'r>,
}

impl<'r> At<'_, 'r> {
    fn number(self) -> Result<&'r Number, Error> {
        self.rest.numbers.next().ok_or_else(|| Error::custom("a number is missing"))
    }

    fn text(self) -> Result<&'r str, Error> {
        let text = self.rest.texts.next().ok_or_else(|| Error::custom("a text is missing"))?;
        self.rest.room.take(text.len())?;
        Ok(text)
    }
}

impl<'r> Deserializer<'r> for At<'_, 'r> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.tree {
            Tree::Null => visitor.visit_unit(),
            Tree::Bool(is) => visitor.visit_bool(*is),
            Tree::Number => self.number()?.deserialize_any(visitor),
            Tree::Text => visitor.visit_borrowed_str(self.text()?),
            Tree::List(items) => {
                visitor.visit_seq(Items { items: items.iter(), rest: self.rest, grown: GROWN })
            }
            Tree::Object(fields) => {
                self.rest.room.take(LEAF)?;
                visitor.visit_map(Fields::of(&fields.all, self.rest, GROWN))
            }
        }
    }

    fn deserialize_option<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.tree {
            Tree::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'r>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    /// A struct whose fields are those of the object, in this order, is read without their names.
    fn deserialize_struct<V: Visitor<'r>>(
        self,
        _name: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let Tree::Object(fields) = self.tree else { return self.deserialize_any(visitor) };
        self.rest.room.take(size_of::<V::Value>())?;
        if !fields.are(names) {
            return visitor.visit_map(Fields::of(&fields.all, self.rest, 0));
        }
        let items = fields.all.iter().map(|(_, value)| value);
        visitor.visit_seq(Items { items, rest: self.rest, grown: 0 })
    }

    fn deserialize_enum<V: Visitor<'r>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.tree {
            Tree::Object(fields) => {
                let fields = Fields::of(&fields.all, self.rest, 0);
                visitor.visit_enum(MapAccessDeserializer::new(fields))
            }
            Tree::Text => {
                let variant: BorrowedStrDeserializer<'r, Error> =
                    BorrowedStrDeserializer::new(self.text()?);
                variant.deserialize_enum(name, variants, visitor)
            }
            _ => self.deserialize_any(visitor),
        }
    }

    /// A field that this version does not know takes no memory.
    fn deserialize_ignored_any<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Error> {
        self.rest.pass(self.tree);
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        <V: Visitor<'r>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map identifier
    }
}

struct Items<'a, 'r, I> {
    items: I,
    rest: &'a mut Rest<'r>,
    /// How many times its own size one takes: what is in a struct lies in it.
    grown: usize,
}

impl<'r, I: ExactSizeIterator<Item = &'r Tree<'static>>> SeqAccess<'r> for Items<'_, 'r, I> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'r>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        let Some(tree) = self.items.next() else { return Ok(None) };
        self.rest.room.take(self.grown * size_of::<S::Value>())?;
        seed.deserialize(At { tree, rest: self.rest }).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

struct Fields<'a, 'r> {
    fields: Iter<'r, (Cow<'static, str>, Tree<'static>)>,
    /// Of the field whose name was read last.
    value: &'r Tree<'static>,
    rest: &'a mut Rest<'r>,
    /// As of items.
    grown: usize,
}

impl<'a, 'r> Fields<'a, 'r> {
    fn of(
        fields: &'r [(Cow<'static, str>, Tree<'static>)],
        rest: &'a mut Rest<'r>,
        grown: usize,
    ) -> Self {
        Self { fields: fields.iter(), value: &Tree::Null, rest, grown }
    }
}

impl<'r> MapAccess<'r> for Fields<'_, 'r> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'r>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        let Some((name, value)) = self.fields.next() else { return Ok(None) };
        self.value = value;
        self.rest.room.take(self.grown * (size_of::<S::Value>() + name.len()))?;
        seed.deserialize(Name(name)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'r>>(&mut self, seed: S) -> Result<S::Value, Error> {
        self.rest.room.take(self.grown * size_of::<S::Value>())?;
        seed.deserialize(At { tree: self.value, rest: self.rest })
    }
}

/// The name of a field, which may be a number: JSON has no other keys than texts.
struct Name<'r>(&'r str);

impl<'r> Deserializer<'r> for Name<'r> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_borrowed_str(self.0)
    }

    fn deserialize_u64<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.parse() {
            Ok(number) => visitor.visit_u64(number),
            Err(_) => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'r>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        BorrowedStrDeserializer::new(self.0).deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        <V: Visitor<'r>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u128 f32 f64 char str string bytes byte_buf unit option
        unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}
