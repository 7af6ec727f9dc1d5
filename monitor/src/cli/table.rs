//! Tables as kubectl prints them: aligned columns, two spaces between, no lines.

use std::io::{self, Write};

use super::terminal::{columns, harmless, shorten};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Set {
    /// Text, never shortened.
    Left,
    /// A name, shortened if the terminal is too narrow.
    Name,
    /// A number.
    Right,
}

#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Set>,
    /// The headings first.
    rows: Vec<Vec<String>>,
}

const GAP: usize = 2;
/// Names are not shortened below this.
const SHORTEST_NAME: usize = 12;

impl Table {
    /// A table with these headings, separated by blanks. `~` after a heading marks a column of
    /// names, `>` one of numbers.
    pub(crate) fn new(headings: &str) -> Self {
        let column = |heading: &str| match heading.chars().last() {
            Some('~') => Set::Name,
            Some('>') => Set::Right,
            _ => Set::Left,
        };
        let name = |heading: &str| heading.trim_end_matches(['~', '>']).to_owned();
        let headings = || headings.split_whitespace();
        Self {
            columns: headings().map(column).collect(),
            rows: vec![headings().map(name).collect()],
        }
    }

    /// Adds a row with one cell for each column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<_> = cells.into_iter().map(|cell| harmless(&cell)).collect();
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// Writes the table, within `width` columns if given.
    pub(crate) fn write(
        &self,
        to: &mut (impl Write + ?Sized),
        width: Option<usize>,
    ) -> io::Result<()> {
        let widths = self.widths(width);
        for row in &self.rows {
            let cells = row.iter().zip(&widths).zip(&self.columns);
            let mut line = String::new();
            for ((cell, width), set) in cells {
                let cell = shorten(cell, *width);
                let pad = " ".repeat(width - columns(&cell));
                match set {
                    Set::Right => line.extend([&pad, cell.as_str()]),
                    Set::Left | Set::Name => line.extend([cell.as_str(), &pad]),
                }
                line.push_str(&" ".repeat(GAP));
            }
            writeln!(to, "{}", line.trim_end())?;
        }
        Ok(())
    }

    /// The width of the widest cell; names share what the other columns leave.
    fn widths(&self, width: Option<usize>) -> Vec<usize> {
        let mut widths = vec![0; self.columns.len()];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(columns(cell));
            }
        }
        let Some(total) = width else { return widths };
        let is_name = |i: &usize| self.columns[*i] == Set::Name;
        let names: Vec<_> = (0..widths.len()).filter(is_name).collect();
        let needed = |widths: &[usize]| widths.iter().sum::<usize>() + GAP * (widths.len() - 1);
        while needed(&widths) > total {
            // The widest is shortened first, so that short names stay whole.
            let Some(&widest) = names.iter().max_by_key(|i| widths[**i]) else { break };
            if widths[widest] <= SHORTEST_NAME {
                break;
            }
            widths[widest] -= 1;
        }
        widths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(width: Option<usize>) -> String {
        let mut table = Table::new("NAME~ CPU>");
        table.row(["/kubepods.slice/pod-1234".into(), "7".into()]);
        table.row(["/四五".into(), "1200".into()]);
        let mut out = Vec::new();
        table.write(&mut out, width).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn table_aligns_columns() {
        let want = "NAME                       CPU\n\
                    /kubepods.slice/pod-1234     7\n\
                    /四五                     1200\n";
        assert_eq!(printed(None), want);
    }

    #[test]
    fn table_shortens_names_but_not_numbers() {
        let text = printed(Some(20));
        assert!(text.lines().all(|line| columns(line) <= 20), "{text}");
        assert!(text.contains("/kubep…od-1234     7"), "{text}");
        assert!(text.contains("1200"), "{text}");
    }
}
