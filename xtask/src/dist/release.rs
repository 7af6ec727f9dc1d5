//! What all artefacts of a release say of it.

use std::process::Command;

use anyhow::{Context as _, Result};
use isobar_lab::shell::{quietly, root};

pub(super) const DESCRIPTION: &str =
    "eBPF-assisted pressure monitor and evictor for Linux nodes and Kubernetes";
/// Of the agent, and of the eBPF programs that it carries.
pub(super) const LICENCE: &str = "(MIT OR Apache-2.0) AND (GPL-2.0-only OR MIT)";

/// The commit outside a clone.
pub(super) const UNKNOWN: &str = "unknown";

/// Version, commit and time.
pub(super) struct Release {
    pub(super) version: &'static str,
    pub(super) commit: String,
    /// Seconds since 1970: SOURCE_DATE_EPOCH, or the commit's, so that the same source gives the
    /// same bytes.
    pub(super) epoch: u64,
}

impl Release {
    /// That of the source which this program was built from.
    pub(super) fn of_source() -> Result<Self> {
        let git = |format: &str| {
            let mut git = Command::new("git");
            quietly(git.current_dir(root()).args(["log", "-1", format]))
                .map(|out| out.trim().to_owned())
        };
        let epoch = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(given) => given,
            Err(_) => git("--format=%ct").context("set SOURCE_DATE_EPOCH: this is no git clone")?,
        };
        let epoch = epoch.parse().with_context(|| format!("SOURCE_DATE_EPOCH is {epoch:?}"))?;
        let commit = git("--format=%H").unwrap_or_else(|_| UNKNOWN.into());
        Ok(Self { version: env!("CARGO_PKG_VERSION"), commit, epoch })
    }

    /// The time as RFC 3339 has it.
    pub(super) fn time(&self) -> Result<String> {
        self.date("+%FT%TZ")
    }

    /// The time in the form that `date` is given.
    pub(super) fn date(&self, format: &str) -> Result<String> {
        let mut date = Command::new("date");
        date.env("LC_ALL", "C").args(["-u", "-d", &format!("@{}", self.epoch), format]);
        Ok(quietly(&mut date)?.trim().to_owned())
    }

    #[cfg(test)]
    pub(super) fn made_up() -> Self {
        Self { version: "1.2.3-rc.1", commit: "c0ffee".into(), epoch: 1_700_000_000 }
    }
}
