//! An object as the list of its values, as serde tells them: two objects are compared value by value
//! without writing either as text.

mod places;

use serde::Serialize;
use serde::ser::{
    Error as _, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde_json::{Error, Result};

/// What one object consists of, in its order.
#[derive(Debug, Clone, Default)]
pub(super) struct Values {
    all: Vec<Value>,
    /// All texts and names, one after the other.
    texts: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Value {
    Null,
    Bool(bool),
    Whole(u64),
    Negative(i64),
    Fraction(f64),
    /// So many of the bytes that come next in the texts.
    Text(usize),
    /// A member's name in a struct.
    Field(Name<'static>),
    /// A member's name in a map, likewise.
    Name(usize),
    Object,
    List,
    End,
}

/// The name of a member. That of a struct is mostly at one place in memory, and then not compared.
#[derive(Debug, Clone, Copy)]
struct Name<'a>(&'a str);

impl PartialEq for Name<'_> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0) || self.0 == other.0
    }
}

impl Values {
    /// Takes these of `object` in place of those of another one.
    pub(super) fn read(&mut self, object: &impl Serialize) -> Result<()> {
        self.all.clear();
        self.texts.clear();
        object.serialize(self)
    }

    /// By place, ascending, how much each number has changed since `before`; `None` if anything else has,
    /// or a number by more than an `i64`.
    pub(super) fn changes(&self, before: &Self) -> Option<Vec<(usize, i64)>> {
        if self.all.len() != before.all.len() || self.texts != before.texts {
            return None;
        }
        let both = self.all.iter().zip(&before.all).enumerate();
        let changed = both.filter(|(_, (now, before))| now != before);
        changed.map(|(place, (now, before))| Some((place, difference(*before, *now)?))).collect()
    }

    fn push(&mut self, value: Value) -> Result<()> {
        self.all.push(value);
        Ok(())
    }

    fn begin(&mut self, value: Value) -> Result<&mut Self> {
        self.all.push(value);
        Ok(self)
    }

    /// A variant with something in it is an object of one member.
    fn variant(&mut self, name: &'static str) -> &mut Self {
        self.all.extend([Value::Object, Value::Field(Name(name))]);
        self
    }
}

/// The difference of two numbers of one kind, in units or, of fractions, in hundredths.
fn difference(before: Value, now: Value) -> Option<i64> {
    let whole = |value| match value {
        Value::Whole(n) => Some(i128::from(n)),
        Value::Negative(n) => Some(i128::from(n)),
        _ => None,
    };
    let difference = match (before, now) {
        (Value::Fraction(before), Value::Fraction(now)) => hundredths(now)? - hundredths(before)?,
        _ => whole(now)? - whole(before)?,
    };
    i64::try_from(difference).ok()
}

/// A fraction that has two decimals at most.
fn hundredths(fraction: f64) -> Option<i128> {
    let hundredths = (fraction * 100.0).round();
    let is_exact = hundredths.abs() < 1e15 && hundredths / 100.0 == fraction;
    // Whole and in range: the cast is exact.
    is_exact.then_some(hundredths as i128)
}

macro_rules! serialize {
    ($($name:ident($of:ty) $value:expr;)*) => {
        $(fn $name(self, value: $of) -> Result<()> {
            self.push($value(value))
        })*
    };
}

impl Serializer for &mut Values {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    serialize! {
        serialize_bool(bool) Value::Bool;
        serialize_i8(i8) |n: i8| signed(n.into());
        serialize_i16(i16) |n: i16| signed(n.into());
        serialize_i32(i32) |n: i32| signed(n.into());
        serialize_i64(i64) signed;
        serialize_u8(u8) |n: u8| Value::Whole(n.into());
        serialize_u16(u16) |n: u16| Value::Whole(n.into());
        serialize_u32(u32) |n: u32| Value::Whole(n.into());
        serialize_u64(u64) Value::Whole;
        serialize_f32(f32) |n: f32| Value::Fraction(n.into());
        serialize_f64(f64) Value::Fraction;
    }

