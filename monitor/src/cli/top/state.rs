//! What the screen shows, and how keys, ticks and seconds change it. No clock, no file and no
//! terminal: the same events give the same state.

mod keys;

use std::time::Duration;

use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::decision::Decision;
use isobar_core::model::units::{Moment, Nanos};
use isobar_core::policy::explain::relief::action;
use isobar_core::view::View;
use jiff::tz::TimeZone;
use ratatui::crossterm::event::KeyEvent;

use super::paint::Paint;
use super::panes;
use super::rows::{List, Row};
use super::trail::{Point, Trail};

/// Something that happened.
#[derive(Debug)]
pub(super) enum Event {
    Key(KeyEvent),
    /// Columns and lines of the terminal.
    Size(u16, u16),
    Clock(Moment),
    Tick(Box<View>),
    /// There is no newer tick, for this reason.
    Silent(String),
    /// What the agent remembers of the node.
    History(Vec<Point>),
    /// What is recorded of a cgroup, or why nothing is known of it.
    Earlier(CgroupId, Result<Vec<Point>, String>),
    /// What happened before, newest first.
    Past(Vec<Deed>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Showing {
    Present,
    Recording,
}

/// What the state asks of the world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wish {
    Quit,
    /// Until a shell lets this process go on.
    Stop,
    Show(Order),
}

/// What to show of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Order {
    /// What came before of one cgroup; an agent is asked for it, too.
    Earlier(CgroupId, CgroupPath),
    Next,
    Previous,
    NextEvent,
    PreviousEvent,
    First,
    Last,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Pane {
    #[default]
    Cgroups,
    Decision,
    Conditions,
}

impl Pane {
    pub(super) const ALL: [Self; 3] = [Self::Cgroups, Self::Decision, Self::Conditions];
}

/// Something that was decided, done or seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Deed {
    pub(super) wall: Nanos,
    pub(super) text: String,
}

impl Deed {
    /// What one tick decided and saw.
    pub(super) fn of(decision: &Decision) -> Vec<Self> {
        let actions = decision.relief.actions.iter();
        let actions = actions.map(|one| action(one, decision.at.boot));
        let messages = decision.events().map(|event| event.message.clone());
        let deed = |text| Self { wall: decision.at.wall, text };
        actions.chain(messages).map(deed).collect()
    }
}

/// Deeds that are kept.
const DEEDS: usize = 100;
/// Without a new tick for so much longer than the interval, figures are stale.
pub(super) const STALE: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct State {
    pub(super) showing: Showing,
    pub(super) paint: Paint,
    pub(super) zone: TimeZone,
    pub(super) interval: Duration,
    pub(super) size: (u16, u16),
    pub(super) now: Moment,
    /// `None` before the first tick.
    pub(super) view: Option<Box<View>>,
    /// The newest tick, while an earlier one is held.
    waiting: Option<Box<View>>,
    /// When the newest tick came, on this machine's boot clock.
    pub(super) came: Nanos,
    pub(super) silent: Option<String>,
    pub(super) is_paused: bool,
    pub(super) pane: Pane,
    pub(super) list: List,
    /// The chosen cgroup: it stays chosen wherever it is sorted to. `None` is the first row.
    pub(super) chosen: Option<CgroupId>,
    /// Where the chosen row was last, for when it is gone.
    at: usize,
    /// The cgroup that is explained instead of the list.
    pub(super) why: Option<CgroupId>,
    /// Why nothing is known of its past.
    pub(super) forgotten: Option<String>,
    /// The first line that is shown of a long text.
    pub(super) scroll: usize,
    /// A filter is being typed.
    pub(super) is_typing: bool,
    pub(super) has_help: bool,
    pub(super) trail: Trail,
    /// Newest first.
    pub(super) deeds: Vec<Deed>,
    /// The agent tells them: it has seen every tick.
    has_past: bool,
    /// The next tick was asked for, to play on.
    is_awaiting: bool,
    /// To be taken by the one who can do it.
    pub(super) wish: Option<Wish>,
}

impl State {
    pub(super) fn new(showing: Showing, interval: Duration, has_colour: bool) -> Self {
        Self {
            showing,
            paint: Paint { has_colour },
            zone: TimeZone::system(),
            interval,
            size: (80, 24),
            now: Moment::default(),
            view: None,
            waiting: None,
            came: Nanos(0),
            silent: None,
            // A moment of a recording was asked for: it stays until the operator goes on.
            is_paused: showing == Showing::Recording,
            pane: Pane::Cgroups,
            list: List::default(),
            chosen: None,
            at: 0,
            why: None,
            forgotten: None,
            scroll: 0,
            is_typing: false,
            has_help: false,
            trail: Trail::new(interval),
            deeds: Vec::new(),
            has_past: false,
            is_awaiting: false,
            wish: None,
        }
    }

