//! promtool, by which metrics and alert rules are tested: it comes with Debian's Prometheus, which is
//! unpacked and not installed, because it would start as a service.

use std::path::PathBuf;

use anyhow::Result;
use isobar_lab::shell::found;

use super::archive::{GUESTS, unpacked};

/// Finds it, or fetches it.
pub(crate) fn ready() -> Result<PathBuf> {
    if let Some(promtool) = found("promtool") {
        return Ok(promtool);
    }
    Ok(unpacked("prometheus", "prometheus", GUESTS)?.join("usr/bin/promtool"))
}
