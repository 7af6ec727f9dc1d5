//! `cargo xtask run`: builds everything and becomes the agent.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};

use crate::{build, setup};

/// Build isobar and run it here, with its page on http://127.0.0.1:9797 unless told otherwise.
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
        eprintln!("isobar: {}", self.page(env::var("ISOBAR_LISTEN").ok()));
        // Becomes the agent, so that signals and the exit code are the agent's own.
        let why = Command::new(&agent).arg("run").args(&self.args).exec();
        Err(why).with_context(|| format!("cannot start {}", agent.display()))
    }

    /// Where its page will be: by `--listen ADDR` or `--listen=ADDR` among what is passed on, else by
    /// ISOBAR_LISTEN of the environment.
    fn page(&self, of_environment: Option<String>) -> String {
        let mut args = self.args.iter();
        let given = args.find_map(|arg| arg.strip_prefix("--listen="));
        let at = self.args.iter().position(|arg| arg == "--listen");
        let apart = at.and_then(|i| self.args.get(i + 1)).map(String::as_str);
        let address = given.or(apart).or(of_environment.as_deref()).unwrap_or("127.0.0.1:9797");
        match address.starts_with("unix:") {
            true => address.to_owned(),
            false => format!("http://{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_where_the_agent_will_listen() {
        #[rustfmt::skip]
        let table: [(&[&str], Option<&str>, &str); 6] = [
            // passed on, ISOBAR_LISTEN, page
            (&[],                              None,                 "http://127.0.0.1:9797"),
            (&[],                              Some("127.0.0.1:81"), "http://127.0.0.1:81"),
            (&["--listen", "127.0.0.1:80"],    Some("127.0.0.1:81"), "http://127.0.0.1:80"),
            (&["-x", "--listen=127.0.0.1:80"], None,                 "http://127.0.0.1:80"),
            (&["--listen", "unix:/run/a"],     None,                 "unix:/run/a"),
            (&[],                              Some("unix:/run/a"),  "unix:/run/a"),
        ];
        for (args, environment, want) in table {
            let run = Run { args: args.iter().map(|&arg| arg.to_owned()).collect() };
            assert_eq!(run.page(environment.map(str::to_owned)), want, "{args:?} {environment:?}");
        }
    }
}
