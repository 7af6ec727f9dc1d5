//! How the agent reaches the API server, and what it tells the cluster.

use std::path::PathBuf;

use super::layers::Layers;

/// How the API server is reached, and as which node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    pub connection: Connection,
    /// `None` if its address is not known.
    pub kubelet: Option<Kubelet>,
    /// The name of the node's object.
    pub node: String,
    /// Who reports an event: the name of the agent's pod, or of the node.
    pub reporter: String,
}

/// The kubelet of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kubelet {
    /// `https://10.0.0.5:10250`
    pub url: String,
    /// The certificate that it makes for itself where the cluster gives it none.
    pub certificate: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Connection {
    /// By the service account of the pod that the agent runs in.
    InCluster,
    Kubeconfig(PathBuf),
}

/// What the operator wants the cluster to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Publish {
    pub conditions: bool,
    pub taints: bool,
    pub events: bool,
    pub at_exit: AtExit,
}

impl Default for Publish {
    fn default() -> Self {
        Self { conditions: true, taints: false, events: true, at_exit: AtExit::Unknown }
    }
}

/// What becomes of the node's conditions when the agent exits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AtExit {
    /// They become Unknown.
    #[default]
    Unknown,
    /// They stay as they are.
    Keep,
    /// They are removed.
    Remove,
}

pub(super) fn publish(layers: &Layers<'_>) -> Publish {
    Publish {
        conditions: layers.flag("kubernetes.conditions"),
        taints: layers.flag("kubernetes.taints"),
        events: layers.flag("kubernetes.events"),
        at_exit: match layers.text("kubernetes.atExit") {
            "keep" => AtExit::Keep,
            "remove" => AtExit::Remove,
            _ => AtExit::Unknown,
        },
    }
}
