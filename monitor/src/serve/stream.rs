//! The live stream: one server-sent event for each tick.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tokio_stream::Stream;
use tokio_stream::wrappers::WatchStream;

use super::delta::Follower;
use super::history::only;
use super::listen::Client;
use super::peer::{self, Link, Peer};
use super::publish::Published;
use super::{Pairs, Shared, refuse};
use crate::clock;
use isobar_core::model::units::Nanos;
use isobar_core::view::Document;

/// Concurrent streams. Each costs a socket and a copy of the brief view every second.
pub(super) const STREAMS: usize = 64;

/// Proxies close silent connections, mostly after 30 or 60 s.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The streams that are open.
#[derive(Clone, Default)]
pub(super) struct Seats(Arc<Mutex<Taken>>);

#[derive(Default)]
struct Taken {
    next: u64,
    /// When owners were last asked for.
    asked: Option<Nanos>,
    /// By number, so the oldest first.
    seats: BTreeMap<u64, Client>,
}

/// Leaves the seat when it is dropped.
struct Held {
    seats: Seats,
    client: Client,
    id: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.client.set_streams(false);
        self.seats.lock().seats.remove(&self.id);
    }
}

impl Seats {
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A seat. When all are taken, the peer that has most gives up its oldest to one that has fewer;
    /// `None` for the one that has most.
    fn take(&self, client: Client, owners: impl Owners) -> Option<Held> {
        let mut taken = self.lock();
        if taken.seats.len() >= STREAMS {
            // To ask the kernel for owners takes time: one client must not have it done all the time.
            let now = clock::now().boot;
            if taken.asked.is_some_and(|asked| now.since(asked) < Nanos::SECOND) {
                return None;
            }
            taken.asked = Some(now);
            let given_up = taken.given_up(&client, owners)?;
            taken.seats.remove(&given_up)?.close();
        }
        let id = taken.next;
        taken.next += 1;
        client.set_streams(true);
        taken.seats.insert(id, client.clone());
        Some(Held { seats: self.clone(), client, id })
    }
}

/// Who owns these connections.
trait Owners: FnOnce(&[Link]) -> Vec<Peer> {}
impl<F: FnOnce(&[Link]) -> Vec<Peer>> Owners for F {}

impl Taken {
    /// The seat that `newcomer` may have.
    fn given_up(&self, newcomer: &Client, owners: impl Owners) -> Option<u64> {
        let clients = self.seats.values().chain([newcomer]);
        let owners = owners(&clients.map(|client| client.link).collect::<Vec<_>>());
        let (newcomer, owners) = owners.split_last()?;
        let n_of = |owner: &Peer| owners.iter().filter(|one| *one == owner).count();
        let most = owners.iter().max_by_key(|owner| n_of(owner))?;
        let oldest = self.seats.keys().zip(owners).find(|(_, owner)| *owner == most);
        oldest.filter(|_| n_of(most) > n_of(newcomer) + 1).map(|(id, _)| *id)
    }
}

/// Opens a stream. The newest view is sent at once, then one for each tick, or its change; a slow
/// client skips to the newest, because a watch channel holds only one.
pub(super) async fn open(
    State(shared): State<Shared>,
    query: Pairs,
    headers: HeaderMap,
    client: Option<Extension<Client>>,
) -> Response {
    let [delta, asked] = match only(&query, ["delta", "last"]) {
        Ok(values) => values,
        Err(why) => return refuse(StatusCode::BAD_REQUEST, &why),
    };
    let client = client.map(|Extension(client)| client);
    let client = client.unwrap_or_else(|| Client::unconnected(Link::Unix { uid: 0 }));
    let Some(seat) = shared.seats.take(client, peer::of) else {
        let text = format!(
            "all {STREAMS} streams are taken; close a page, try again in a second, or use \
             /api/v1/snapshot"
        );
        return refuse(StatusCode::SERVICE_UNAVAILABLE, &text);
    };
    let is_delta = delta.as_deref() == Some("1");
    // A browser that opens a stream anew sends no header.
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).or(asked.as_deref());
    let last = last.and_then(|id| id.parse().ok());
    let events = Events {
        latest: WatchStream::new(shared.latest),
        changes: is_delta.then(|| shared.changes.follow()),
        last,
        base: None,
        next: None,
        _seat: seat,
    };
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

