//! The cgroups: a heading, and as many rows as fit around the chosen one.

use isobar_core::view::lead::{Lead, lead};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use crate::cli::terminal::{harmless, shorten};
use crate::cli::top::figures::nameless;
use crate::cli::top::paint::{Tone, tone_of};
use crate::cli::top::rows::{Column, Row};
use crate::cli::top::state::State;

pub(super) fn lines(state: &State, height: usize) -> Vec<Line<'static>> {
    let (columns, name) = Column::fitting(state.size.0.into(), state.list.sort);
    let rows = state.rows();
    let by = state.view.as_ref().map_or(Lead::Lost, |view| lead(view).0);
    if rows.is_empty() {
        let heading = heading(state, by, &columns, name);
        if !state.list.filter.is_empty() {
            let none = "No name contains this. Esc shows all.";
            return vec![heading, state.paint.line(Tone::Plain, none)];
        }
        let mut text = b"No cgroup was read.\n\n".to_vec();
        if let Some(processes) = state.view.as_deref().and_then(nameless) {
            let width = Some(state.size.0.into());
            processes.write(&mut text, width).expect("memory takes all that is written");
        }
        let text = String::from_utf8_lossy(&text);
        let lines = text.lines().take(height.saturating_sub(1));
        let lines = lines.map(|line| state.paint.line(Tone::Plain, line));
        return [heading].into_iter().chain(lines).collect();
    }
    let chosen = state.chosen_of(&rows);
    let n = height.saturating_sub(1);
    // The chosen row stays near the middle, so that what comes before and after is seen.
    let first = chosen.saturating_sub(n / 2).min(rows.len().saturating_sub(n));
    let shown = rows.iter().enumerate().skip(first).take(n);
    let shown = shown.map(|(i, row)| line(state, &columns, name, row, i == chosen));
    [heading(state, by, &columns, name)].into_iter().chain(shown).collect()
}

fn heading(state: &State, by: Lead, columns: &[Column], name: usize) -> Line<'static> {
    let cell = |column: &Column| {
        let text = column.heading(by);
        let (tone, text) = match (*column == state.list.sort, column) {
            (false, _) => (Tone::Heading, set(*column, name, text)),
            (true, Column::Name) => {
                (Tone::Sorted, set(*column, name, &format!("{text}{}", state.list.sign())))
            }
            // The blank before a figure has room for the sign.
            (true, _) => {
                let text = format!("{}{text}", state.list.sign());
                (Tone::Sorted, format!("{text:>width$}", width = column.width() + 1))
            }
        };
        state.paint.text(tone, text)
    };
    Line::from_iter(columns.iter().map(cell))
}

fn line(
    state: &State,
    columns: &[Column],
    name: usize,
    row: &Row<'_>,
    is_chosen: bool,
) -> Line<'static> {
    let cell = |column: &Column| -> Span<'static> {
        let (text, tone) = match column {
            Column::Name => (row.name(state.list.is_tree), Tone::Plain),
            Column::Wait | Column::Contention | Column::Memory | Column::Io => {
                (column.cell(row), tone_of(column.share(row.scope)))
            }
            Column::Lead | Column::Cpus | Column::Throttled | Column::Held | Column::Moved => {
                (column.cell(row), Tone::Plain)
            }
        };
        state.paint.text(tone, set(*column, name, &text))
    };
    let line = Line::from_iter(columns.iter().map(cell));
    if is_chosen { line.style(state.paint.style(Tone::Chosen)) } else { line }
}

/// A cell in its width: names to the left, figures to the right after a blank.
fn set(column: Column, name: usize, text: &str) -> String {
    let text = harmless(text);
    if column == Column::Name {
        let text = shorten(&text, name);
        return format!("{text}{}", " ".repeat(name.saturating_sub(text.width())));
    }
    let text = shorten(&text, column.width());
    format!(" {}{text}", " ".repeat(column.width().saturating_sub(text.width())))
}
