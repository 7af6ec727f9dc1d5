//! Label and field selectors: which objects a list, a watch or a disruption budget means.

use serde_json::Value;

use crate::kind::Kind;
use crate::status::Failure;

/// One condition on the value under a key: `a=b`, `a==b` or `a!=b`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    value: String,
    /// Else the value must be another; met also where there is no such key.
    is_equal: bool,
}

impl Requirement {
    fn parse(text: &str) -> Option<Self> {
        let (is_equal, (key, value)) = match text.split_once("!=") {
            Some(parts) => (false, parts),
            None => (true, text.split_once("==").or_else(|| text.split_once('='))?),
        };
        let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
        let is_valid = !key.is_empty() && !key.contains(char::is_whitespace);
        is_valid.then_some(Self { key, value, is_equal })
    }

    fn is_met(&self, found: Option<&str>) -> bool {
        (found == Some(&*self.value)) == self.is_equal
    }
}

/// A label selector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Labels(Vec<Requirement>);

impl Labels {
    /// The text of a query: `a=b,c!=d`.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let parts = text.split(',').filter(|part| !part.trim().is_empty());
        let parsed: Option<Vec<_>> = parts.map(Requirement::parse).collect();
        let why = || Failure::bad_request(format!("unable to parse requirement: {text:?}"));
        parsed.map(Self).ok_or_else(why)
    }

    /// `matchLabels`; None without any: it selects nothing.
    pub(crate) fn of_object(selector: &Value) -> Option<Self> {
        let labels = selector["matchLabels"].as_object()?;
        let all = labels.iter().map(|(key, value)| {
            let value = value.as_str()?.to_owned();
            Some(Requirement { key: key.clone(), value, is_equal: true })
        });
        all.collect::<Option<_>>().map(Self).filter(|labels| !labels.0.is_empty())
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.0.iter().all(|one| one.is_met(labels[one.key.as_str()].as_str()))
    }
}

/// A field selector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fields(Vec<Requirement>);

impl Fields {
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let all = text.split(',').filter(|part| !part.is_empty()).map(|part| {
            let wrong = || Failure::bad_request(format!("invalid selector: {part:?}"));
            Requirement::parse(part).ok_or_else(wrong)
        });
        all.collect::<Result<_, _>>().map(Self)
    }

    /// The only name that can match.
    pub(crate) fn one_name(&self) -> Option<String> {
        let is_name = |one: &&Requirement| one.is_equal && one.key == "metadata.name";
        self.0.iter().find(is_name).map(|one| one.value.clone())
    }

    /// Refuses fields that the server keeps no index of.
    pub(crate) fn check(&self, kind: &Kind) -> Result<(), Failure> {
        let known = |key: &str| {
            ["metadata.name", "metadata.namespace"].contains(&key) || kind.selectable.contains(&key)
        };
        match self.0.iter().find(|one| !known(&one.key)) {
            Some(one) => {
                Err(Failure::bad_request(format!("field label not supported: {}", one.key)))
            }
            None => Ok(()),
        }
    }

    /// A field that is absent counts as empty. That of an event's source is its component.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|one| {
            let key = if one.key == "source" { "source.component" } else { &one.key };
            let found = key.split('.').fold(object, |value, part| &value[part]);
            let text = match found {
                Value::Bool(value) => value.to_string(),
                value => value.as_str().unwrap_or("").to_owned(),
            };
            one.is_met(Some(&text))
        })
    }
}
