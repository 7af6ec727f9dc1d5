//! What is shown below the verdict, as lines. Long ones are broken; the screen shows a part of them.

mod conditions;
mod decision;
mod help;
mod list;
mod why;

use ratatui::text::Line;

use super::super::terminal::{harmless, wrapped};
use super::draw;
use super::paint::{Paint, Tone};
use super::state::{Pane, State};

/// How many lines there are for a pane.
pub(super) fn height(state: &State) -> usize {
    usize::from(state.size.1).saturating_sub(draw::head(state).len() + 1)
}

/// All lines of what is shown; of the list, those that fit.
pub(super) fn body(state: &State) -> Vec<Line<'static>> {
    let Some(view) = &state.view else { return Vec::new() };
    match (state.pane, state.why) {
        _ if state.has_help => help::lines(state),
        (Pane::Cgroups, Some(id)) => why::lines(state, view, id),
        (Pane::Cgroups, None) => list::lines(state, height(state)),
        (Pane::Decision, _) => decision::lines(state, view),
        (Pane::Conditions, _) => conditions::lines(state, view),
    }
}

/// `text` below a heading, in as many lines as it needs.
fn indented(paint: Paint, tone: Tone, text: &str, columns: usize) -> Vec<Line<'static>> {
    let mut lines = below(paint, tone, text, columns);
    if let Some(first) = lines.first_mut() {
        *first = paint.line(tone, format!("  {}", first.to_string().trim_start()));
    }
    lines
}

/// `text` below the line that it belongs to.
fn below(paint: Paint, tone: Tone, text: &str, columns: usize) -> Vec<Line<'static>> {
    let lines = wrapped(&harmless(text), columns.saturating_sub(4).max(1));
    lines.iter().map(|line| paint.line(tone, format!("    {line}"))).collect()
}

/// Sections one below the other, with a blank line between; those without a line are left out.
fn sections(
    paint: Paint,
    all: impl IntoIterator<Item = (String, Vec<Line<'static>>)>,
) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for (heading, section) in all.into_iter().filter(|(_, section)| !section.is_empty()) {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.push(paint.heading(&heading));
        lines.extend(section);
    }
    lines
}
