//! The agent of one node, asked from anywhere, by the API server's proxy of its pod.
//! Source: kubernetes `pkg/registry/core/pod/rest/subresources.go`, `ProxyREST`.

use std::fmt;
use std::io;
use std::sync::Mutex;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use kube::api::ListParams;
use kube::{Api, Client, Config, client};
use tokio::runtime::{self, Runtime};

use super::bound::Bound;
use super::client::{API_SERVER, Failure, Pods, answered, answered_by, own};
use crate::lock::lock;

/// Where the manifests put the agents, and how they mark them.
const NAMESPACE: &str = "isobar-system";
const LABEL: &str = "app.kubernetes.io/name=isobar";
const PORT: u16 = 9797;

/// Why a node's agent could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    #[error("cannot begin to talk to the API server")]
    Runtime(#[from] io::Error),
    #[error("no cluster is known: name a kubeconfig with KUBECONFIG")]
    Config(#[from] kube::config::InferConfigError),
    #[error("no isobar runs on node {0} in the namespace isobar-system")]
    NoAgent(String),
    /// The next request may be answered.
    #[error("{0}")]
    Unanswered(String),
    /// The next request would be refused as well.
    #[error("{0}")]
    Refused(String),
}

impl From<Failure> for ProxyError {
    fn from(why: Failure) -> Self {
        match why.code {
            None | Some(408 | 429 | 500..) => Self::Unanswered(why.words),
            Some(_) => Self::Refused(why.words),
        }
    }
}

/// The way to one node's agent.
#[derive(Debug)]
pub struct Proxy {
    node: String,
    runtime: Runtime,
    agent: Mutex<Agent>,
}

#[derive(Debug, Clone)]
struct Agent {
    pod: String,
    client: KeepQuiet,
}

/// A client has nothing to show.
#[derive(Clone)]
struct KeepQuiet(Client);

impl fmt::Debug for KeepQuiet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.node)
    }
}

impl Proxy {
    /// Finds the agent of `node` in the cluster that kubectl talks to.
    ///
    /// # Errors
    /// If there is no cluster, or no agent on that node.
    pub fn open(node: &str) -> Result<Self, ProxyError> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let agent = runtime.block_on(Agent::find(node))?;
        Ok(Self { node: node.into(), runtime, agent: agent.into() })
    }

    /// Asks the agent that was found, or the one that has taken its place, which is looked for after a refusal.
    fn ask<T>(&self, ask: impl AsyncFn(&Agent) -> Result<T, ProxyError>) -> Result<T, ProxyError> {
        let kept = || lock(&self.agent);
        let agent = kept().clone();
        self.runtime.block_on(async {
            let answer = ask(&agent).await;
            if !matches!(answer, Err(ProxyError::Refused(_))) {
                return answer;
            }
            match Agent::find(&self.node).await {
                Ok(new) if new.pod != agent.pod => {
                    *kept() = new.clone();
                    ask(&new).await
                }
                // Neither is final.
                Err(why @ (ProxyError::NoAgent(_) | ProxyError::Unanswered(_))) => Err(why),
                _ => answer,
            }
        })
    }

    /// What the agent answers to a path of its API; `None` before its first sample.
    ///
    /// # Errors
    /// If the API server or the agent does not answer within this time,
    /// or an agent in its place within as long again.
    pub fn document(&self, path: &str, within: Duration) -> Result<Option<String>, ProxyError> {
        self.ask(async |agent| agent.document(path, within).await)
    }

    /// A file under a path of its API; `None` before its first sample.
    ///
    /// # Errors
    /// As of a document, or if the file is larger than 32 MiB.
    pub fn file(&self, path: &str, within: Duration) -> Result<Option<Vec<u8>>, ProxyError> {
        self.ask(async |agent| agent.file(path, within).await)
    }
}

impl Agent {
    async fn find(node: &str) -> Result<Self, ProxyError> {
        let config = own(Config::infer().await?);
        let client = Bound::AGENT.client(config).map_err(|why| Failure::from(&why))?;
        let api: Pods = Api::namespaced(client.clone(), NAMESPACE);
        let fields = format!("spec.nodeName={node},status.phase=Running");
        let its = ListParams::default().labels(LABEL).fields(&fields);
        let pods = answered(api.list(&its)).await?.into_iter().map(|pod| pod.metadata);
        let found = pods.filter(|pod| pod.deletion_timestamp.is_none()).find_map(|pod| pod.name);
        let pod = found.ok_or_else(|| ProxyError::NoAgent(node.into()))?;
        Ok(Self { pod, client: KeepQuiet(client) })
    }

    fn request(&self, path: &str) -> Result<Request<Vec<u8>>, ProxyError> {
        let pod = &self.pod;
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{pod}:{PORT}/proxy{path}");
        // The proxy hands this on as it is, and the agent refuses the API server's name.
        let request = Request::get(path).header(header::HOST, "localhost").body(Vec::new());
        request.map_err(|why| ProxyError::Refused(why.to_string()))
    }

    async fn file(&self, path: &str, within: Duration) -> Result<Option<Vec<u8>>, ProxyError> {
        let request = self.request(path)?.map(client::Body::from);
        let asked = async {
            let (head, body) = self.client.0.send(request).await?.into_parts();
            // The client bounds it.
            let body = to_bytes(Body::new(body), usize::MAX).await;
            let body = body.map_err(|why| kube::Error::Service(why.into()))?;
            Ok((head.status, body))
        };
        match answered_by(API_SERVER, within, asked).await? {
            (StatusCode::OK, body) => Ok(Some(body.into())),
            (StatusCode::SERVICE_UNAVAILABLE, _) => Ok(None),
            (status, _) => {
                let words = format!("the API server answered {status}");
                Err(Failure { code: Some(status.as_u16()), words, ..Failure::default() }.into())
            }
        }
    }

    async fn document(&self, path: &str, within: Duration) -> Result<Option<String>, ProxyError> {
        let request = self.request(path)?;
        let asked = async {
            match self.client.0.request_text(request).await {
                // The API server gives its own refusals a reason.
                Err(kube::Error::Api(why)) if why.code == 503 && why.reason.is_empty() => Ok(None),
                answer => answer.map(Some),
            }
        };
        Ok(answered_by(API_SERVER, within, asked).await?)
    }
}
