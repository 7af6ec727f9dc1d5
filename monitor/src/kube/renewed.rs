//! A client of the API server that is made anew once its credentials are refused. A client's certificate is
//! read when the client is made, and when a token is read again the wall clock decides: an agent that kept
//! its first client would be refused for as long as it runs.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use tokio::sync::Mutex;
use tower::{BoxError, Service};

use super::client::{AGAIN, try_connect};
use crate::clock;
use crate::config::kubernetes::Connection;
use isobar_core::model::units::Nanos;

/// A client that is `first`, until that is refused.
pub(super) fn renewed(connection: Connection, first: Client) -> Client {
    let current = Current { client: first, is_refused: false, renewed: None };
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
    is_refused: bool,
    /// When it was made anew last, or was to be, on the boot clock.
    renewed: Option<Nanos>,
}

impl Renewing {
    async fn client(&self) -> Client {
        let mut current = self.current.lock().await;
        let now = clock::now().boot;
        let since = |then| Duration::from_nanos(now.since(then).0);
        let is_due = current.renewed.is_none_or(|then| since(then) >= AGAIN);
        if current.is_refused && is_due {
            current.renewed = Some(now);
            match try_connect(&self.connection).await {
                Ok((client, url)) => {
                    tracing::info!("read the credentials for {url} again: they were refused");
                    (current.client, current.is_refused) = (client, false);
                }
                Err(why) => tracing::debug!("cannot read the credentials again: {why}"),
            }
        }
        current.client.clone()
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
            let answer = of.client().await.send(request).await;
            let is_refused = match &answer {
                Ok(answer) => answer.status() == StatusCode::UNAUTHORIZED,
                Err(why) => is_of_tls(why),
            };
            if is_refused {
                of.current.lock().await.is_refused = true;
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
}
