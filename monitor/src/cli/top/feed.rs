//! Where the screen's ticks come from: an agent or own samples, or a recording. Waits and reads on a
//! thread of its own, so that keys are answered meanwhile.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use anyhow::Result;
use isobar_core::model::units::Nanos;
use serde_json::Value;

use super::super::ask::Eye;
use super::super::at::Scene;
use super::film::Film;
use super::state::{Deed, Event, Order};
use super::trail::{HISTORY, points};

/// What happened in the last hour, as the agent knows it.
const EVENTS: &str = "/api/v1/history/events?begin=-1h";
/// It is asked for it once in so many looks.
const SELDOM: u32 = 5;

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
    pub(super) fn run<M: From<Event>>(self, orders: &Receiver<Order>, to: &Sender<M>) {
        let tell = |event: Event| to.send(event.into()).is_ok();
        match self {
            Self::Live { eye, interval } => watch(eye, interval, tell),
            Self::Film(film) => film.run(orders, tell),
        }
    }
}

fn watch(mut eye: Eye, interval: Duration, tell: impl Fn(Event) -> bool) {
    for n in 0_u32.. {
        let seen = match eye.glance_after(interval) {
            Ok(view) => Event::Tick(Box::new(view)),
            Err(why) => Event::Silent(why),
        };
        let history = || eye.document(HISTORY).map(|history| Event::History(points(&history)));
        let past = || eye.document(EVENTS).map(|events| Event::Past(deeds(&events)));
        let earlier = (n == 0).then(history).flatten();
        let before = n.is_multiple_of(SELDOM).then(past).flatten();
        if ![Some(seen), earlier, before].into_iter().flatten().all(&tell) {
            return;
        }
    }
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