    fn serialize_char(self, value: char) -> Result<()> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, text: &str) -> Result<()> {
        self.texts.push_str(text);
        self.push(Value::Text(text.len()))
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<()> {
        self.collect_seq(bytes)
    }

    fn serialize_none(self) -> Result<()> {
        self.push(Value::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<()> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<()> {
        self.push(Value::Null)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<()> {
        self.push(Value::Null)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, name: &'static str) -> Result<()> {
        self.serialize_str(name)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<()> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        value: &T,
    ) -> Result<()> {
        value.serialize(self.variant(name))?;
        self.push(Value::End)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self> {
        self.begin(Value::List)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self> {
        self.begin(Value::List)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self> {
        self.begin(Value::List)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        _: usize,
    ) -> Result<Self> {
        self.variant(name).begin(Value::List)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self> {
        self.begin(Value::Object)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self> {
        self.begin(Value::Object)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        _: usize,
    ) -> Result<Self> {
        self.variant(name).begin(Value::Object)
    }
}

fn signed(n: i64) -> Value {
    u64::try_from(n).map_or(Value::Negative(n), Value::Whole)
}

/// Of what is written without names, and of what is written with names that are known beforehand.
macro_rules! parts {
    ($($trait:ident $part:ident($($name:ident)?) $n_ends:literal;)*) => {
        $(impl $trait for &mut Values {
            type Ok = ();
            type Error = Error;

            fn $part<T: Serialize + ?Sized>(&mut self, $($name: &'static str,)? value: &T) -> Result<()> {
                $(self.all.push(Value::Field(Name($name)));)?
                value.serialize(&mut **self)
            }

            fn end(self) -> Result<()> {
                self.all.extend([Value::End; $n_ends]);
                Ok(())
            }
        })*
    };
}

parts! {
    SerializeSeq serialize_element() 1;
    SerializeTuple serialize_element() 1;
    SerializeTupleStruct serialize_field() 1;
    SerializeTupleVariant serialize_field() 2;
    SerializeStruct serialize_field(name) 1;
    SerializeStructVariant serialize_field(name) 2;
}

impl SerializeMap for &mut Values {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<()> {
        let n = self.all.len();
        key.serialize(&mut **self)?;
        let name = match self.all.get(n..) {
            Some([Value::Text(length)]) => Value::Name(*length),
            Some([Value::Whole(number)]) => {
                let name = number.to_string();
                self.texts.push_str(&name);
                Value::Name(name.len())
            }
            _ => return Err(Error::custom("a key that is neither text nor number")),
        };
        self.all.truncate(n);
        self.push(name)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        value.serialize(&mut **self)
    }

    fn end(self) -> Result<()> {
        self.push(Value::End)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_value;

    use super::*;
    use crate::model::cgroup::Limit;

    fn changes(before: &impl Serialize, now: &impl Serialize) -> Option<Vec<(String, i64)>> {
        let (mut a, mut b) = (Values::default(), Values::default());
        a.read(before).unwrap();
        b.read(now).unwrap();
        let changes = b.changes(&a)?;
        let pointers = b.pointers(changes.iter().map(|(place, _)| *place));
        Some(pointers.into_iter().zip(changes.iter().map(|(_, change)| *change)).collect())
    }

    #[test]
    fn changes_are_of_numbers_if_nothing_else_changed() {
        #[rustfmt::skip]
        let table = [
            // before, now, changes
            (r#"{"a":1,"b":[2,3]}"#,   r#"{"a":10,"b":[2,1]}"#,   Some(vec![("/a", 9), ("/b/1", -2)])),
            (r#"{"a":{"b":{"c":1}}}"#, r#"{"a":{"b":{"c":2}}}"#,  Some(vec![("/a/b/c", 1)])),
            (r#"{"a":[{"x":1},{"x":1}],"z":0}"#, r#"{"a":[{"x":1},{"x":9}],"z":1}"#, Some(vec![("/a/1/x", 8), ("/z", 1)])),
            (r#"[[1,2],[],[3,4]]"#,    r#"[[1,2],[],[3,9]]"#,     Some(vec![("/2/1", 5)])),
            (r#"{"p":12.3}"#,          r#"{"p":12.34}"#,          Some(vec![("/p", 4)])),
            (r#"{"p":0.0}"#,           r#"{"p":655.35}"#,         Some(vec![("/p", 655_35)])),
            (r#"{"p":1.234}"#,         r#"{"p":1.235}"#,          None), // not a percentage
            (r#"{"p":1e30}"#,          r#"{"p":2e30}"#,           None),
            (r#"{"p":1.0}"#,           r#"{"p":1}"#,              None), // another kind of number
            (r#"{"n":-5}"#,            r#"{"n":7}"#,              Some(vec![("/n", 12)])),
            (r#"{"n":null}"#,          r#"{"n":7}"#,              None), // null is not 0
            (r#"{"n":7}"#,             r#"{"n":null}"#,           None),
            (r#"{"n":[7]}"#,           r#"{"n":[7,8]}"#,          None),
            (r#"{"n":[7,8]}"#,         r#"{"n":[7]}"#,            None),
            (r#"{"n":[[7],8]}"#,       r#"{"n":[[7,8]]}"#,        None),
            (r#"{"s":"1"}"#,           r#"{"s":"2"}"#,            None), // a text is not a number
            (r#"{"s":"ab","t":"c"}"#,  r#"{"s":"a","t":"bc"}"#,   None),
            (r#"{"s":"a\"1","n":1}"#,  r#"{"s":"a\"1","n":2}"#,   Some(vec![("/n", 1)])),
            (r#"{"a/b~":1}"#,          r#"{"a/b~":2}"#,           Some(vec![("/a~1b~0", 1)])),
            (r#"{"a\"b":1}"#,          r#"{"a\"b":2}"#,           Some(vec![("/a\"b", 1)])),
            ("5",                      "7",                       Some(vec![("", 2)])),
            (r#"{"a":1}"#,             r#"{"a":1,"b":2}"#,        None),
            (r#"{"a":1}"#,             r#"{"b":1}"#,              None),
            (r#"{"a":true}"#,          r#"{"a":false}"#,          None),
        ];
        for (before, now, want) in table {
            let want: Option<Vec<_>> =
                want.map(|all| all.into_iter().map(|(path, n)| (path.to_owned(), n)).collect());
            let value = |text| serde_json::from_str::<serde_json::Value>(text).unwrap();
            assert_eq!(changes(&value(before), &value(now)), want, "{before} to {now}");
        }
        assert_eq!(changes(&0_u64, &u64::MAX), None, "too far for an i64");
    }

    #[test]
    fn changes_are_at_the_places_that_json_has() {
        let limits = (Limit::At(7), Some(Limit::At(8)), [(3_u64, 'x')]);
        let later = (Limit::At(9), Some(Limit::At(18)), [(4_u64, 'x')]);
        let all = changes(&limits, &later).unwrap();
        let (json, json_later) = (to_value(limits).unwrap(), to_value(later).unwrap());
        assert_eq!(all.len(), 3);
        for (pointer, change) in all {
            let at = |json: &serde_json::Value| json.pointer(&pointer).unwrap().as_i64().unwrap();
            assert_eq!(at(&json_later) - at(&json), change, "{pointer}");
        }
        assert_eq!(changes(&Limit::Max, &Limit::At(7)), None);
    }
}
