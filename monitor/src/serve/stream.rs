//! The live stream: one server-sent event for each tick.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use tokio::sync::Semaphore;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::WatchStream;

use super::publish::Published;
use super::{Shared, refuse};

/// Concurrent streams. Each costs a socket and a copy of the brief view every second.
pub(super) const STREAMS: usize = 16;

/// Proxies close silent connections, mostly after 30 or 60 s.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The number of free streams.
#[derive(Clone)]
pub(super) struct Seats(Arc<Semaphore>);

impl Default for Seats {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(STREAMS)))
    }
}

/// Opens a stream. The newest view is sent at once, then one for each tick; a slow client skips to
/// the newest, because a watch channel holds only one.
pub(super) async fn open(State(shared): State<Shared>) -> Response {
    let Ok(seat) = shared.seats.0.try_acquire_owned() else {
        let text =
            format!("all {STREAMS} streams are taken; close a page, or use /api/v1/snapshot");
        return refuse(StatusCode::SERVICE_UNAVAILABLE, &text);
    };
    let events = WatchStream::new(shared.latest).filter_map(move |latest| {
        // Held until the stream is dropped, when the client disconnects.
        let _seat = &seat;
        latest.as_deref().map(event)
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

fn event(published: &Published) -> Result<Event, Infallible> {
    let json = published.brief();
    let text = str::from_utf8(&json).expect("JSON is written as UTF-8");
    Ok(Event::default().event("sample").id(published.view.snapshot.tick.to_string()).data(text))
}
