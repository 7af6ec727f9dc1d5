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

    fn close(&mut self, tag: &'static str) {
        self.0.extend(["</", tag, ">"]);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.0.push_str(&escaped(text));
    }

    /// An element, and in it what `content` writes.
    pub(super) fn within(
        &mut self,
        tag: &'static str,
        attributes: &[(&'static str, &str)],
        content: impl FnOnce(&mut Self),
    ) {
        self.open(tag, attributes);
        content(self);
        self.close(tag);
    }

    /// A section under its heading.
    pub(super) fn section(&mut self, title: &str, content: impl FnOnce(&mut Self)) {
        self.within("section", &[], |out| {
            out.leaf("h2", &[], title);
            content(out);
        });
    }

    /// A table under its heads.
    pub(super) fn table(&mut self, heads: &[&str], rows: impl FnOnce(&mut Self)) {
        self.within("table", &[], |out| {
            out.within("tr", &[], |out| heads.iter().for_each(|head| out.leaf("th", &[], head)));
            rows(out);
        });
    }

    pub(super) fn list(&mut self, items: impl Iterator<Item = String>) {
        self.within("ul", &[], |out| items.for_each(|item| out.leaf("li", &[], &item)));
    }

    /// A row of a table.
    pub(super) fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.within("tr", &[], |out| out.cells(cells));
    }

    pub(super) fn cells<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        cells.into_iter().for_each(|cell| self.leaf("td", &[], cell.as_ref()));
    }

    /// An element that holds only text.
    pub(super) fn leaf(
        &mut self,
        tag: &'static str,
        attributes: &[(&'static str, &str)],
        text: &str,
    ) {
        self.within(tag, attributes, |out| out.text(text));
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
