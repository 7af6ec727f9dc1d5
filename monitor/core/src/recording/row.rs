//! An object as it was recorded, with its numbers in one list: what many rows have in common, the
//! names of fields and the place of each number, is kept once, and a change finds its number there.
//! Members that this version does not know are kept and changed, too.

mod parse;
mod read;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock, Weak};

use serde::de::{DeserializeOwned, DeserializeSeed as _};
use serde_json::Number;
use serde_json::value::RawValue;

use self::parse::{Lists, Shape};
pub(super) use self::parse::{Read, Whole};
use self::read::{At, Rest};
use super::apply::Misfit;
use crate::room::{self, Room};

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

    /// Bytes of its longest text.
    pub(super) fn longest_text(&self) -> usize {
        self.texts.iter().map(|text| text.len()).max().unwrap_or(0)
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

    /// What it reads as, and how much memory that takes with the row itself, without the form.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<(T, usize), Misfit> {
        let room = Room::new(room::MOST);
        let mut rest = Rest { numbers: self.numbers.iter(), texts: self.texts.iter(), room: &room };
        let read = T::deserialize(At { tree: &self.form.tree, rest: &mut rest })?;
        let texts: usize = self.texts.iter().map(|text| size_of_val(text) + text.len()).sum();
        Ok((read, room.taken() + size_of::<Self>() + size_of_val(&self.numbers[..]) + texts))
    }
}

/// Bytes that a value takes in a form, without its pointer: twice its node, its name, and its place.
const NODE: usize = 256;

/// What rows have in common.
#[derive(Debug)]
pub(super) struct Form {
    tree: Tree<'static>,
    /// Of each number, by JSON pointer (RFC 6901).
    places: BTreeMap<String, usize>,
    /// Bytes that it takes.
    size: usize,
}

impl Form {
    pub(super) fn place(&self, pointer: &str) -> Option<usize> {
        self.places.get(pointer).copied()
    }
}

/// The forms of the rows of a table.
#[derive(Debug, Default)]
pub(super) struct Forms {
    all: BTreeMap<Tree<'static>, Arc<Form>>,
    /// Bytes that they take.
    pub(super) size: usize,
    /// Where the form of the row before is in memory, for comparison alone; 0 at first.
    last: usize,
    /// By where a form is, the one of the row that came after it: a pod and its containers take turns.
    after: BTreeMap<usize, Weak<Form>>,
}

impl Forms {
    pub(super) fn row(&mut self, text: &RawValue) -> Result<Row, Misfit> {
        // Such a text is one value, and nothing after it.
        let read = self.whole().deserialize(&mut serde_json::Deserializer::from_str(text.get()))?;
        self.of(read)
    }

    /// What parses the next row.
    pub(super) fn whole(&self) -> Whole {
        Whole(self.after.get(&self.last).and_then(Weak::upgrade))
    }

    pub(super) fn of(&mut self, Read { shape, lists }: Read<'_>) -> Result<Row, Misfit> {
        let Lists { numbers, texts, n_nodes, .. } = lists;
        let form = match shape {
            Shape::Expected(form) => form,
            Shape::Other(tree) => self.form(tree, n_nodes)?,
        };
        self.after.insert(self.last, Arc::downgrade(&form));
        self.last = Arc::as_ptr(&form).addr();
        Ok(Row { form, numbers, texts })
    }

    fn form(&mut self, tree: Tree<'_>, n_nodes: usize) -> Result<Arc<Form>, Misfit> {
        if let Some(form) = self.all.get(&tree) {
            return Ok(Arc::clone(form));
        }
        let tree = tree.kept();
        let mut names = Names::default();
        tree.name(&mut String::new(), &mut names)?;
        let Names { places, size, .. } = names;
        let form = Arc::new(Form { tree: tree.clone(), places, size: size + n_nodes * NODE });
        self.size += form.size;
        self.all.insert(tree, Arc::clone(&form));
        Ok(form)
    }

    /// Forgets forms that no row has.
    pub(super) fn tidy(&mut self) {
        self.all.retain(|_, form| {
            let is_used = Arc::strong_count(form) > 1;
            self.size -= if is_used { 0 } else { form.size };
            is_used
        });
        let there: BTreeSet<_> = self.all.values().map(|form| Arc::as_ptr(form).addr()).collect();
        self.after.retain(|at, form| there.contains(at) && form.strong_count() > 0);
    }
}

