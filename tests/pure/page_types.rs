//! The types of the page, held to those of the API: every field that it reads is there, and where it
//! may be null or absent the page knows.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use isobar_core::view::verdict::PRESSED_AND_TRUE;
use serde_json::{Value, json};

use crate::openapi::document;

const TYPES: &str = include_str!("../../dashboards/web/src/api.ts");

/// A type of TypeScript, as far as api.ts needs it.
#[derive(Debug, Clone)]
enum Type {
    /// Fields, and whether each may be absent.
    Fields(Vec<(String, bool, Type)>),
    List(Box<Type>),
    /// `Record`: its values.
    Map(Box<Type>),
    Any(Vec<Type>),
    All(Vec<Type>),
    Word(String),
    Name(String),
}

/// What is left of the text.
struct Parser<'a>(&'a str);

impl Parser<'_> {
    fn skip(&mut self) {
        loop {
            self.0 = self.0.trim_start();
            let comment = [("//", "\n"), ("/*", "*/")].into_iter();
            let Some((_, end)) = comment.into_iter().find(|(begin, _)| self.0.starts_with(begin))
            else {
                return;
            };
            self.0 = self.0.split_once(end).unwrap().1;
        }
    }

    fn eat(&mut self, token: &str) -> bool {
        self.skip();
        self.0.strip_prefix(token).inspect(|rest| self.0 = rest).is_some()
    }

    #[track_caller]
    fn expect(&mut self, token: &str) {
        assert!(self.eat(token), "expected {token:?}: {:.40}", self.0);
    }

    fn name(&mut self) -> String {
        self.skip();
        let end = self.0.find(|c: char| !c.is_alphanumeric()).unwrap();
        let (name, rest) = self.0.split_at(end);
        self.0 = rest;
        name.into()
    }

    fn separated(&mut self, by: &str, one: fn(&mut Self) -> Type) -> Vec<Type> {
        self.eat(by);
        let mut all = vec![one(self)];
        while self.eat(by) {
            all.push(one(self));
        }
        all
    }

    fn any(&mut self) -> Type {
        Type::Any(self.separated("|", |parser| Type::All(parser.separated("&", Self::one))))
    }

    fn one(&mut self) -> Type {
        let mut one = if self.eat("(") {
            let inner = self.any();
            self.expect(")");
            inner
        } else if self.eat("\"") {
            let (word, rest) = self.0.split_once('"').unwrap();
            self.0 = rest;
            Type::Word(word.into())
        } else if self.eat("{") {
            self.fields()
        } else {
            let name = self.name();
            if self.eat("<") { self.generic(&name) } else { Type::Name(name) }
        };
        while self.eat("[]") {
            one = Type::List(one.into());
        }
        one
    }

    fn fields(&mut self) -> Type {
        let mut fields = Vec::new();
        while !self.eat("}") {
            let (name, may_lack) = (self.name(), self.eat("?"));
            self.expect(":");
            fields.push((name, may_lack, self.any()));
            self.eat(";");
        }
        Type::Fields(fields)
    }

    fn generic(&mut self, name: &str) -> Type {
        let mut all = self.separated(",", Self::any);
        self.expect(">");
        let last = all.pop().unwrap();
        match name {
            "Maybe" => Type::Any(vec![last, Type::Name("null".into())]),
            "Record" => match words(&all[0]) {
                Some(keys) => {
                    Type::Fields(keys.into_iter().map(|key| (key, false, last.clone())).collect())
                }
                None => Type::Map(last.into()),
            },
            "Partial" => last,
            name => panic!("what is {name}<..>?"),
        }
    }
}

/// Those of an enumeration.
fn words(of: &Type) -> Option<Vec<String>> {
    match of {
        Type::Word(word) => Some(vec![word.clone()]),
        Type::Any(all) | Type::All(all) => {
            Some(all.iter().map(words).collect::<Option<Vec<_>>>()?.concat())
        }
        _ => None,
    }
}

/// All types by their names.
fn types() -> BTreeMap<String, Type> {
    let mut parser = Parser(TYPES);
    let mut all = BTreeMap::new();
    while !{
        parser.skip();
        parser.0.is_empty()
    } {
        parser.eat("export ");
        let is_alias = parser.eat("type ");
        if !is_alias {
            parser.expect("interface ");
        }
        let name = parser.name();
        // `Maybe<T>` is known.
        if is_alias && parser.eat("<") {
            parser.0 = parser.0.split_once(';').unwrap().1;
            continue;
        }
        let mut of = Vec::new();
        if is_alias {
            parser.expect("=");
            of.push(parser.any());
            parser.expect(";");
        } else {
            if parser.eat("extends ") {
                of.push(Type::Name(parser.name()));
            }
            parser.expect("{");
            of.push(parser.fields());
        }
        all.insert(name, Type::All(of));
    }
    all
}

struct Page {
    types: BTreeMap<String, Type>,
    document: Value,
}

