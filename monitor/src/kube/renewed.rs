//! A client of the API server that is made anew once its credentials are refused. A client's certificate is
//! read when the client is made, and when a token is read again the wall clock decides: an agent that kept
//! its first client would be refused for as long as it runs.

use std::error::Error;
use std::io;
use std::mem::replace;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tower::{BoxError, Service};

use super::client::{AGAIN, PATIENCE, try_connect};
use crate::clock;
use crate::config::kubernetes::Connection;
use crate::lock::lock;
use isobar_core::model::units::Nanos;

/// At most so long, while the credentials stay refused: each time may begin a program.
const AGAIN_AT_MOST: Duration = Duration::from_secs(240);

/// A client that is `first`, until that is refused.
pub(super) fn renewed(connection: Connection, first: Client) -> Client {
    let current = Current { client: first, standing: Standing::default() };
    let of = Arc::new(Renewing { connection, current: Mutex::new(current) });
    // No request leaves the namespace to the client.
    Client::new(Renewed(of), "default")
}

struct Renewed(Arc<Renewing>);

struct Renewing {
    connection: Connection,
    current: Mutex<Current>,
}

struct Current {
    client: Client,
    standing: Standing,
}

/// How the server takes the credentials.
#[derive(Debug, Default)]
struct Standing {
    /// How many clients there were before this one.
    number: u64,
    is_refused: bool,
    is_being_made: bool,
    /// When a client was made last, or was to be, on the boot clock.
    tried: Option<Nanos>,
    /// How often, since the server last took the credentials.
    n_tried: u32,
    /// Whether the log has it, since then.
    is_told: bool,
}

impl Standing {
    /// Whether a client is to be made now.
    fn begins(&mut self, now: Nanos) -> bool {
        let doubled = 1 << self.n_tried.saturating_sub(1).min(8);
        let wait = AGAIN_AT_MOST.min(AGAIN * doubled);
        let has_waited = |then| Duration::from_nanos(now.since(then).0) >= wait;
        let is_due = self.tried.is_none_or(has_waited);
        if !self.is_refused || self.is_being_made || !is_due {
            return false;
        }
        (self.is_being_made, self.tried) = (true, Some(now));
        self.n_tried += 1;
        true
    }

    /// The server has taken the credentials of the client of this number.
    fn taken(&mut self, number: u64) {
        // A connection of before the refusal may still be open.
        if number == self.number && !self.is_refused {
            (self.n_tried, self.is_told) = (0, false);
        }
    }

    /// It has refused them.
    fn refused(&mut self, number: u64) {
        self.is_refused |= number == self.number;
    }
}

impl Renewing {
    /// The client, and its number.
    async fn client(self: &Arc<Self>) -> (Client, u64) {
        if lock(&self.current).standing.begins(clock::now().boot) {
            let (of, runtime) = (Arc::clone(self), Handle::current());
            // A plugin that the kubeconfig names is waited for by a thread of its own.
            let making = spawn_blocking(move || {
                let made = runtime.block_on(try_connect(&of.connection));
                lock(&of.current).take(made);
            });
            // A client that takes longer is used once it is there.
            if let Ok(Err(_panicked)) = timeout(PATIENCE, making).await {
                lock(&self.current).standing.is_being_made = false;
            }
        }
        let current = lock(&self.current);
        (current.client.clone(), current.standing.number)
    }
}

impl Current {
    fn take(&mut self, made: Result<(Client, String), String>) {
        let standing = &mut self.standing;
        standing.is_being_made = false;
        match made {
            Ok((client, url)) => {
                if !replace(&mut standing.is_told, true) {
                    tracing::info!("read the credentials for {url} again: they were refused");
                }
                (self.client, standing.is_refused) = (client, false);
                standing.number += 1;
            }
            Err(why) => tracing::debug!("cannot read the credentials again: {why}"),
        }
    }
}

impl Service<Request<Body>> for Renewed {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let of = Arc::clone(&self.0);
        Box::pin(async move {
            let (client, number) = of.client().await;
            let answer = client.send(request).await;
            match &answer {
                Ok(answer) if answer.status() == StatusCode::UNAUTHORIZED => {
                    lock(&of.current).standing.refused(number);
                }
                Ok(_) => lock(&of.current).standing.taken(number),
                Err(why) if is_of_tls(why) => lock(&of.current).standing.refused(number),
                // A server that cannot be reached says nothing of them.
                Err(_) => {}
            }
            Ok(answer?)
        })
    }
}

/// Whether TLS failed, of either side's certificate as a rule: rustls says that as an error of invalid data,
/// which an error of another kind may hold.
fn is_of_tls(why: &(dyn Error + 'static)) -> bool {
    match why.downcast_ref::<io::Error>() {
        Some(why) if why.kind() == io::ErrorKind::InvalidData => true,
        Some(why) => why.get_ref().is_some_and(|inner| is_of_tls(inner)),
        None => why.source().is_some_and(is_of_tls),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::ErrorKind::{ConnectionRefused, InvalidData, Other, UnexpectedEof};

    #[test]
    fn is_of_tls_by_what_the_client_says() {
        let alert = || io::Error::new(InvalidData, "received fatal alert: CertificateExpired");
        #[rustfmt::skip]
        let table = [
            (alert(),                                                true),
            (io::Error::other(alert()),                              true),
            (io::Error::other(io::Error::other(alert())),            true),
            (io::Error::from(ConnectionRefused),                     false),
            (io::Error::new(Other, io::Error::from(UnexpectedEof)),  false),
        ];
        for (why, want) in table {
            let row = format!("{why:?}");
            assert_eq!(is_of_tls(&kube::Error::Service(why.into())), want, "{row}");
        }
    }

    #[test]
    fn begins_ever_more_seldom_while_the_credentials_stay_refused() {
        #[rustfmt::skip]
        let table = [
            // seconds, whether the server refuses the client in use, whether another one is made
            (0,    false, false),
            (1,    true,  true),
            (15,   true,  false),
            (16,   true,  true),
            (45,   true,  false),
            (46,   true,  true),
            (105,  true,  false),
            (106,  true,  true),
            (225,  true,  false),
            (226,  true,  true),
            (466,  true,  true),
            (705,  true,  false), // four minutes at most
            (706,  true,  true),
            (707,  false, false), // taken
            (720,  true,  false),
            (721,  true,  true),
            (736,  true,  true),
        ];
        let mut standing = Standing::default();
        for (seconds, is_refused, want) in table {
            match is_refused {
                true => standing.refused(standing.number),
                false => standing.taken(standing.number),
            }
            let got = standing.begins(Nanos(seconds * Nanos::SECOND.0));
            assert_eq!(got, want, "{seconds} s");
            if got {
                assert!(!standing.begins(Nanos(u64::MAX)), "{seconds} s: two at once");
                (standing.is_being_made, standing.is_refused) = (false, false);
                standing.number += 1;
                standing.refused(standing.number - 1);
                assert!(!standing.is_refused, "{seconds} s: a late answer to the one before");
            }
        }
    }
}
