//! The conditions with their figures, the node's last minutes, and what is met, tainted and left.

use isobar_core::model::condition::Condition;
use isobar_core::model::decision::{Decision, Outlook};
use isobar_core::policy::explain::condition_numbers;
use isobar_core::view::View;
use ratatui::text::Line;

use super::{below, indented, sections};
use crate::cli::top::figures::{amount, length, percent};
use crate::cli::top::paint::Tone;
use crate::cli::top::state::State;
use crate::cli::top::trail::{RESOURCES, bars};

/// With fewer columns, figures are left to the sentence.
const WIDE: usize = 76;

pub(super) fn lines(state: &State, view: &View) -> Vec<Line<'static>> {
    let paint = state.paint;
    let columns = usize::from(state.size.0);
    let Decision { at, assessment, .. } = &view.decision;
    let conditions = assessment.conditions.iter().flat_map(|condition| {
        let since = length(at.boot.since(condition.since.boot));
        let mut lines = vec![row(state, condition, &since, columns >= WIDE)];
        if condition.why.is_some() || columns < WIDE {
            lines.extend(below(paint, Tone::Unknown, &condition_numbers(condition), columns));
        }
        lines
    });
    let pressure = assessment.node_pressure.iter();
    let pressure = pressure.map(|kind| paint.line(Tone::Bad, format!("  {} True", kind.name())));
    let taints = assessment.taints.iter();
    let taints = taints.flat_map(|taint| indented(paint, Tone::Warning, &taint.key, columns));
    let outlooks = assessment.outlooks.iter();
    let outlooks = outlooks.flat_map(|one| indented(paint, Tone::Plain, &outlook(one), columns));
    let met: Vec<_> = assessment.met.iter().map(|met| met.threshold.name()).collect();
    let met = match met.is_empty() {
        true => Vec::new(),
        false => indented(paint, Tone::Bad, &met.join(", "), columns),
    };
    sections(
        paint,
        [
            (heading(columns >= WIDE), conditions.collect()),
            ("The kubelet's conditions".into(), pressure.collect()),
            ("Thresholds that are met".into(), met),
            ("Taints".into(), taints.collect()),
            ("The node until now, 0 to 100 %".into(), past(state, columns)),
            ("Memory".into(), outlooks.collect()),
        ],
    )
}

fn heading(is_wide: bool) -> String {
    let figures = if is_wide { "   AVG10  AVG60 THRESHOLD" } else { "" };
    format!("{:<35}STATUS  {:>8}{figures}", "Conditions", "FOR")
}

fn row(state: &State, condition: &Condition, since: &str, is_wide: bool) -> Line<'static> {
    let Condition { name, status, avg10, avg60, threshold, .. } = condition;
    let threshold = threshold.to_string();
    let paint = state.paint;
    let mut line = Line::from(vec![
        paint.text(Tone::Plain, format!("  {:<32} ", name.name())),
        paint.text((*status).into(), format!("{:<8}", status.name())),
        paint.text(Tone::Plain, format!("{since:>8}")),
    ]);
    if is_wide {
        let (ten, minute) = (percent(*avg10), percent(*avg60));
        let figures = format!("  {ten:>6} {minute:>6}    {threshold:>6}");
        line.push_span(paint.text(Tone::Plain, figures));
    }
    line
}

fn past(state: &State, columns: usize) -> Vec<Line<'static>> {
    let width = columns.saturating_sub(10);
    let row = |(i, name): (usize, &&str)| {
        let bars = bars(state.trail.node(i), width);
        state.paint.line(Tone::Plain, format!("  {name:<7} {bars}"))
    };
    RESOURCES.iter().enumerate().map(row).collect()
}

fn outlook(outlook: &Outlook) -> String {
    let Outlook { scope, left, growth, lasts, .. } = outlook;
    let lasts = match lasts {
        Some(time) => format!("lasts {}", length(*time)),
        None => "does not run out as it goes now".into(),
    };
    let growth = amount(*growth);
    format!("{}: {} left, grows by {growth} a second: {lasts}", scope.name(), amount(*left))
}
