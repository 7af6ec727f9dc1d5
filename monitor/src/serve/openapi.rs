//! Makes openapi.json: paths by hand, from openapi/base.json, with what all of them answer; schemas from the types that are served.
//! A test, so that the agent has no part of it.

mod words;

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::{Status, film, history, incidents, parts, stream, summary};
use isobar_core::model::stall::MemoryCause;
use isobar_core::view::{API_VERSION, Document, Whole};

const BASE: &str = include_str!("openapi/base.json");
const KEPT: &str = include_str!("openapi.json");
const MAKE: &str = "ISOBAR_OPENAPI=write cargo test -p isobar --lib openapi";
/// Columns of a line that is not broken.
const WIDTH: usize = 100;

/// Type, field and key of maps whose keys are words with a description each, of which `schemars` does
/// not tell.
const KEYS: [(&str, &str, &str); 2] =
    [("MemoryWait", "causes", "MemoryCause"), ("ReliefConfig", "deadlines", "StepKind")];

/// What every path answers: a status, and the response of `base.json`.
const REFUSED: [(&str, &str); 3] = [("405", "ReadOnly"), ("421", "OtherHost"), ("500", "Failed")];

fn generator() -> SchemaGenerator {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.with(|all| all.definitions_path = "/components/schemas".into()).into_generator()
}

/// Everything that an answer has, by its name.
struct Schemas {
    generator: SchemaGenerator,
    documents: Map<String, Value>,
}

impl Schemas {
    /// A document of this kind.
    fn add<T: JsonSchema>(&mut self, kind: &str) {
        let mut document = Document::<T>::json_schema(&mut self.generator).to_value();
        document["description"] =
            T::json_schema(&mut self.generator).to_value()["description"].take();
        document["properties"]["apiVersion"] = json!({ "const": API_VERSION });
        document["properties"]["kind"] = json!({ "const": kind });
        assert!(self.documents.insert(kind.into(), document).is_none(), "two are called {kind}");
    }

    fn of_all() -> Map<String, Value> {
        let mut all = Self { generator: generator(), documents: Map::new() };
        all.add::<Whole>("Snapshot");
        all.add::<parts::OfTick<parts::Cgroups>>("Cgroups");
        all.add::<parts::OfTick<parts::Matrix>>("Matrix");
        all.add::<parts::OfTick<parts::Conditions>>("Conditions");
        all.add::<parts::OfTick<parts::Decisions>>("Decisions");
        all.add::<parts::OfTick<parts::Allocatable>>("Allocatable");
        all.add::<parts::OfTick<parts::Capabilities>>("Capabilities");
        all.add::<history::answer::History>("History");
        all.add::<history::answer::HistoryEvents>("HistoryEvents");
        all.add::<incidents::IncidentList>("IncidentList");
        all.add::<incidents::One>("Incident");
        all.add::<film::answer::Recording>("Recording");
        all.add::<parts::OfTick<film::answer::Ticks>>("Ticks");
        all.add::<parts::OfTick<film::study::Told>>("Settings");
        all.add::<film::study::Compared>("WhatIf");
        all.add::<film::study::Advised>("Advice");
        all.add::<parts::OfTick<film::rank::Ranked>>("Rank");
        all.add::<stream::Gap>("Gap");
        all.add::<Status>("Status");
        let Self { mut generator, mut documents } = all;
        generator.subschema_for::<MemoryCause>();
        for (name, schema) in generator.take_definitions(false) {
            let last = name.chars().next_back();
            assert!(last.is_none_or(|c| !c.is_ascii_digit()), "{name}: two types have this name");
            assert!(documents.insert(name.clone(), schema).is_none(), "two are called {name}");
        }
        for (name, schema) in of_summary() {
            documents.entry(name).or_insert(schema);
        }
        documents.values_mut().for_each(words::tidy);
        for (name, field, key) in KEYS {
            let map = documents[name].pointer_mut(&format!("/properties/{field}")).unwrap();
            map["propertyNames"] = json!({ "$ref": format!("#/components/schemas/{key}") });
        }
        documents
    }
}

