//! Stores JSON in the types of a state file as Go's `encoding/json` does: members in the order of the
//! text, keys in any case, the last one wins, maps are merged, `null` empties a map and leaves
//! anything else as it was.
//! In: text that [`check`](super::syntax::check) accepts. Out: the content, or the first value of
//! another type, in Go's words. Source: Go `encoding/json`, decode.go.

use std::collections::BTreeMap;

use super::syntax::is_space;

/// A value as it is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Raw<'a>(&'a str);

impl<'a> Raw<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Self(trimmed(text))
    }

    /// As Go names it.
    pub(super) fn kind(self) -> &'static str {
        match self.0.as_bytes().first() {
            Some(b'{') => "object",
            Some(b'[') => "array",
            Some(b'"') => "string",
            Some(b't' | b'f') => "bool",
            Some(b'n') => "null",
            _ => "number",
        }
    }

    /// Those of an object; none of anything else.
    pub(super) fn members(self) -> Members<'a> {
        Members(self.0.strip_prefix('{').unwrap_or_default())
    }
}

/// Keys and values of an object, in the order of the text.
pub(super) struct Members<'a>(&'a str);

impl<'a> Iterator for Members<'a> {
    type Item = (String, Raw<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let text = trimmed(self.0).trim_start_matches(',');
        let text = trimmed(text);
        let (key, rest) = text.split_at_checked(string_len(text)?)?;
        let rest = trimmed(rest).strip_prefix(':')?;
        let (value, rest) = rest.split_at_checked(value_len(rest))?;
        self.0 = rest;
        Some((unquoted(key), Raw::of(value)))
    }
}

fn trimmed(text: &str) -> &str {
    text.trim_matches(|c: char| u8::try_from(c).is_ok_and(is_space))
}

/// Up to the comma or bracket that ends the value, or all.
fn value_len(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'"' => at += string_len(&text[at..]).unwrap_or(1) - 1,
            b'{' | b'[' => depth += 1,
            b',' | b'}' | b']' if depth == 0 => return at,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    at
}

/// Both quotes included; `None` if `text` begins with no string.
fn string_len(text: &str) -> Option<usize> {
    let mut bytes = text.bytes().enumerate();
    bytes.next().filter(|(_, byte)| *byte == b'"')?;
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some(at + 1),
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
    None
}

/// Halves of a surrogate pair that stand alone become U+FFFD, as in Go.
fn unquoted(literal: &str) -> String {
    let inner = literal.trim().strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let mut chars = inner.unwrap_or_default().chars();
    let mut units = Vec::new();
    while let Some(c) = chars.next() {
        let unit = if c == '\\' { unescaped(&mut chars) } else { None };
        match unit {
            Some(unit) => units.push(unit),
            None => units.extend_from_slice(c.encode_utf16(&mut [0; 2])),
        }
    }
    String::from_utf16_lossy(&units)
}

/// What follows a backslash.
fn unescaped(chars: &mut impl Iterator<Item = char>) -> Option<u16> {
    let c = match chars.next()? {
        'u' => {
            let hex: String = chars.take(4).collect();
            return u16::from_str_radix(&hex, 16).ok();
        }
        'b' => '\x08',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        other => other,
    };
    u16::try_from(u32::from(c)).ok()
}

/// A value that a type cannot store.
pub(super) struct Mismatch {
    found: String,
    wanted: String,
}

impl Mismatch {
    pub(super) fn of<T: Target>(found: impl Into<String>) -> Self {
        Self { found: found.into(), wanted: T::go_type() }
    }

    /// `place` is a field, as `CPUManagerCheckpoint.entries`.
    pub(super) fn in_field(&self, place: &str) -> String {
        let Self { found, wanted } = self;
        format!("json: cannot unmarshal {found} into Go struct field {place} of type {wanted}")
    }
}

/// A Go type that a value can be stored in.
pub(super) trait Target: Default {
    fn go_type() -> String;
    fn store(&mut self, value: Raw<'_>) -> Result<(), Mismatch>;
}

impl Target for String {
    fn go_type() -> String {
        "string".into()
    }

    fn store(&mut self, value: Raw<'_>) -> Result<(), Mismatch> {
        match value.kind() {
            "null" => {}
            "string" => *self = unquoted(value.0),
            found => return Err(Mismatch::of::<Self>(found)),
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Checksum(pub(super) u64);

impl Target for Checksum {
    fn go_type() -> String {
        "checksum.Checksum".into()
    }

    fn store(&mut self, value: Raw<'_>) -> Result<(), Mismatch> {
        let number = match value.kind() {
            "null" => return Ok(()),
            "number" => value.0.parse::<u64>(),
            found => return Err(Mismatch::of::<Self>(found)),
        };
        self.0 = number.map_err(|_| Mismatch::of::<Self>(format!("number {}", value.0)))?;
        Ok(())
    }
}

/// A map; `None` is `nil`, which prints otherwise than an empty one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GoMap<T>(pub(super) Option<BTreeMap<String, T>>);

impl<T> Default for GoMap<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> GoMap<T> {
    pub(super) fn empty() -> Self {
        Self(Some(BTreeMap::new()))
    }

    pub(super) fn into_map(self) -> BTreeMap<String, T> {
        self.0.unwrap_or_default()
    }
}

impl<T: Target> Target for GoMap<T> {
    fn go_type() -> String {
        format!("map[string]{}", T::go_type())
    }

    fn store(&mut self, value: Raw<'_>) -> Result<(), Mismatch> {
        match value.kind() {
            "null" => self.0 = None,
            "object" => {
                let map = self.0.get_or_insert_default();
                for (key, member) in value.members() {
                    let mut item = T::default();
                    item.store(member)?;
                    map.insert(key, item);
                }
            }
            found => return Err(Mismatch::of::<Self>(found)),
        }
        Ok(())
    }
}

/// What Go prints of the value, within a map.
pub(super) trait Printed {
    fn printed(&self) -> String;
}

impl Printed for String {
    fn printed(&self) -> String {
        self.clone()
    }
}

impl<T: Printed> Printed for GoMap<T> {
    fn printed(&self) -> String {
        let Some(map) = &self.0 else { return "<nil>".into() };
        let pairs: Vec<_> =
            map.iter().map(|(key, value)| format!("{key}:{}", value.printed())).collect();
        format!("map[{}]", pairs.join(" "))
    }
}
