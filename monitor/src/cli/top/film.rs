//! A recording, or a range of it, tick by tick in both directions. Forward it reads on; back it begins again at the
//! chapter before and judges up to the tick, because a decision rests on the ticks before it.

use std::path::PathBuf;
use std::sync::mpsc::Receiver;

use anyhow::Result;
use isobar::record::incident::words::clock;
use isobar::record::journal::Ring;
use isobar::serve::film::past::{Wanted, past};
use isobar::serve::film::reel::Reel;
use isobar_core::model::cgroup::CgroupPath;
use isobar_core::model::units::{Moment, Nanos};
use isobar_core::policy::engine::Step;
use isobar_core::view::View;

use super::super::at::{Scene, is_old, no_tick};
use super::super::range::Range;
use super::state::{Deed, Event, Order};
use super::trail::Point;

pub(super) struct Film {
    file: PathBuf,
    reel: Reel,
    /// No tick outside of it is shown.
    range: Range,
    /// When the tick was that is shown, and of which boot.
    shown: (Moment, String),
    /// What is to be told of it.
    opening: Vec<Event>,
}

impl Film {
    pub(super) fn open(file: PathBuf, scene: Scene) -> Result<Self> {
        let range = match scene {
            Scene::Moment(_) => Range::ALL,
            Scene::Range(range) => range,
        };
        let reel = Reel::open_at(&file, range.begin)?;
        let mut film = Self { file, reel, range, shown: Default::default(), opening: Vec::new() };
        film.opening = match scene {
            Scene::Moment(at) => film.seek(at)?,
            Scene::Range(_) => film.first()?,
        };
        match (film.opening.is_empty(), scene) {
            (true, Scene::Moment(_)) => Err(no_tick(&film.file)),
            (true, Scene::Range(_)) => Err(range.no_tick(&film.file)),
            (false, Scene::Moment(at)) if is_old(at, film.shown.0) => {
                film.opening.push(Event::Silent(format!("no tick of {}", clock(at))));
                Ok(film)
            }
            (false, _) => Ok(film),
        }
    }

    /// Does what it is told, until `tell` is false.
    pub(super) fn run(mut self, orders: &Receiver<Order>, tell: impl Fn(Event) -> bool) {
        let mut orders = Orders { from: orders, step: None, earlier: None };
        let mut events = std::mem::take(&mut self.opening);
        loop {
            if !events.into_iter().all(&tell) {
                return;
            }
            let Some(order) = orders.next() else { return };
            let is_search = matches!(order, Order::NextEvent | Order::PreviousEvent);
            if is_search && !tell(Event::Silent("searching".into())) {
                return;
            }
            events = match self.obey(order, &mut orders) {
                Ok(events) => events,
                Err(why) => vec![Event::Silent(format!("{why:#}"))],
            };
        }
    }

    fn obey(&mut self, order: Order, orders: &mut Orders<'_>) -> Result<Vec<Event>> {
        let shown = self.shown.0.wall;
        let nothing = nothing(&order);
        let events = match order {
            Order::Next => {
                self.reel.step(self.range.end)?;
                self.reel.view().map(|view| self.show(view)).into_iter().collect()
            }
            Order::Previous => self.seek(Nanos(shown.0.saturating_sub(1)))?,
            Order::First => self.first()?,
            Order::Last => self.seek(self.range.end)?,
            Order::NextEvent => self.next_event(orders)?,
            Order::PreviousEvent => match self.event_before(shown, orders)? {
                Some(at) => self.seek(at)?,
                None => Vec::new(),
            },
            Order::Earlier(id, path) => {
                let points = self.earlier(path).map_err(|why| format!("{why:#}"));
                vec![Event::Earlier(id, points)]
            }
        };
        if !events.is_empty() {
            return Ok(events);
        }
        // The reel was moved in vain: it goes back to where it was.
        self.seek(shown)?;
        let nothing = (!orders.is_newer()).then(|| Event::Silent(nothing.into()));
        Ok(nothing.into_iter().collect())
    }

    /// The first tick of the range; nothing if there is none.
    fn first(&mut self) -> Result<Vec<Event>> {
        let Range { begin, end } = self.range;
        let mut reel = Reel::open_at(&self.file, begin)?;
        while let Some(step) = reel.step(end)? {
            let at = step.snapshot.at.wall;
            if at >= begin {
                return self.seek(at);
            }
        }
        Ok(Vec::new())
    }

