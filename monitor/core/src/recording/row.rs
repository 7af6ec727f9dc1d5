//! An object as it was recorded, with its numbers in one list: what many rows have in common, the
//! names of fields and the place of each number, is kept once, and a change finds its number there.
//! Fields that this version does not know are kept and changed, too.

use std::collections::BTreeMap;
use std::slice::Iter;
use std::sync::Arc;

use serde::de::value::{BorrowedStrDeserializer, MapAccessDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Number, Value};

use super::apply::Misfit;

#[derive(Debug, Clone)]
pub(super) struct Row {
    form: Arc<Form>,
    numbers: Vec<Number>,
    texts: Vec<Box<str>>,
}

impl Row {
    pub(super) fn form(&self) -> &Arc<Form> {
        &self.form
    }

    /// Adds to a number, in units of its last decimal; `None` if there is no such number, or the
    /// sum is out of range.
    pub(super) fn shift(&mut self, place: usize, delta: i64) -> Option<()> {
        let number = self.numbers.get_mut(place)?;
        *number = if let Some(whole) = number.as_i128() {
            Number::from_i128(whole.checked_add(delta.into())?)?
        } else {
            let hundredths = (number.as_f64()? * 100.0).round();
            Number::from_f64((hundredths + delta as f64) / 100.0)?
        };
        Some(())
    }

    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, Misfit> {
        let mut rest = Rest { numbers: self.numbers.iter(), texts: self.texts.iter() };
        Ok(T::deserialize(At { tree: &self.form.tree, rest: &mut rest })?)
    }
}

/// What rows have in common.
#[derive(Debug)]
pub(super) struct Form {
    tree: Tree,
    /// Of each number, by JSON pointer (RFC 6901).
    places: BTreeMap<String, usize>,
}

impl Form {
    pub(super) fn place(&self, pointer: &str) -> Option<usize> {
        self.places.get(pointer).copied()
    }
}

/// The forms of the rows of a table.
#[derive(Debug, Default)]
pub(super) struct Forms(BTreeMap<Tree, Arc<Form>>);

impl Forms {
    pub(super) fn row(&mut self, value: Value) -> Row {
        let (mut numbers, mut texts) = (Vec::new(), Vec::new());
        let tree = Tree::of(value, &mut numbers, &mut texts);
        let form = self.0.entry(tree).or_insert_with_key(|tree| {
            let mut places = BTreeMap::new();
            tree.name(&mut String::new(), &mut places);
            Arc::new(Form { tree: tree.clone(), places })
        });
        Row { form: Arc::clone(form), numbers, texts }
    }

    /// Forgets forms that no row has.
    pub(super) fn tidy(&mut self) {
        self.0.retain(|_, form| Arc::strong_count(form) > 1);
    }
}

/// A JSON value without its numbers and texts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Tree {
    Null,
    Bool(bool),
    Number,
    Text,
    List(Vec<Tree>),
    Object(Vec<(Box<str>, Tree)>),
}

impl Tree {
    fn of(value: Value, numbers: &mut Vec<Number>, texts: &mut Vec<Box<str>>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(is) => Self::Bool(is),
            Value::Number(number) => {
                numbers.push(number);
                Self::Number
            }
            Value::String(text) => {
                texts.push(text.into());
                Self::Text
            }
            Value::Array(items) => {
                Self::List(items.into_iter().map(|item| Self::of(item, numbers, texts)).collect())
            }
            Value::Object(fields) => {
                let tree =
                    |(name, value): (String, _)| (name.into(), Self::of(value, numbers, texts));
                Self::Object(fields.into_iter().map(tree).collect())
            }
        }
    }

    /// Numbers those below `pointer`, in the order in which they are listed.
    fn name(&self, pointer: &mut String, places: &mut BTreeMap<String, usize>) {
        let length = pointer.len();
        match self {
            Self::Null | Self::Bool(_) | Self::Text => {}
            Self::Number => {
                places.insert(pointer.clone(), places.len());
            }
            Self::List(items) => {
                for (i, item) in items.iter().enumerate() {
                    pointer.push_str(&format!("/{i}"));
                    item.name(pointer, places);
                    pointer.truncate(length);
                }
            }
            Self::Object(fields) => {
                for (name, field) in fields {
                    pointer.push('/');
                    pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
                    field.name(pointer, places);
                    pointer.truncate(length);
                }
            }
        }
    }
}

