//! Accepts connections, on a thread of its own at ordinary priority: whoever may connect cannot hold
//! up a tick, and cannot use up the agent's memory or descriptors.
//!
//! A connection has ten seconds for the headers of a request, and ten for a write that the client
//! does not read. Of more than [`CONNECTIONS`] one is closed: of the address that has most of them
//! the one whose last request is the oldest, so that one that never completes a request goes first.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::process::setpriority_process;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tokio_io_timeout::TimeoutStream;
use tower::ServiceExt as _;

use super::address::Listener;
use super::incidents::Disk;
use super::peer::{self, Link, Peer, origin};
use crate::lock::lock;
use crate::{clock, heap};
use isobar_core::model::units::Nanos;

/// Connections at a time. Each costs a descriptor, up to [`BUFFER`] bytes twice, and a piece of what is
/// sent; those that were just closed for others may last a moment longer.
const CONNECTIONS: usize = 128;
/// The largest head of a request; also what is buffered of a response.
const BUFFER: usize = 16 << 10;
/// Bytes of a response that the kernel keeps for one connection, in twice as much memory (`socket(7)`,
/// `SO_SNDBUF`). By itself it keeps megabytes, and counts them as the agent's memory.
const SENT_AHEAD: usize = 128 << 10;
/// For the headers of a request, from the connection or the last response on.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// For a client to read something.
const READS_WITHIN: Duration = Duration::from_secs(10);
/// After so many connections that were one too many there is a pause, so that a flood costs little
/// and those that wait behind it wait little.
const FLOOD: usize = 64;
const FLOOD_PAUSE: Duration = Duration::from_millis(1);
/// Answers of thousands of cgroups take megabytes.
const GIVES_BACK_EACH: Duration = Duration::from_secs(20);
/// After a connection could not be accepted, mostly for want of descriptors.
const RETRY: Duration = Duration::from_millis(500);

/// The server's thread.
#[derive(Debug)]
pub struct Server {
    /// Dropped to end it.
    _leave: oneshot::Sender<()>,
    ended: oneshot::Receiver<io::Error>,
}

impl Server {
    /// Serves on `listener`, which does not block, until it is dropped.
    ///
    /// # Errors
    /// If the thread or its event loop cannot be made.
    pub fn begin(listener: Listener, router: Router) -> io::Result<Self> {
        if let Listener::Tcp(listener) = &listener {
            // A connection has it from its listener, from when it is established.
            SockRef::from(listener).set_send_buffer_size(SENT_AHEAD)?;
        }
        let mut runtime = runtime::Builder::new_current_thread();
        let runtime = runtime.max_blocking_threads(Disk::THREADS).enable_all().build()?;
        let (leave, left) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let serve = move || {
            // More nice is always permitted; it is the thread's own.
            let _ = setpriority_process(None, 0);
            let result = runtime.block_on(async {
                tokio::select! {
                    result = accept(listener, router) => result,
                    _ = left => Ok(()),
                    result = give_back() => result,
                }
            });
            if let Err(why) = result {
                let _ = end.send(why);
            }
        };
        thread::Builder::new().name("server".into()).spawn(serve)?;
        Ok(Self { _leave: leave, ended })
    }

    /// Returns when the server has failed.
    pub async fn failed(&mut self) -> io::Error {
        match (&mut self.ended).await {
            Ok(why) => why,
            Err(_) => io::Error::other("its thread has panicked"),
        }
    }
}

/// Hands over what answers have left, from time to time.
async fn give_back() -> io::Result<()> {
    loop {
        sleep(GIVES_BACK_EACH).await;
        heap::collect();
    }
}

/// Where a request comes from.
#[derive(Debug, Clone)]
pub(super) struct Client {
    link: Link,
    id: u64,
    all: Connections,
}

impl<S: Sync> FromRequestParts<S> for Client {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let own = parts.extensions.get::<Self>().cloned();
        Ok(own.unwrap_or_else(|| Self::unconnected(Link::Unix { uid: 0 })))
    }
}

impl Client {
    /// Of a request that no connection carried, as in a test.
    pub(super) fn unconnected(link: Link) -> Self {
        Self { link, id: 0, all: Connections::default() }
    }

    /// Who asks: of this node's users, each counts once [`Self::look_up`] has told them apart.
    pub(super) fn peer(&self) -> Peer {
        let table = lock(&self.all.0);
        table.open.get(&self.id).map_or_else(|| origin(self.link), |own| own.from)
    }

    /// Tells the users of this node apart, at most once a second: that takes milliseconds, and one
    /// client must not have it done all the time.
    pub(super) fn look_up(&self) {
        lock(&self.all.0).look_up(peer::of);
    }

    /// Whether the connection is a stream, which has a seat and is not closed for being old.
    pub(super) fn set_streams(&self, streams: bool) {
        if let Some(own) = lock(&self.all.0).open.get_mut(&self.id) {
            own.streams = streams;
        }
    }

    /// Ends the connection.
    pub(super) fn close(&self) {
        if let Some(own) = lock(&self.all.0).open.remove(&self.id) {
            own.task.abort();
        }
    }
}

/// All connections, by number in the order in which they came.
#[derive(Debug, Clone, Default)]
struct Connections(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    /// Counts connections and requests.
    next: u64,
    /// When the kernel was last asked for their owners.
    asked: Option<Nanos>,
    open: BTreeMap<u64, Connection>,
}

