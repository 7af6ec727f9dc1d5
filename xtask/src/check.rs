//! `cargo xtask check`: what needs neither root nor a virtual machine.

use std::process::ExitCode;

use anyhow::Result;

use crate::build;
use isobar_lab::shell::loudly;

/// Formatting, lints, unit tests and those that need no root: the quick look before a commit.
#[derive(clap::Args)]
pub(crate) struct Check {}

impl Check {
    pub(crate) fn run(self) -> Result<ExitCode> {
        for args in [
            &["fmt", "--all", "--check"][..],
            &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"],
            &["test", "--workspace", "--quiet", "--lib", "--bins", "--test", "pure"],
        ] {
            loudly(build::cargo().args(args))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
