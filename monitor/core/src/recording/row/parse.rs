//! Parses an object into what many have in common, and the rest. Rows beside each other are mostly of
//! one form, so that one is compared while it is parsed, and a tree is made from where it differs.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

use super::{Form, Members, Tree};
use crate::room::{GROWN, MOST, Room};

/// What a value takes in its parent, with its name.
const PART: usize = GROWN * size_of::<(Cow<'_, str>, Tree<'_>)>();

/// An object that was parsed.
pub(in crate::recording) struct Read<'a> {
    pub(super) shape: Shape<'a>,
    pub(super) lists: Lists,
}

/// What many objects have in common.
pub(super) enum Shape<'a> {
    Expected(Arc<Form>),
    Other(Tree<'a>),
}

/// What a tree is without, in the order in which it was read.
pub(super) struct Lists {
    pub(super) numbers: Vec<Number>,
    pub(super) texts: Vec<Box<str>>,
    pub(super) n_nodes: usize,
    /// For the object as a whole.
    room: Room,
}

/// Parses a whole object, perhaps of the form that is expected; an error if that takes too much memory.
pub(in crate::recording) struct Whole(pub(super) Option<Arc<Form>>);

impl<'de> DeserializeSeed<'de> for Whole {
    type Value = Read<'de>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Read<'de>, D::Error> {
        let (numbers, texts, n_nodes) = Default::default();
        let mut lists = Lists { numbers, texts, n_nodes, room: Room::new(MOST) };
        if let Some(form) = &self.0 {
            lists.numbers.reserve_exact(form.places.len());
        }
        let expected = self.0.as_ref().map(|form| &form.tree);
        let seen = Along { expected, lists: &mut lists }.deserialize(from)?;
        let shape = match seen {
            Seen::Expected => self.0.map_or(Shape::Other(Tree::Null), Shape::Expected),
            Seen::Other(tree) => {
                // Room was made for another form.
                lists.numbers.shrink_to_fit();
                Shape::Other(tree)
            }
        };
        Ok(Read { shape, lists })
    }
}

/// Parses a value, perhaps with the tree that is expected.
struct Along<'l, 'f, 'de> {
    expected: Option<&'f Tree<'de>>,
    lists: &'l mut Lists,
}

enum Seen<'a> {
    Expected,
    Other(Tree<'a>),
}

impl<'de> Along<'_, '_, 'de> {
    fn leaf(&self, tree: Tree<'de>) -> Seen<'de> {
        if self.expected == Some(&tree) { Seen::Expected } else { Seen::Other(tree) }
    }
}

/// The parts of a list or an object, of which a list is made only if they are not as expected.
struct Made<'f, T> {
    expected: &'f [T],
    n_alike: usize,
    other: Option<Vec<T>>,
}

impl<'f, T: Clone> Made<'f, T> {
    fn along(expected: Option<&'f [T]>) -> Self {
        let other = if expected.is_some() { None } else { Some(Vec::new()) };
        Self { expected: expected.unwrap_or_default(), n_alike: 0, other }
    }

    /// The next part, if all before it were as expected.
    fn expected(&self) -> Option<&'f T> {
        self.expected.get(self.n_alike).filter(|_| self.other.is_none())
    }

    fn push(&mut self, part: T) {
        let alike = &self.expected[..self.n_alike];
        self.other.get_or_insert_with(|| alike.to_vec()).push(part);
    }

    /// All parts; `None` if they are as expected.
    fn end(self) -> Option<Vec<T>> {
        let Self { expected, n_alike, other } = self;
        let is_short = n_alike < expected.len();
        other.or_else(|| is_short.then(|| expected[..n_alike].to_vec()))
    }
}

