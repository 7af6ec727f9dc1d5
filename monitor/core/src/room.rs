//! Reads JSON that strangers may have written: what it makes in memory is counted while it is made,
//! and too much is an error. The length of a text bounds nothing: seven bytes of it may make a cgroup
//! of a kilobyte.

use std::cell::Cell;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};

/// No text makes more than this.
pub const MOST: usize = 256 << 20;
/// What an element or entry takes in a list or map that has just grown, in its own size.
pub(crate) const GROWN: usize = 4;
/// What the first entry of a map takes beside itself: the tree has room for eleven.
pub(crate) const LEAF: usize = 1 << 10;

/// Reads a document.
///
/// # Errors
/// If it is none, or takes more than [`MOST`].
pub fn from_slice<'a, T: Deserialize<'a>>(text: &'a [u8]) -> serde_json::Result<T> {
    let mut from = serde_json::Deserializer::from_slice(text);
    let value = Room::new(MOST).read(&mut from)?;
    from.end()?;
    Ok(value)
}

/// Bytes that may still be taken.
#[derive(Debug)]
pub(crate) struct Room {
    size: usize,
    left: Cell<usize>,
}

impl Room {
    pub(crate) fn new(size: usize) -> Self {
        Self { size, left: Cell::new(size) }
    }

    pub(crate) fn taken(&self) -> usize {
        self.size - self.left.get()
    }

    fn read<'de, T: Deserialize<'de>, D: Deserializer<'de>>(&self, from: D) -> Result<T, D::Error> {
        T::deserialize(Within::new(from, self))
    }

    /// # Errors
    /// If fewer are left.
    pub(crate) fn take<E: Error>(&self, bytes: usize) -> Result<(), E> {
        let left = self.left.get().checked_sub(bytes).ok_or_else(|| {
            let most = self.size >> 20;
            E::custom(format_args!("it would take more than {most} MiB of memory"))
        })?;
        self.left.set(left);
        Ok(())
    }
}

/// A part of serde's machinery that takes from `room` what it makes.
struct Within<'r, T> {
    inner: T,
    room: &'r Room,
    /// How many times its own size an element takes: those of a struct lie in it.
    grown: usize,
}

impl<'r, T> Within<'r, T> {
    fn new(inner: T, room: &'r Room) -> Self {
        Self { inner, room, grown: GROWN }
    }
}

