//! YAML, and so JSON, as JSON values: for manifests, whose scalars are all texts here.

use anyhow::{Context as _, Result, bail};
use saphyr_parser::{Event, Parser};
use serde_json::{Map, Value};

/// The documents of `text`.
pub(crate) fn documents(text: &str) -> Result<Vec<Value>> {
    let mut open: Vec<Node> = Vec::new();
    let mut documents = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.context("cannot read the manifest")?;
        let done = match event {
            Event::MappingStart(..) => {
                open.push(Node::Map(Map::new(), None));
                continue;
            }
            Event::SequenceStart(..) => {
                open.push(Node::List(Vec::new()));
                continue;
            }
            Event::Scalar(text, ..) => Value::from(text.into_owned()),
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(Node::Map(map, _)) => map.into(),
                Some(Node::List(items)) => items.into(),
                None => continue,
            },
            Event::Alias(_) => bail!("line {}: aliases are not read here", span.start.line()),
            _ => continue,
        };
        match open.last_mut() {
            None => documents.push(done),
            Some(Node::List(items)) => items.push(done),
            Some(Node::Map(map, key)) => match key.take() {
                Some(key) => drop(map.insert(key, done)),
                None => *key = done.as_str().map(str::to_owned),
            },
        }
    }
    Ok(documents)
}

/// What has begun and not ended yet.
enum Node {
    List(Vec<Value>),
    /// With the key whose value comes next.
    Map(Map<String, Value>, Option<String>),
}
