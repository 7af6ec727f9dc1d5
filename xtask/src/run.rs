//! `cargo xtask run`: builds everything and becomes the agent.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};

use crate::{build, setup};

/// Build isobar and run it here, with its page on http://127.0.0.1:9797.
#[derive(clap::Args)]
pub(crate) struct Run {
    /// Passed on to `isobar run`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

impl Run {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let object = build::object(&setup::toolchain()?)?;
        let agent = build::agent(&object)?;
        eprintln!("isobar: http://{}", self.address());
        // Becomes the agent, so that signals and the exit code are the agent's own.
        let why = Command::new(&agent).arg("run").args(&self.args).exec();
        Err(why).with_context(|| format!("cannot start {}", agent.display()))
    }

    /// Where its page will be: `--listen ADDR` or `--listen=ADDR` among what is passed on.
    fn address(&self) -> &str {
        let mut args = self.args.iter();
        let given = args.find_map(|arg| arg.strip_prefix("--listen="));
        let at = self.args.iter().position(|arg| arg == "--listen");
        let apart = at.and_then(|i| self.args.get(i + 1)).map(String::as_str);
        given.or(apart).unwrap_or("127.0.0.1:9797")
    }
}
