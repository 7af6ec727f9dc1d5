//! The keys.

use ratatui::text::Line;

use crate::cli::top::paint::Tone;
use crate::cli::top::state::{Showing, State};

const KEYS: [(&str, &str); 13] = [
    ("Tab, 1 2 3", "next pane; cgroups, decision, conditions"),
    ("↑ ↓ j k", "up, down; also PgUp, PgDn, Home, End"),
    ("Enter", "why this cgroup waits, and whom it makes wait"),
    ("Esc", "back; without a filter"),
    ("/", "filter by a part of the name or path"),
    ("s >, <", "sort by the next column, by the one before"),
    ("r", "reverse the order"),
    ("t", "as a tree, or as a list"),
    ("- +", "fold and unfold a branch of the tree"),
    ("a", "slices and containers too, in the list"),
    ("space", "pause, go on"),
    ("?", "this help"),
    ("q", "quit"),
];

const RECORDING: [(&str, &str); 4] = [
    ("space", "play, pause"),
    ("← →", "tick before, next tick; also , and ."),
    ("N n", "event before, next event"),
    ("b e", "begin and end of the recording"),
];

pub(super) fn lines(state: &State) -> Vec<Line<'static>> {
    let all = KEYS.iter().filter(|(key, _)| state.showing == Showing::Present || *key != "space");
    let more: &[_] = if state.showing == Showing::Recording { &RECORDING } else { &[] };
    let row = |(key, does): &(&str, &str)| {
        let key = state.paint.text(Tone::Key, format!("{key:<12}"));
        Line::from(vec![key, state.paint.text(Tone::Plain, does)])
    };
    more.iter().chain(all).map(row).collect()
}
