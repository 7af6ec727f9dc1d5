//! promtool, by which metrics and alert rules are tested: it comes with Debian's Prometheus, which is
//! unpacked and not installed, because it would start as a service.

use std::path::PathBuf;

use anyhow::Result;
use isobar_lab::shell::{found, step};

use super::archive::Archive;
use crate::cache::Cache;

const NAME: &str = "prometheus";

/// Finds it, or fetches it.
pub(super) fn ready(cache: &Cache) -> Result<PathBuf> {
    if let Some(promtool) = found("promtool") {
        return Ok(promtool);
    }
    let kept = match cache.kept(NAME) {
        Some(kept) => kept,
        None => fetch(cache)?,
    };
    Ok(kept.join("usr/bin/promtool"))
}

fn fetch(cache: &Cache) -> Result<PathBuf> {
    let archive = Archive::open(cache)?;
    let package = [NAME.to_owned()];
    if archive.names("^prometheus$")? != package {
        archive.update()?;
    }
    step("promtool", || cache.keep(NAME, |dir| archive.unpack(&package, dir)))
}
