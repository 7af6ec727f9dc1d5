//! Kubernetes quantities: `100m`, `1.5Gi`, `2e3`. Exact to a billionth, never a float.
//!
//! Source: apimachinery `pkg/api/resource/quantity.go`. Differences:
//!
//! - A text without digits (`.`, `-`, `Mi`) is refused; Go reads 0.
//! - The canonical text is always printed; Go keeps an input that looks canonical.
//! - Amounts above every suffix keep their size; Go prints 1000E as `1`.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use num_bigint::BigInt;

/// Resource names and how much of each: requests, limits, reservations, capacity.
pub type ResourceList = std::collections::BTreeMap<String, Quantity>;

/// The notation in which a quantity was written and is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Powers of 1000: `n u m k M G T P E`.
    #[default]
    DecimalSi,
    /// Powers of 1024: `Ki Mi Gi Ti Pi Ei`.
    BinarySi,
    /// `1e3`.
    DecimalExponent,
}

/// An amount as Kubernetes writes it (`100m`, `1536Mi`), in billionths. Comparison ignores the
/// notation.
#[derive(Debug, Clone, Copy, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// No number, or an invalid suffix.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    /// Suffixes are case-sensitive.
    #[error("unable to parse quantity's suffix")]
    Suffix,
    /// Above about 8e28, or longer than 256 characters.
    #[error("the quantity is out of range")]
    Range,
}

/// One in billionths.
const UNIT: i128 = 1_000_000_000;
/// Go caps binary quantities here: `maxAllowed`, the largest `int64`.
const CAP: i128 = (i64::MAX as i128) * UNIT;
/// In characters. Longer texts are refused.
const LONGEST: usize = 256;
/// Beyond this power of ten, every text of the allowed length overflows or rounds to 1.
const FURTHEST: u32 = 320;

const DECIMAL: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY: [(&str, u32); 6] =
    [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

impl Quantity {
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSi };

    /// Bytes, printed in powers of 1024.
    pub fn bytes(n: u64) -> Self {
        Self { nanos: i128::from(n) * UNIT, format: Format::BinarySi }
    }

    /// A count, printed in powers of 1000.
    pub fn count(n: u64) -> Self {
        Self { nanos: i128::from(n) * UNIT, format: Format::DecimalSi }
    }

    /// CPU time in thousandths of a CPU.
    pub fn milli(n: u64) -> Self {
        Self { nanos: i128::from(n) * (UNIT / 1_000), format: Format::DecimalSi }
    }

    /// Whole units, rounded away from zero: Go's `Value()`.
    pub fn value(self) -> i128 {
        div_away(self.nanos, UNIT)
    }

    /// Thousandths, rounded away from zero: Go's `MilliValue()`.
    pub fn milli_value(self) -> i128 {
        div_away(self.nanos, UNIT / 1_000)
    }

    /// Billionths, exact.
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    /// [`Quantity::value`]; negative values become 0.
    pub fn to_u64(self) -> u64 {
        u64::try_from(self.value().max(0)).unwrap_or(u64::MAX)
    }

    /// [`Quantity::milli_value`]; negative values become 0.
    pub fn to_milli(self) -> u64 {
        u64::try_from(self.milli_value().max(0)).unwrap_or(u64::MAX)
    }

    /// Exactly nothing.
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Below nothing.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// The sum, in the notation of `self`, or of `other` if `self` is zero.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self { nanos: self.nanos.saturating_add(other.nanos), format }
    }

    /// The difference, which may be negative; notation as in [`Quantity::plus`].
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self { nanos: self.nanos.saturating_sub(other.nanos), format }
    }

    /// By how many whole units it is above another one; 0 if it is not.
    pub fn beyond(self, other: Self) -> u64 {
        if self > other { self.minus(other).to_u64() } else { 0 }
    }

    /// Negative quantities become 0.
    #[must_use]
    pub fn at_least_zero(self) -> Self {
        Self { nanos: self.nanos.max(0), ..self }
    }
}

