//! Every key that a configuration may have: the one table from which files are checked, the
//! defaults are printed and the schema is made.

mod isobar;
mod kubelet;

use std::collections::BTreeSet;
use std::str::FromStr;

use isobar_core::model::duration::GoDuration;
use isobar_core::model::pattern::PathPattern;
use isobar_core::model::quantity::Quantity;
use isobar_core::model::units::Percent;

use super::fields::Field;

pub(super) use isobar::ISOBAR;
pub(super) use kubelet::KUBELET;

/// `apiVersion` of isobar's own files.
pub const API_VERSION: &str = "isobar/v1alpha1";
/// `kind` of isobar's own files.
pub const KIND: &str = "MonitorConfiguration";

#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// As YAML; `None` if a file without the key means something of its own.
    pub(super) default: Option<&'static str>,
    /// What it is for, in a line.
    pub(super) about: &'static str,
}

const fn key(
    name: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    about: &'static str,
) -> Key {
    Key { name, kind, default, about }
}

/// What a key accepts.
#[derive(Debug)]
pub(super) enum Kind {
    Text,
    /// The path of a file, relative to the directory of the configuration.
    File,
    Flag,
    /// A whole number from the first to the second.
    Number(i64, i64),
    Decimal,
    /// A length of time, not negative.
    Duration,
    /// A quantity, not negative.
    Quantity,
    /// A share of time, more than 0 % and at most 100 %, with two decimals.
    Percent,
    /// A scalar whose meaning depends on another key.
    Scalar,
    Word(&'static [&'static str]),
    /// Some of these words, each at most once.
    Words(&'static [&'static str]),
    /// A list of texts that `node` checks by the kubelet's rules.
    Texts,
    /// A pattern of cgroup paths.
    Pattern,
    Patterns,
    /// Scalars by free keys, checked by the kubelet's rules.
    Scalars,
    /// Truth values by free keys.
    Flags,
    Map(&'static [Key]),
    /// A list of mappings; keys without a default are required.
    List(&'static [Key]),
}

impl Kind {
    /// Whether `field` is of this kind; reports a problem if not. Mappings of known keys and the
    /// items of lists are checked key by key where they are read.
    pub(super) fn accepts(&self, field: &Field<'_>) -> bool {
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
            Self::Duration => {
                field.parse_by("a length of time such as 1m30s", positive_time).is_some()
            }
            Self::Quantity => field.parse_by("a quantity", positive_quantity).is_some(),
            Self::Percent => field.parse::<Share>("a percentage such as 60%").is_some(),
            Self::Scalar => field.scalar("a text or number").is_some(),
            Self::Word(words) => word(field, words).is_some(),
            Self::Words(words) => are_words(field, words),
            Self::Pattern => pattern(field).is_some(),
            Self::Patterns => field
                .list()
                .is_some_and(|items| items.iter().filter_map(pattern).count() == items.len()),
            Self::Texts => field.list().is_some(),
            Self::Scalars | Self::Flags => field.map().map(|mut map| map.each()).is_some(),
            Self::Map(_) | Self::List(_) => true,
        }
    }
}

fn word(field: &Field<'_>, words: &'static [&'static str]) -> Option<&'static str> {
    let named: Vec<(&str, &'static str)> = words.iter().map(|word| (*word, *word)).collect();
    field.one_of(&named)
}

fn are_words(field: &Field<'_>, words: &'static [&'static str]) -> bool {
    let Some(items) = field.list() else { return false };
    let mut seen = BTreeSet::new();
    for (item, word) in items.iter().filter_map(|item| Some((item, word(item, words)?))) {
        if !seen.insert(word) {
            item.problem(format!("{word} occurs twice"));
        }
    }
    true
}

pub(super) fn pattern(field: &Field<'_>) -> Option<PathPattern> {
    field.parse("a pattern of cgroup paths such as /system.slice/*.service")
}

fn positive_time(text: &str) -> Result<(), String> {
    let time: GoDuration = text.parse().map_err(|error| format!("{error}"))?;
    if time.0 < 0 { Err(format!("{text} is negative")) } else { Ok(()) }
}

fn positive_quantity(text: &str) -> Result<(), String> {
    let quantity: Quantity = text.parse().map_err(|error| format!("{error}"))?;
    if quantity.is_negative() { Err(format!("{text} is negative")) } else { Ok(()) }
}

/// A [`Percent`] of at most 100 %.
pub(super) struct Share(pub(super) Percent);

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
            Ok(hundredths) if hundredths <= Percent::FULL.0 => Ok(Self(Percent(hundredths))),
            _ => Err("it must be at most 100 %"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_parses_hundredths() {
        #[rustfmt::skip]
        let table: [(&str, Result<u16, &str>); 13] = [
            // text, hundredths of a percent or the error
            ("60%",     Ok(60_00)),
            ("60",      Ok(60_00)),
            ("12.34%",  Ok(12_34)),
            ("12.5",    Ok(12_50)),
            ("0.01%",   Ok(1)),
            ("100.00%", Ok(100_00)),
            ("100.01%", Err("it must be at most 100 %")),
            ("99999",   Err("it must be at most 100 %")),
            ("0%",      Ok(0)),
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