impl Page {
    /// Whether whatever is served as `schema` is of this type.
    fn takes(&self, of: &Type, schema: &Value) -> Result<(), String> {
        if let Some(place) = schema["$ref"].as_str() {
            return self.takes(of, self.document.pointer(&place[1..]).unwrap());
        }
        let one_of = ["oneOf", "anyOf"].iter().find_map(|key| schema[key].as_array());
        if let Some(all) = one_of {
            return all.iter().try_for_each(|one| self.takes(of, one));
        }
        if let Some(words) = schema["enum"].as_array() {
            return words.iter().try_for_each(|word| self.takes(of, &json!({ "const": word })));
        }
        if let Some(types) = schema["type"].as_array() {
            return types.iter().try_for_each(|one| {
                let mut schema = schema.clone();
                schema["type"] = one.clone();
                self.takes(of, &schema)
            });
        }
        let kind = schema["const"].as_str().map_or(schema["type"].as_str(), |_| Some("string"));
        match (of, kind.unwrap()) {
            (Type::Any(all), _) => {
                let mut why = all.iter().map(|one| self.takes(one, schema));
                let first = why.next().unwrap();
                if first.is_ok() || why.any(|one| one.is_ok()) { Ok(()) } else { first }
            }
            (Type::All(all), _) => all.iter().try_for_each(|one| self.takes(one, schema)),
            (Type::Name(name), kind) => match (name.as_str(), kind) {
                ("unknown", _) | ("number", "integer") => Ok(()),
                (name, kind) if name == kind => Ok(()),
                (name, kind) => match self.types.get(name) {
                    Some(of) => self.takes(of, schema),
                    None => Err(format!(" is {kind}, and {name} there")),
                },
            },
            (Type::Word(word), _) if schema["const"] == **word => Ok(()),
            (Type::List(of), "array") => self.within("[]", of, &schema["items"]),
            (Type::Map(of), "object") => {
                let values = schema.get("additionalProperties").filter(|values| values.is_object());
                let own = schema["properties"].as_object().into_iter().flatten();
                let mut all = own
                    .map(|(name, value)| (name.as_str(), value))
                    .chain(values.map(|all| ("*", all)));
                all.try_for_each(|(name, value)| self.within(&format!(".{name}"), of, value))
            }
            (Type::Fields(fields), "object") => {
                let required = schema["required"].as_array();
                let is_there = |name: &str| required.is_some_and(|all| all.contains(&name.into()));
                fields.iter().try_for_each(|(name, may_lack, of)| {
                    let place = format!(".{name}");
                    let Some(schema) = schema["properties"].get(name) else {
                        return Err(format!("{place} is not served"));
                    };
                    if !may_lack && !is_there(name) {
                        let absent = self.within(&place, of, &json!({ "type": "null" }));
                        absent.map_err(|_| format!("{place} may be absent"))?;
                    }
                    self.within(&place, of, schema)
                })
            }
            (of, kind) => Err(format!(" is {kind}, and {of:?} there")),
        }
    }

    fn within(&self, place: &str, of: &Type, schema: &Value) -> Result<(), String> {
        self.takes(of, schema).map_err(|why| format!("{place}{why}"))
    }
}

#[tokio::test]
async fn page_reads_what_is_served() {
    let page = Page { types: types(), document: document().await };
    let schemas = page.document["components"]["schemas"].as_object().unwrap();
    let documents =
        schemas.iter().filter(|(_, schema)| schema.pointer("/properties/kind/const").is_some());
    let mut n = 0;
    for (name, schema) in documents.chain([(&"KeptIncident".to_owned(), &schemas["BriefIncident"])])
    {
        let Some(of) = page.types.get(name).filter(|_| name != "Status") else { continue };
        page.within(name, of, schema).unwrap_or_else(|why| panic!("api.ts: {why}"));
        n += 1;
    }
    assert_eq!(n, 11);
}

#[tokio::test]
async fn page_is_told_what_it_misreads() {
    let page = Page { types: types(), document: document().await };
    #[rustfmt::skip]
    let table = [
        // of a snapshot, what is wrong
        ("{ headLine: string }",                                   ".headLine is not served"),
        ("{ headline: number }",                                   ".headline is string, and number there"),
        ("{ tick: Nanos; at: { boot: string } }",                  ".at.boot is integer, and string there"),
        ("{ foresight: { oomKills: number } }",                    ".foresight is null"),
        ("{ decision: { assessment: { isStale: boolean } } }",     ".decision.assessment.isStale may be absent"),
        ("{ verdict: { mood: \"calm\" | \"waits\" }[] }",          ".verdict[].mood is string"),
        ("{ scopes: Record<string, { place: { kind: \"node\" } }> }", ".scopes.*.place.kind is string"),
    ];
    for (of, want) in table {
        let of = Parser(of).any();
        let why = page.takes(&of, &page.document["components"]["schemas"]["Snapshot"]);
        let why = why.expect_err(want);
        assert!(why.starts_with(want), "{why}");
    }
}

/// Where a reader sees both words, the page, `isobar status` and its documents say the same of them.
#[test]
fn page_and_documents_tell_pressed_from_true_in_the_same_words() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for file in ["dashboards/web/dist/page.js", "docs/policy.md"] {
        let text = fs::read_to_string(root.join(file)).unwrap();
        assert!(text.contains(PRESSED_AND_TRUE), "{file}");
    }
}
