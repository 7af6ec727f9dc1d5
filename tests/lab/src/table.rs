//! Tables in Markdown, so that what is printed can go into a document as it is.

/// Rows below a head: the first column to the left, the others, figures, to the right.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let head: Vec<String> = head.iter().map(|&name| name.to_owned()).collect();
    let widths: Vec<usize> = (0..head.len())
        .map(|at| {
            let cells = rows.iter().chain([&head]).filter_map(|row| row.get(at));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(3)
        })
        .collect();
    let line = |row: &[String]| {
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            line += &match at {
                0 => format!("| {cell:<width$} |"),
                _ => format!(" {cell:>width$} |"),
            };
        }
        line + "\n"
    };
    let rule: Vec<String> = widths
        .iter()
        .enumerate()
        .map(|(at, width)| if at == 0 { "-".repeat(*width) } else { "-".repeat(width - 1) + ":" })
        .collect();
    let rows: String = rows.iter().map(|row| line(row)).collect();
    line(&head) + &line(&rule) + &rows
}

/// Whether a figure keeps to its limit, in a word.
pub fn against(figure: f64, limit: f64) -> &'static str {
    if figure <= limit { "within" } else { "ABOVE" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["a longer name".into(), "1".into()], vec!["b".into(), "12345".into()]];
        assert_eq!(
            table(&["what", "µs"], &rows),
            "| what          |    µs |\n| ------------- | ----: |\n\
             | a longer name |     1 |\n| b             | 12345 |\n"
        );
    }
}
