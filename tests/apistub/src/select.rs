//! Label and field selectors: which objects a list, a watch or a disruption budget means.

use serde_json::Value;

use crate::kind::Kind;
use crate::status::Failure;

/// One condition on the value under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    /// Also met where there is no such key.
    NotIn(Vec<String>),
    Exists,
    Absent,
}

impl Requirement {
    fn is_met(&self, found: Option<&str>) -> bool {
        let among = |values: &[String]| found.is_some_and(|v| values.iter().any(|w| w == v));
        match &self.test {
            Test::In(values) => among(values),
            Test::NotIn(values) => !among(values),
            Test::Exists => found.is_some(),
            Test::Absent => found.is_none(),
        }
    }
}

/// A label selector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Labels(Vec<Requirement>);

impl Labels {
    /// The text of a query: `a=b,c!=d,e in (f,g),h,!i`.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let parts = split(text).into_iter().filter(|part| !part.trim().is_empty());
        let parsed: Option<Vec<_>> = parts.map(|part| requirement(part.trim())).collect();
        let why = || Failure::bad_request(format!("unable to parse requirement: {text:?}"));
        parsed.map(Self).ok_or_else(why)
    }

    /// `matchLabels` and `matchExpressions`. None where it selects nothing: without a requirement,
    /// or with an operator that does not exist.
    pub(crate) fn of_object(selector: &Value) -> Option<Self> {
        let mut all = Vec::new();
        for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
            let values = vec![value.as_str()?.to_owned()];
            all.push(Requirement { key: key.clone(), test: Test::In(values) });
        }
        for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
            let values = expression["values"].as_array().into_iter().flatten();
            let values = values.filter_map(Value::as_str).map(str::to_owned).collect();
            let test = match expression["operator"].as_str()? {
                "In" => Test::In(values),
                "NotIn" => Test::NotIn(values),
                "Exists" => Test::Exists,
                "DoesNotExist" => Test::Absent,
                _ => return None,
            };
            all.push(Requirement { key: expression["key"].as_str()?.to_owned(), test });
        }
        Some(Self(all)).filter(|labels| !labels.0.is_empty())
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.0.iter().all(|one| one.is_met(labels[one.key.as_str()].as_str()))
    }
}

/// At commas that stand outside of brackets.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let outside = |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    };
    text.split(outside).collect()
}

fn requirement(text: &str) -> Option<Requirement> {
    let (key, test) = if let Some((key, value)) = text.split_once("!=") {
        (key, Test::NotIn(vec![value.trim().to_owned()]))
    } else if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        (key, Test::In(vec![value.trim().to_owned()]))
    } else if let Some((head, list)) = text.split_once('(') {
        let list = list.strip_suffix(')')?.split(',').map(|value| value.trim().to_owned());
        match head.split_whitespace().collect::<Vec<_>>().as_slice() {
            [key, "in"] => (*key, Test::In(list.collect())),
            [key, "notin"] => (*key, Test::NotIn(list.collect())),
            _ => return None,
        }
    } else if let Some(key) = text.strip_prefix('!') {
        (key, Test::Absent)
    } else {
        (text, Test::Exists)
    };
    let key = key.trim();
    let valid = !key.is_empty() && !key.contains(|c: char| c.is_whitespace() || c == '(');
    valid.then(|| Requirement { key: key.to_owned(), test })
}

/// A field selector: equalities and inequalities alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fields(Vec<Requirement>);

impl Fields {
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let all = text.split(',').filter(|part| !part.is_empty()).map(|part| {
            let wrong = || Failure::bad_request(format!("invalid selector: {part:?}"));
            let one = requirement(part).ok_or_else(wrong)?;
            match one.test {
                Test::In(_) | Test::NotIn(_) => Ok(one),
                Test::Exists | Test::Absent => Err(wrong()),
            }
        });
        all.collect::<Result<_, _>>().map(Self)
    }

    /// The only name that can match.
    pub(crate) fn one_name(&self) -> Option<String> {
        self.0.iter().find_map(|one| match &one.test {
            Test::In(values) if one.key == "metadata.name" => values.first().cloned(),
            _ => None,
        })
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