    /// The last tick of the range that is no later than `wall`, with what was shortly before it;
    /// nothing if there is none.
    fn seek(&mut self, wall: Nanos) -> Result<Vec<Event>> {
        let mut reel = Reel::open_at(&self.file, wall)?;
        let (mut points, mut deeds) = (Vec::new(), Vec::new());
        while let Some(step) = reel.step(wall)? {
            points.push(Point::of(&step.snapshot));
            deeds.splice(0..0, Deed::of(&step.decision));
        }
        self.reel = reel;
        let view = self.reel.view().filter(|view| view.snapshot.at.wall >= self.range.begin);
        let Some(view) = view else { return Ok(Vec::new()) };
        // The tick itself comes as a view.
        points.pop();
        Ok(vec![Event::History(points), self.show(view), Event::Past(deeds)])
    }

    fn show(&mut self, view: View) -> Event {
        self.shown = (view.snapshot.at, view.facts.boot_id.clone());
        Event::Tick(Box::new(view))
    }

    /// What came before the tick that is shown, of one cgroup.
    fn earlier(&self, cgroup: CgroupPath) -> Result<Vec<Point>> {
        let (end, boot_id) = self.shown.clone();
        let of = Wanted { boot_id, cgroup, begin: Point::begin_before(end), end };
        let mut points = Vec::new();
        let ring = Ring::Files(self.file.clone());
        past(
            &ring,
            &of,
            || true,
            |snapshot, scope| points.push(Point::of_scope(snapshot.at, scope)),
        )?;
        Ok(points)
    }

    fn next_event(&mut self, orders: &mut Orders<'_>) -> Result<Vec<Event>> {
        while !orders.is_newer()
            && let Some(step) = self.reel.step(self.range.end)?
        {
            if is_event(step) {
                let at = step.snapshot.at.wall;
                return self.seek(at);
            }
        }
        Ok(Vec::new())
    }

    /// Looks through one chapter after the other, back to the first tick.
    fn event_before(&self, wall: Nanos, orders: &mut Orders<'_>) -> Result<Option<Nanos>> {
        let mut last = Nanos(wall.0.saturating_sub(1));
        loop {
            let mut reel = Reel::open_at(&self.file, last)?;
            let (mut first, mut found) = (None, None);
            while !orders.is_newer()
                && let Some(step) = reel.step(last)?
            {
                let at = step.snapshot.at.wall;
                first.get_or_insert(at);
                found = if at >= self.range.begin && is_event(step) { Some(at) } else { found };
            }
            if orders.is_newer() {
                return Ok(None);
            }
            match first {
                Some(at) if found.is_none() && at > self.range.begin => last = Nanos(at.0 - 1),
                _ => return Ok(found),
            }
        }
    }
}

/// What the operator ordered last: keys that are pressed faster than they are obeyed do not queue.
struct Orders<'a> {
    from: &'a Receiver<Order>,
    /// To another tick.
    step: Option<Order>,
    earlier: Option<Order>,
}

impl Orders<'_> {
    /// Waits for an order; `None` after the last.
    fn next(&mut self) -> Option<Order> {
        if !self.is_newer() && self.earlier.is_none() {
            let order = self.from.recv().ok()?;
            self.note(order);
        }
        let is_newer = self.is_newer();
        let newest = if is_newer { &mut self.step } else { &mut self.earlier };
        newest.take()
    }

    /// Whether another tick is asked for meanwhile.
    fn is_newer(&mut self) -> bool {
        self.from.try_iter().for_each(|order| self.note(order));
        self.step.is_some()
    }

    fn note(&mut self, order: Order) {
        match order {
            Order::Earlier(..) => self.earlier = Some(order),
            _ => self.step = Some(order),
        }
    }
}

/// Something changed, was decided or was killed.
fn is_event(step: &Step) -> bool {
    let is_decided = !step.decision.relief.actions.is_empty();
    is_decided || step.decision.events().next().is_some() || !step.snapshot.oom_kills.is_empty()
}

/// Why an order led nowhere.
fn nothing(order: &Order) -> &'static str {
    match order {
        Order::Next | Order::Last | Order::Earlier(..) => "the last tick",
        Order::Previous | Order::First => "the first tick",
        Order::NextEvent => "no event after this",
        Order::PreviousEvent => "no event before this",
    }
}