/// Numbers and texts that are not read yet.
struct Rest<'r> {
    numbers: Iter<'r, Number>,
    texts: Iter<'r, Box<str>>,
}

/// A value of a row that is being read.
struct At<'a, 'r> {
    tree: &'r Tree,
    rest: &'a mut Rest<'r>,
}

impl<'r> At<'_, 'r> {
    fn number(self) -> Result<&'r Number, Error> {
        self.rest.numbers.next().ok_or_else(|| Error::custom("a number is missing"))
    }

    fn text(self) -> Result<&'r str, Error> {
        self.rest.texts.next().map(|text| &**text).ok_or_else(|| Error::custom("a text is missing"))
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
            Tree::List(items) => visitor.visit_seq(Items { items: items.iter(), rest: self.rest }),
            Tree::Object(fields) => visitor.visit_map(Fields::of(fields, self.rest)),
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

    fn deserialize_enum<V: Visitor<'r>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.tree {
            Tree::Object(fields) => {
                visitor.visit_enum(MapAccessDeserializer::new(Fields::of(fields, self.rest)))
            }
            Tree::Text => {
                let variant: BorrowedStrDeserializer<'r, Error> =
                    BorrowedStrDeserializer::new(self.text()?);
                variant.deserialize_enum(name, variants, visitor)
            }
            _ => self.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        <V: Visitor<'r>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

struct Items<'a, 'r> {
    items: Iter<'r, Tree>,
    rest: &'a mut Rest<'r>,
}

impl<'r> SeqAccess<'r> for Items<'_, 'r> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'r>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        let Some(tree) = self.items.next() else { return Ok(None) };
        seed.deserialize(At { tree, rest: self.rest }).map(Some)
    }
}

struct Fields<'a, 'r> {
    fields: Iter<'r, (Box<str>, Tree)>,
    /// Of the field whose name was read last.
    value: &'r Tree,
    rest: &'a mut Rest<'r>,
}

impl<'a, 'r> Fields<'a, 'r> {
    fn of(fields: &'r [(Box<str>, Tree)], rest: &'a mut Rest<'r>) -> Self {
        Self { fields: fields.iter(), value: &Tree::Null, rest }
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
        seed.deserialize(BorrowedStrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'r>>(&mut self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(At { tree: self.value, rest: self.rest })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_are_read_as_they_were_written() {
        let mut forms = Forms::default();
        for value in [
            json!(null),
            json!(-7),
            json!("a"),
            json!([]),
            json!({"b": [1, {"c": "x", "d": null}, []], "a": {"~/": 0.25, "": true}, "z": u64::MAX}),
            json!({"b": [2, {"c": "y", "d": null}, []], "a": {"~/": 7, "": true}, "z": 0}),
        ] {
            let row = forms.row(value.clone());
            assert_eq!(row.read::<Value>(), Ok(value));
        }
        assert_eq!(forms.0.len(), 5, "the last two are of one form");
        forms.tidy();
        assert_eq!(forms.0.len(), 0);
    }

    #[test]
    fn shift_adds_to_the_last_decimal() {
        let mut forms = Forms::default();
        let object = json!({"a": [{"b~/": 1}, 12.3], "z": u64::MAX, "text": "x", "none": null});
        #[rustfmt::skip]
        let table = [
            // pointer, change, the number then
            ("/a/0/b~0~1", 2,        Some(json!(3))),
            ("/a/0/b~0~1", -2,       Some(json!(-1))),
            ("/a/1",       5,        Some(json!(12.35))),
            ("/z",         -1,       Some(json!(u64::MAX - 1))),
            ("/z",         1,        None), // out of range
            ("/a/0",       1,        None), // no number
            ("/a/01",      1,        None),
            ("/a/2",       1,        None),
            ("/text",      1,        None),
            ("/none",      1,        None),
            ("z",          1,        None),
            ("",           1,        None),
        ];
        for (pointer, delta, want) in table {
            let mut row = forms.row(object.clone());
            let shifted = row.form().place(pointer).and_then(|place| row.shift(place, delta));
            let value: Value = row.read().unwrap();
            let there = shifted.and_then(|()| value.pointer(pointer).cloned());
            assert_eq!(there, want, "{pointer} {delta}");
        }
    }
}