/// The events of one stream. It holds no view, so a client that does not read costs none.
struct Events {
    latest: WatchStream<Option<Arc<Published>>>,
    /// `None` for whole views.
    changes: Option<Follower>,
    /// The tick that the client has seen last, also by a stream before this one.
    last: Option<u64>,
    /// The tick of the last event of this stream.
    base: Option<u64>,
    /// What follows a gap.
    next: Option<Event>,
    /// Held until the stream is dropped, when the client disconnects.
    _seat: Held,
}

impl Stream for Events {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(event) = self.next.take() {
            return Poll::Ready(Some(Ok(event)));
        }
        loop {
            let latest = ready!(Pin::new(&mut self.latest).poll_next(context));
            match latest {
                None => return Poll::Ready(None),
                Some(None) => {}
                Some(Some(published)) => {
                    return Poll::Ready(Some(Ok(self.events_of(&published))));
                }
            }
        }
    }
}

impl Events {
    /// The event of a tick, or the gap before it.
    fn events_of(&mut self, published: &Published) -> Event {
        let tick = published.tick;
        let view = match self.changes {
            Some(_) => published.briefest(),
            None => published.brief(),
        };
        let change = self.changes.as_ref().and_then(|all| all.between(self.base, tick, view));
        let (name, json) = match &change {
            Some(change) => ("delta", change),
            None => ("sample", view),
        };
        let text = str::from_utf8(json).expect("JSON is written as UTF-8");
        let event = Event::default().event(name).id(tick.to_string()).data(text);
        let missed = self.last.and_then(|last| missed(last, tick));
        (self.last, self.base) = (Some(tick), Some(tick));
        match missed {
            Some(missed) => {
                self.next = Some(event);
                Event::default().event("gap").data(gap(&missed))
            }
            None => event,
        }
    }
}

/// The ticks between two events. Ticks begin at 1 with each agent: after a later one they are
/// another agent's.
fn missed(last: u64, tick: u64) -> Option<RangeInclusive<u64>> {
    let first = if last <= tick { last.saturating_add(1) } else { 1 };
    Some(first..=tick.saturating_sub(1)).filter(|missed| !missed.is_empty())
}

/// The ticks that a client of a stream has missed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Gap {
    /// The first of them.
    from: u64,
    /// The last of them.
    to: u64,
}

fn gap(missed: &RangeInclusive<u64>) -> String {
    let content = Gap { from: *missed.start(), to: *missed.end() };
    String::from_utf8(Document::new("Gap", content).to_json()).expect("JSON is written as UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_ticks() {
        #[rustfmt::skip]
        let table = [
            // the last event, the next, missed
            (3, 4, None),
            (3, 3, None),    // another stream had it
            (3, 6, Some(4..=5)),
            (900, 5, Some(1..=4)), // another agent
            (900, 1, None),
            (u64::MAX, u64::MAX, None),
        ];
        for (last, tick, want) in table {
            assert_eq!(missed(last, tick), want, "{last} {tick}");
        }
    }

    #[test]
    fn seats_are_shared_among_peers() {
        let seats = Seats::default();
        let client = |uid| Client::unconnected(Link::Unix { uid });
        let take = |user| {
            seats.lock().asked = None;
            seats.take(client(user), peer::of)
        };
        let n_of = |uid| {
            let link = Link::Unix { uid };
            seats.lock().seats.values().filter(|client| client.link == link).count()
        };

        let held: Vec<_> = (0..STREAMS).map(|_| take(1).unwrap()).collect();
        assert!(take(1).is_none(), "one who has all");
        let second: Vec<_> = (0..STREAMS / 2).map(|_| take(2).unwrap()).collect();
        assert_eq!((n_of(1), n_of(2)), (STREAMS / 2, STREAMS / 2));
        assert!(take(2).is_none() && take(1).is_none(), "equal shares");
        let third = take(3).unwrap();
        assert_eq!((n_of(3), n_of(1) + n_of(2)), (1, STREAMS - 1));
        assert!(seats.take(client(4), peer::of).is_none(), "asked a moment ago");
        drop((held, second, third));
        assert_eq!(seats.lock().seats.len(), 0);
    }
}
