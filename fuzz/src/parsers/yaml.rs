//! YAML, written out again with every text in quotes.

use isobar::config::yaml::{self, Node, Value};

/// A file as a tree. Written out as one line for each document, with every text in quotes and
/// unusual characters escaped, it must parse to the same tree.
pub(crate) fn yaml(bytes: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(bytes) else { return false };
    let documents = match yaml::parse(text) {
        Ok(documents) => documents,
        Err(problem) => {
            assert!(problem.at.is_some_and(|at| at.line >= 1 && at.column >= 1), "{problem}");
            return false;
        }
    };
    let written = written(&documents);
    let again = yaml::parse(&written);
    let again = again.unwrap_or_else(|problem| panic!("{written:?} does not parse: {problem}"));
    assert_eq!(written, self::written(&again));
    true
}

fn written(documents: &[Node]) -> String {
    let mut text = String::new();
    for document in documents {
        text += "--- ";
        write(document, &mut text);
        text += "\n";
    }
    text
}

fn write(node: &Node, to: &mut String) {
    assert!(node.at.line >= 1 && node.at.column >= 1, "{:?}", node.at);
    assert!(!node.describe().is_empty());
    match &node.value {
        Value::Scalar(scalar) => quote(&scalar.text, to),
        Value::List(nodes) => {
            *to += "[";
            for node in nodes {
                write(node, to);
                *to += ",";
            }
            *to += "]";
        }
        Value::Map(entries) => {
            *to += "{";
            for entry in entries {
                // Marked as a key: a long text would not be parsed as one.
                *to += "? ";
                quote(&entry.key, to);
                *to += " : ";
                write(&entry.value, to);
                *to += ",";
            }
            *to += "}";
        }
    }
}

fn quote(text: &str, to: &mut String) {
    *to += "\"";
    for c in text.chars() {
        match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | ' ' => to.push(c),
            c => *to += &format!("\\U{:08x}", u32::from(c)),
        }
    }
    *to += "\"";
}
