//! `isobar replay --listen`: the page and the API of a recording.

use std::path::Path;

use anyhow::{Context as _, Result};
use isobar::agent::{self, AgentError, OpenError};
use isobar::record::incident::shelf::Shelf;
use isobar::serve::address::{Address, Listener};
use isobar::serve::film::Film;
use isobar::serve::listen::Server;
use isobar::serve::replaying;
use isobar_core::model::units::Nanos;
use tokio::runtime;

use super::super::at::{no_tick, recording_at};
use super::super::exit::Code;
use super::super::incidents::shelf_of;

/// Serves until the process is ended, or the server fails.
pub(super) fn serve(file: &Path, address: &Address, at: Option<Nanos>) -> Result<Code> {
    if !address.is_local() {
        tracing::warn!(
            listen = %address,
            "the page and the API have no authentication: any host that can connect can read them"
        );
    }
    let listener = agent::listen(address).map_err(OpenError::Agent)?;
    // Port 0 stands for any that is free.
    let place = match &listener {
        Listener::Tcp(listener) => format!("the page is at http://{}/", listener.local_addr()?),
        Listener::Unix(_) => format!("the API is at {address}"),
    };
    let incidents = Some(shelf_of(file)).filter(|shelf| shelf.is_dir());
    let incidents = incidents.map(|shelf| Shelf::in_dir(shelf).into());
    let file = recording_at(file);
    let film = Film::open(&file, at, incidents)?.ok_or_else(|| no_tick(&file))?;
    let failed = |why| OpenError::Agent(AgentError::Serve(why));
    let mut server = Server::begin(listener, replaying(film)).map_err(failed)?;
    tracing::info!("{place}");
    let waiting = runtime::Builder::new_current_thread().build().context("cannot start")?;
    let why = waiting.block_on(server.failed());
    Err(failed(why).into())
}