/// A JSON value without its numbers and texts. Hundreds of rows have a form that is known already, so
/// names are copied for a new form alone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tree<'a> {
    Null,
    Bool(bool),
    Number,
    Text,
    List(Vec<Tree<'a>>),
    Object(Members<'a>),
}

/// The fields of an object, in their order.
#[derive(Debug, Clone)]
pub(super) struct Members<'a> {
    all: Vec<(Cow<'a, str>, Tree<'a>)>,
    /// Where the names of the struct stand that was read from these fields: hundreds of rows of a tick
    /// have one form, and its names need no second look.
    names: OnceLock<usize>,
}

impl Members<'_> {
    /// True if the fields of a struct have these names, in this order.
    fn are(&self, names: &'static [&'static str]) -> bool {
        let place = names.as_ptr().addr();
        if self.names.get() == Some(&place) && names.len() == self.all.len() {
            return true;
        }
        let are = self.all.iter().map(|(name, _)| &**name).eq(names.iter().copied());
        if are {
            // Another struct with the same names is compared each time.
            let _ = self.names.set(place);
        }
        are
    }
}

impl PartialEq for Members<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl Eq for Members<'_> {}

impl PartialOrd for Members<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Members<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.all.cmp(&other.all)
    }
}

/// The pointers of numbers, while they are found.
#[derive(Default)]
struct Names {
    places: BTreeMap<String, usize>,
    /// Numbers so far, those of the same name too.
    n: usize,
    /// Bytes of all pointers: a long name makes each of those below it long.
    size: usize,
}

impl Tree<'_> {
    /// The same with its names copied.
    fn kept(self) -> Tree<'static> {
        match self {
            Self::Null => Tree::Null,
            Self::Bool(is) => Tree::Bool(is),
            Self::Number => Tree::Number,
            Self::Text => Tree::Text,
            Self::List(items) => Tree::List(items.into_iter().map(Self::kept).collect()),
            Self::Object(Members { all, .. }) => {
                let kept = |(name, field): (Cow<'_, str>, Self)| {
                    (Cow::Owned(name.into_owned()), field.kept())
                };
                let all = all.into_iter().map(kept).collect();
                Tree::Object(Members { all, names: OnceLock::new() })
            }
        }
    }

    /// Finds the numbers below `pointer`, in the order in which they are listed.
    fn name(&self, pointer: &mut String, names: &mut Names) -> Result<(), Misfit> {
        let length = pointer.len();
        match self {
            Self::Null | Self::Bool(_) | Self::Text => {}
            Self::Number => {
                names.size += length;
                if names.size > room::MOST {
                    return Err(Misfit("its names would take too much memory".into()));
                }
                names.places.insert(pointer.clone(), names.n);
                names.n += 1;
            }
            Self::List(items) => {
                for (i, item) in items.iter().enumerate() {
                    pointer.push_str(&format!("/{i}"));
                    item.name(pointer, names)?;
                    pointer.truncate(length);
                }
            }
            Self::Object(fields) => {
                for (name, field) in &fields.all {
                    pointer.push('/');
                    pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
                    field.name(pointer, names)?;
                    pointer.truncate(length);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;
    use serde_json::{Value, json};

    use super::*;

    fn row(forms: &mut Forms, value: &Value) -> Row {
        forms.row(&to_raw_value(value).unwrap()).unwrap()
    }

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
            let row = row(&mut forms, &value);
            assert_eq!(row.read::<Value>().unwrap().0, value);
        }
        assert_eq!(forms.all.len(), 5, "the last two are of one form");
        forms.tidy();
        assert_eq!((forms.all.len(), forms.size), (0, 0));
    }

    #[test]
    fn members_that_are_not_known_are_passed_over() {
        #[derive(Debug, PartialEq, serde::Deserialize)]
        struct Known {
            a: u64,
            z: String,
        }
        for unknown in [json!(null), json!(7), json!("x"), json!([1, {"n": 2, "t": ["y"]}, {}])] {
            let object = json!({"a": 1, "b": unknown, "z": "last"});
            let (read, _) = row(&mut Forms::default(), &object).read::<Known>().unwrap();
            assert_eq!(read, Known { a: 1, z: "last".into() }, "{object}");
        }
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
            let mut row = row(&mut forms, &object);
            let shifted = row.form().place(pointer).and_then(|place| row.shift(place, delta));
            let value: Value = row.read().unwrap().0;
            let there = shifted.and_then(|()| value.pointer(pointer).cloned());
            assert_eq!(there, want, "{pointer} {delta}");
        }
    }
}
