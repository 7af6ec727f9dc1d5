//! Configurations as text: the defaults with comments, and what holds in the end.

use isobar_core::model::duration::GoDuration;
use isobar_core::model::settings::Settings;

use super::found::{Layers, path};
use super::keys::{KUBELET, Key, Kind, OURS};
use super::yaml::{Node, Scalar, Value};

/// Every key with its default and what it is for. Keys that have none are commented out.
#[must_use]
pub fn defaults() -> String {
    let mut out = String::new();
    for keys in [OURS, KUBELET] {
        print_defaults(&mut out, keys, "");
    }
    out
}

fn print_defaults(out: &mut String, keys: &[Key], indent: &str) {
    for key in keys {
        if indent.is_empty() && !out.is_empty() {
            out.push('\n');
        }
        for line in wrap(key.about) {
            out.push_str(&format!("{indent}# {line}\n"));
        }
        let name = key.name;
        match (&key.kind, key.default) {
            (Kind::Map(below), _) => {
                out.push_str(&format!("{indent}{name}:\n"));
                print_defaults(out, below, &format!("{indent}  "));
            }
            (_, Some(default)) => {
                let blank = if default.starts_with('\n') { "" } else { " " };
                out.push_str(&format!("{indent}{name}:{blank}{default}\n"));
            }
            (kind, None) => out.push_str(&format!("{indent}# {name}: {}\n", example(kind))),
        }
    }
}

/// What a key without a default might be.
fn example(kind: &Kind) -> &'static str {
    match kind {
        Kind::Word(words) => words.first().copied().unwrap_or_default(),
        _ => "FILE",
    }
}

/// Lines of comments, none of more than 90 columns if its words allow it.
fn wrap(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("never empty");
        if !last.is_empty() && last.len() + word.len() > 90 {
            lines.push(word.into());
        } else {
            last.push_str(if last.is_empty() { "" } else { " " });
            last.push_str(word);
        }
    }
    lines
}

/// Every key with the value that holds. Read again, it gives the same settings.
pub(super) fn effective(layers: &Layers<'_>, settings: &Settings) -> String {
    let mut out = String::new();
    for keys in [OURS, KUBELET] {
        print_effective(&mut out, layers, settings, keys, ("", ""));
    }
    out
}

fn print_effective(
    out: &mut String,
    layers: &Layers<'_>,
    settings: &Settings,
    keys: &[Key],
    (above, indent): (&str, &str),
) {
    for key in keys {
        let path = path(above, key.name);
        if let Kind::Map(below) = key.kind {
            out.push_str(&format!("{indent}{}:\n", key.name));
            let indent = format!("{indent}  ");
            print_effective(out, layers, settings, below, (&path, &indent));
            continue;
        }
        let found = layers.get(&path).map(|field| render(field.node()));
        let value = match path.as_str() {
            // Its fields stand below.
            "kubeletConfig" => None,
            // Relative paths would begin elsewhere.
            "pods" => found.map(|_| quoted(&settings.node.pods_file)),
            "evictionPressureTransitionPeriod" => {
                Some(GoDuration::from(settings.eviction.transition_period).to_string())
            }
            _ => found,
        };
        if let Some(value) = value {
            out.push_str(&format!("{indent}{}: {value}\n", key.name));
        }
    }
}

/// A node in one line.
fn render(node: &Node) -> String {
    match &node.value {
        Value::Scalar(scalar) => scalar_text(scalar),
        Value::List(nodes) => {
            let items: Vec<String> = nodes.iter().map(render).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(entries) => {
            let entry = |entry: &super::yaml::Entry| {
                let key = Scalar { text: entry.key.clone(), is_quoted: false };
                format!("{}: {}", scalar_text(&key), render(&entry.value))
            };
            let entries: Vec<String> = entries.iter().map(entry).collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

fn scalar_text(scalar: &Scalar) -> String {
    let text = &scalar.text;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._/%+-".contains(c);
    let starts_plain = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/');
    let is_null = scalar.is_null();
    if is_null || (!scalar.is_quoted && starts_plain && text.chars().all(is_plain)) {
        return if is_null { "null".into() } else { text.clone() };
    }
    // `-1` is a number, and a text once it is quoted.
    if !scalar.is_quoted && scalar.is_number() {
        return text.clone();
    }
    quoted(text)
}

/// As JSON has it, which YAML reads alike.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
