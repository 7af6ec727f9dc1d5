//! YAML, and so JSON, as a tree in which every key and value has its place.
//! In: text. Out: one [`Node`] for each document, or the first thing that is not valid YAML.
//!
//! [`Fields`](super::Fields) then reads types on demand, by the core schema of YAML 1.2: `yes` is a
//! text, `010` is ten. Scalars keep their text, so that `1.50` never passes through a float.
//! Aliases are copies, within a budget; tags other than the core schema's, keys that are not
//! scalars and merge keys (`<<`) are refused.

mod build;
#[cfg(test)]
mod tests;

use super::problem::{Invalid, Place, Problem};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub at: Place,
    pub value: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Scalar(Scalar),
    List(Vec<Node>),
    /// In file order. A key may occur twice: its reader reports that.
    Map(Vec<Entry>),
}

/// A scalar as it was written, escapes resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scalar {
    pub text: String,
    /// Written in quotes, as a block, or tagged `!!str`: a text, whatever it looks like.
    pub is_quoted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub key: String,
    pub at: Place,
    pub value: Node,
}

/// The documents of `text` that are not empty; at least one.
pub fn parse(text: &str) -> Result<Vec<Node>, Problem> {
    build::documents(text)
}

/// Like [`parse`], of the content of `file`, which must be UTF-8.
pub fn documents(file: &str, bytes: &[u8]) -> Result<Vec<Node>, Invalid> {
    let text = str::from_utf8(bytes).map_err(|error| {
        let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let found = bytes[error.valid_up_to()];
        let message = format!("expected UTF-8 text, found the byte {found:#04x}");
        Invalid::one(file, Problem::at(Place::of(&valid, valid.len()), message))
    })?;
    parse(text).map_err(|problem| Invalid::one(file, problem))
}

impl Node {
    pub fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar(scalar) if scalar.is_null())
    }

    /// For a message: `the number 5`, `a list`.
    pub fn describe(&self) -> String {
        match &self.value {
            Value::List(_) => "a list".into(),
            Value::Map(_) => "a mapping".into(),
            Value::Scalar(scalar) if scalar.is_null() => "nothing".into(),
            Value::Scalar(scalar) if scalar.flag().is_some() => {
                format!("the truth value {}", scalar.text)
            }
            Value::Scalar(scalar) if scalar.is_number() => format!("the number {}", scalar.text),
            Value::Scalar(scalar) => format!("the text {}", quote(&scalar.text)),
        }
    }
}

/// Longer texts are cut in messages.
const LONGEST_QUOTE: usize = 60;

fn quote(text: &str) -> String {
    if text.chars().count() <= LONGEST_QUOTE {
        return format!("{text:?}");
    }
    let start: String = text.chars().take(LONGEST_QUOTE).collect();
    format!("{start:?}..")
}

impl Scalar {
    pub fn is_null(&self) -> bool {
        !self.is_quoted && matches!(self.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }

    pub fn flag(&self) -> Option<bool> {
        match self.text.as_str() {
            _ if self.is_quoted => None,
            "true" | "True" | "TRUE" => Some(true),
            "false" | "False" | "FALSE" => Some(false),
            _ => None,
        }
    }

    /// A whole number that fits: decimal, `0o17` or `0x1f`.
    pub fn integer(&self) -> Option<i64> {
        let (digits, radix) = match self.text.get(..2) {
            Some("0o") => (&self.text[2..], 8),
            Some("0x") => (&self.text[2..], 16),
            _ => (self.text.as_str(), 10),
        };
        let is_signed = radix != 10 && digits.starts_with(['+', '-']);
        if self.is_quoted || is_signed { None } else { i64::from_str_radix(digits, radix).ok() }
    }

    /// A number, whole or not, of any size: its text is what a reader parses.
    pub fn is_number(&self) -> bool {
        let text = self.text.as_str();
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let is_special = matches!(unsigned, ".inf" | ".Inf" | ".INF")
            || matches!(text, ".nan" | ".NaN" | ".NAN");
        // Rust's own `inf` and `nan` are texts in YAML.
        let is_decimal = text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b))
            && text.parse::<f64>().is_ok();
        !self.is_quoted && (is_special || is_decimal || self.integer().is_some())
    }
}
