//! Incidents of a running agent, by its API: of this node or, through the API server, of another.

use std::fs::File;
use std::io::{Seek as _, Write as _};

use anyhow::{Context as _, Result, bail};
use isobar::record::incident::shelf::Draft;
use isobar::record::incident::{Incident, is_name};
use isobar::serve::address::Address;
use serde::Deserialize;

use crate::cli::ask::{Fetched, Place, fetch, fetch_file};
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
    let json = ask(place, &path_of(place, name)?)?;
    Ok(parsed::<One>(place, &json)?.incident)
}

/// The ticks of one, by a name that the agent has told.
pub(super) fn file(place: &Place, name: &str) -> Result<File> {
    let path = path_of(place, name)? + "/file";
    let bytes = answered(place, fetch_file(place, &path))?;
    let mut file = Draft::in_memory()?.file;
    file.write_all(&bytes)
        .and_then(|()| file.rewind())
        .context("cannot keep the file in memory")?;
    Ok(file)
}

fn path_of(place: &Place, name: &str) -> Result<String> {
    if !is_name(name) {
        bail!(Refused(format!("{place} has an incident without a usable name")));
    }
    Ok(format!("/api/v1/incidents/{name}"))
}

fn parsed<'a, T: Deserialize<'a>>(place: &Place, json: &'a [u8]) -> Result<T> {
    let read = serde_json::from_slice(json);
    Ok(read.map_err(|source| InvalidAnswer { address: place.to_string(), source })?)
}

fn ask(place: &Place, path: &str) -> Result<Vec<u8>> {
    answered(place, fetch(place, path))
}

fn answered(place: &Place, answer: Result<Fetched>) -> Result<Vec<u8>> {
    match answer.with_context(|| format!("cannot ask {place} for incidents"))? {
        Fetched::Document(json) => Ok(json),
        Fetched::NotYet => bail!("the agent on {place} is starting: ask again once it runs"),
        Fetched::NoAgent => bail!("no agent listens on {place}; start one with `isobar run`"),
    }
}
