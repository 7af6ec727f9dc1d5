//! The command line: data on stdout, diagnostics on stderr, the error chain printed once.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    let code = match cli::run() {
        Ok(code) => code.into(),
        // The reader of the output has closed the pipe, as `head` does: not an error.
        Err(error) if cli::exit::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            cli::output::say(cli::exit::text_of(&error));
            cli::exit::code_of(&error).into()
        }
    };
    cli::log::flush();
    code
}
