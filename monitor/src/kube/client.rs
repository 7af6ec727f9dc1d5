//! The connection, and what the API server's errors mean to an operator.

use std::fs;
use std::time::Duration;

use axum::http::HeaderValue;
use axum::http::header::USER_AGENT;
use k8s_openapi::api::core::v1::Pod;
use kube::api::PartialObjectMeta;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Status;
use kube::runtime::watcher;
use kube::{Api, Client, Config};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use tokio::time::{sleep, timeout};

use super::board::{Board, Report};
use super::bound::{Bound, Excess};
use super::jitter::about;
use super::renewed::renewed;
use crate::causes::chain;
use crate::config::kubernetes::{Access, Connection, Kubelet};

/// A request that takes longer has failed; watches have timeouts of their own.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// How long after a watch has failed the API server is asked whether it is back, at first and at most. A
/// failing watch reports an error at least this often, so a longer silence means that it works.
pub(super) const PROBED: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(120));
/// How long a watch lasts: a server that has fallen silent is asked again five seconds
/// later, and is noticed when it does not answer that. A watch resumes where
/// the one before ended. Two of each of 5,000 nodes are 170 in a second; kubelets renew 500 leases.
const WATCHED: Duration = Duration::from_secs(60);
/// Until then it is taken for one that answers: an eviction that it does not answer costs its deadline.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);
/// How long until a configuration that cannot be used is read again: a service account's files may
/// be mounted later than the agent starts.
pub(super) const AGAIN: Duration = Duration::from_secs(15);

/// Pods, of whose answers no more is read than their metadata: the code for all of a pod takes 170 KB.
pub(super) type Pods = Api<PartialObjectMeta<Pod>>;

/// Characters of an error that are shown.
const LONGEST: usize = 400;

const AGENT: &str = concat!("isobar/", env!("CARGO_PKG_VERSION"));
pub(super) const API_SERVER: &str = "the API server";
pub(super) const KUBELET: &str = "the kubelet";
/// The name of this part in capabilities.
const NAME: &str = "API server";

/// A client, once there is a usable configuration.
pub(super) async fn connect(connection: &Connection, board: &Board) -> Client {
    loop {
        match try_connect(connection).await {
            Ok((client, url)) => {
                board.report(NAME, Report::Works(format!("talks to {url}")));
                return renewed(connection.clone(), client);
            }
            Err(why) => board.report(NAME, Report::Fails(why, remedy_of(connection))),
        }
        sleep(about(AGAIN)).await;
    }
}

/// A client of the kubelet, with the same credentials. Its certificate is one of the cluster's, or
/// the one that it made for itself, and bears the node's name.
pub(super) async fn connect_kubelet(access: &Access, kubelet: &Kubelet) -> Result<Client, Failure> {
    let failed = |words| Failure { words, ..Failure::default() };
    let mut config = configuration(&access.connection).await.map_err(failed)?;
    config.cluster_url = kubelet.url.parse().map_err(|why| failed(format!("{why}")))?;
    // Another process may listen where no kubelet does: it must not be shown the credentials, also
    // where the API server is trusted unseen.
    config.accept_invalid_certs = false;
    let host = config.cluster_url.host().unwrap_or_default();
    if config.cluster_url.scheme_str() != Some("https") && host != "127.0.0.1" {
        let words = format!("{}: the kubelet's address must begin with https://", kubelet.url);
        return Err(failed(words));
    }
    config.tls_server_name = Some(access.node.clone());
    // The file of the cluster's authority would be the only one.
    config.root_cert_file = None;
    let own = fs::read(&kubelet.certificate).unwrap_or_default();
    let own = CertificateDer::pem_slice_iter(&own).flatten().map(|der| der.to_vec());
    config.root_cert.get_or_insert_default().extend(own);
    Bound::KUBELET.client(config).map_err(|why| Failure::of(KUBELET, &why))
}

fn remedy_of(connection: &Connection) -> Option<&'static str> {
    Some(match connection {
        Connection::InCluster => {
            "mount the service account's token (automountServiceAccountToken), or run with --no-kubernetes"
        }
        Connection::Kubeconfig(_) => "name a kubeconfig that kubectl can use, with --kubeconfig",
    })
}

pub(super) async fn try_connect(connection: &Connection) -> Result<(Client, String), String> {
    let config = configuration(connection).await?;
    let url = config.cluster_url.to_string();
    let client = Bound::API_SERVER.client(config).map_err(|why| words(API_SERVER, &why))?;
    Ok((client, url))
}

async fn configuration(connection: &Connection) -> Result<Config, String> {
    let config = match connection {
        Connection::InCluster => Config::incluster().map_err(|why| chain(&why))?,
        Connection::Kubeconfig(path) => {
            let file = Kubeconfig::read_from(path).map_err(|why| chain(&why))?;
            let options = KubeConfigOptions::default();
            Config::from_custom_kubeconfig(file, &options).await.map_err(|why| chain(&why))?
        }
    };
    let mut config = own(config);
    // Plain HTTP needs no roots, and an image from scratch has none to be found.
    if config.cluster_url.scheme_str() == Some("http") {
        config.root_cert.get_or_insert_default();
    }
    config.connect_timeout = Some(PATIENCE);
    Ok(config)
}

/// As isobar uses a configuration, wherever it comes from.
pub(super) fn own(mut config: Config) -> Config {
    // kube would repeat what the server refuses for minutes, behind the back of the caller, who has
    // a deadline.
    config.default_retry = false;
    // By it the server's log and its metrics tell clients apart; kube sends none.
    config.headers.push((USER_AGENT, HeaderValue::from_static(AGENT)));
    config
}

