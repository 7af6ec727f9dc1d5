//! Schemas in the words of JSON, as people and generators of clients read them best, out of those of
//! `schemars`.

use serde_json::{Map, Value, json};

type Schema = Map<String, Value>;

/// A schema, and all that it has.
pub(super) fn tidy(schema: &mut Value) {
    let Value::Object(own) = schema else { return };
    // For reading: what is served has every field.
    own.remove("default");
    describe(own, "null");
    fold(own);
    name_keys(own);
    optional(own);
    for (name, value) in own {
        match (name.as_str(), value) {
            ("properties", Value::Object(all)) => all.values_mut().for_each(tidy),
            ("oneOf" | "anyOf" | "allOf", Value::Array(all)) => all.iter_mut().for_each(tidy),
            ("items" | "additionalProperties", value) => tidy(value),
            _ => {}
        }
    }
}

/// The first paragraph: what follows is for who reads the source.
fn describe(own: &mut Schema, none: &str) {
    let Some(Value::String(text)) = own.get_mut("description") else { return };
    let first = text.split("\n\n").next().unwrap_or_default();
    let line = first.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    *text = line.replace("[`", "`").replace("`]", "`").replace("`None`", none);
}

/// An enumeration whose words have a description each.
fn fold(own: &mut Schema) {
    let Some(Value::Array(all)) = own.get_mut("oneOf") else { return };
    all.iter_mut().filter_map(Value::as_object_mut).for_each(|one| describe(one, "null"));
    let words = |one: &Value| match (one.get("const"), one.get("enum")) {
        (Some(word), _) => Some(vec![word.clone()]),
        (_, Some(Value::Array(words))) => Some(words.clone()),
        _ => None,
    };
    let Some(names) = all.iter().map(words).collect::<Option<Vec<_>>>() else { return };
    let about = all.iter().filter_map(|one| Some((&one["const"], one.get("description")?)));
    let about = about.filter_map(|(word, about)| Some((word.as_str()?, about.as_str()?)));
    let mut lines: Vec<_> = about.map(|(word, about)| format!("- `{word}`: {about}")).collect();
    let own_words = own.get("description").and_then(Value::as_str).map(|text| format!("{text}\n"));
    lines.splice(..0, own_words);
    own.remove("oneOf");
    own.insert("type".into(), "string".into());
    own.insert("enum".into(), names.concat().into());
    own.insert("description".into(), lines.join("\n").into());
}

/// A map by number.
fn name_keys(own: &mut Schema) {
    let Some(Value::Object(patterns)) = own.remove("patternProperties") else { return };
    for (pattern, values) in patterns {
        own.insert("propertyNames".into(), json!({ "pattern": pattern }));
        own.insert("additionalProperties".into(), values);
    }
}

/// What may be absent is not null, and says so.
fn optional(own: &mut Schema) {
    let required = own.get("required").cloned().unwrap_or_default();
    let is_required =
        |name: &str| required.as_array().is_some_and(|all| all.contains(&name.into()));
    let Some(Value::Object(properties)) = own.get_mut("properties") else { return };
    for (name, property) in properties {
        let Value::Object(property) = property else { continue };
        if is_required(name) {
            continue;
        }
        describe(property, "absent");
        if let Some(Value::Array(types)) = property.get_mut("type") {
            types.retain(|one| one != "null");
            let only = types.pop();
            property.insert("type".into(), only.unwrap_or_default());
        }
        if let Some(Value::Array(any)) = property.get("anyOf")
            && let [Value::Object(only), _] = &any[..]
        {
            let only = only.clone();
            property.remove("anyOf");
            property.extend(only);
        }
    }
}
