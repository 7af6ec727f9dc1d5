//! Text as Go's `%q` prints it, for messages in the kubelet's words.
//! Source: Go `strconv.Quote`. Rust's `{:?}` escapes other characters, and those in another way.

/// `text` in double quotes.
pub fn quoted(text: &str) -> String {
    let inner: String = text.chars().map(escaped).collect();
    format!("\"{inner}\"")
}

/// One character, as it stands within double quotes.
pub fn escaped(c: char) -> String {
    match c {
        '"' | '\\' => format!("\\{c}"),
        ' '..='~' => c.into(),
        '\x07' => "\\a".into(),
        '\x08' => "\\b".into(),
        '\t' => "\\t".into(),
        '\n' => "\\n".into(),
        '\x0b' => "\\v".into(),
        '\x0c' => "\\f".into(),
        '\r' => "\\r".into(),
        '\0'..='\x7f' => format!("\\x{:02x}", u32::from(c)),
        // Rust's notion of what can be printed is Go's but for combining marks.
        _ if c.escape_debug().len() == 1 => c.into(),
        '\u{80}'..='\u{ffff}' => format!("\\u{:04x}", u32::from(c)),
        _ => format!("\\U{:08x}", u32::from(c)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_as_go() {
        #[rustfmt::skip]
        let table = [
            // text, quoted
            ("",                    r#""""#),
            ("0-3",                 r#""0-3""#),
            ("it's \"so\" \\",      r#""it's \"so\" \\""#),
            ("\x07\x08\x0c\n\r\t\x0b", r#""\a\b\f\n\r\t\v""#),
            ("\0\x1b\x7f",          r#""\x00\x1b\x7f""#),
            ("é\u{fffd}",           "\"é\u{fffd}\""),
            ("\u{85}\u{a0}\u{200b}", r#""\u0085\u00a0\u200b""#),
            ("\u{e0001}",           r#""\U000e0001""#),
        ];
        for (text, want) in table {
            assert_eq!(quoted(text), want);
        }
    }
}
