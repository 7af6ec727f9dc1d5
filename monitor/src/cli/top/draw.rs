//! The whole screen: the verdict, the panes' names, one pane, and the keys that matter in it.

use isobar_core::model::units::Nanos;
use isobar_core::view::View;
use isobar_core::view::verdict::{Mood, Resource, Verdict};
use jiff::Timestamp;
use jiff::civil::DateTime;
use ratatui::Frame;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use super::super::status::{relief, verdict_word};
use super::super::terminal::{harmless, shorten, wrapped};
use super::figures::{length, percent};
use super::paint::Tone;
use super::panes;
use super::state::{Pane, Showing, State};
use super::trail::shares;

/// With fewer lines, the pane has what the verdict would take.
const LOW: u16 = 16;
/// With as many, a headline of a narrow terminal has a third line.
const HIGH: u16 = 20;

pub(super) fn draw(state: &State, frame: &mut Frame<'_>) {
    let area = frame.area();
    let foot = usize::from(area.height).saturating_sub(1);
    let mut lines = head(state);
    lines.extend(panes::body(state).into_iter().skip(first_line(state)).take(panes::height(state)));
    lines.resize(foot, Line::default());
    lines.push(keys(state));
    for (y, line) in (area.top()..area.bottom()).zip(&lines) {
        frame.buffer_mut().set_line(area.left(), y, line, area.width);
    }
}

/// The list places its own rows.
fn first_line(state: &State) -> usize {
    if state.is_list() && !state.has_help { 0 } else { state.scroll }
}

/// The verdict and the names of the panes.
pub(super) fn head(state: &State) -> Vec<Line<'static>> {
    let (columns, lines) = (usize::from(state.size.0), state.size.1);
    let paint = state.paint;
    let Some(view) = &state.view else {
        let why = state.silent.as_deref().unwrap_or("waiting for the first tick");
        return vec![paint.line(Tone::Plain, why)];
    };
    let mut head = vec![when(state, view, columns)];
    let most = match lines {
        ..LOW => 1,
        LOW..HIGH => 2,
        HIGH.. => 3,
    };
    let headline = wrapped(&harmless(&view.headline), columns);
    head.extend(match headline.len() <= most {
        true => headline.iter().map(|line| paint.heading(line)).collect::<Vec<_>>(),
        false => cut(state, &view.headline, columns, most),
    });
    head.push(moods(state, view, columns));
    if lines >= LOW {
        head.push(names(state));
    }
    head
}

/// A headline that is too long ends in its last line.
fn cut(state: &State, text: &str, columns: usize, most: usize) -> Vec<Line<'static>> {
    let lines = wrapped(&harmless(text), columns);
    let (whole, rest) = lines.split_at(most - 1);
    let mut last = rest.join(" ");
    while last.width() + 1 > columns && last.pop().is_some() {}
    let told = whole.iter().cloned().chain([format!("{last}…")]);
    told.map(|line| state.paint.heading(&line)).collect()
}

/// The node, its mode, and of when all this is.
fn when(state: &State, view: &View, columns: usize) -> Line<'static> {
    let paint = state.paint;
    let at = view.snapshot.at.wall;
    let (tone, time) = match state.showing {
        Showing::Recording => {
            let way = if state.is_paused { "paused" } else { "playing" };
            let told = state.silent.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
            let day = local(state, at).map(|at| format!("{} ", at.date())).unwrap_or_default();
            let time = clock(state, at);
            (Tone::Warning, format!("{way} at {day}{time}, tick {}{told}", view.snapshot.tick))
        }
        Showing::Present if state.is_stale() || state.silent.is_some() => {
            let why = state.silent.as_ref().map_or_else(String::new, |why| format!(": {why}"));
            let (time, age) = (clock(state, at), length(state.age()));
            (Tone::Bad, format!("STALE, of {time}, {age} ago{why}"))
        }
        Showing::Present if state.is_paused => {
            let (time, now) = (clock(state, at), state.now.wall);
            (Tone::Warning, format!("paused at {time}, {} ago", length(now.since(at))))
        }
        Showing::Present => {
            (Tone::Plain, format!("{}, {} ago", clock(state, at), length(state.age())))
        }
    };
    let mode = relief(view).map_or_else(String::new, |mode| format!(", {mode}"));
    let room = columns.saturating_sub(time.width() + 2);
    let who = shorten(&harmless(&format!("{}{mode}", view.facts.name)), room);
    let gap = columns.saturating_sub(who.width() + time.width());
    let who = if room == 0 { String::new() } else { who };
    Line::from(vec![
        paint.text(Tone::Plain, who),
        Span::raw(" ".repeat(gap)),
        paint.text(tone, time),
    ])
}

