//! What builds the page: Node and npm from Debian, and what dashboards/web/package-lock.json names.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use isobar_lab::shell::{found, quietly, root, step};

use super::apt;

/// The directory of the page, in which npm can run its scripts.
pub(crate) fn ready() -> Result<PathBuf> {
    if found("node").is_none() || found("npm").is_none() {
        apt::install(&["nodejs", "npm"], "the page is bundled with Node")?;
    }
    let web = root().join("dashboards/web");
    if !is_fetched(&web) {
        step("npm ci", || {
            let mut npm = Command::new("npm");
            quietly(npm.current_dir(&web).args(["ci", "--no-audit", "--no-fund"]))
        })
        .context("cannot fetch what builds the page")?;
    }
    Ok(web)
}

/// npm notes what it has fetched; a lock file that is newer names something else.
fn is_fetched(web: &Path) -> bool {
    let written = |name: &str| web.join(name).metadata().and_then(|file| file.modified());
    match (written("node_modules/.package-lock.json"), written("package-lock.json")) {
        (Ok(fetched), Ok(locked)) => fetched >= locked,
        _ => false,
    }
}
