//! Incidents of a running agent, by its API: of this node or, through the API server, of another.

use anyhow::{Context as _, Result, bail};
use isobar::record::incident::{Incident, is_name};
use isobar::serve::address::Address;
use serde::Deserialize;

use crate::cli::ask::{Fetched, Place, fetch};
use crate::cli::exit::{InvalidAnswer, Refused};

#[derive(Debug, clap::Args)]
pub(super) struct Elsewhere {
    /// Ask the agent at this address, or at its socket file as unix:PATH, instead of reading files.
    #[arg(long, value_name = "ADDR", conflicts_with = "dir")]
    agent: Option<Address>,
    /// Ask the agent of this node of a cluster, through the API server that kubectl talks to.
    #[cfg(feature = "kubernetes")]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["agent", "dir"])]
    node: Option<String>,
}

#[derive(Deserialize)]
struct All {
    incidents: Vec<Incident>,
}

#[derive(Deserialize)]
struct One {
    incident: Incident,
}

impl Elsewhere {
    /// The agent that is meant; `None` for files.
    pub(super) fn place(&self) -> Result<Option<Place>> {
        #[cfg(feature = "kubernetes")]
        if let Some(node) = &self.node {
            return Ok(Some(Place::of_node(node)?));
        }
        Ok(self.agent.clone().map(Place::Address))
    }
}

/// All incidents, oldest first, without what only one at a time is asked for.
pub(super) fn list(place: &Place) -> Result<Vec<Incident>> {
    let json = ask(place, "/api/v1/incidents")?;
    let All { mut incidents } = parsed(place, &json)?;
    incidents.reverse();
    Ok(incidents)
}

/// One incident, by a name that the agent has told.
pub(super) fn one(place: &Place, name: &str) -> Result<Incident> {
    if !is_name(name) {
        bail!(Refused(format!("{place} has an incident without a usable name")));
    }
    let json = ask(place, &format!("/api/v1/incidents/{name}"))?;
    Ok(parsed::<One>(place, &json)?.incident)
}

fn parsed<'a, T: Deserialize<'a>>(place: &Place, json: &'a [u8]) -> Result<T> {
    let read = serde_json::from_slice(json);
    Ok(read.map_err(|source| InvalidAnswer { address: place.to_string(), source })?)
}

fn ask(place: &Place, path: &str) -> Result<Vec<u8>> {
    match fetch(place, path).with_context(|| format!("cannot ask {place} for incidents"))? {
        Fetched::Document(json) => Ok(json),
        Fetched::NotYet => bail!("the agent on {place} is starting: ask again once it runs"),
        Fetched::NoAgent => bail!("no agent listens on {place}; start one with `isobar run`"),
    }
}
