//! Documents of a running agent, by its API: of this machine or, through the API server, of another
//! node.

use anyhow::{Context as _, Result, bail};
use serde::de::DeserializeOwned;

use super::ask::{Fetched, Place, fetch};
use super::exit::InvalidAnswer;

use isobar_core::room;

/// How a verb that looks at one machine is run on another node.
pub(super) const ON_THE_NODE: &str = "kubectl -n isobar-system exec POD -- isobar";

#[derive(Debug, clap::Args)]
pub(super) struct NodeArg {
    /// Ask the agent of this node of a cluster, through the API server that kubectl talks to.
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
}

impl NodeArg {
    /// The agent that is meant; `None` for this machine.
    pub(super) fn place(&self) -> Result<Option<Place>> {
        self.node.as_deref().map(Place::of_node).transpose()
    }

    pub(super) fn is_given(&self) -> bool {
        self.node.is_some()
    }
}

/// What the agent there answers to a path of its API; `what` names it in errors.
pub(super) fn document<T: DeserializeOwned>(place: &Place, path: &str, what: &str) -> Result<T> {
    let json = answered(place, fetch(place, path), what)?;
    let read = room::from_slice(&json);
    Ok(read.map_err(|source| InvalidAnswer { address: place.to_string(), source })?)
}

/// What was answered; an error tells what was asked for, `what`.
pub(super) fn answered(place: &Place, answer: Result<Fetched>, what: &str) -> Result<Vec<u8>> {
    match answer.with_context(|| format!("cannot ask {place} for {what}"))? {
        Fetched::Document(json) => Ok(json),
        Fetched::NotYet => {
            bail!("the agent on {place} is starting, or answers another question: ask again")
        }
        Fetched::NoAgent => bail!("no agent listens on {place}; start one with `isobar run`"),
    }
}