#[derive(Debug)]
struct Connection {
    link: Link,
    /// Its [`origin`], or its owner once that was looked up.
    from: Peer,
    task: AbortHandle,
    /// The number of its last request, or its own before the first.
    last: u64,
    streams: bool,
}

impl Table {
    fn look_up(&mut self, owners: impl FnOnce(&[Link]) -> Vec<Peer>) {
        let now = clock::now().boot;
        let is_new = |asked| now.since(asked) < Nanos::SECOND;
        let is_local = |one: &Connection| peer::is_of_this_node(one.link);
        if !self.open.values().any(is_local) || self.asked.is_some_and(is_new) {
            return;
        }
        self.asked = Some(now);
        let links: Vec<_> = self.open.values().map(|one| one.link).collect();
        let all = self.open.values_mut().zip(owners(&links));
        all.for_each(|(one, owner)| one.from = owner);
    }
}

/// Room for one more connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Free,
    /// Another one was closed.
    Made,
    None,
}

impl Connections {
    /// Makes room for one more, if there is none.
    fn make_room(&self) -> Room {
        let mut table = lock(&self.0);
        if table.open.len() < CONNECTIONS {
            return Room::Free;
        }
        let mut n_of = BTreeMap::<Peer, usize>::new();
        for one in table.open.values().filter(|one| !one.streams) {
            *n_of.entry(one.from).or_default() += 1;
        }
        let candidates = table.open.iter().filter(|(_, one)| !one.streams);
        let oldest = candidates.min_by_key(|(_, one)| (Reverse(n_of[&one.from]), one.last));
        let oldest = oldest.map(|(id, _)| *id);
        let Some(closed) = oldest.and_then(|id| table.open.remove(&id)) else { return Room::None };
        closed.task.abort();
        Room::Made
    }

    fn enter(&self, link: Link, task: impl FnOnce(u64) -> AbortHandle) {
        let mut table = lock(&self.0);
        let id = table.next;
        table.next += 1;
        let (from, task) = (origin(link), task(id));
        let connection = Connection { link, from, task, last: id, streams: false };
        table.open.insert(id, connection);
    }

    fn request(&self, id: u64) {
        let mut table = lock(&self.0);
        let n = table.next;
        table.next += 1;
        if let Some(own) = table.open.get_mut(&id) {
            own.last = n;
        }
    }
}

/// A connection of either kind.
trait Socket: AsyncRead + AsyncWrite + Send {}
impl<S: AsyncRead + AsyncWrite + Send> Socket for S {}

/// A [`Listener`] in the event loop.
enum Door {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

impl Door {
    fn open(listener: Listener) -> io::Result<Self> {
        Ok(match listener {
            Listener::Tcp(listener) => Self::Tcp(tokio::net::TcpListener::from_std(listener)?),
            Listener::Unix(listener) => Self::Unix(tokio::net::UnixListener::from_std(listener)?),
        })
    }

    /// The next connection; a client that has gone again is `ConnectionAborted`.
    async fn next(&self) -> io::Result<(Pin<Box<dyn Socket>>, Link)> {
        let gone = |_| io::Error::from(io::ErrorKind::ConnectionAborted);
        Ok(match self {
            Self::Tcp(listener) => {
                let (socket, client) = listener.accept().await?;
                let server = socket.local_addr().map_err(gone)?;
                (Box::pin(socket), Link::Tcp { client, server })
            }
            Self::Unix(listener) => {
                let (socket, _) = listener.accept().await?;
                let uid = socket.peer_cred().map_err(gone)?.uid();
                (Box::pin(socket), Link::Unix { uid })
            }
        })
    }
}

async fn accept(listener: Listener, router: Router) -> io::Result<()> {
    let door = Door::open(listener)?;
    let connections = Connections::default();
    let (mut has_warned, mut n_closed) = (false, 0);
    loop {
        match door.next().await {
            Ok((socket, link)) => {
                let room = connections.make_room();
                n_closed += usize::from(room != Room::Free);
                if n_closed == FLOOD {
                    n_closed = 0;
                    sleep(FLOOD_PAUSE).await;
                }
                if room == Room::None {
                    continue;
                }
                let (all, router) = (connections.clone(), router.clone());
                connections.enter(link, |id| {
                    let client = Client { link, id, all };
                    tokio::spawn(serve(socket, client, router)).abort_handle()
                });
                has_warned = false;
            }
            // The client has gone again.
            Err(why) if why.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(why) => {
                if !has_warned {
                    tracing::warn!("cannot accept a connection, trying again: {why}");
                    has_warned = true;
                }
                sleep(RETRY).await;
            }
        }
    }
}

async fn serve(socket: Pin<Box<dyn Socket>>, client: Client, router: Router) {
    let mut socket = TimeoutStream::new(socket);
    socket.set_write_timeout(Some(READS_WITHIN));
    let service = service_fn(|request: Request<Incoming>| {
        client.all.request(client.id);
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(client.clone());
        router.clone().oneshot(request)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADERS_WITHIN).max_buf_size(BUFFER);
    let served = http.serve_connection(TokioIo::new(Box::pin(socket)), service).await;
    if let Err(why) = served {
        tracing::debug!("connection from {:?} ended: {why}", client.link);
    }
    lock(&client.all.0).open.remove(&client.id);
}

#[cfg(test)]
mod tests;