/// Waits for an answer of the API server, but not for ever.
pub(super) async fn answered<T>(
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, Failure> {
    answered_by(API_SERVER, PATIENCE, request).await
}

/// Waits for an answer of `server`, but no longer than `within`.
pub(super) async fn answered_by<T>(
    server: &str,
    within: Duration,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, Failure> {
    match timeout(within, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(why)) => Err(Failure::of(server, &why)),
        Err(_) => {
            let words = format!("{server} has not answered within {} s", within.as_secs());
            Err(Failure { words, ..Failure::default() })
        }
    }
}

/// Whether the API server answers, be it that it refuses this question: a load balancer without a server
/// behind it says 502, 503 or 504. One that refuses the credentials answers nothing that is asked. Asked
/// twice: the first question may go over a connection that was cut with a watch.
pub(super) async fn answers(client: &Client) -> bool {
    for _ in 0..2 {
        match timeout(ANSWERS_WITHIN, client.apiserver_version()).await {
            Ok(Ok(_)) => return true,
            Ok(Err(kube::Error::Api(why))) if why.code < 500 && why.code != 401 => return true,
            Ok(Err(_)) => {}
            Err(_) => return false,
        }
    }
    false
}

/// A watch of the objects that `fields` select, which ends at another time than those of other nodes.
pub(super) fn watch_of(fields: &str) -> watcher::Config {
    let seconds = about(WATCHED).as_secs();
    watcher::Config::default().timeout(u32::try_from(seconds).unwrap_or(u32::MAX)).fields(fields)
}

/// What has become of a watch that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It was cut. It goes on where it was once the server answers, and says nothing before something
    /// changes.
    Cut,
    /// The server refuses it, or lets it hang, and will again.
    Lasting,
}

impl Trouble {
    pub(super) fn of(why: &watcher::Error) -> Self {
        let is_refused = Failure::from(why).code.is_some();
        if is_refused || Excess::among(why).is_some() { Self::Lasting } else { Self::Cut }
    }

    /// Whether it is over if nothing was heard for so long and the server answers.
    pub(super) fn ends_within(self, wait: Duration) -> bool {
        self == Self::Cut || wait == PROBED.1
    }
}

/// Whether the server no longer knows where the watch is to begin: kube would ask for that for ever, and has
/// to list anew.
pub(super) fn is_too_old(why: &watcher::Error) -> bool {
    let watcher::Error::WatchStartFailed(why) = why else { return false };
    Failure::from(why).code == Some(410)
}

/// Why a request failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Failure {
    /// The HTTP status; `None` if there was no answer that could be read.
    pub(super) code: Option<u16>,
    pub(super) words: String,
    /// When the server would be asked again; zero where it does not say.
    pub(super) retry_after: Duration,
}

impl From<&kube::Error> for Failure {
    fn from(why: &kube::Error) -> Self {
        Self::of(API_SERVER, why)
    }
}

impl Failure {
    /// What `server` answered, or why it did not.
    fn of(server: &str, why: &kube::Error) -> Self {
        let words = shortened(words(server, why));
        let kube::Error::Api(status) = why else { return Self { words, ..Self::default() } };
        let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
        Self { code: Some(status.code), words, retry_after: Duration::from_secs(seconds.into()) }
    }

    /// Why the API server ended a watch.
    pub(super) fn of_watch(status: &Status) -> Self {
        let words = format!("the API server ended the watch: {}", status.message);
        Self { code: Some(status.code), words: shortened(words), ..Self::default() }
    }

    /// An answer that makes no sense.
    pub(super) fn of_answer(why: impl ToString) -> Self {
        Self { words: shortened(why.to_string()), ..Self::default() }
    }

    /// As a report about something that needs `permission`.
    pub(super) fn report(self, permission: &'static str) -> Report {
        let remedy = match self.code {
            Some(401) => Some("the token is not accepted: check the service account"),
            Some(403) => Some(permission),
            _ => None,
        };
        Report::Fails(self.words, remedy)
    }
}

/// An error of the client, in one line.
fn words(server: &str, why: &kube::Error) -> String {
    match Excess::among(why) {
        Some(size @ Excess::Size { .. }) => return format!("{server}'s answer is {size}"),
        Some(time @ Excess::Time) => return format!("{server} has {time}"),
        None => {}
    }
    match why {
        kube::Error::Api(status) if status.message.is_empty() => {
            format!("{server} answered {} {}", status.code, status.reason)
        }
        kube::Error::Api(status) => {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            // Which budget it is, and why; of others the message says it all.
            let budgets = causes.filter(|cause| cause.reason == "DisruptionBudget");
            let budgets: String = budgets.map(|cause| format!(" {}", cause.message)).collect();
            format!("{server} answered {}: {}{budgets}", status.code, status.message)
        }
        kube::Error::Service(why) => match why.downcast_ref() {
            // Of the client within one that is renewed.
            Some(inner) => words(server, inner),
            None => format!("cannot reach {server}: {}", chain(&**why)),
        },
        kube::Error::SerdeError(why) => {
            format!("{server}'s answer cannot be read: {why}")
        }
        kube::Error::FromUtf8(why) => {
            format!("{server}'s answer cannot be read: {why}")
        }
        other => chain(other),
    }
}

/// An error may repeat an answer, which may be of any length.
fn shortened(words: String) -> String {
    match words.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}..", &words[..at]),
        None => words,
    }
}

impl From<&watcher::Error> for Failure {
    fn from(why: &watcher::Error) -> Self {
        use watcher::Error;
        match why {
            Error::InitialListFailed(why)
            | Error::WatchStartFailed(why)
            | Error::WatchFailed(why) => Self::from(why),
            Error::WatchError(status) => Self::of_watch(status),
            Error::NoResourceVersion => Self { words: chain(why), ..Self::default() },
        }
    }
}
