//! `cargo xtask check`: what needs neither root nor a virtual machine.

use std::process::{Command, ExitCode};

use anyhow::Result;

use isobar_lab::shell::{loudly, root};

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
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            loudly(Command::new(cargo).current_dir(root()).args(args))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
