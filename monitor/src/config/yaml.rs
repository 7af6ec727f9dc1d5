//! YAML, and so JSON, as a tree in which every key and value knows its place.
//! In: text. Out: one [`Node`] for each document, or the first thing that makes it no YAML.
//!
//! What [`Fields`] then reads is typed on demand, by the core schema of YAML 1.2: `yes` is a
//! text, `010` is ten. Scalars keep their text, so that `1.50` never passes through a float.
//! Aliases are copies, within a budget; tags other than the core schema's, keys that are no
//! scalars and merge keys (`<<`) are refused.

mod build;
#[cfg(test)]
mod tests;

pub use super::fields::{Field, Fields};
pub use super::problem::{Invalid, Place, Problem, Problems};

/// A value, and where it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Where it begins.
    pub at: Place,
    /// What it is.
    pub value: Value,
}

/// What a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A text, number, truth value or nothing.
    Scalar(Scalar),
    /// `[a, b]`.
    List(Vec<Node>),
    /// `{a: b}`, in the order of the file. A key may occur twice: its reader says so.
    Map(Vec<Entry>),
}

/// A scalar as it was written, escapes resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scalar {
    /// The text.
    pub text: String,
    /// Written in quotes, as a block, or tagged `!!str`: a text, whatever it looks like.
    pub is_quoted: bool,
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key begins.
    pub at: Place,
    /// Its value.
    pub value: Node,
}

/// The documents of `text` that hold anything, in their order; at least one.
///
/// # Errors
/// With the first place that is no YAML, not supported, or more than the limits allow.
pub fn parse(text: &str) -> Result<Vec<Node>, Problem> {
    build::documents(text)
}

/// The text of a file.
///
/// # Errors
/// With the place of the first byte that is not UTF-8.
pub fn utf8(bytes: &[u8]) -> Result<&str, Problem> {
    std::str::from_utf8(bytes).map_err(|error| {
        let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let found = bytes[error.valid_up_to()];
        Problem {
            at: Place::of(&valid, valid.len()),
            path: String::new(),
            message: format!("expected UTF-8 text, found the byte {found:#04x}"),
        }
    })
}

impl Node {
    /// Nothing: `null`, `~` or no text at all.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar(scalar) if scalar.is_null())
    }

    /// What it is, in words for a message: `the number 5`, `a list`.
    #[must_use]
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

/// A text within a message.
fn quote(text: &str) -> String {
    if text.chars().count() <= LONGEST_QUOTE {
        return format!("{text:?}");
    }
    let start: String = text.chars().take(LONGEST_QUOTE).collect();
    format!("{start:?}..")
}

impl Scalar {
    /// Nothing.
    #[must_use]
    pub fn is_null(&self) -> bool {
        !self.is_quoted && matches!(self.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }

    /// True or false, if it is either.
    #[must_use]
    pub fn flag(&self) -> Option<bool> {
        match self.text.as_str() {
            _ if self.is_quoted => None,
            "true" | "True" | "TRUE" => Some(true),
            "false" | "False" | "FALSE" => Some(false),
            _ => None,
        }
    }

    /// A whole number, if it is one that fits: decimal, `0o17` or `0x1f`.
    #[must_use]
    pub fn integer(&self) -> Option<i64> {
        let text = self.text.as_str();
        let radix = |digits: &str, radix| {
            let is_plain = !digits.starts_with(['+', '-']);
            is_plain.then(|| i64::from_str_radix(digits, radix).ok()).flatten()
        };
        match text {
            _ if self.is_quoted => None,
            _ if text.starts_with("0o") => radix(&text[2..], 8),
            _ if text.starts_with("0x") => radix(&text[2..], 16),
            _ => text.parse().ok(),
        }
    }

    /// A number, whole or not, of any size: its text is what a reader parses.
    #[must_use]
    pub fn is_number(&self) -> bool {
        if self.is_quoted {
            return false;
        }
        if self.integer().is_some() {
            return true;
        }
        let text = self.text.strip_prefix(['+', '-']).unwrap_or(&self.text);
        if matches!(text, ".inf" | ".Inf" | ".INF")
            || matches!(&*self.text, ".nan" | ".NaN" | ".NAN")
        {
            return true;
        }
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let are_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let has_mantissa = !whole.is_empty() || !fraction.is_empty();
        has_mantissa
            && !exponent.is_empty()
            && are_digits(whole)
            && are_digits(fraction)
            && are_digits(exponent)
    }
}
