//! The command line: data on stdout, diagnostics on stderr, the error chain printed once.

mod cli;

use std::io::{self, Write as _};
use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::run() {
        Ok(code) => code.into(),
        // The reader of the output has closed the pipe, as `head` does: not an error.
        Err(error) if cli::exit::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Where stderr is closed nobody reads it; `eprintln!` would panic.
            let _ = writeln!(io::stderr(), "{}", cli::exit::text_of(&error));
            cli::exit::code_of(&error).into()
        }
    }
}
