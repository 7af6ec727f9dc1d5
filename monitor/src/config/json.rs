//! JSON as the tree that [`yaml`](super::yaml) makes of it, without places: several times as fast.
//! For long lists of pods. In: text. Out: a tree, or nothing for what only the YAML parser reads.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::problem::Place;
use super::yaml::{Entry, Node, Scalar, Value};

/// The document, with every place at the start. `None` for other YAML than JSON, for broken JSON,
/// whose place is to be told, and for fractions, which must not pass through a float.
pub fn document(bytes: &[u8]) -> Option<Node> {
    let begin = bytes.trim_ascii_start().first()?;
    let Unplaced(node) = match begin {
        b'{' | b'[' => serde_json::from_slice(bytes).ok()?,
        _ => return None,
    };
    Some(node)
}

struct Unplaced(Node);

impl<'de> Deserialize<'de> for Unplaced {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader)
    }
}

struct Reader;

fn node<E>(value: Value) -> Result<Unplaced, E> {
    Ok(Unplaced(Node { at: Place::START, value }))
}

fn plain<E>(text: impl ToString) -> Result<Unplaced, E> {
    node(Value::Scalar(Scalar { text: text.to_string(), is_quoted: false }))
}

impl<'de> Visitor<'de> for Reader {
    type Value = Unplaced;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without fractions")
    }

    fn visit_unit<E>(self) -> Result<Unplaced, E> {
        plain("null")
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Unplaced, E> {
        plain(flag)
    }

    fn visit_i64<E>(self, number: i64) -> Result<Unplaced, E> {
        plain(number)
    }

    fn visit_u64<E>(self, number: u64) -> Result<Unplaced, E> {
        plain(number)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Unplaced, E> {
        Err(E::custom("a fraction"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Unplaced, E> {
        node(Value::Scalar(Scalar { text: text.into(), is_quoted: true }))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Unplaced, A::Error> {
        let mut list = Vec::new();
        while let Some(Unplaced(item)) = items.next_element()? {
            list.push(item);
        }
        node(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Unplaced, A::Error> {
        let mut map = Vec::new();
        while let Some((key, Unplaced(value))) = members.next_entry()? {
            map.push(Entry { key, at: Place::START, value });
        }
        node(Value::Map(map))
    }
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
