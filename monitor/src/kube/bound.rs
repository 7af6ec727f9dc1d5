//! How much of an answer is held at once, and how long it is waited for. The client collects an answer
//! whole before it is read, and a watch line by line, so a server that never ends either would take all
//! memory that there is; and a connection that a load balancer has forgotten says nothing for ever.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::{Request, Response};
use kube::client::ClientBuilder;
use kube::{Client, Config};
use tokio::time::{Sleep, sleep};
use tokio_stream::Stream;
use tower::{BoxError, Layer, Service};

/// All pods of a node come at once, 700 of 16 KiB each; where that does not do they come in pages. One
/// object has at most some 9 MiB: 1.5 in etcd, of characters that JSON escapes.
const BY_API_SERVER: usize = 12 << 20;
/// What a command asks an agent for by the API server: an incident, too.
const BY_AGENT: usize = 32 << 20;
/// What a kubelet says of 500 pods, of 32 KiB each: it knows no pages.
const BY_KUBELET: usize = 16 << 20;
/// An answer is whole by then, and a watch has begun. Who has less time stops waiting before.
const WITHIN: Duration = Duration::from_secs(30);

/// The largest answer, in bytes; of a watch, the largest event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound(usize);

impl Bound {
    pub(super) const API_SERVER: Self = Self(BY_API_SERVER);
    pub(super) const AGENT: Self = Self(BY_AGENT);
    pub(super) const KUBELET: Self = Self(BY_KUBELET);

    /// A client whose answers are within this bound, decompressed.
    pub(super) fn client(self, config: Config) -> kube::Result<Client> {
        Ok(ClientBuilder::try_from(config)?.with_layer(&self).build())
    }
}

/// Why no more of an answer is read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Excess {
    /// It, or an event of a watch, is larger than it may be.
    #[error("larger than {} MiB", .most >> 20)]
    Size { most: usize },
    #[error("not answered within {} s", WITHIN.as_secs())]
    Time,
}

impl Excess {
    /// The one among the causes of an error.
    pub(super) fn among<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Self> {
        let causes = std::iter::successors(Some(error), |error| error.source());
        causes.filter_map(|error| error.downcast_ref()).next()
    }
}

impl<S> Layer<S> for Bound {
    type Service = Bounded<S>;

    fn layer(&self, service: S) -> Bounded<S> {
        Bounded { service, bound: *self }
    }
}

/// A service with bounded answers.
#[derive(Debug)]
pub(super) struct Bounded<S> {
    service: S,
    bound: Bound,
}

impl<S, Q, A> Service<Request<Q>> for Bounded<S>
where
    S: Service<Request<Q>, Response = Response<A>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    A: axum::body::HttpBody<Data = Bytes> + Send + 'static,
    A::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.service.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let query = request.uri().query().unwrap_or_default();
        let by_line = query.split('&').any(|part| part == "watch=true");
        let mut room = Room { most: self.bound.0, held: 0, by_line };
        let answer = self.service.call(request);
        Box::pin(async move {
            let mut until = Box::pin(sleep(WITHIN));
            let answer = tokio::select! {
                answer = answer => answer.map_err(Into::into)?,
                () = &mut until => return Err(Excess::Time.into()),
            };
            // An error is held whole, also where events were asked for.
            room.by_line &= answer.status().is_success();
            let until = (!room.by_line).then_some(until);
            let bounded = |body| {
                Body::from_stream(Pieces { of: Body::new(body).into_data_stream(), room, until })
            };
            Ok(answer.map(bounded))
        })
    }
}

/// A body as it comes in.
#[derive(Debug)]
struct Pieces {
    of: BodyDataStream,
    room: Room,
    /// `None` for a watch, which lasts.
    until: Option<Pin<Box<Sleep>>>,
}

impl Stream for Pieces {
    type Item = Result<Bytes, BoxError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.until.as_mut().is_some_and(|until| until.as_mut().poll(cx).is_ready()) {
            return Poll::Ready(Some(Err(Excess::Time.into())));
        }
        let piece = ready!(Pin::new(&mut self.of).poll_next(cx));
        Poll::Ready(piece.map(|piece| self.room.take(piece?)))
    }
}

/// What is held of an answer.
#[derive(Debug)]
struct Room {
    most: usize,
    held: usize,
    /// A line that has ended is held no longer.
    by_line: bool,
}

impl Room {
    fn take(&mut self, piece: Bytes) -> Result<Bytes, BoxError> {
        let mut lines = piece.split(|byte| self.by_line && *byte == b'\n');
        let first = lines.next().unwrap_or_default();
        let mut held = self.held + first.len();
        let mut largest = held;
        for line in lines {
            held = line.len();
            largest = largest.max(held);
        }
        self.held = held;
        if largest > self.most { Err(Excess::Size { most: self.most }.into()) } else { Ok(piece) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn take_until_there_is_no_room() {
        #[rustfmt::skip]
        let table: &[(bool, &[&str], usize)] = &[
            // a watch, pieces, how many of them are taken
            (false, &["1234", "5678"],         2),
            (false, &["1234", "56789"],        1),
            (false, &["12345678", "9"],        1),
            (false, &["1234\n", "5678"],       1), // lines of a list are one answer
            (false, &["123456789"],            0),
            (true,  &["1234\n", "5678"],       2),
            (true,  &["1234", "5678\n", "12345678"], 3),
            (true,  &["12\n34\n567", "89012\n", "1"], 3),
            (true,  &["1\n23456789", "1"],     1),
            (true,  &["123456789\n"],          0),
            (true,  &["1234", "56789\n"],      1),
        ];
        for (by_line, pieces, want) in table {
            let mut room = Room { most: 8, held: 0, by_line: *by_line };
            let taken = pieces
                .iter()
                .map_while(|piece| room.take(Bytes::copy_from_slice(piece.as_bytes())).ok());
            assert_eq!(taken.count(), *want, "{by_line} {pieces:?}");
        }
    }

    #[test]
    fn among_finds_it_below_other_errors() {
        let too_large = Excess::Size { most: 16 << 20 };
        assert_eq!(too_large.to_string(), "larger than 16 MiB");
        let wrapped = std::io::Error::other(kube::Error::Service(Box::new(too_large)));
        assert_eq!(Excess::among(&wrapped), Some(&Excess::Size { most: 16 << 20 }));
        assert_eq!(Excess::among(&std::io::Error::other("another")), None);
    }
}
