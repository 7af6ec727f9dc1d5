//! A recording, tick by tick in both directions. Forward it reads on; back it begins again at the
//! chapter before and judges up to the tick, because a decision rests on the ticks before it.

use std::path::PathBuf;
use std::sync::mpsc::Receiver;

use anyhow::Result;
use isobar::serve::film::reel::Reel;
use isobar_core::model::units::Nanos;
use isobar_core::policy::engine::Step;
use isobar_core::view::View;

use super::super::at::no_tick;
use super::state::{Deed, Event, Order};
use super::trail::Point;

const END: Nanos = Nanos(u64::MAX);
/// A chapter of 300 ticks lasts about so long.
const CHAPTER: Nanos = Nanos(300 * Nanos::SECOND.0);

pub(super) struct Film {
    file: PathBuf,
    reel: Reel,
    /// When the tick was that is shown.
    shown: Nanos,
    /// What is to be told of it.
    opening: Vec<Event>,
}

impl Film {
    pub(super) fn open(file: PathBuf, at: Nanos) -> Result<Self> {
        let reel = Reel::open_at(&file, at)?;
        let mut film = Self { file, reel, shown: Nanos(0), opening: Vec::new() };
        film.opening = film.seek(at)?;
        match film.opening.is_empty() {
            true => Err(no_tick(&film.file)),
            false => Ok(film),
        }
    }

    /// Does what it is told, until `tell` is false.
    pub(super) fn run(mut self, orders: &Receiver<Order>, tell: impl Fn(Event) -> bool) {
        let mut events = std::mem::take(&mut self.opening);
        loop {
            if !events.into_iter().all(&tell) {
                return;
            }
            let Ok(order) = orders.recv() else { return };
            events = match self.obey(order) {
                Ok(events) => events,
                Err(why) => vec![Event::Silent(format!("{why:#}"))],
            };
        }
    }

    fn obey(&mut self, order: Order) -> Result<Vec<Event>> {
        let shown = self.shown;
        let events = match order {
            Order::Next => {
                self.reel.step(END)?;
                self.reel.view().map(|view| self.show(view)).into_iter().collect()
            }
            Order::Previous => self.seek(Nanos(shown.0.saturating_sub(1)))?,
            Order::First => {
                self.reel = Reel::open_at(&self.file, Nanos(0))?;
                return self.obey(Order::Next);
            }
            Order::Last => self.seek(END)?,
            Order::NextEvent => self.next_event()?,
            Order::PreviousEvent => match self.event_before(shown)? {
                Some(at) => self.seek(at)?,
                None => Vec::new(),
            },
        };
        if !events.is_empty() {
            return Ok(events);
        }
        // The reel was moved in vain: it goes back to where it was.
        self.seek(shown)?;
        Ok(vec![Event::Silent(nothing(order).into())])
    }

    /// The last tick that is no later than `wall`, with what was shortly before it; nothing if there
    /// is none.
    fn seek(&mut self, wall: Nanos) -> Result<Vec<Event>> {
        let mut reel = Reel::open_at(&self.file, wall)?;
        let (mut points, mut deeds) = (Vec::new(), Vec::new());
        while let Some(step) = reel.step(wall)? {
            points.push(Point::of(&step.snapshot));
            deeds.splice(0..0, Deed::of(&step.decision));
        }
        self.reel = reel;
        let Some(view) = self.reel.view() else { return Ok(Vec::new()) };
        // The tick itself comes as a view.
        points.pop();
        Ok(vec![Event::History(points), self.show(view), Event::Past(deeds)])
    }

    fn show(&mut self, view: View) -> Event {
        self.shown = view.snapshot.at.wall;
        Event::Tick(Box::new(view))
    }

    fn next_event(&mut self) -> Result<Vec<Event>> {
        while let Some(step) = self.reel.step(END)? {
            if is_event(step) {
                let at = step.snapshot.at.wall;
                return self.seek(at);
            }
        }
        Ok(Vec::new())
    }

    /// Looks through the chapter before, then through twice as much, up to the beginning.
    fn event_before(&self, wall: Nanos) -> Result<Option<Nanos>> {
        let last = Nanos(wall.0.saturating_sub(1));
        let (mut span, mut begin) = (CHAPTER, None);
        loop {
            let mut reel = Reel::open_at(&self.file, wall.since(span))?;
            let (mut first, mut found) = (None, None);
            while let Some(step) = reel.step(last)? {
                let at = step.snapshot.at.wall;
                first.get_or_insert(at);
                found = if is_event(step) { Some(at) } else { found };
            }
            if found.is_some() || (first.is_some() && first == begin) || span >= wall {
                return Ok(found);
            }
            (begin, span) = (first, Nanos(span.0.saturating_mul(2)));
        }
    }
}

/// Something changed, was decided or was killed.
fn is_event(step: &Step) -> bool {
    let is_decided = !step.decision.relief.actions.is_empty();
    is_decided || step.decision.events().next().is_some() || !step.snapshot.oom_kills.is_empty()
}

/// Why an order led nowhere.
fn nothing(order: Order) -> &'static str {
    match order {
        Order::Next | Order::Last => "the last tick",
        Order::Previous | Order::First => "the first tick",
        Order::NextEvent => "no event after this",
        Order::PreviousEvent => "no event before this",
    }
}
