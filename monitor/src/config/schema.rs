//! The format as a JSON Schema, for editors: made from the table that files are checked against.

use serde_json::{Map, Value, json};

use super::keys::{ISOBAR, KIND, KUBELET, Key, Kind};

/// JSON Schema, draft 2020-12, of a `MonitorConfiguration`.
pub fn schema() -> Value {
    let mut schema = mapping(ISOBAR.iter().chain(KUBELET));
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!(KIND);
    schema["required"] = json!(["apiVersion", "kind"]);
    schema
}

fn mapping<'a>(keys: impl Iterator<Item = &'a Key>) -> Value {
    let property = |key: &Key| {
        let mut schema = of(&key.kind);
        schema["description"] = json!(key.about);
        (key.name.to_owned(), schema)
    };
    let properties: Map<String, Value> = keys.map(property).collect();
    json!({"type": ["object", "null"], "additionalProperties": false, "properties": properties})
}

fn of(kind: &Kind) -> Value {
    match kind {
        Kind::Text | Kind::File => json!({"type": ["string", "null"]}),
        Kind::Flag => json!({"type": ["boolean", "null"]}),
        Kind::Number(least, most) => {
            json!({"type": ["integer", "null"], "minimum": least, "maximum": most})
        }
        Kind::Decimal => json!({"type": ["number", "null"]}),
        Kind::Duration => {
            let part = "([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)";
            json!({"type": ["string", "integer", "null"], "pattern": format!("^\\+?(0|({part})+)$"),
                   "minimum": 0, "maximum": 0})
        }
        Kind::Quantity => json!({
            "type": ["string", "number", "null"],
            "pattern": "^\\+?([0-9]+(\\.[0-9]*)?|\\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$",
            "minimum": 0,
        }),
        Kind::Percent => json!({
            "type": ["string", "number", "null"],
            "pattern": "^[0-9]+(\\.[0-9]{1,2}0*)?%?$",
            "exclusiveMinimum": 0,
            "maximum": 100,
        }),
        Kind::Scalar => json!({"type": ["string", "number", "boolean", "null"]}),
        Kind::Word(words) => {
            let mut words: Vec<Value> = words.iter().map(|word| json!(word)).collect();
            words.push(Value::Null);
            json!({"enum": words})
        }
        Kind::Words(words) => json!({
            "type": ["array", "null"], "uniqueItems": true, "items": {"enum": words},
        }),
        Kind::Pattern => json!({"type": "string", "pattern": "^/"}),
        Kind::Patterns => json!({
            "type": ["array", "null"], "items": {"type": "string", "pattern": "^/"},
        }),
        Kind::Texts => json!({"type": ["array", "null"], "items": {"type": "string"}}),
        Kind::Scalars => json!({
            "type": ["object", "null"],
            "additionalProperties": {"type": ["string", "number", "boolean"]},
        }),
        Kind::Flags => json!({
            "type": ["object", "null"], "additionalProperties": {"type": "boolean"},
        }),
        Kind::Map(keys) => mapping(keys.iter()),
        Kind::List(keys) => {
            let mut item = mapping(keys.iter());
            let required: Vec<&str> =
                keys.iter().filter(|key| key.default.is_none()).map(|key| key.name).collect();
            item["required"] = json!(required);
            item["type"] = json!("object");
            json!({"type": ["array", "null"], "items": item})
        }
    }
}
