//! A serializer that writes what a type says is a word of its own, such as a variant or the name of a
//! field, and has `Names` say what is written in place of every other text. So a field that is added
//! to a type is replaced, too.

use std::cell::RefCell;
use std::fmt::Display;

use serde::ser::{
    Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use super::Names;

/// A serializer, or what it writes a list, map or struct with, behind a veil.
pub(super) struct Veil<'n, S> {
    inner: S,
    names: &'n RefCell<Names>,
}

impl<'n, S> Veil<'n, S> {
    pub(super) fn new(inner: S, names: &'n RefCell<Names>) -> Self {
        Self { inner, names }
    }
}

/// A value behind a veil.
struct Veiled<'n, 'v, T: ?Sized> {
    value: &'v T,
    names: &'n RefCell<Names>,
}

impl<T: Serialize + ?Sized> Serialize for Veiled<'_, '_, T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(Veil::new(to, self.names))
    }
}

macro_rules! plain {
    ($($name:ident($of:ty))*) => {
        $(fn $name(self, value: $of) -> Result<S::Ok, S::Error> {
            self.inner.$name(value)
        })*
    };
}

macro_rules! begun {
    ($($name:ident($($argument:ident: $of:ty),*) -> $made:ident)*) => {
        $(fn $name(self, $($argument: $of),*) -> Result<Self::$made, S::Error> {
            Ok(Veil::new(self.inner.$name($($argument),*)?, self.names))
        })*
    };
}

impl<'n, S: Serializer> Serializer for Veil<'n, S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Veil<'n, S::SerializeSeq>;
    type SerializeTuple = Veil<'n, S::SerializeTuple>;
    type SerializeTupleStruct = Veil<'n, S::SerializeTupleStruct>;
    type SerializeTupleVariant = Veil<'n, S::SerializeTupleVariant>;
    type SerializeMap = Veil<'n, S::SerializeMap>;
    type SerializeStruct = Veil<'n, S::SerializeStruct>;
    type SerializeStructVariant = Veil<'n, S::SerializeStructVariant>;

    plain! {
        serialize_bool(bool) serialize_i8(i8) serialize_i16(i16) serialize_i32(i32)
        serialize_i64(i64) serialize_i128(i128) serialize_u8(u8) serialize_u16(u16)
        serialize_u32(u32) serialize_u64(u64) serialize_u128(u128) serialize_f32(f32)
        serialize_f64(f64) serialize_unit_struct(&'static str)
    }

    begun! {
        serialize_seq(n: Option<usize>) -> SerializeSeq
        serialize_tuple(n: usize) -> SerializeTuple
        serialize_tuple_struct(name: &'static str, n: usize) -> SerializeTupleStruct
        serialize_tuple_variant(name: &'static str, i: u32, variant: &'static str, n: usize)
            -> SerializeTupleVariant
        serialize_map(n: Option<usize>) -> SerializeMap
        serialize_struct(name: &'static str, n: usize) -> SerializeStruct
        serialize_struct_variant(name: &'static str, i: u32, variant: &'static str, n: usize)
            -> SerializeStructVariant
    }

    fn serialize_str(self, text: &str) -> Result<S::Ok, S::Error> {
        let text = self.names.borrow_mut().text(text);
        self.inner.serialize_str(&text)
    }

    fn serialize_char(self, c: char) -> Result<S::Ok, S::Error> {
        self.serialize_str(c.encode_utf8(&mut [0; 4]))
    }

    fn serialize_bytes(self, _bytes: &[u8]) -> Result<S::Ok, S::Error> {
        self.inner.serialize_bytes(&[])
    }

    /// Amounts, times, sets of CPUs, and patterns of paths.
    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        let text = value.to_string();
        let is_amount = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
        if is_amount { self.inner.serialize_str(&text) } else { self.serialize_str(&text) }
    }

    fn serialize_none(self) -> Result<S::Ok, S::Error> {
        self.inner.serialize_none()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        self.inner.serialize_some(&Veiled { value, names: self.names })
    }

    fn serialize_unit(self) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        name: &'static str,
        i: u32,
        variant: &'static str,
    ) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit_variant(name, i, variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        self.inner.serialize_newtype_struct(name, &Veiled { value, names: self.names })
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        i: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        let value = Veiled { value, names: self.names };
        self.inner.serialize_newtype_variant(name, i, variant, &value)
    }
}

macro_rules! listed {
    ($($of:ident::$name:ident)*) => {
        $(impl<S: $of> $of for Veil<'_, S> {
            type Ok = S::Ok;
            type Error = S::Error;

            fn $name<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), S::Error> {
                self.inner.$name(&Veiled { value, names: self.names })
            }

            fn end(self) -> Result<S::Ok, S::Error> {
                self.inner.end()
            }
        })*
    };
}

listed! {
    SerializeSeq::serialize_element SerializeTuple::serialize_element
    SerializeTupleStruct::serialize_field SerializeTupleVariant::serialize_field
}

macro_rules! named {
    ($($of:ident)*) => {
        $(impl<S: $of> $of for Veil<'_, S> {
            type Ok = S::Ok;
            type Error = S::Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), S::Error> {
                self.inner.serialize_field(name, &Veiled { value, names: self.names })
            }

            fn end(self) -> Result<S::Ok, S::Error> {
                self.inner.end()
            }
        })*
    };
}

named! { SerializeStruct SerializeStructVariant }

impl<S: SerializeMap> SerializeMap for Veil<'_, S> {
    type Ok = S::Ok;
    type Error = S::Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), S::Error> {
        self.inner.serialize_key(&Veiled { value, names: self.names })
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), S::Error> {
        self.inner.serialize_value(&Veiled { value, names: self.names })
    }

    fn end(self) -> Result<S::Ok, S::Error> {
        self.inner.end()
    }
}
