//! Reads a mapping key by key, and goes on after each thing that is wrong.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use isobar_core::model::duration::GoDuration;
use isobar_core::model::quantity::{Quantity, ResourceList};

use super::problem::{Place, Problems};
use super::yaml::{Entry, Node, Value};

/// A mapping that is being read. Ends with [`Fields::finish`].
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
    /// Reads a whole document. `None`, with a problem, if it is no mapping.
    #[must_use]
    pub fn of(document: &'a Node, problems: &'a Problems) -> Option<Self> {
        Field { path: String::new(), node: document, problems, is_lenient: false }.map()
    }

    /// Ignores keys that nobody asks for, here and below: for files that belong to somebody else.
    #[must_use]
    pub fn lenient(self) -> Self {
        Self { is_lenient: true, ..self }
    }

    /// Where the mapping begins.
    #[must_use]
    pub fn at(&self) -> Place {
        self.at
    }

    /// The value of `key`, which is known from now on. `None` if it is missing or null.
    pub fn field(&mut self, key: &'static str) -> Option<Field<'a>> {
        self.known.insert(key);
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        (!entry.value.is_null()).then(|| self.field_of(entry))
    }

    /// Like [`Fields::field`], with a problem if it is missing.
    pub fn required(&mut self, key: &'static str) -> Option<Field<'a>> {
        let field = self.field(key);
        if field.is_none() {
            self.problems.push(self.at, self.path_of(key), "expected this key, it is missing");
        }
        field
    }

    /// Every key that is not known yet, each once and as it was written, null or not: for
    /// mappings whose keys are free. None of them counts as unknown afterwards.
    pub fn each(&mut self) -> Vec<(&'a str, Field<'a>)> {
        let mut seen: BTreeSet<&str> = self.known.iter().copied().collect();
        self.is_lenient = true;
        let entries = self.entries;
        let new = entries.iter().filter(|entry| seen.insert(&entry.key));
        new.map(|entry| (entry.key.as_str(), self.field_of(entry))).collect()
    }

    /// A text.
    pub fn text(&mut self, key: &'static str) -> Option<&'a str> {
        self.field(key)?.text()
    }

    /// A quantity: `100m`, `1.5Gi`, `2`.
    pub fn quantity(&mut self, key: &'static str) -> Option<Quantity> {
        self.field(key)?.quantity()
    }

    /// Quantities by the names of resources.
    pub fn quantities(&mut self, key: &'static str) -> Option<ResourceList> {
        Some(self.field(key)?.quantities())
    }

    /// Texts by free keys, such as labels.
    pub fn texts(&mut self, key: &'static str) -> Option<Vec<(&'a str, &'a str)>> {
        let mut map = self.map(key)?;
        let texts = map.each().into_iter().filter_map(|(key, field)| Some((key, field.text()?)));
        let texts = texts.collect();
        map.finish();
        Some(texts)
    }

    /// A length of time: `1m30s`.
    pub fn duration(&mut self, key: &'static str) -> Option<GoDuration> {
        self.field(key)?.duration()
    }

    /// A whole number.
    pub fn number<T: TryFrom<i64>>(&mut self, key: &'static str) -> Option<T> {
        self.field(key)?.number()
    }

    /// True or false.
    pub fn flag(&mut self, key: &'static str) -> Option<bool> {
        self.field(key)?.flag()
    }

    /// The values of a list.
    pub fn list(&mut self, key: &'static str) -> Option<Vec<Field<'a>>> {
        self.field(key)?.list()
    }

    /// A mapping below this one. Ends with its own [`Fields::finish`].
    pub fn map(&mut self, key: &'static str) -> Option<Fields<'a>> {
        self.field(key)?.map()
    }

    /// The value as it is, null or not.
    pub fn node(&mut self, key: &'static str) -> Option<&'a Node> {
        self.known.insert(key);
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// Says that something is wrong with the value of `key`, or with the mapping without it.
    pub fn problem(&self, key: &str, message: impl Into<String>) {
        let entry = self.entries.iter().find(|entry| entry.key == key);
        let at = entry.map_or(self.at, |entry| entry.value.at);
        self.problems.push(at, self.path_of(key), message);
    }

    /// Says which keys occur twice and, unless lenient, which nobody knows.
    pub fn finish(self) {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        for entry in self.entries {
            let is_first = seen.insert(&entry.key);
            let is_known = self.is_lenient || self.known.contains(entry.key.as_str());
            if !is_known {
                let message = match nearest(&entry.key, &self.known) {
                    Some(near) => format!("unknown key, did you mean {near}?"),
                    None => "unknown key".into(),
                };
                self.problems.push(entry.at, self.path_of(&entry.key), message);
            } else if !is_first {
                let message = "this key stands here twice";
                self.problems.push(entry.at, self.path_of(&entry.key), message);
            }
        }
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

/// One value, with its path and a place for what is wrong with it.
#[derive(Debug, Clone)]
pub struct Field<'a> {
    path: String,
    node: &'a Node,
    problems: &'a Problems,
    is_lenient: bool,
}

impl<'a> Field<'a> {
    /// Where it begins.
    #[must_use]
    pub fn at(&self) -> Place {
        self.node.at
    }

    /// The value as it is.
    #[must_use]
    pub fn node(&self) -> &'a Node {
        self.node
    }

    /// Its key, and those above: `ranking.order`, `items[2].kind`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Says that something is wrong with it.
    pub fn problem(&self, message: impl Into<String>) {
        self.problems.push(self.node.at, self.path.as_str(), message);
    }

    fn expected(&self, what: &str) {
        self.problem(format!("expected {what}, found {}", self.node.describe()));
    }

    /// The scalar's text, whatever its type; `None`, with a problem, if it is no scalar or null.
    /// `what` names what was expected.
    #[must_use]
    pub fn scalar(&self, what: &str) -> Option<&'a str> {
        match &self.node.value {
            Value::Scalar(scalar) if !scalar.is_null() => Some(&scalar.text),
            _ => {
                self.expected(what);
                None
            }
        }
    }

    /// A text. What looks like a number or a truth value must be quoted, as Kubernetes has it.
    #[must_use]
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

    /// A scalar that parses as `T`. The error's text follows what was expected.
    #[must_use]
    pub fn parse<T: FromStr<Err: fmt::Display>>(&self, what: &str) -> Option<T> {
        let text = self.scalar(what)?;
        text.parse().map_err(|error| self.problem(format!("expected {what}: {error}"))).ok()
    }

    /// One of a few words. `named` pairs each with what it means.
    #[must_use]
    pub fn one_of<T: Copy>(&self, named: &[(&str, T)]) -> Option<T> {
        let words: Vec<&str> = named.iter().map(|(word, _)| *word).collect();
        let what = format!("one of {}", words.join(", "));
        let text = self.scalar(&what)?;
        let found = named.iter().find(|(word, _)| *word == text).map(|(_, means)| *means);
        if found.is_none() {
            self.expected(&what);
        }
        found
    }

    /// A quantity: `100m`, `1.5Gi`, `2`.
    #[must_use]
    pub fn quantity(&self) -> Option<Quantity> {
        self.parse("a quantity")
    }

    /// Quantities by the names of resources.
    #[must_use]
    pub fn quantities(&self) -> ResourceList {
        let Some(mut map) = self.map() else { return ResourceList::new() };
        let each = map.each().into_iter();
        let list = each.filter_map(|(key, field)| Some((key.into(), field.quantity()?))).collect();
        map.finish();
        list
    }

    /// A length of time: `1m30s`.
    #[must_use]
    pub fn duration(&self) -> Option<GoDuration> {
        self.parse("a length of time such as 1m30s")
    }

    /// A whole number.
    #[must_use]
    pub fn number<T: TryFrom<i64>>(&self) -> Option<T> {
        let Value::Scalar(scalar) = &self.node.value else {
            self.expected("a whole number");
            return None;
        };
        let Some(number) = scalar.integer() else {
            self.expected("a whole number");
            return None;
        };
        let fits = T::try_from(number).ok();
        if fits.is_none() {
            self.problem(format!("the number {number} is out of range"));
        }
        fits
    }

    /// True or false.
    #[must_use]
    pub fn flag(&self) -> Option<bool> {
        let flag = match &self.node.value {
            Value::Scalar(scalar) => scalar.flag(),
            _ => None,
        };
        if flag.is_none() {
            self.expected("true or false");
        }
        flag
    }

    /// The values of a list.
    #[must_use]
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

    /// A mapping. Ends with [`Fields::finish`].
    #[must_use]
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
    let far = |key: &&'static str| (distance(&lower, &key.to_lowercase()), *key);
    let (edits, key) = known.iter().map(far).min()?;
    (edits <= 1 + found.len().min(15) / 5).then_some(key)
}

/// How many letters must be put in, taken out or replaced. Long texts are far from everything.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > 8 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
