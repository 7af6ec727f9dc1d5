//! Incidents of a running agent, by its API: of this node or, through the API server, of another.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use isobar::record::incident::shelf::Draft;
use isobar::record::incident::{Incident, is_name};
use isobar::serve::address::Address;
use serde::Deserialize;

use crate::cli::ask::{Place, fetch_file};
use crate::cli::elsewhere::{answered, document};
use crate::cli::exit::Refused;

#[derive(Debug, clap::Args)]
pub(super) struct Elsewhere {
    /// The recording as other verbs take it, in place of --dir.
    #[arg(id = "recording", short = 'f', long = "file", value_name = "DIR|FILE")]
    pub(super) file: Option<PathBuf>,
    /// Ask the agent at this address, or at its socket file as unix:PATH, instead of reading files.
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["dir", "recording"])]
    agent: Option<Address>,
    /// Ask the agent of this node of a cluster, through the API server that kubectl talks to.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["agent", "dir", "recording"])]
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
        if let Some(node) = &self.node {
            return Ok(Some(Place::of_node(node)?));
        }
        Ok(self.agent.clone().map(Place::Address))
    }
}

/// All incidents, oldest first, without what only one at a time is asked for.
pub(super) fn list(place: &Place) -> Result<Vec<Incident>> {
    let All { mut incidents } = document(place, "/api/v1/incidents", "incidents")?;
    incidents.reverse();
    Ok(incidents)
}

/// One incident, by a name that the agent has told.
pub(super) fn one(place: &Place, name: &str) -> Result<Incident> {
    Ok(document::<One>(place, &path_of(place, name)?, "incidents")?.incident)
}

/// The ticks of one, by a name that the agent has told.
pub(super) fn file(place: &Place, name: &str) -> Result<File> {
    let path = path_of(place, name)? + "/file";
    let bytes = answered(place, fetch_file(place, &path), "incidents")?;
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