/// Division that rounds away from zero.
fn div_away(n: i128, by: i128) -> i128 {
    let whole = n / by;
    if n % by == 0 { whole } else { whole + n.signum() }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.len() > LONGEST {
            return Err(QuantityError::Range);
        }
        let (is_negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(QuantityError::Format);
        }
        let (format, twos, tens) = factor(suffix)?;
        let digits: BigInt = format!("0{whole}{fraction}").parse().expect("only digits");
        let n_fraction = i32::try_from(fraction.len()).expect("a short text");
        let nanos = nanos(digits << twos, tens.saturating_add(9).saturating_sub(n_fraction))?;
        let (nanos, format) = match format {
            Format::BinarySi if nanos > 0 && nanos < UNIT => (nanos, Format::DecimalSi),
            Format::BinarySi => (nanos.min(CAP), format),
            _ => (nanos, format),
        };
        Ok(Self { nanos: if is_negative { -nanos } else { nanos }, format })
    }
}

/// A suffix's notation, and its factor as powers of two and of ten.
fn factor(suffix: &str) -> Result<(Format, u32, i32), QuantityError> {
    if let Some((_, tens)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Ok((Format::DecimalSi, 0, *tens));
    }
    if let Some((_, twos)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Ok((Format::BinarySi, *twos, 0));
    }
    let tail = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    if !tail.strip_prefix(['+', '-']).unwrap_or(tail).bytes().all(|b| b.is_ascii_digit()) {
        return Err(QuantityError::Format);
    }
    let exponent = suffix.strip_prefix(['e', 'E']).ok_or(QuantityError::Suffix)?;
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(QuantityError::Suffix);
    }
    // An exponent too long for an i32 overflows or rounds to 1.
    let tens = digits.parse().unwrap_or(i32::MAX);
    Ok((Format::DecimalExponent, 0, if exponent.starts_with('-') { -tens } else { tens }))
}

/// `digits * 10^tens`, rounded up.
fn nanos(digits: BigInt, tens: i32) -> Result<i128, QuantityError> {
    if digits == BigInt::ZERO {
        return Ok(0);
    }
    let power = tens.unsigned_abs();
    if power > FURTHEST {
        return if tens > 0 { Err(QuantityError::Range) } else { Ok(1) };
    }
    let ten = BigInt::from(10).pow(power);
    let nanos = if tens >= 0 { digits * ten } else { (digits + &ten - 1) / ten };
    i128::try_from(nanos).ok().filter(|n| *n < i128::MAX / 2).ok_or(QuantityError::Range)
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let whole = self.nanos / UNIT;
        // Sums above the cap are printed in powers of 1000, because parsing caps binary
        // quantities.
        let is_binary = self.format == Format::BinarySi
            && self.nanos % UNIT == 0
            && whole.unsigned_abs() >= 1024
            && self.nanos.abs() <= CAP;
        if is_binary {
            let of = |(_, power): &&(&str, u32)| whole % (1_i128 << power) == 0;
            let (suffix, power) = BINARY.iter().rev().find(of).unwrap_or(&("", 0));
            return write!(f, "{}{suffix}", whole >> power);
        }
        let is_exponent = self.format == Format::DecimalExponent;
        let (mut mantissa, mut exponent) = (self.nanos, -9);
        while mantissa % 1_000 == 0 && (is_exponent || exponent < 18) {
            (mantissa, exponent) = (mantissa / 1_000, exponent + 3);
        }
        if is_exponent && exponent != 0 {
            return write!(f, "{mantissa}e{exponent}");
        }
        let suffix = DECIMAL.iter().find(|(_, power)| *power == exponent);
        write!(f, "{mantissa}{}", suffix.map_or("", |(suffix, _)| suffix))
    }
}

#[cfg(test)]
mod tests;
