//! Text by its meaning: what is bad, unknown or quiet. The only way of text to the screen, so that
//! no name of a cgroup drives the terminal.

use isobar_core::model::condition::Status;
use isobar_core::model::units::Percent;
use isobar_core::view::verdict::{Mood, Verdict};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::super::terminal::harmless;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Bad,
    Warning,
    Quiet,
    Unknown,
    Plain,
    Heading,
    /// The heading of the column that rows are sorted by.
    Sorted,
    Key,
    Chosen,
}

/// Whether colours are wanted. Without them, weight and order tell the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Paint {
    pub(super) has_colour: bool,
}

impl Paint {
    pub(super) fn text(self, tone: Tone, text: impl AsRef<str>) -> Span<'static> {
        Span::styled(harmless(text.as_ref()), self.style(tone))
    }

    pub(super) fn line(self, tone: Tone, text: impl AsRef<str>) -> Line<'static> {
        Line::from(self.text(tone, text))
    }

    pub(super) fn heading(self, text: &str) -> Line<'static> {
        self.line(Tone::Heading, text)
    }

    pub(super) fn style(self, tone: Tone) -> Style {
        let (colour, weight) = match tone {
            Tone::Bad => (Some(Color::Red), Modifier::BOLD),
            Tone::Warning => (Some(Color::Yellow), Modifier::empty()),
            Tone::Quiet => (Some(Color::Green), Modifier::empty()),
            Tone::Unknown => (Some(Color::DarkGray), Modifier::empty()),
            Tone::Plain => (None, Modifier::empty()),
            Tone::Heading => (None, Modifier::BOLD),
            Tone::Sorted => (Some(Color::Cyan), Modifier::BOLD.union(Modifier::UNDERLINED)),
            Tone::Key => (Some(Color::Cyan), Modifier::empty()),
            Tone::Chosen => (None, Modifier::REVERSED),
        };
        let style = Style::new().add_modifier(weight);
        colour.filter(|_| self.has_colour).map_or(style, |colour| style.fg(colour))
    }
}

impl From<&Verdict> for Tone {
    fn from(verdict: &Verdict) -> Self {
        match verdict.mood {
            Mood::Calm | Mood::Unknown if verdict.is_short => Self::Warning,
            Mood::Calm => Self::Quiet,
            Mood::Waits => Self::Warning,
            Mood::Pressed => Self::Bad,
            Mood::Unknown => Self::Unknown,
        }
    }
}

impl From<Status> for Tone {
    fn from(status: Status) -> Self {
        match status {
            Status::True => Self::Bad,
            Status::False => Self::Quiet,
            Status::Unknown => Self::Unknown,
        }
    }
}

/// A share stands out only where work waits.
pub(super) fn tone_of(share: Option<Percent>) -> Tone {
    match share.map(Mood::of) {
        None => Tone::Unknown,
        Some(Mood::Pressed) => Tone::Bad,
        Some(Mood::Waits) => Tone::Warning,
        Some(Mood::Calm | Mood::Unknown) => Tone::Plain,
    }
}
