//! The live stream: one server-sent event for each tick.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

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
use super::publish::Published;
use super::{Pairs, Shared, refuse};
use crate::lock::lock;
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
        lock(&self.seats.0).seats.remove(&self.id);
    }
}

impl Seats {
    /// A seat. When all are taken, the client that has most of them gives up its oldest, also to
    /// itself: a new page must not wait for one that was forgotten.
    fn take(&self, client: Client) -> Held {
        let mut taken = lock(&self.0);
        if taken.seats.len() >= STREAMS {
            client.look_up();
            taken.make_room(&client);
        }
        let id = taken.next;
        taken.next += 1;
        client.set_streams(true);
        taken.seats.insert(id, client.clone());
        Held { seats: self.clone(), client, id }
    }
}

impl Taken {
    fn make_room(&mut self, newcomer: &Client) {
        let mut n_of = BTreeMap::from([(newcomer.peer(), 1)]);
        for client in self.seats.values() {
            *n_of.entry(client.peer()).or_default() += 1;
        }
        let oldest = self.seats.iter().max_by_key(|(id, one)| (n_of[&one.peer()], Reverse(**id)));
        let oldest = oldest.map(|(id, _)| *id);
        if let Some(client) = oldest.and_then(|id| self.seats.remove(&id)) {
            client.close();
        }
    }
}

/// Opens a stream. The newest view is sent at once, then one for each tick, or its change; a slow
/// client skips to the newest, because a watch channel holds only one.
pub(super) async fn open(
    State(shared): State<Shared>,
    query: Pairs,
    headers: HeaderMap,
    client: Client,
) -> Response {
    let [delta, asked] = match only(&query, ["delta", "last"]) {
        Ok(values) => values,
        Err(why) => return refuse(StatusCode::BAD_REQUEST, &why),
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
        _seat: shared.seats.take(client),
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
    use crate::serve::peer::{Link, Peer};

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
    fn take_ends_the_oldest_of_the_client_that_has_most() {
        let seats = Seats::default();
        let take = |uid| seats.take(Client::unconnected(Link::Unix { uid }));
        let n_of = |uid| {
            let all = lock(&seats.0);
            all.seats.values().filter(|client| client.peer() == Peer::User(uid)).count()
        };
        let first = take(1);
        let mut held: Vec<_> = (1..STREAMS).map(|_| take(1)).collect();
        held.push(take(1));
        assert!(!lock(&seats.0).seats.contains_key(&first.id), "a page beside its own");
        #[rustfmt::skip]
        let table = [
            // who comes, how often, streams of users 1, 2 and 3 afterwards
            (2, 1,           [STREAMS - 1, 1, 0]),
            (1, 100,         [STREAMS - 1, 1, 0]), // again and again
            (2, STREAMS / 2, [STREAMS / 2, STREAMS / 2, 0]),
            (3, 1,           [STREAMS / 2 - 1, STREAMS / 2, 1]),
            (1, 100,         [STREAMS / 2, STREAMS / 2 - 1, 1]),
        ];
        for (uid, n, want) in table {
            held.extend((0..n).map(|_| take(uid)));
            assert_eq!([1, 2, 3].map(n_of), want, "{n} of user {uid}");
        }
        drop((first, held));
        assert_eq!(lock(&seats.0).seats.len(), 0);
    }
}
