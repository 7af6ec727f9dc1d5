//! Configurations as text: the defaults with comments, and the effective values.

use isobar_core::model::duration::GoDuration;
use isobar_core::model::settings::Settings;

use super::keys::{ISOBAR, KUBELET, Key, Kind};
use super::layers::{Layers, path};
use super::load::KubeletSource;
use super::yaml::{Entry, Node, Scalar, Value};

/// Every key with its default and its purpose. Keys without a default are commented out.
pub fn defaults() -> String {
    let mut out = String::new();
    for keys in [ISOBAR, KUBELET] {
        print_defaults(&mut out, keys, "");
    }
    out
}

fn print_defaults(out: &mut String, keys: &[Key], indent: &str) {
    for Key { name, kind, default, about } in keys {
        if indent.is_empty() && !out.is_empty() {
            out.push('\n');
        }
        *out += &comment(about, indent);
        *out += &match (kind, default) {
            (Kind::Map(below), _) => {
                let mut map = format!("{indent}{name}:\n");
                print_defaults(&mut map, below, &format!("{indent}  "));
                map
            }
            (_, Some(list)) if list.starts_with('\n') => format!("{indent}{name}:{list}\n"),
            (_, Some(default)) => format!("{indent}{name}: {default}\n"),
            // A key that is not the same as an empty list.
            (Kind::Words(_), None) => format!("{indent}# {name}: []\n"),
            (Kind::Word([first, ..]), None) => format!("{indent}# {name}: {first}\n"),
            (_, None) => format!("{indent}# {name}: FILE\n"),
        };
    }
}

/// Comment lines of at most 90 columns.
fn comment(text: &str, indent: &str) -> String {
    let mut out = format!("{indent}#");
    let mut width = 0;
    for word in text.split(' ') {
        if width > 0 && width + word.len() > 90 {
            out += &format!("\n{indent}#");
            width = 0;
        }
        out += &format!(" {word}");
        width += word.len() + 1;
    }
    out + "\n"
}

/// Every key with its effective value, and a comment where isobar's own file does not set it and the
/// kubelet does. Read again, it gives the same settings.
pub(super) fn effective(layers: &Layers<'_>, settings: &Settings, from: KubeletSource) -> String {
    let mut out = String::new();
    let from = match from {
        KubeletSource::Nowhere | KubeletSource::Missing => "",
        KubeletSource::File => "  # the kubelet's file",
        KubeletSource::Configz => "  # the kubelet's /configz",
    };
    for keys in [ISOBAR, KUBELET] {
        print_effective(&mut out, layers, settings, from, (keys, ""));
    }
    out
}

fn print_effective(
    out: &mut String,
    layers: &Layers<'_>,
    settings: &Settings,
    from: &str,
    (keys, above): (&[Key], &str),
) {
    let depth = if above.is_empty() { 0 } else { above.split('.').count() };
    let indent = "  ".repeat(depth);
    for key in keys {
        let path = path(above, key.name);
        if let Kind::Map(below) = key.kind {
            *out += &format!("{indent}{}:\n", key.name);
            print_effective(out, layers, settings, from, (below, &path));
            continue;
        }
        let value = layers.get(&path).map(|field| render(field.node()));
        let value = match path.as_str() {
            // Its fields are printed below.
            "kubeletConfig" => None,
            // Relative paths would begin in another directory.
            "pods" => value.map(|_| quoted(&settings.node.pods_file)),
            "evictionPressureTransitionPeriod" => {
                Some(GoDuration::from(settings.eviction.transition_period).to_string())
            }
            _ => value,
        };
        if let Some(value) = value {
            let from = if layers.is_kubelets(&path) { from } else { "" };
            *out += &format!("{indent}{}: {value}{from}\n", key.name);
        }
    }
}

/// A node in one line.
fn render(node: &Node) -> String {
    match &node.value {
        Value::Scalar(scalar) => scalar_text(scalar),
        Value::List(nodes) => {
            format!("[{}]", nodes.iter().map(render).collect::<Vec<_>>().join(", "))
        }
        Value::Map(entries) => {
            let entry = |Entry { key, value, .. }: &Entry| {
                let key = Scalar { text: key.clone(), is_quoted: false };
                format!("{}: {}", scalar_text(&key), render(value))
            };
            format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
    }
}

fn scalar_text(scalar: &Scalar) -> String {
    let text = &scalar.text;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._/%+-".contains(c);
    let starts_plain = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/');
    match scalar {
        _ if scalar.is_null() => "null".into(),
        Scalar { is_quoted: true, .. } => quoted(text),
        // `-1` is a number, and would be a text in quotes.
        _ if scalar.is_number() || starts_plain && text.chars().all(is_plain) => text.clone(),
        _ => quoted(text),
    }
}

/// As a JSON string, which YAML reads alike.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