/// What is null is left out there.
fn of_summary() -> Map<String, Value> {
    let mut generator = generator();
    generator.subschema_for::<summary::Summary>();
    let mut all = generator.take_definitions(false);
    all.values_mut().filter_map(Value::as_object_mut).for_each(|one| _ = one.remove("required"));
    all
}

/// Adds to each path what holds of all: what is refused everywhere, that the
/// agent may fail, and, as every document is tagged,
/// the answer to a client that has it.
fn answer_all(paths: &mut Map<String, Value>) {
    let to = |kind: &str, name: &str| json!({ "$ref": format!("#/components/{kind}/{name}") });
    for of in paths.values_mut().map(|path| &mut path["get"]) {
        for (status, name) in REFUSED {
            of["responses"][status] = to("responses", name);
        }
        if of["responses"]["200"]["content"].get("application/json").is_some() {
            of["responses"]["304"] = to("responses", "Has");
            let mut parameters = of["parameters"].as_array().cloned().unwrap_or_default();
            parameters.push(to("parameters", "IfNoneMatch"));
            of["parameters"] = parameters.into();
        }
    }
}

fn document() -> String {
    let mut document: Value = serde_json::from_str(BASE).unwrap();
    answer_all(document["paths"].as_object_mut().unwrap());
    document["components"]["schemas"] = Schemas::of_all().into();
    let mut text = String::new();
    print(&document, 0, 0, &mut text);
    text + "\n"
}

/// On one line what has room there, after so many columns; words fill lines.
fn print(value: &Value, depth: usize, before: usize, out: &mut String) {
    let line = spaced(value);
    let ([open, close], members): (_, Vec<_>) = match value {
        Value::Object(members) => {
            let named = members.iter().map(|(name, value)| (format!("{}: ", json!(name)), value));
            (["{", "}"], named.collect())
        }
        Value::Array(items) => {
            (["[", "]"], items.iter().map(|value| (String::new(), value)).collect())
        }
        _ => return out.push_str(&line),
    };
    if before + line.len() < WIDTH {
        return out.push_str(&line);
    }
    out.push_str(open);
    let (indent, mut column) = (2 * (depth + 1), WIDTH);
    for (n, (name, value)) in members.iter().enumerate() {
        let comma = if n > 0 { "," } else { "" };
        let word = value.as_str().filter(|_| name.is_empty()).map(|word| word.len() + 4);
        match word {
            Some(length) if column + length < WIDTH => write!(out, "{comma} ").unwrap(),
            _ => {
                column = indent;
                write!(out, "{comma}\n{:indent$}{name}", "").unwrap();
            }
        }
        column += word.unwrap_or(WIDTH);
        print(value, depth + 1, indent + name.len(), out);
    }
    write!(out, "\n{:1$}{close}", "", 2 * depth).unwrap();
}

fn spaced(value: &Value) -> String {
    let all = |open, members: Vec<String>, close| format!("{open}{}{close}", members.join(", "));
    match value {
        Value::Object(members) => {
            let members =
                members.iter().map(|(name, of)| format!("{}: {}", json!(name), spaced(of)));
            all("{", members.collect(), "}")
        }
        Value::Array(items) => all("[", items.iter().map(spaced).collect(), "]"),
        value => value.to_string(),
    }
}

#[test]
fn openapi_is_made_of_the_types() {
    let made = document();
    if env::var_os("ISOBAR_OPENAPI").is_some_and(|how| how == "write") {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/serve/openapi.json");
        fs::write(path, &made).unwrap();
        return;
    }
    let differ = made.lines().zip(KEPT.lines()).find(|(made, kept)| made != kept);
    assert!(made == KEPT, "types or base.json have changed; make it anew: {MAKE}\n{differ:#?}");
}
