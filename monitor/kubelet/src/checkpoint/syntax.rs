//! Whether a text is JSON, and if not, why, in the words of Go's `encoding/json`, which are those of
//! the kubelet. In: a text. Out: nothing, or what is wrong with it first.
//! Source: Go `encoding/json`, scanner.go. No recursion: a state file may be nested at will.

use std::iter::{self, Chain, Once, Peekable};
use std::str::Bytes;

use isobar_core::model::quoted::escaped;

/// Go refuses what is nested deeper.
const DEEPEST: usize = 10_000;
const EARLY: &str = "unexpected end of JSON input";

/// # Errors
/// In Go's words, at the first byte that is wrong.
pub(super) fn check(text: &str) -> Result<(), String> {
    // To Go a text ends as if a space followed: that ends a number and is wrong within a word.
    let bytes = text.bytes().chain(iter::once(b' ')).peekable();
    let mut scan = Scan { bytes, open: Vec::new() };
    let mut next = Next::Value;
    while let Some(byte) = scan.bytes.find(|byte| !is_space(*byte)) {
        next = scan.step(next, byte)?;
    }
    match next {
        Next::End => Ok(()),
        _ => Err(EARLY.into()),
    }
}

pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// What may follow.
#[derive(Debug, Clone, Copy)]
enum Next {
    Value,
    /// A value, or the end of an empty list.
    FirstItem,
    Key,
    /// A key, or the end of an empty object.
    FirstKey,
    Colon,
    /// A comma, or the end of the list or object.
    Separator,
    End,
}

struct Scan<'a> {
    bytes: Peekable<Chain<Bytes<'a>, Once<u8>>>,
    /// Lists and objects around this place, by their first byte.
    open: Vec<u8>,
}

impl Scan<'_> {
    /// `byte` is no space.
    fn step(&mut self, next: Next, byte: u8) -> Result<Next, String> {
        match (next, byte) {
            (Next::FirstItem, b']') | (Next::FirstKey, b'}') => Ok(self.close()),
            (Next::Value | Next::FirstItem, _) => self.value(byte),
            (Next::Key | Next::FirstKey, b'"') => self.string().map(|()| Next::Colon),
            (Next::Key | Next::FirstKey, _) => {
                invalid(byte, "looking for beginning of object key string")
            }
            (Next::Colon, b':') => Ok(Next::Value),
            (Next::Colon, _) => invalid(byte, "after object key"),
            (Next::Separator, _) => self.separator(byte),
            (Next::End, _) => invalid(byte, "after top-level value"),
        }
    }

    fn value(&mut self, byte: u8) -> Result<Next, String> {
        match byte {
            b'{' => return self.enter(byte, Next::FirstKey),
            b'[' => return self.enter(byte, Next::FirstItem),
            b'"' => self.string()?,
            b't' => self.word("true")?,
            b'f' => self.word("false")?,
            b'n' => self.word("null")?,
            b'-' | b'0'..=b'9' => self.number(byte)?,
            _ => return invalid(byte, "looking for beginning of value"),
        }
        Ok(self.after())
    }

    fn enter(&mut self, byte: u8, next: Next) -> Result<Next, String> {
        self.open.push(byte);
        if self.open.len() > DEEPEST { invalid(byte, "exceeded max depth") } else { Ok(next) }
    }

    fn separator(&mut self, byte: u8) -> Result<Next, String> {
        match (self.open.last(), byte) {
            (Some(b'{'), b',') => Ok(Next::Key),
            (Some(b'['), b',') => Ok(Next::Value),
            (Some(b'{'), b'}') | (Some(b'['), b']') => Ok(self.close()),
            (Some(b'{'), _) => invalid(byte, "after object key:value pair"),
            _ => invalid(byte, "after array element"),
        }
    }

    fn close(&mut self) -> Next {
        self.open.pop();
        self.after()
    }

    fn after(&self) -> Next {
        if self.open.is_empty() { Next::End } else { Next::Separator }
    }

    fn take(&mut self) -> Result<u8, String> {
        self.bytes.next().ok_or_else(|| EARLY.into())
    }

    /// After the first quote.
    fn string(&mut self) -> Result<(), String> {
        loop {
            match self.take()? {
                b'"' => return Ok(()),
                b'\\' => self.escape()?,
                byte @ 0..0x20 => return invalid(byte, "in string literal"),
                _ => {}
            }
        }
    }

    /// After the backslash.
    fn escape(&mut self) -> Result<(), String> {
        match self.take()? {
            b'u' => (0..4).try_for_each(|_| match self.take()? {
                byte if byte.is_ascii_hexdigit() => Ok(()),
                byte => invalid(byte, "in \\u hexadecimal character escape"),
            }),
            b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => Ok(()),
            byte => invalid(byte, "in string escape code"),
        }
    }

    /// After its first letter.
    fn word(&mut self, word: &str) -> Result<(), String> {
        word.chars().skip(1).try_for_each(|wanted| match self.take()? {
            byte if char::from(byte) == wanted => Ok(()),
            byte => invalid(byte, &format!("in literal {word} (expecting '{wanted}')")),
        })
    }

    fn number(&mut self, first: u8) -> Result<(), String> {
        let first = if first == b'-' { self.take()? } else { first };
        match first {
            b'0' => {}
            b'1'..=b'9' => self.more_digits(),
            _ => return invalid(first, "in numeric literal"),
        }
        if self.bytes.next_if_eq(&b'.').is_some() {
            self.digits("after decimal point in numeric literal")?;
        }
        if self.bytes.next_if(|byte| matches!(byte, b'e' | b'E')).is_some() {
            let _ = self.bytes.next_if(|byte| matches!(byte, b'+' | b'-'));
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    /// At least one; `place` is where Go says that it lacks.
    fn digits(&mut self, place: &str) -> Result<(), String> {
        match self.take()? {
            b'0'..=b'9' => {
                self.more_digits();
                Ok(())
            }
            byte => invalid(byte, place),
        }
    }

    fn more_digits(&mut self) {
        while self.bytes.next_if(u8::is_ascii_digit).is_some() {}
    }
}

/// Go takes the byte for a character of Latin-1.
fn invalid<T>(byte: u8, place: &str) -> Result<T, String> {
    let shown = match byte {
        b'"' => "\"".into(),
        b'\'' => "\\'".into(),
        _ => escaped(char::from(byte)),
    };
    Err(format!("invalid character '{shown}' {place}"))
}
