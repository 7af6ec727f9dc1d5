//! `isobar completion`, generated from the definitions of the verbs.

use std::io::{self, Write as _};

use anyhow::Result;
use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use super::Cli;
use super::exit::Code;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> Result<Code> {
    // Into memory first: the generator panics if its writer fails, as a closed pipe does.
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "isobar", &mut script);
    io::stdout().write_all(&script)?;
    Ok(Code::Ok)
}