macro_rules! deserialize {
    ($($name:ident($($argument:ident: $of:ty),*))*) => {
        $(fn $name<V: Visitor<'de>>(self, $($argument: $of,)* to: V) -> Result<V::Value, D::Error> {
            self.inner.$name($($argument,)* Within::new(to, self.room))
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Within<'_, D> {
    type Error = D::Error;

    deserialize! {
        deserialize_any() deserialize_bool() deserialize_i8() deserialize_i16() deserialize_i32()
        deserialize_i64() deserialize_i128() deserialize_u8() deserialize_u16() deserialize_u32()
        deserialize_u64() deserialize_u128() deserialize_f32() deserialize_f64() deserialize_char()
        deserialize_str() deserialize_string() deserialize_bytes() deserialize_byte_buf()
        deserialize_option() deserialize_unit() deserialize_seq() deserialize_identifier()
        deserialize_ignored_any() deserialize_unit_struct(name: &'static str)
        deserialize_newtype_struct(name: &'static str) deserialize_tuple(n: usize)
        deserialize_tuple_struct(name: &'static str, n: usize)
        deserialize_enum(name: &'static str, variants: &'static [&'static str])
    }

    fn deserialize_map<V: Visitor<'de>>(self, to: V) -> Result<V::Value, D::Error> {
        self.room.take(LEAF)?;
        self.inner.deserialize_map(Within::new(to, self.room))
    }

    /// It may stand in a box, where nothing else tells how large it is.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        to: V,
    ) -> Result<V::Value, D::Error> {
        self.room.take(size_of::<V::Value>())?;
        let to = Within { inner: to, room: self.room, grown: 0 };
        self.inner.deserialize_struct(name, fields, to)
    }
}

macro_rules! visit {
    ($($name:ident($of:ty))*) => {
        $(fn $name<E: Error>(self, value: $of) -> Result<V::Value, E> {
            self.inner.$name(value)
        })*
    };
}

macro_rules! visit_text {
    ($($name:ident($of:ty))*) => {
        $(fn $name<E: Error>(self, value: $of) -> Result<V::Value, E> {
            self.room.take(value.len())?;
            self.inner.$name(value)
        })*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Within<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    visit! {
        visit_bool(bool) visit_i8(i8) visit_i16(i16) visit_i32(i32) visit_i64(i64) visit_i128(i128)
        visit_u8(u8) visit_u16(u16) visit_u32(u32) visit_u64(u64) visit_u128(u128) visit_f32(f32)
        visit_f64(f64) visit_char(char)
    }

    visit_text! {
        visit_str(&str) visit_borrowed_str(&'de str) visit_string(String) visit_bytes(&[u8])
        visit_borrowed_bytes(&'de [u8]) visit_byte_buf(Vec<u8>)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(Within::new(from, self.room))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, from: D) -> Result<V::Value, D::Error> {
        self.inner.visit_newtype_struct(Within::new(from, self.room))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, from: A) -> Result<V::Value, A::Error> {
        self.inner.visit_seq(Within { inner: from, room: self.room, grown: self.grown })
    }

    fn visit_map<A: MapAccess<'de>>(self, from: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(Within { inner: from, room: self.room, grown: self.grown })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, from: A) -> Result<V::Value, A::Error> {
        self.inner.visit_enum(Within::new(from, self.room))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Within<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(Within::new(from, self.room))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Within<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        let element = self.inner.next_element_seed(Within::new(seed, self.room))?;
        element
            .map(|one| self.room.take(self.grown * size_of::<S::Value>()).map(|()| one))
            .transpose()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Within<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        let key = self.inner.next_key_seed(Within::new(seed, self.room))?;
        key.map(|one| self.room.take(self.grown * size_of::<S::Value>()).map(|()| one)).transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.room.take(self.grown * size_of::<S::Value>())?;
        self.inner.next_value_seed(Within::new(seed, self.room))
    }
}

impl<'de, 'r, A: EnumAccess<'de>> EnumAccess<'de> for Within<'r, A> {
    type Error = A::Error;
    type Variant = Within<'r, A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Self::Variant), A::Error> {
        let (name, variant) = self.inner.variant_seed(Within::new(seed, self.room))?;
        Ok((name, Within::new(variant, self.room)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Within<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.newtype_variant_seed(Within::new(seed, self.room))
    }

    fn tuple_variant<V: Visitor<'de>>(self, n: usize, to: V) -> Result<V::Value, A::Error> {
        self.inner.tuple_variant(n, Within::new(to, self.room))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        to: V,
    ) -> Result<V::Value, A::Error> {
        self.inner.struct_variant(fields, Within::new(to, self.room))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ops::Range;

    use super::*;
    use crate::model::cgroup::{Cgroup, CgroupId};
    use crate::model::stall::{CpuStall, GroupStall};

    /// So many, to a document.
    fn repeated(begin: &str, one: &str, end: &str) -> String {
        let all: Vec<_> = (0..N).map(|i| one.replace('#', &i.to_string())).collect();
        format!("{begin}{}{end}", all.join(","))
    }

    const N: usize = 1_000;

    fn taken<T: for<'de> Deserialize<'de>>(text: &str) -> usize {
        let room = Room::new(MOST);
        room.read::<T, _>(&mut serde_json::Deserializer::from_str(text)).unwrap();
        room.taken() / N
    }

    #[test]
    fn read_takes_no_less_than_what_is_made() {
        let (cgroup, stall) = (size_of::<Cgroup>(), size_of::<CpuStall>());
        let cgroups = repeated("{", r##""#":{}"##, "}");
        let stalls = repeated(r#"{"cpus":["#, r#"{"switches":1}"#, "]}");
        let texts = repeated("[", r#""0123456789""#, "]");
        #[rustfmt::skip]
        let table: [(&str, usize, Range<usize>); 4] = [
            // what, bytes taken for each, as many as they may be
            ("cgroups of their own",  taken::<BTreeMap<CgroupId, Cgroup>>(&cgroups), 2 * cgroup..9 * cgroup),
            ("cgroups in boxes",      taken::<BTreeMap<CgroupId, Box<Cgroup>>>(&cgroups), cgroup..2 * cgroup),
            ("parts of a struct",     taken::<GroupStall>(&stalls), 2 * stall..8 * stall),
            ("texts",                 taken::<Vec<String>>(&texts), 10 + size_of::<String>()..200),
        ];
        for (what, got, want) in table {
            assert!(want.contains(&got), "{what}: {got}, not {want:?}");
        }
    }

    #[test]
    fn from_slice_refuses_what_takes_too_much() {
        let text = |n: usize| format!("[{}0]", "0,".repeat(n));
        // A number takes at most 32 bytes in a list.
        #[rustfmt::skip]
        let table = [
            // numbers, whether they are read
            (MOST / 32 - 1, true),
            (MOST / 32 + 1, false),
        ];
        for (n, is_read) in table {
            let read = from_slice::<Vec<u64>>(text(n).as_bytes());
            assert_eq!(read.is_ok(), is_read, "{n}");
            if let Err(why) = read {
                assert!(why.to_string().starts_with("it would take more than 256 MiB"), "{why}");
            }
        }
        let two = format!("{} 1", text(1));
        assert!(from_slice::<Vec<u64>>(two.as_bytes()).is_err(), "two documents");
    }
}
