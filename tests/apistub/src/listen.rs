//! Accepts connections on a thread of its own, plays faults on them, and keeps the journal.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fmt, io, iter};

use axum::body::{Body, Bytes, to_bytes};
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime;
use tokio::sync::broadcast::Receiver;
use tokio::sync::oneshot;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tokio_stream::StreamExt as _;

use crate::access::forbidden;
use crate::answer::{Answer, answer};
use crate::call::Call;
use crate::cluster::{Cluster, Signal};
use crate::fault::Effect;
use crate::status::Failure;

/// The largest body that the real server reads.
const LARGEST: usize = 3 << 20;

/// Of an answer that never ends, at a time.
const PIECE: usize = 256 << 10;
const NOW_AND_THEN: Duration = Duration::from_millis(100);

/// The server's thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    leave: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn begin(listener: TcpListener, cluster: Arc<Cluster>) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (leave, left) = oneshot::channel();
        let serve = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, &cluster) => {}
                    _ = left => {}
                }
            });
        };
        let thread = thread::Builder::new().name("apistub".into()).spawn(serve)?;
        Ok(Self { leave: Some(leave), thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.leave.take());
        // Until it has ended, its port is taken.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

async fn accept(listener: TcpListener, cluster: &Arc<Cluster>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    while let Ok((stream, _)) = listener.accept().await {
        if let Ok(stream) = stream.into_std() {
            tokio::spawn(serve(stream, cluster.signals(), cluster.clone()));
        }
    }
}

async fn serve(stream: TcpStream, signals: Receiver<Signal>, cluster: Arc<Cluster>) {
    // A second descriptor of the socket, by which a fault reaches it below hyper.
    let Ok(socket) = stream.try_clone().map(Arc::new) else { return };
    let _ = stream.set_nodelay(true);
    let Ok(stream) = tokio::net::TcpStream::from_std(stream) else { return };
    let tls = cluster.tls().clone();
    match tls {
        None => speak(stream, socket, signals, cluster).await,
        Some(tls) => {
            // An error is a client that does not trust this authority.
            if let Ok(stream) = TlsAcceptor::from(tls).accept(stream).await {
                speak(stream, socket, signals, cluster).await;
            }
        }
    }
}

async fn speak(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    socket: Arc<TcpStream>,
    mut signals: Receiver<Signal>,
    cluster: Arc<Cluster>,
) {
    let of_request = {
        let socket = socket.clone();
        service_fn(move |request| respond(cluster.clone(), socket.clone(), request))
    };
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), of_request);
    tokio::pin!(connection);
    loop {
        tokio::select! {
            // An error is the client's going, or a fault.
            _ = &mut connection => return,
            signal = signals.recv() => match signal {
                Ok(Signal::Cut) => return reset(&socket),
                Ok(Signal::Expire) | Err(_) => {}
            },
        }
    }
}

/// Lets the connection end with a reset when it is closed.
fn reset(socket: &TcpStream) {
    let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
}

/// A connection that ends without an answer.
#[derive(Debug)]
struct Cut;

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cut by a fault")
    }
}

impl std::error::Error for Cut {}

async fn respond(
    cluster: Arc<Cluster>,
    socket: Arc<TcpStream>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Cut> {
    let (parts, body) = request.into_parts();
    let body = to_bytes(Body::new(body), LARGEST).await;
    let read = body.as_deref().unwrap_or(&[]);
    let call = Arc::new(Call::read(&parts.method, &parts.uri, &parts.headers, read));
    let ticket = cluster.journal.begin(call.clone());
    if body.is_err() {
        let message = format!("Request entity too large: limit is {LARGEST}");
        let failure = Failure::new(413, "RequestEntityTooLarge", message);
        cluster.journal.end(ticket, Some(failure.code));
        return Ok(Answer::from(failure).response());
    }
    let mut effect = None;
    for one in cluster.faults.strike(&call) {
        match one {
            Effect::Latency { millis } => sleep(Duration::from_millis(millis)).await,
            other => effect = Some(other),
        }
    }
    let answered = match effect {
        Some(Effect::Reset) => {
            reset(&socket);
            None
        }
        Some(Effect::Lost) => {
            answer(&cluster, &call, None);
            reset(&socket);
            None
        }
        Some(Effect::Mute) => std::future::pending().await,
        Some(Effect::Hang) if call.verb != "watch" => std::future::pending().await,
        Some(Effect::Status { code, retry_after_seconds }) => {
            Some(failure(&call, code, retry_after_seconds).into())
        }
        Some(Effect::Endless) => Some(Answer::Raw(200, spaces(PIECE, Duration::ZERO))),
        Some(Effect::Trickle) => Some(Answer::Raw(200, spaces(1, NOW_AND_THEN))),
        Some(Effect::Text { code, text }) => Some(Answer::Raw(code, Body::from(text))),
        effect => Some(answer(&cluster, &call, effect)),
    };
    cluster.journal.end(ticket, answered.as_ref().map(Answer::code));
    answered.map(Answer::response).ok_or(Cut)
}

/// So many spaces, again and again.
fn spaces(n: usize, apart: Duration) -> Body {
    let piece = Bytes::from(vec![b' '; n]);
    let pieces = tokio_stream::iter(iter::repeat(piece)).then(move |piece| async move {
        sleep(apart).await;
        io::Result::Ok(piece)
    });
    Body::from_stream(pieces)
}

/// What the real server says with this code.
fn failure(call: &Call, code: u16, retry_after: Option<u64>) -> Failure {
    let mut failure = match code {
        401 => Failure::new(401, "Unauthorized", "Unauthorized"),
        403 => forbidden(call),
        409 => {
            let (resource, name) = (&call.resource, &call.name);
            let why = "the object has been modified; please apply your changes to the latest \
                       version and try again";
            let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
            Failure::new(409, "Conflict", message)
        }
        410 => Failure::expired("too old resource version"),
        429 => {
            let message = "the server has received too many requests and has asked us to try again \
                           later";
            Failure::too_many_requests(message, 0)
        }
        503 => {
            let message = "the server is currently unable to handle the request";
            Failure::new(503, "ServiceUnavailable", message)
        }
        504 => Failure::new(
            504,
            "Timeout",
            "Timeout: request did not complete within requested timeout",
        ),
        code => Failure::new(code, "InternalError", "Internal error occurred: a fault by script"),
    };
    if let Some(seconds) = retry_after {
        failure.detail("retryAfterSeconds", seconds.into());
    }
    failure
}
