//! The command line: data on stdout, diagnostics on stderr, the error chain printed once.

mod cli;

use std::process::ExitCode;

use clap::Parser as _;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(cli::terminal::colours_on_stderr())
        .with_env_filter(
            EnvFilter::try_from_env("ISOBAR_LOG").unwrap_or_else(|_| EnvFilter::new("info")),
        )
        .init();
    match cli::dispatch(cli::Cli::parse()) {
        Ok(code) => code.into(),
        // Whoever read our output has gone, as `head` does: nothing is wrong.
        Err(error) if cli::exit::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", cli::exit::text_of(&error));
            cli::exit::code_of(&error).into()
        }
    }
}
