//! Every key that a configuration may have: the one table from which files are checked, defaults
//! are printed and the schema is made.

mod kubelet;
mod ours;

use std::fmt;
use std::str::FromStr;

use isobar_core::model::duration::GoDuration;
use isobar_core::model::pattern::PathPattern;
use isobar_core::model::quantity::Quantity;
use isobar_core::model::units::Percent;

use super::fields::Field;

pub(super) use kubelet::KUBELET;
pub(super) use ours::OURS;

/// `apiVersion` of a file of ours.
pub const API_VERSION: &str = "isobar/v1alpha1";
/// `kind` of a file of ours.
pub const KIND: &str = "MonitorConfiguration";

/// One key.
#[derive(Debug)]
pub(super) struct Key {
    /// As it is written.
    pub(super) name: &'static str,
    /// What it takes.
    pub(super) kind: Kind,
    /// What it is without, as YAML; `None` if being without is a choice of its own.
    pub(super) default: Option<&'static str>,
    /// What it is for, in a line.
    pub(super) about: &'static str,
}

/// What a key takes.
#[derive(Debug)]
pub(super) enum Kind {
    /// A text.
    Text,
    /// The path of a file, from the directory of the configuration.
    File,
    /// True or false.
    Flag,
    /// A whole number, from the first to the second.
    Number(i64, i64),
    /// A number, with a fraction or without.
    Decimal,
    /// A length of time, not negative.
    Duration,
    /// A quantity, not negative.
    Quantity,
    /// A share of time, more than 0 % and at most 100 %, with two decimals.
    Percent,
    /// Whatever the key beside it makes of it.
    Scalar,
    /// One of these.
    Word(&'static [&'static str]),
    /// Some of these, each at most once.
    Words(&'static [&'static str]),
    /// A list of texts, judged by the kubelet's rules.
    Texts,
    /// A pattern of cgroup paths.
    Pattern,
    /// A list of them.
    Patterns,
    /// Scalars by free keys, judged by the kubelet's rules.
    Scalars,
    /// Truth values by free keys.
    Flags,
    /// A mapping of these.
    Map(&'static [Key]),
    /// A list of mappings of these; those without a default must be given.
    List(&'static [Key]),
}

/// A length of time that is not negative.
struct Length;
/// A quantity that is not negative.
struct Amount;
/// A [`Percent`] with its limits.
pub(super) struct Share(pub(super) Percent);

impl Kind {
    /// Whether `field` is of this kind, but for mappings of known keys. Says what is wrong if not.
    pub(super) fn takes(&self, field: &Field<'_>) -> bool {
        match self {
            Self::Text | Self::File => field.text().is_some(),
            Self::Flag => field.flag().is_some(),
            Self::Number(least, most) => {
                let number = field.number::<i64>();
                let is_within = number.is_some_and(|n| (*least..=*most).contains(&n));
                if number.is_some() && !is_within {
                    field.problem(format!("expected a whole number from {least} to {most}"));
                }
                is_within
            }
            Self::Decimal => field.parse::<f64>("a number").is_some(),
            Self::Duration => field.parse::<Length>("a length of time such as 1m30s").is_some(),
            Self::Quantity => field.parse::<Amount>("a quantity").is_some(),
            Self::Percent => field.parse::<Share>("a percentage such as 60%").is_some(),
            Self::Scalar => field.scalar("a text or number").is_some(),
            Self::Word(words) => word(field, words).is_some(),
            Self::Words(words) => are_words(field, words),
            Self::Pattern => pattern(field).is_some(),
            Self::Patterns => are_patterns(field),
            // Who reads the single values says what is wrong with them.
            Self::Texts => field.list().is_some(),
            Self::Scalars | Self::Flags => is_free_map(field),
            Self::Map(_) => field.map().is_some(),
            Self::List(_) => field.list().is_some(),
        }
    }
}

/// The word in `field`, with a problem if it is none of `words`.
fn word(field: &Field<'_>, words: &'static [&'static str]) -> Option<&'static str> {
    let named: Vec<(&str, &'static str)> = words.iter().map(|word| (*word, *word)).collect();
    field.one_of(&named)
}

fn are_words(field: &Field<'_>, words: &'static [&'static str]) -> bool {
    let Some(items) = field.list() else { return false };
    let mut seen = Vec::new();
    for (item, word) in items.iter().filter_map(|item| Some((item, word(item, words)?))) {
        if seen.contains(&word) {
            item.problem(format!("{word} stands here twice"));
        }
        seen.push(word);
    }
    true
}

/// The pattern in `field`, with a problem if it is none.
pub(super) fn pattern(field: &Field<'_>) -> Option<PathPattern> {
    field.parse("a pattern of cgroup paths such as /system.slice/*.service")
}

fn are_patterns(field: &Field<'_>) -> bool {
    let Some(items) = field.list() else { return false };
    items.iter().filter(|item| pattern(item).is_none()).count() == 0
}

/// A mapping with free keys, none of them twice.
fn is_free_map(field: &Field<'_>) -> bool {
    let Some(mut map) = field.map() else { return false };
    map.each();
    map.finish();
    true
}

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let time: GoDuration = text.parse().map_err(to_text)?;
        if time.0 < 0 { Err(format!("{text} is negative")) } else { Ok(Self) }
    }
}

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let quantity: Quantity = text.parse().map_err(to_text)?;
        if quantity.is_negative() { Err(format!("{text} is negative")) } else { Ok(Self) }
    }
}

fn to_text(error: impl fmt::Display) -> String {
    error.to_string()
}

impl FromStr for Share {
    type Err = &'static str;

    /// `60%`, `60` or `12.5%`: hundredths are lossless, and what is finer is refused.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.strip_suffix('%').unwrap_or(text);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let are_digits = |digits: &str| digits.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || fraction.is_empty() || !are_digits(whole) || !are_digits(fraction) {
            return Err("not a number");
        }
        let fraction = fraction.trim_end_matches('0');
        if fraction.len() > 2 {
            return Err("it has more than two decimals");
        }
        match format!("{whole}{fraction:0<2}").parse::<u16>() {
            Ok(0) => Err("it must be more than 0 %"),
            Ok(hundredths) if hundredths <= Percent::FULL.0 => Ok(Self(Percent(hundredths))),
            _ => Err("it must be at most 100 %"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_time_is_read_to_the_hundredth() {
        #[rustfmt::skip]
        let table: [(&str, Result<u16, &str>); 13] = [
            // text, hundredths of a percent or why not
            ("60%",     Ok(60_00)),
            ("60",      Ok(60_00)),
            ("12.34%",  Ok(12_34)),
            ("12.5",    Ok(12_50)),
            ("0.01%",   Ok(1)),
            ("100.00%", Ok(100_00)),
            ("100.01%", Err("it must be at most 100 %")),
            ("99999",   Err("it must be at most 100 %")),
            ("0%",      Err("it must be more than 0 %")),
            ("1.234%",  Err("it has more than two decimals")),
            ("-1%",     Err("not a number")),
            ("1e1",     Err("not a number")),
            ("%",       Err("not a number")),
        ];
        for (text, want) in table {
            let got = text.parse::<Share>().map(|share| share.0.0);
            assert_eq!(got, want, "{text}");
        }
    }
}
