//! Reads a mapping key by key. A wrong value becomes a problem with its place, and reading goes on,
//! so that an operator sees everything that is wrong at once.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use isobar_core::model::duration::GoDuration;
use isobar_core::model::quantity::Quantity;

use super::problem::{Place, Problems};
use super::yaml::{Entry, Node, Value};

/// Keys beyond this many problems get no suggestion: comparing names is what takes time.
const MOST_SUGGESTIONS: usize = 100;

/// A mapping that is being read. When it is dropped, keys that occur twice and, unless it is
/// lenient, keys that no reader asked for become problems.
#[derive(Debug)]
pub struct Fields<'a> {
    at: Place,
    path: String,
    entries: &'a [Entry],
    known: BTreeSet<&'static str>,
    problems: &'a Problems,
    is_lenient: bool,
}

impl<'a> Fields<'a> {
    /// The top level of a document. `None`, with a problem, if it is no mapping.
    pub fn of(document: &'a Node, problems: &'a Problems) -> Option<Self> {
        Field { path: String::new(), node: document, problems, is_lenient: false }.map()
    }

    /// Ignores unknown keys, here and below: for files of another program.
    pub fn lenient(mut self) -> Self {
        self.is_lenient = true;
        self
    }

    /// The value of `key`; `None` if it is missing or null.
    pub fn field(&mut self, key: &'static str) -> Option<Field<'a>> {
        self.known.insert(key);
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        (!entry.value.is_null()).then(|| self.field_of(entry))
    }

    /// Like [`Fields::field`], with a problem if the key is missing.
    pub fn required(&mut self, key: &'static str) -> Option<Field<'a>> {
        let field = self.field(key);
        if field.is_none() {
            self.problems.push(self.at, self.path_of(key), "expected this key, it is missing");
        }
        field
    }

    /// Every other key and its value, null or not: for mappings whose keys are free.
    pub fn each(&mut self) -> Vec<(&'a str, Field<'a>)> {
        let mut seen: BTreeSet<&str> = self.known.iter().copied().collect();
        self.is_lenient = true;
        let entries = self.entries;
        let new = entries.iter().filter(|entry| seen.insert(&entry.key));
        new.map(|entry| (entry.key.as_str(), self.field_of(entry))).collect()
    }

    pub fn text(&mut self, key: &'static str) -> Option<&'a str> {
        self.field(key)?.text()
    }

    pub fn number<T: TryFrom<i64>>(&mut self, key: &'static str) -> Option<T> {
        self.field(key)?.number()
    }

    pub fn flag(&mut self, key: &'static str) -> Option<bool> {
        self.field(key)?.flag()
    }

    pub fn list(&mut self, key: &'static str) -> Option<Vec<Field<'a>>> {
        self.field(key)?.list()
    }

    pub fn map(&mut self, key: &'static str) -> Option<Fields<'a>> {
        self.field(key)?.map()
    }

    /// The scalar at `key`, whatever its type; empty if it is missing.
    pub fn raw(&mut self, key: &'static str) -> Option<&'a str> {
        self.known.insert(key);
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        match &entry.value.value {
            Value::Scalar(scalar) => Some(&scalar.text),
            _ => Some(""),
        }
    }

    /// Reports a problem with the value of `key`, or with the mapping if the key is missing.
    pub fn problem(&self, key: &str, message: impl Into<String>) {
        let entry = self.entries.iter().find(|entry| entry.key == key);
        let at = entry.map_or(self.at, |entry| entry.value.at);
        self.problems.push(at, self.path_of(key), message);
    }

    fn field_of(&self, entry: &'a Entry) -> Field<'a> {
        Field {
            path: self.path_of(&entry.key),
            node: &entry.value,
            problems: self.problems,
            is_lenient: self.is_lenient,
        }
    }

    fn path_of(&self, key: &str) -> String {
        let is_plain = key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
        match (self.path.as_str(), is_plain && !key.is_empty()) {
            ("", true) => key.into(),
            (path, true) => format!("{path}.{key}"),
            (path, false) => format!("{path}[{key:?}]"),
        }
    }
}

impl Drop for Fields<'_> {
    fn drop(&mut self) {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        for entry in self.entries {
            let is_first = seen.insert(&entry.key);
            if !self.is_lenient && !self.known.contains(entry.key.as_str()) {
                let near = match self.problems.n() {
                    0..MOST_SUGGESTIONS => nearest(&entry.key, &self.known),
                    _ => None,
                };
                let near = near.map(|near| format!(", did you mean {near}?")).unwrap_or_default();
                let message = format!("unknown key{near}");
                self.problems.push(entry.at, self.path_of(&entry.key), message);
            } else if !is_first {
                self.problems.push(entry.at, self.path_of(&entry.key), "this key occurs twice");
            }
        }
    }
}

/// One value, with its path and a list for its problems.
#[derive(Debug, Clone)]
pub struct Field<'a> {
    path: String,
    node: &'a Node,
    problems: &'a Problems,
    is_lenient: bool,
}

impl<'a> Field<'a> {
    pub fn at(&self) -> Place {
        self.node.at
    }

    pub fn node(&self) -> &'a Node {
        self.node
    }

    /// Its key and those above, as `ranking.order` or `items[2].kind`.
    pub fn path(&self) -> &str {
        &self.path
    }

    pub fn problem(&self, message: impl Into<String>) {
        self.problems.push(self.node.at, self.path.as_str(), message);
    }

    fn expected(&self, what: &str) {
        self.problem(format!("expected {what}, found {}", self.node.describe()));
    }

    /// `value`, with a problem if there is none. `what` names what was expected.
    fn or_expected<T>(&self, what: &str, value: Option<T>) -> Option<T> {
        if value.is_none() {
            self.expected(what);
        }
        value
    }

    /// The scalar's text, whatever its type; not null.
    pub fn scalar(&self, what: &str) -> Option<&'a str> {
        self.or_expected(
            what,
            match &self.node.value {
                Value::Scalar(scalar) if !scalar.is_null() => Some(scalar.text.as_str()),
                _ => None,
            },
        )
    }

    /// A text. Numbers and truth values must be quoted, as in Kubernetes.
    pub fn text(&self) -> Option<&'a str> {
        let text = self.scalar("a text")?;
        let Value::Scalar(scalar) = &self.node.value else { return None };
        if scalar.is_number() || scalar.flag().is_some() {
            let found = self.node.describe();
            self.problem(format!("expected a text, found {found}; put it in quotes"));
            return None;
        }
        Some(text)
    }

    /// A scalar that `parse` accepts. The error's text follows `what`.
    pub fn parse_by<T, E: fmt::Display>(
        &self,
        what: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let parsed = parse(self.scalar(what)?);
        parsed.map_err(|error| self.problem(format!("expected {what}: {error}"))).ok()
    }

    pub fn parse<T: FromStr<Err: fmt::Display>>(&self, what: &str) -> Option<T> {
        self.parse_by(what, str::parse)
    }

    /// One of a few words. `named` pairs each word with its value.
    pub fn one_of<T: Copy>(&self, named: &[(&str, T)]) -> Option<T> {
        let words: Vec<&str> = named.iter().map(|(word, _)| *word).collect();
        let what = format!("one of {}", words.join(", "));
        let text = self.scalar(&what)?;
        let found = named.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        self.or_expected(&what, found)
    }

    pub fn quantity(&self) -> Option<Quantity> {
        self.parse("a quantity")
    }

    pub fn duration(&self) -> Option<GoDuration> {
        self.parse("a length of time such as 1m30s")
    }

    pub fn number<T: TryFrom<i64>>(&self) -> Option<T> {
        let number = match &self.node.value {
            Value::Scalar(scalar) => scalar.integer(),
            _ => None,
        };
        let number = self.or_expected("a whole number", number)?;
        let fits = T::try_from(number).ok();
        if fits.is_none() {
            self.problem(format!("the number {number} is out of range"));
        }
        fits
    }

    pub fn flag(&self) -> Option<bool> {
        self.or_expected(
            "true or false",
            match &self.node.value {
                Value::Scalar(scalar) => scalar.flag(),
                _ => None,
            },
        )
    }

    pub fn list(&self) -> Option<Vec<Field<'a>>> {
        let Value::List(nodes) = &self.node.value else {
            self.expected("a list");
            return None;
        };
        let item = |(n, node): (usize, &'a Node)| Field {
            path: format!("{}[{n}]", self.path),
            node,
            ..self.clone()
        };
        Some(nodes.iter().enumerate().map(item).collect())
    }

    pub fn map(&self) -> Option<Fields<'a>> {
        let Value::Map(entries) = &self.node.value else {
            self.expected("a mapping");
            return None;
        };
        Some(Fields {
            at: self.node.at,
            path: self.path.clone(),
            entries,
            known: BTreeSet::new(),
            problems: self.problems,
            is_lenient: self.is_lenient,
        })
    }
}

/// The known key that `found` was probably meant to be.
fn nearest(found: &str, known: &BTreeSet<&'static str>) -> Option<&'static str> {
    let lower = found.to_lowercase();
    let alike = known.iter().filter(|key| key.len().abs_diff(found.len()) <= 8);
    let edits = |key: &&'static str| (strsim::levenshtein(&lower, &key.to_lowercase()), *key);
    let (edits, key) = alike.map(edits).min()?;
    (edits <= 1 + found.len().min(15) / 5).then_some(key)
}