    #[must_use]
    pub(super) fn after(mut self, event: Event) -> Self {
        match event {
            Event::Key(key) => self.press(key),
            Event::Size(columns, lines) => self.size = (columns, lines),
            Event::Clock(now) => self.pass(now),
            Event::Tick(view) => self.take(view),
            Event::Silent(why) => self.fall_silent(why),
            Event::History(points) => {
                if self.showing == Showing::Recording {
                    // What was seen before may be of another part.
                    self.trail = Trail::new(self.interval);
                    self.ask_earlier();
                }
                self.trail.precede(points);
            }
            Event::Earlier(id, Ok(points)) => self.trail.precede_cgroup(id, points),
            Event::Earlier(id, Err(why)) if self.why == Some(id) => self.forgotten = Some(why),
            Event::Earlier(_, Err(_)) => {}
            Event::Past(deeds) => {
                self.deeds = deeds;
                // Of a recording it is what was before this tick; the next ticks tell more.
                self.has_past = self.showing == Showing::Present;
            }
        }
        self
    }

    /// For what came before of the cgroup that is explained.
    fn ask_earlier(&mut self) {
        self.forgotten = None;
        let scopes = self.view.as_ref().map(|view| &view.snapshot.scopes);
        let path = |id: CgroupId| Some(scopes?.get(&id)?.path.clone());
        if let Some((id, path)) = self.why.and_then(|id| Some((id, path(id)?))) {
            self.wish = Some(Wish::Show(Order::Earlier(id, path)));
        }
    }

    fn pass(&mut self, now: Moment) {
        self.now = now;
        let is_due = now.boot.since(self.came) >= Nanos::from(self.interval);
        if self.showing == Showing::Recording && !self.is_paused && is_due && !self.is_awaiting {
            self.wish.get_or_insert(Wish::Show(Order::Next));
            self.is_awaiting = true;
        }
    }

    fn fall_silent(&mut self, why: String) {
        self.silent = Some(why);
        self.is_awaiting = false;
        // A recording that has ended does not play on.
        self.is_paused |= self.showing == Showing::Recording;
    }

    fn take(&mut self, view: Box<View>) {
        let tick = |view: &View| (view.started, view.snapshot.tick, view.snapshot.at);
        let newest = self.waiting.as_ref().or(self.view.as_ref());
        if newest.is_none_or(|newest| tick(newest) != tick(&view)) {
            self.came = self.now.boot;
            self.trail.extend(&view);
            if !self.has_past {
                self.remember(&view);
            }
        }
        (self.silent, self.is_awaiting) = (None, false);
        let holds = self.is_paused && self.showing == Showing::Present && self.view.is_some();
        match holds {
            true => self.waiting = Some(view),
            false => self.view = Some(view),
        }
        self.settle();
    }

    /// Keeps what the tick decided and saw.
    fn remember(&mut self, view: &View) {
        let wall = view.snapshot.at.wall;
        // Back in a recording: what comes later has not happened.
        self.deeds.retain(|deed| deed.wall < wall);
        self.deeds.splice(0..0, Deed::of(&view.decision));
        self.deeds.truncate(DEEDS);
    }

    /// Goes on with the newest tick.
    fn resume(&mut self) {
        if let Some(view) = self.waiting.take() {
            self.view = Some(view);
        }
    }

    pub(super) fn rows(&self) -> Vec<Row<'_>> {
        self.view.as_ref().map(|view| self.list.rows(view)).unwrap_or_default()
    }

    /// Which of `rows` is chosen.
    pub(super) fn chosen_of(&self, rows: &[Row<'_>]) -> usize {
        let is_chosen = |row: &Row<'_>| Some(row.id) == self.chosen;
        let at = self.chosen.and_then(|_| rows.iter().position(is_chosen));
        let else_at = if self.chosen.is_some() { self.at } else { 0 };
        at.unwrap_or(else_at).min(rows.len().saturating_sub(1))
    }

    /// After the rows have changed: the chosen one is where it is now.
    fn settle(&mut self) {
        if self.chosen.is_some() {
            self.at = self.chosen_of(&self.rows());
        }
    }

    /// How long ago the newest tick came.
    pub(super) fn age(&self) -> Nanos {
        self.now.boot.since(self.came)
    }

    /// True if the figures are not of the present.
    pub(super) fn is_stale(&self) -> bool {
        self.showing == Showing::Present && self.age() > Nanos::from(self.interval + STALE)
    }

    /// The last line from which on a text still fills the pane.
    fn last_scroll(&self) -> usize {
        panes::body(self).len().saturating_sub(panes::height(self))
    }
}
