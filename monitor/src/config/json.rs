//! JSON as the tree that [`yaml`](super::yaml) makes of it, without places: several times as fast, and
//! of what a server sends no more than is read. In: text. Out: a tree, or nothing for what only the
//! YAML parser reads.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::problem::Place;
use super::yaml::{Entry, Node, Scalar, Value};

/// The document, with every place at the start. `None` for other YAML than JSON, for broken JSON,
/// whose place is to be told, and for fractions, which must not pass through a float.
pub fn document(bytes: &[u8]) -> Option<Node> {
    let begin = bytes.trim_ascii_start().first()?;
    if !matches!(begin, b'{' | b'[') {
        return None;
    }
    let mut text = serde_json::Deserializer::from_slice(bytes);
    let reader = Reader { of: &Keys::All, room: &Room::new(usize::MAX), is_strict: true };
    let node = reader.deserialize(&mut text).ok()?;
    text.end().ok().map(|()| node)
}

/// Which members of an object are read, and of its lists' items. The others are skipped unread.
#[derive(Debug)]
pub enum Keys {
    All,
    Only(&'static [(&'static str, Keys)]),
    /// Those whose names begin so.
    Beginning(&'static str),
    /// Of a part that may take so many bytes of memory, however many the parts before it took.
    Within(usize, &'static Keys),
}

impl Keys {
    /// How the value of `key` is read; `None` if it is not.
    fn below(&self, key: &str) -> Option<&Self> {
        match self {
            Self::All => Some(&Self::All),
            Self::Only(keys) => keys.iter().find(|(known, _)| *known == key).map(|(_, keys)| keys),
            Self::Beginning(with) => key.starts_with(with).then_some(&Self::All),
            Self::Within(_, keys) => keys.below(key),
        }
    }
}

/// What was read of a value.
#[derive(Debug)]
pub struct Part {
    pub node: Node,
    /// How many bytes that takes, at most.
    pub bytes: usize,
    /// There was no room for all of it.
    pub is_cut: bool,
}

/// Reads the `keys` of a value of any size. A text for which there is no room, and a fraction, are null.
pub fn part<'de, D: Deserializer<'de>>(keys: &Keys, from: D) -> Result<Part, D::Error> {
    let room = Room::new(usize::MAX);
    let node = Reader { of: keys, room: &room, is_strict: false }.deserialize(from)?;
    Ok(Part { node, bytes: usize::MAX - room.left.get(), is_cut: room.is_cut.get() })
}

/// How many bytes the tree may still take.
#[derive(Debug)]
struct Room {
    left: Cell<usize>,
    is_cut: Cell<bool>,
}

impl Room {
    fn new(bytes: usize) -> Self {
        Self { left: Cell::new(bytes), is_cut: Cell::new(false) }
    }

    /// Whether there is room for so many more.
    fn takes(&self, bytes: usize) -> bool {
        // After something that found no room nothing more is kept.
        let left = self.left.get().checked_sub(bytes);
        self.left.set(left.unwrap_or(0));
        if left.is_none() {
            self.is_cut.set(true);
        }
        left.is_some()
    }
}

#[derive(Clone, Copy)]
struct Reader<'a> {
    of: &'a Keys,
    room: &'a Room,
    /// A fraction is an error.
    is_strict: bool,
}

impl Reader<'_> {
    fn text(self, text: &str, is_quoted: bool) -> Node {
        let text = if self.room.takes(text.len()) { text } else { return NULL };
        node(Value::Scalar(Scalar { text: text.into(), is_quoted }))
    }
}

fn node(value: Value) -> Node {
    Node { at: Place::START, value }
}