/// The time of day; nothing for a moment that no calendar has.
pub(super) fn clock(state: &State, wall: Nanos) -> String {
    let time = |at: DateTime| format!("{:02}:{:02}:{:02}", at.hour(), at.minute(), at.second());
    local(state, wall).map(time).unwrap_or_default()
}

fn local(state: &State, Nanos(wall): Nanos) -> Option<DateTime> {
    let at = Timestamp::from_nanosecond(wall.into()).ok()?;
    Some(at.to_zoned(state.zone.clone()).datetime())
}

/// With fewer columns, what is calm has no figures.
const WIDE: usize = 76;

/// One word for each resource, its figure, and since when.
fn moods(state: &State, view: &View, columns: usize) -> Line<'static> {
    let paint = state.paint;
    let mut line = Line::default();
    for verdict in &view.verdict {
        let Verdict { resource, mood, .. } = verdict;
        let (at, resource) = match resource {
            Resource::Cpu => (0, "CPU"),
            Resource::Memory => (1, "memory"),
            Resource::Io => (2, "io"),
        };
        let gap = if line.spans.is_empty() { "" } else { "   " };
        line.push_span(paint.text(Tone::Plain, format!("{gap}{resource} ")));
        line.push_span(paint.text(verdict.into(), verdict_word(verdict)));
        let share = shares(&view.snapshot.whole)[at];
        // For a tick or two work waits of which the average does not know yet.
        let is_known = *mood == Mood::Unknown || share.is_none_or(|share| Mood::of(share) == *mood);
        // How few wait for what is short says nothing.
        if is_known && verdict.word() != "short" && (columns >= WIDE || *mood != Mood::Calm) {
            line.push_span(paint.text(verdict.into(), format!(" {} %", percent(share))));
            line.push_span(paint.text(Tone::Plain, since(state, at)));
        }
    }
    line
}

fn since(state: &State, resource: usize) -> String {
    // A held verdict may be of another mood than what came after it.
    let is_held = state.is_paused && state.showing == Showing::Present;
    let since = state.trail.since(resource).filter(|(time, _)| !is_held && *time >= Nanos::SECOND);
    match since {
        Some((time, true)) => format!(" >{}", length(time)),
        Some((time, false)) => format!(" {}", length(time)),
        None => String::new(),
    }
}

fn names(state: &State) -> Line<'static> {
    let paint = state.paint;
    let name = |pane: Pane| match pane {
        Pane::Cgroups if state.list.is_tree => "1 Tree",
        Pane::Cgroups => "1 Cgroups",
        Pane::Decision => "2 Decision",
        Pane::Conditions => "3 Conditions",
    };
    let mut line = Line::default();
    for pane in Pane::ALL {
        let tone = if pane == state.pane { Tone::Chosen } else { Tone::Plain };
        line.push_span(paint.text(tone, format!(" {} ", name(pane))));
        line.push_span(Span::raw(" "));
    }
    if !state.list.filter.is_empty() && !state.is_typing {
        line.push_span(paint.text(Tone::Warning, format!("filter: {}", state.list.filter)));
    }
    line
}

/// The keys that matter now; the help has the others.
fn keys(state: &State) -> Line<'static> {
    let recording = [("space", "play"), ("←→", "tick"), ("n/N", "event")];
    let list = [("Enter", "why"), ("s", "sort"), ("/", "filter"), ("t", "tree")];
    let mut keys: Vec<(&str, &str)> = match state.is_typing {
        true => vec![("Enter", "keep"), ("Esc", "all")],
        false => vec![("?", "help"), ("q", "quit"), ("Tab", "pane")],
    };
    if !state.is_typing {
        if state.why.is_some() {
            keys.push(("Esc", "back"));
        }
        match state.showing {
            Showing::Recording => keys.extend(recording),
            Showing::Present => keys.push(("space", "pause")),
        }
        if state.is_list() {
            keys.extend(list);
        }
    }
    let mut line = Line::default();
    if state.is_typing {
        line.push_span(
            state.paint.text(Tone::Warning, format!("filter: {}_  ", state.list.filter)),
        );
    }
    for (key, does) in keys {
        let text = format!(" {does}  ");
        if line.width() + key.width() + text.trim_end().width() > usize::from(state.size.0) {
            break;
        }
        line.push_span(state.paint.text(Tone::Key, key));
        line.push_span(state.paint.text(Tone::Plain, text));
    }
    line
}
