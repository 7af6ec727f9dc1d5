//! The responses that no other client is sent, while they are sent: at most [`ROOM`] of them.
//! Of more, one is cut off: of the client that has most the one that was read longest ago, so that a
//! client that reads is not the one that pays for those that do not.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use tokio_stream::StreamExt as _;

use super::document::{PIECE, pieces};
use super::listen::Client;
use super::peer::Peer;
use super::refuse;
use crate::lock::lock;

/// So many bytes of all bodies together, but for the newest, which is sent whatever its length.
const ROOM: usize = 16 << 20;

#[derive(Debug, Clone, Default)]
pub(super) struct Bodies(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    /// Counts bodies and pieces.
    next: u64,
    sent: BTreeMap<u64, Sent>,
}

#[derive(Debug)]
struct Sent {
    to: Client,
    whole: Arc<Bytes>,
    /// The number of its last piece, or its own before the first.
    last: u64,
}

/// Keeps a large body in the room for it, whichever handler made it. What comes in pieces, such as a
/// document that many clients share, is left as it is: it is bounded where it is made.
pub(super) async fn bound(
    State(bodies): State<Bodies>,
    client: Client,
    request: Request,
    next: Next,
) -> Response {
    let (mut head, body) = next.run(request).await.into_parts();
    if body.size_hint().exact().is_none_or(|length| length <= PIECE as u64) {
        return Response::from_parts(head, body);
    }
    let Ok(whole) = to_bytes(body, usize::MAX).await else {
        return refuse(StatusCode::INTERNAL_SERVER_ERROR, "the answer cannot be read");
    };
    head.headers.insert(header::CONTENT_LENGTH, whole.len().into());
    let whole = Arc::new(whole);
    let pieces = pieces(&whole);
    let place = bodies.enter(client, whole);
    let sent = pieces.map(move |piece| {
        place.note_read();
        piece
    });
    Response::from_parts(head, Body::from_stream(sent))
}

impl Bodies {
    fn enter(&self, to: Client, whole: Arc<Bytes>) -> Place {
        let mut table = lock(&self.0);
        let id = table.count();
        table.sent.insert(id, Sent { to, whole, last: id });
        table.make_room(id);
        Place { bodies: self.clone(), id }
    }
}

impl Table {
    fn count(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn length(&self) -> usize {
        self.sent.values().map(|one| one.whole.len()).sum()
    }

    /// Cuts others off until there is room for the body `newest`, which is sent in any case.
    fn make_room(&mut self, newest: u64) {
        while self.length() > ROOM {
            self.sent.values().for_each(|one| one.to.look_up());
            let mut held = BTreeMap::<Peer, usize>::new();
            for one in self.sent.values() {
                *held.entry(one.to.peer()).or_default() += one.whole.len();
            }
            let others = self.sent.iter().filter(|(id, _)| **id != newest);
            let slowest = others.min_by_key(|(_, one)| (Reverse(held[&one.to.peer()]), one.last));
            let Some(id) = slowest.map(|(id, _)| *id) else { return };
            self.sent.remove(&id);
        }
    }
}

/// Where a body is kept. Dropped when it is sent, or its connection has ended.
struct Place {
    bodies: Bodies,
    id: u64,
}

impl Place {
    fn note_read(&self) {
        let mut table = lock(&self.bodies.0);
        let n = table.count();
        if let Some(own) = table.sent.get_mut(&self.id) {
            own.last = n;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.bodies.0).sent.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::peer::Link;
    use axum::Router;
    use axum::middleware::from_fn_with_state;
    use axum::routing::get;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    const LARGE: usize = 1 << 20;

    async fn ask(router: &Router, uid: u32) -> Body {
        let mut request = Request::new(Body::empty());
        request.extensions_mut().insert(Client::unconnected(Link::Unix { uid }));
        let response = router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.headers()[header::CONTENT_LENGTH], LARGE.to_string());
        response.into_body()
    }

    #[tokio::test]
    async fn bound_cuts_off_those_that_do_not_read() {
        let bodies = Bodies::default();
        let large = get(|| async { vec![7; LARGE] });
        let router = Router::new().route("/", large);
        let router = router.layer(from_fn_with_state(bodies.clone(), bound));
        #[rustfmt::skip]
        let table = [
            // the client beside the one that does not read, whether it reads meanwhile
            (1, true),  // behind the same address
            (2, false), // another one, however slow
        ];
        for (uid, reads) in table {
            let row = format!("user {uid} reads: {reads}");
            let mut honest = ask(&router, uid).await;
            let (mut slow, mut length) = (Vec::new(), 0);
            for n in 0..100 {
                slow.push(ask(&router, 1).await);
                if reads && n % 10 == 0 {
                    let piece = honest.frame().await.unwrap().expect("not cut off");
                    length += piece.into_data().unwrap().len();
                }
                assert!(lock(&bodies.0).length() <= ROOM, "{row}");
            }
            length += to_bytes(honest, LARGE).await.expect("not cut off").len();
            assert_eq!(length, LARGE, "{row}");
            let newest = slow.pop().unwrap();
            assert_eq!(to_bytes(newest, LARGE).await.unwrap().len(), LARGE, "{row}");
            assert!(to_bytes(slow.remove(0), LARGE).await.is_err(), "{row}");
            drop(slow);
            assert_eq!(lock(&bodies.0).length(), 0, "{row}");
        }
    }
}