const NULL: Node = Node {
    at: Place::START,
    value: Value::Scalar(Scalar { text: String::new(), is_quoted: false }),
};

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Node, D::Error> {
        let Keys::Within(bytes, keys) = self.of else { return from.deserialize_any(self) };
        let room = Room::new(*bytes);
        let node = from.deserialize_any(Reader { of: keys, room: &room, ..self });
        self.room.takes(bytes - room.left.get());
        self.room.is_cut.set(self.room.is_cut.get() || room.is_cut.get());
        node
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without fractions")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(self.text("null", false))
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Node, E> {
        Ok(self.text(if flag { "true" } else { "false" }, false))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Node, E> {
        Ok(self.text(&number.to_string(), false))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Node, E> {
        Ok(self.text(&number.to_string(), false))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Node, E> {
        if self.is_strict { Err(E::custom("a fraction")) } else { Ok(NULL) }
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(self.text(text, true))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            if !self.room.takes(room_of(&list)) {
                while items.next_element::<IgnoredAny>()?.is_some() {}
                break;
            }
            list.push(item);
        }
        Ok(node(Value::List(list)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = members.next_key::<String>()? {
            let below = self.of.below(&key);
            match below.filter(|_| self.room.takes(room_of(&map) + key.len())) {
                Some(of) => {
                    let value = members.next_value_seed(Reader { of, ..self })?;
                    map.push(Entry { key, at: Place::START, value });
                }
                None => _ = members.next_value::<IgnoredAny>()?,
            }
        }
        Ok(node(Value::Map(map)))
    }
}

/// What one more item may take of the memory of a list that grows.
fn room_of<T>(list: &Vec<T>) -> usize {
    if list.len() < list.capacity() { 0 } else { size_of::<T>() * list.capacity().max(4) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::yaml;

    /// The tree with every place at the start.
    fn unplaced(mut node: Node) -> Node {
        node.at = Place::START;
        node.value = match node.value {
            Value::List(items) => Value::List(items.into_iter().map(unplaced).collect()),
            Value::Map(entries) => Value::Map(
                entries
                    .into_iter()
                    .map(|Entry { key, value, .. }| Entry {
                        key,
                        at: Place::START,
                        value: unplaced(value),
                    })
                    .collect(),
            ),
            scalar => scalar,
        };
        node
    }

    #[test]
    fn document_is_what_yaml_makes_of_it() {
        #[rustfmt::skip]
        let table = [
            r#"{}"#,
            r#" [1, -2, 18446744073709551615, "1", true, null, "", "null"]"#,
            r#"{"a": {"b": [{"c": "é\n\"\\"}]}, "a": "twice"}"#,
            "{\n  \"items\": [\n    {\"kind\": \"Pod\"}\n  ]\n}\n",
        ];
        for text in table {
            let by_yaml = yaml::parse(text).unwrap().remove(0);
            assert_eq!(document(text.as_bytes()), Some(unplaced(by_yaml)), "{text}");
        }
    }

    #[test]
    fn document_leaves_the_rest_to_yaml() {
        #[rustfmt::skip]
        let table: [(&str, &str); 9] = [
            // text, why
            ("",                        "empty"),
            ("a: 1",                    "YAML"),
            ("{a: 1}",                  "YAML in braces"),
            ("\"text\"",                "no object and no list"),
            (r#"{"a": 1.50}"#,          "its text is what a reader parses"),
            (r#"{"a": 1e3}"#,           "likewise"),
            (r#"{"a": 18446744073709551616}"#, "serde_json takes it for a float"),
            (r#"{"a": 1"#,              "the place must be told"),
            ("{}\n---\n{}",             "two documents"),
        ];
        for (text, why) in table {
            assert_eq!(document(text.as_bytes()), None, "{why}");
        }
        assert_eq!(document("[".repeat(100_000).as_bytes()), None);
        assert_eq!(document(b"{\"a\": \"\xff\"}"), None);
    }

    const KEYS: Keys = Keys::Only(&[
        ("a", Keys::Within(1024, &Keys::Only(&[("b", Keys::All), ("c", Keys::Beginning("x."))]))),
        ("d", Keys::Within(1024, &Keys::All)),
    ]);

    /// What is read of it, as YAML, and whether that is all that `KEYS` name.
    fn read(text: &str) -> (Node, bool) {
        let Part { node, is_cut, .. } =
            part(&KEYS, &mut serde_json::Deserializer::from_str(text)).unwrap();
        (node, is_cut)
    }

    #[test]
    fn part_has_the_keys_that_are_read() {
        let long = "x".repeat(1025);
        #[rustfmt::skip]
        let table = [
            // text, what is read of it, is cut
            (r#"{"e": {"a": 1}, "d": [{"e": 1}]}"#.to_owned(),   r#"{"d": [{"e": 1}]}"#, false),
            (r#"{"a": [{"b": {"q": 1}}, {"q": [1, {}]}]}"#.into(), r#"{"a": [{"b": {"q": 1}}, {}]}"#, false),
            (r#"{"a": {"c": {"x.1": "2", "y.1": "2"}}}"#.into(), r#"{"a": {"c": {"x.1": "2"}}}"#, false),
            (r#"{"a": {"b": 1.5}}"#.into(),                      r#"{"a": {"b": }}"#, false),
            (r#"{"a": 1e30, "d": 18446744073709551616}"#.into(), r#"{"a": , "d": }"#, false),
            // Each part has room of its own.
            (format!(r#"{{"a": {{"b": "{long}"}}, "d": 1}}"#),   r#"{"a": {"b": }, "d": 1}"#, true),
            ("7".into(), "7", false),
        ];
        for (text, want, is_cut) in table {
            let want = unplaced(yaml::parse(want).unwrap().remove(0));
            assert_eq!(read(&text), (want, is_cut), "{text}");
        }
        assert!(part(&KEYS, &mut serde_json::Deserializer::from_str("{\"e\": [")).is_err());
    }

    #[test]
    fn part_takes_no_more_room_than_it_has() {
        let many = |item: &str| {
            format!(r#"{{"d": [{}{item}], "a": {{"b": 1}}}}"#, format!("{item}, ").repeat(1000))
        };
        for item in ["1", "\"\"", "{}", "[]", r#"{"k": []}"#, "[[1]]"] {
            let text = many(item);
            let Part { node, bytes, is_cut } =
                part(&KEYS, &mut serde_json::Deserializer::from_str(&text)).unwrap();
            // Those of `d`, of `a`, and of the object that has both.
            assert!(is_cut && bytes < 2048 + 1024, "{item}: {bytes}");
            let Value::Map(mut parts) = node.value else { panic!("{item}") };
            let n = |node: &Node| match &node.value {
                Value::List(items) => items.len(),
                Value::Map(entries) => entries.len(),
                Value::Scalar(_) => 0,
            };
            assert!((1..30).contains(&n(&parts[0].value)), "{item}: {}", n(&parts[0].value));
            assert_eq!(n(&parts.remove(1).value), 1, "what comes after it is read: {item}");
        }
    }

    proptest! {
        #[test]
        fn document_agrees_with_yaml(text in r#"\{("[a-c]{1,2}": ?("[a-z0-9 ~:#-]{0,4}"|[0-9]{1,3}|true|null|\[1, ?"x"\]),? ?){0,3}\}"#) {
            if let Some(read) = document(text.as_bytes()) {
                let by_yaml = yaml::parse(&text).unwrap().remove(0);
                prop_assert_eq!(read, unplaced(by_yaml));
            }
        }
    }
}
