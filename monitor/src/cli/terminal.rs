//! The terminal: its width, and text that is safe to print on it.

use std::io;

use rustix::termios::tcgetwinsize;
use unicode_width::UnicodeWidthChar as _;

/// Columns of the terminal. `None` if stdout is not a terminal; then nothing is shortened.
pub(crate) fn width() -> Option<usize> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Text without control characters. Any user can choose the name of a cgroup: control characters
/// would drive the operator's terminal, and marks of direction would show another name.
pub(crate) fn harmless(text: &str) -> String {
    let hostile = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    text.chars().map(|c| if hostile(c) { '\u{fffd}' } else { c }).collect()
}

/// Columns that a text takes, character by character: with sequences, which terminals draw in different
/// ways, a part would not be narrower than the whole.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

fn columns_of(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// Shortens in the middle: a path names the owner at its start and the cgroup at its end.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    if columns(text) <= most {
        return text.into();
    }
    let room = most.saturating_sub(1);
    let head = fitting(text.chars(), room / 2);
    let tail = fitting(text.chars().rev(), room - columns(&head));
    // Without its first character a sequence is none.
    let tail: String = tail.chars().rev().skip_while(|c| columns_of(*c) == 0).collect();
    format!("{head}…{tail}")
}

fn fitting(chars: impl Iterator<Item = char>, most: usize) -> String {
    let mut used = 0;
    chars
        .take_while(|c| {
            used += columns_of(*c);
            used <= most
        })
        .collect()
}

/// `text` in lines of at most `width` columns, broken between words; a longer word stays whole.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is always one");
        if last.is_empty() {
            last.push_str(word);
        } else if columns(last).saturating_add(columns(word)) < width {
            last.extend([" ", word]);
        } else {
            lines.push(word.into());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorten_keeps_both_ends() {
        #[rustfmt::skip]
        let table = [
            // text, columns, want
            ("/system.slice",            20, "/system.slice"),
            ("/kubepods.slice/pod1",     11, "/kube…/pod1"),
            ("四五六七八九",               7, "四…八九"),   // two columns each: an odd one stays empty
            ("/❤\u{fe0f}❤\u{fe0f}❤\u{fe0f}", 3, "/…❤\u{fe0f}"), // of two columns on some terminals
            ("abc",                       1, "…"),
            ("",                          0, ""),
        ];
        for (text, most, want) in table {
            let got = shorten(text, most);
            assert_eq!(got, want, "{text:?} in {most}");
            assert!(columns(&got) <= most.max(1), "{got:?}");
        }
    }

    #[test]
    fn harmless_replaces_control_characters() {
        #[rustfmt::skip]
        let table = [
            // name, printed
            ("/a\x1b[2J",       "/a\u{fffd}[2J"),
            ("/a\nb",           "/a\u{fffd}b"),
            ("/a\u{9b}31m",     "/a\u{fffd}31m"),       // the one-byte form of escape-bracket
            ("/a\u{202e}cod",   "/a\u{fffd}cod"),       // right-to-left override
            ("/système.slice",  "/système.slice"),
        ];
        for (name, want) in table {
            assert_eq!(harmless(name), want, "{name:?}");
        }
    }

    #[test]
    fn wrapped_breaks_between_words() {
        #[rustfmt::skip]
        let table: [(&str, usize, &[&str]); 6] = [
            // text, columns, lines
            ("one two three", 7,          &["one two", "three"]),
            ("one two three", 13,         &["one two three"]),
            ("one two three", usize::MAX, &["one two three"]),
            ("immeasurable x", 4,         &["immeasurable", "x"]),
            ("四五 六",        6,          &["四五", "六"]),
            ("",              4,          &[""]),
        ];
        for (text, width, want) in table {
            assert_eq!(wrapped(text, width), want, "{text:?} in {width}");
        }
    }
}
