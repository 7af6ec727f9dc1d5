//! Where the screen's ticks come from: an agent or own samples, or a recording. Waits and reads on a
//! thread of its own, so that keys are answered meanwhile.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender};
use std::thread::{scope, sleep};
use std::time::Duration;

use anyhow::{Error, Result};
use isobar_core::model::cgroup::CgroupPath;
use isobar_core::model::units::Nanos;
use serde_json::Value;

use super::super::ask::{Eye, Fetched, Place, backed_off, fetch, is_refusal};
use super::super::at::Scene;
use super::film::Film;
use super::state::{Deed, Event, Order};
use super::trail::{HISTORY, Point, history_of, points};

/// What happened in the last hour, as the agent knows it.
const EVENTS: &str = "/api/v1/history/events?begin=-1h";
/// It is asked for it once in so many looks.
const SELDOM: u32 = 5;
/// It answers one question about its recording at a time.
const TRIES: u32 = 10;
const AGAIN: Duration = Duration::from_secs(1);

pub(super) enum Feed {
    Live { eye: Eye, interval: Duration },
    Film(Box<Film>),
}

impl Feed {
    pub(super) fn live(eye: Eye, interval: Duration) -> Self {
        Self::Live { eye, interval }
    }

    /// The recording `file`, at a moment or at the begin of a range.
    pub(super) fn film(file: PathBuf, scene: Scene) -> Result<Self> {
        Ok(Self::Film(Box::new(Film::open(file, scene)?)))
    }

    /// Tells `to` of every tick, until it has ended.
    pub(super) fn run<M>(self, orders: Receiver<Order>, to: &Sender<M>)
    where
        M: From<Event> + From<Error> + Send,
    {
        let tell = |event: Event| to.send(event.into()).is_ok();
        match self {
            Self::Live { eye, interval } => scope(|both| {
                if let Some(place) = eye.place() {
                    both.spawn(move || remember(&place, interval, &orders, tell));
                }
                if let Err(why) = watch(eye, interval, tell) {
                    // Without a receiver the screen has ended already.
                    let _ = to.send(why.into());
                }
            }),
            Self::Film(film) => film.run(&orders, tell),
        }
    }
}

/// Asks the agent for what it has recorded of a cgroup: no tick waits for it.
fn remember(
    place: &Place,
    interval: Duration,
    orders: &Receiver<Order>,
    tell: impl Fn(Event) -> bool,
) {
    for order in orders {
        let Order::Earlier(id, path) = order else { continue };
        if !tell(Event::Earlier(id, earlier(place, &path, interval))) {
            return;
        }
    }
}

fn earlier(place: &Place, path: &CgroupPath, interval: Duration) -> Result<Vec<Point>, String> {
    for _ in 0..TRIES {
        match fetch(place, &history_of(path, interval)).map_err(|why| format!("{why:#}"))? {
            Fetched::Document(json) => {
                let history = serde_json::from_slice(&json).unwrap_or_default();
                return Ok(points(&history, "cgroup"));
            }
            Fetched::NotYet => sleep(AGAIN),
            Fetched::NoAgent => break,
        }
    }
    Err(format!("the agent on {place} does not answer"))
}

/// Until the screen has ended, or the agent refuses.
fn watch(mut eye: Eye, interval: Duration, tell: impl Fn(Event) -> bool) -> Result<()> {
    let mut pause = interval;
    for n in 0_u32.. {
        let seen = match eye.glance_after(pause) {
            Ok(view) => {
                pause = interval;
                Event::Tick(Box::new(view))
            }
            Err(why) if is_refusal(&why) => return Err(why),
            Err(why) => {
                pause = backed_off(pause, interval);
                Event::Silent(format!("{why:#}"))
            }
        };
        let history =
            || eye.document(HISTORY).map(|history| Event::History(points(&history, "system")));
        let past = || eye.document(EVENTS).map(|events| Event::Past(deeds(&events)));
        let earlier = (n == 0).then(history).flatten();
        let before = n.is_multiple_of(SELDOM).then(past).flatten();
        if ![Some(seen), earlier, before].into_iter().flatten().all(&tell) {
            break;
        }
    }
    Ok(())
}

/// What an agent remembers, newest first.
fn deeds(events: &Value) -> Vec<Deed> {
    let all = events["events"].as_array().map(Vec::as_slice).unwrap_or_default();
    let deed = |event: &Value| {
        let wall = Nanos(event["at"]["wall"].as_u64()?);
        Some(Deed { wall, text: event["text"].as_str()?.to_owned() })
    };
    let mut deeds: Vec<_> = all.iter().filter_map(deed).collect();
    deeds.sort_by_key(|deed| std::cmp::Reverse(deed.wall));
    deeds
}
