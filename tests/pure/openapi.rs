//! The OpenAPI document, held to what the router answers.

use crate::http::{get, observing, text};
use crate::made_up::INCIDENT;
use crate::recorded::served;
use serde_json::Value;

async fn read(path: &str) -> Value {
    serde_json::from_str(&text(get(&observing(), path).await).await).unwrap()
}

#[tokio::test]
async fn openapi_says_what_is_answered() {
    let (document, live, recorded) = (read("/openapi.json").await, observing(), served(None).await);
    for (path, about) in document["paths"].as_object().unwrap() {
        // What a node that is made up has no recording for.
        let is_of_past = ["/api/v1/what-if", "/api/v1/advice"].contains(&path.as_str());
        let router = if is_of_past { &recorded } else { &live };
        let response = get(router, &path.replace("{name}", INCIDENT)).await;
        assert_eq!(response.status(), 200, "{path}");
        let content = about.pointer("/get/responses/200/content").unwrap().as_object().unwrap();
        let found = response.headers()["content-type"].to_str().unwrap().split(';').next();
        let schema = content.get(found.unwrap());
        let schema = schema.unwrap_or_else(|| panic!("{path} answers {found:?}: {content:?}"));
        let Some(name) = schema.pointer("/schema/$ref") else { continue };
        let schema = document.pointer(&name.as_str().unwrap()[1..]).unwrap();
        let answer: Value = serde_json::from_str(&text(response).await).unwrap();
        let fields: Vec<_> = answer.as_object().unwrap().keys().collect();
        let mut properties: Vec<_> = schema["properties"].as_object().unwrap().keys().collect();
        properties.sort();
        assert_eq!(fields, properties, "{path}");
        for (field, property) in schema["properties"].as_object().unwrap() {
            let found = &answer[field];
            if let Some(want) = property.get("const") {
                assert_eq!(found, want, "{path} {field}");
            }
            let is = match property.get("type").and_then(Value::as_str) {
                Some("string") => found.is_string(),
                Some("integer") => found.is_u64(),
                Some("array") => found.is_array(),
                Some(_) => found.is_object(),
                None => true,
            };
            assert!(is, "{path} {field}: {found}");
        }
    }
}

#[tokio::test]
async fn openapi_has_what_it_refers_to() {
    let document = read("/openapi.json").await;
    let mut all = vec![&document];
    let mut n = 0;
    while let Some(value) = all.pop() {
        if let Some(name) = value.get("$ref") {
            let name = name.as_str().unwrap();
            assert!(document.pointer(&name[1..]).is_some(), "{name}");
            n += 1;
        }
        match value {
            Value::Object(members) => all.extend(members.values()),
            Value::Array(members) => all.extend(members),
            _ => {}
        }
    }
    assert!(n > 20, "{n}");
}

/// The types of the page are written by hand: what they have in common with the document by name is
/// held to it here.
#[tokio::test]
async fn openapi_has_fields_that_the_page_reads() {
    let document = read("/openapi.json").await;
    let types = include_str!("../../dashboards/web/src/api.ts");
    let mut held = Vec::new();
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        let Some((_, rest)) = types.split_once(&format!("export interface {name} {{\n")) else {
            continue;
        };
        let fields = rest.lines().take_while(|line| *line != "}");
        let fields = fields.filter_map(|line| line.trim().split_once(':'));
        for (field, _) in fields.map(|(field, of)| (field.trim_end_matches('?'), of)) {
            let known = &schema["properties"][field];
            assert!(known.is_object(), "{name} has no field {field}: api.ts of the page reads it");
        }
        held.push(name.as_str());
    }
    assert!(held.contains(&"Snapshot") && held.len() >= 8, "{held:?}");
}
