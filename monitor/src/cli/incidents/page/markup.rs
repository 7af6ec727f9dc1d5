//! HTML that cannot be broken out of: tags and attributes are words of this program, all else is
//! escaped. There is no script to break out of either.

use crate::cli::terminal::harmless;

#[derive(Debug, Default)]
pub(super) struct Markup(String);

impl Markup {
    pub(super) fn open(&mut self, tag: &'static str, attributes: &[(&'static str, &str)]) {
        self.0.extend(["<", tag]);
        for (name, value) in attributes {
            self.0.extend([" ", name, "=\"", &escaped(value), "\""]);
        }
        self.0.push('>');
    }

    pub(super) fn close(&mut self, tag: &'static str) {
        self.0.extend(["</", tag, ">"]);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.0.push_str(&escaped(text));
    }

    /// An element that holds only text.
    pub(super) fn leaf(
        &mut self,
        tag: &'static str,
        attributes: &[(&'static str, &str)],
        text: &str,
    ) {
        self.open(tag, attributes);
        self.text(text);
        self.close(tag);
    }

    /// What this program itself holds, as a style sheet.
    pub(super) fn own(&mut self, text: &'static str) {
        self.0.push_str(text);
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

fn escaped(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    for c in harmless(text).chars() {
        match c {
            '&' => all.push_str("&amp;"),
            '<' => all.push_str("&lt;"),
            '>' => all.push_str("&gt;"),
            '"' => all.push_str("&quot;"),
            '\'' => all.push_str("&#39;"),
            c => all.push(c),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_escapes_text_and_attributes() {
        #[rustfmt::skip]
        let table = [
            // name, written
            ("</script><b>",                "&lt;/script&gt;&lt;b&gt;"),
            ("<img src=x onerror=alert(1)>", "&lt;img src=x onerror=alert(1)&gt;"),
            ("\" onload=\"x",                "&quot; onload=&quot;x"),
            ("' & `",                        "&#39; &amp; `"),
            ("a\u{202e}cod\0",               "a\u{fffd}cod\u{fffd}"),
        ];
        for (name, want) in table {
            let mut markup = Markup::default();
            markup.leaf("p", &[("title", name)], name);
            assert_eq!(markup.into_text(), format!("<p title=\"{want}\">{want}</p>"), "{name:?}");
        }
    }
}