/// The name of a field: part of the text, unless something in it is escaped.
#[derive(Deserialize)]
#[serde(transparent)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> DeserializeSeed<'de> for Along<'_, '_, 'de> {
    type Value = Seen<'de>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Seen<'de>, D::Error> {
        self.lists.room.take(PART)?;
        self.lists.n_nodes += 1;
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Along<'_, '_, 'de> {
    type Value = Seen<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Seen<'de>, E> {
        Ok(self.leaf(Tree::Null))
    }

    fn visit_bool<E>(self, is: bool) -> Result<Seen<'de>, E> {
        Ok(self.leaf(Tree::Bool(is)))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Seen<'de>, E> {
        self.lists.numbers.push(number.into());
        Ok(self.leaf(Tree::Number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Seen<'de>, E> {
        self.lists.numbers.push(number.into());
        Ok(self.leaf(Tree::Number))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Seen<'de>, E> {
        let number = Number::from_f64(number).ok_or_else(|| E::custom("no finite number"))?;
        self.lists.numbers.push(number);
        Ok(self.leaf(Tree::Number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Seen<'de>, E> {
        self.lists.room.take(text.len())?;
        self.lists.texts.push(text.into());
        Ok(self.leaf(Tree::Text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Seen<'de>, A::Error> {
        let mut items = Made::along(match self.expected {
            Some(Tree::List(items)) => Some(items),
            _ => None,
        });
        while let Some(seen) =
            from.next_element_seed(Along { expected: items.expected(), lists: &mut *self.lists })?
        {
            match seen {
                Seen::Expected => items.n_alike += 1,
                Seen::Other(tree) => items.push(tree),
            }
        }
        Ok(items.end().map_or(Seen::Expected, |items| Seen::Other(Tree::List(items))))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Seen<'de>, A::Error> {
        let mut fields = Made::along(match self.expected {
            Some(Tree::Object(fields)) => Some(&fields.all),
            _ => None,
        });
        while let Some(Name(name)) = from.next_key()? {
            self.lists.room.take(name.len())?;
            let expected = fields.expected().filter(|(expected, _)| *expected == name);
            let expected = expected.map(|(_, tree)| tree);
            match from.next_value_seed(Along { expected, lists: &mut *self.lists })? {
                Seen::Expected => fields.n_alike += 1,
                Seen::Other(tree) => fields.push((name, tree)),
            }
        }
        let object = |all| Tree::Object(Members { all, names: OnceLock::new() });
        Ok(fields.end().map_or(Seen::Expected, |all| Seen::Other(object(all))))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use serde_json::value::to_raw_value;

    use super::super::Forms;

    #[test]
    fn an_object_is_parsed_along_another_one_as_it_is_alone() {
        let objects = [
            json!(null),
            json!(7),
            json!([]),
            json!([1, "a", null]),
            json!([1, "a"]),
            json!([1, "a", null, {}]),
            json!({}),
            json!({"a": 1, "b": {"c": [true, 2.5]}, "d": "x"}),
            json!({"a": -2, "b": {"c": [true, 9]}, "d": "y"}),
            json!({"a": 1, "b": {"c": [false, 2]}, "d": "x"}),
            json!({"a": 1, "b": {"c": [true]}, "d": "x"}),
            json!({"a": 1, "b": {"c": [true, 2], "e": 3}, "d": "x"}),
            json!({"a": 1, "b": {"c": [true, 2]}}),
            json!({"b": {"c": [true, 2]}, "d": "x"}),
            json!({"a": 1, "b": {"c": [true, 2]}, "e": "x"}),
            json!({"a": "1", "b": {"c": [true, 2]}, "d": "x"}),
        ];
        let rows: Vec<_> = objects.iter().map(|object| to_raw_value(object).unwrap()).collect();
        for (along, before) in objects.iter().zip(&rows) {
            for (object, text) in objects.iter().zip(&rows) {
                let mut forms = Forms::default();
                let known = forms.row(before).unwrap();
                forms.row(before).unwrap();
                let row = forms.row(text).unwrap();
                let alone = Forms::default().row(text).unwrap();
                assert_eq!(row.form.tree, alone.form.tree, "{object} along {along}");
                assert_eq!((row.numbers, row.texts), (alone.numbers, alone.texts));
                let is_known = known.form.tree == row.form.tree;
                assert_eq!(is_known, std::sync::Arc::ptr_eq(&known.form, &row.form));
                assert_eq!(forms.all.len(), if is_known { 1 } else { 2 });
            }
        }
    }
}
