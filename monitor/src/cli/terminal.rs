//! What the terminal is, and what may be written to it.

use std::env;
use std::io::{self, IsTerminal as _};

use rustix::termios::tcgetwinsize;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// True if stdout is a terminal.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Columns of the terminal; `None` if stdout is none, and then nothing is shortened.
pub(crate) fn width() -> Option<usize> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Whether diagnostics may be coloured: <https://no-color.org>.
pub(crate) fn colours_on_stderr() -> bool {
    io::stderr().is_terminal() && may_colour()
}

/// Whether data may be coloured.
pub(crate) fn colours_on_stdout() -> bool {
    is_terminal() && may_colour()
}

fn may_colour() -> bool {
    let asked_not_to = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
    !asked_not_to && !dumb
}

/// Text as it may be printed. Whoever makes a cgroup chooses its name: control characters would
/// drive the reader's terminal, and marks of direction would show another name than there is.
pub(crate) fn harmless(text: &str) -> String {
    let hostile = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    text.chars().map(|c| if hostile(c) { '\u{fffd}' } else { c }).collect()
}

/// Shortens in the middle, because a path tells whose it is at its start and which at its end.
pub(crate) fn shorten(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.into();
    }
    let room = columns.saturating_sub(1);
    let head = fitting(text.chars(), room / 2);
    let tail = fitting(text.chars().rev(), room - head.width());
    let tail: String = tail.chars().rev().collect();
    format!("{head}…{tail}")
}

fn fitting(chars: impl Iterator<Item = char>, columns: usize) -> String {
    let mut used = 0;
    chars
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= columns
        })
        .collect()
}

/// `text` in lines of at most `width` columns, parted between words; a longer word stays whole.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is always one");
        if last.is_empty() {
            last.push_str(word);
        } else if last.width().saturating_add(word.width()) < width {
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
    fn long_names_keep_both_ends_and_never_outgrow_their_columns() {
        #[rustfmt::skip]
        let table = [
            // text, columns, want
            ("/system.slice",            20, "/system.slice"),
            ("/kubepods.slice/pod1",     11, "/kube…/pod1"),
            ("四五六七八九",               7, "四…八九"),   // two columns each: an odd one stays empty
            ("abc",                       1, "…"),
            ("",                          0, ""),
        ];
        for (text, columns, want) in table {
            let got = shorten(text, columns);
            assert_eq!(got, want, "{text:?} in {columns}");
            assert!(got.width() <= columns.max(1), "{got:?}");
        }
    }

    #[test]
    fn a_hostile_name_cannot_drive_the_terminal() {
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
    fn text_is_wrapped_between_words() {
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
