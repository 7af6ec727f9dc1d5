//! The lines of the kernel's text files: numbered, complete, made of words and integers.
//! Only errors allocate.

use std::fmt;

/// A line that is not what the kernel prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Torn {
    /// Counted from 1.
    pub(crate) line: usize,
    pub(crate) wanted: &'static str,
    /// The first 80 bytes of the line.
    pub(crate) found: String,
}

impl Torn {
    pub(crate) fn new(line: usize, wanted: &'static str, found: &[u8]) -> Self {
        let beginning = &found[..found.len().min(80)];
        Self { line, wanted, found: String::from_utf8_lossy(beginning).into_owned() }
    }
}

impl fmt::Display for Torn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: expected {}, found {:?}", self.line, self.wanted, self.found)
    }
}

/// The lines of `text`, numbered from 1. A last line without its line feed is torn: the number
/// at its end may have lost digits, and a wrong number is worse than none.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = Result<(usize, &[u8]), Torn>> {
    text.split_inclusive(|byte| *byte == b'\n').zip(1..).map(|(line, n)| {
        let whole = line.strip_suffix(b"\n");
        whole.map(|line| (n, line)).ok_or_else(|| Torn::new(n, "a line feed at its end", line))
    })
}

/// The line of a file that must have exactly one.
pub(crate) fn only_line(text: &[u8]) -> Result<&[u8], Torn> {
    let mut all = lines(text);
    let (_, first) = all.next().ok_or_else(|| Torn::new(1, "a value", b""))??;
    match all.next() {
        None => Ok(first),
        Some(_) => Err(Torn::new(2, "nothing after the first line", text)),
    }
}

/// The number in a file that holds nothing else.
pub(crate) fn value(text: &[u8]) -> Result<u64, Torn> {
    let line = only_line(text)?;
    number(line).ok_or_else(|| Torn::new(1, "a number", line))
}

/// Passes each `key number` line to `take`. A line of another shape is torn.
pub(crate) fn keyed(text: &[u8], mut take: impl FnMut(&[u8], u64)) -> Result<(), Torn> {
    for numbered in lines(text) {
        let (n, line) = numbered?;
        let mut words = words(line);
        let pair = words.next().zip(words.next().and_then(number));
        let (key, value) = pair.ok_or_else(|| Torn::new(n, "`key number`", line))?;
        take(key, value);
    }
    Ok(())
}

/// The words of a line. Several spaces in a row count as one.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b' ').filter(|word| !word.is_empty())
}

/// A number made of digits alone; `None` if a `u64` cannot hold it.
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Splits `key=value` at the first `=`.
pub(crate) fn key_value(word: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = word.iter().position(|byte| *byte == b'=')?;
    Some((&word[..at], &word[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_takes_digits_alone() {
        #[rustfmt::skip]
        let table = [
            ("0",                    Some(0)),
            ("007",                  Some(7)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("",                     None),
            ("-1",                   None),
            ("+1",                   None),
            ("1 ",                   None),
            ("max",                  None),
        ];
        for (text, want) in table {
            assert_eq!(number(text.as_bytes()), want, "{text:?}");
        }
    }

    #[test]
    fn lines_refuse_a_missing_line_feed() {
        let read: Vec<_> = lines(b"one\n\ntwo").collect();
        assert_eq!(read[0], Ok((1, &b"one"[..])));
        assert_eq!(read[1], Ok((2, &b""[..])));
        assert_eq!(read[2], Err(Torn::new(3, "a line feed at its end", b"two")));
        assert_eq!(lines(b"").count(), 0);
    }

    #[test]
    fn only_line_refuses_a_second_line() {
        assert_eq!(only_line(b"max\n"), Ok(&b"max"[..]));
        assert_eq!(only_line(b"").unwrap_err().line, 1);
        assert_eq!(only_line(b"12").unwrap_err().line, 1);
        assert_eq!(only_line(b"12\n13\n").unwrap_err().line, 2);
    }
}
