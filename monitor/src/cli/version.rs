//! `isobar version`.

use std::env::consts::ARCH;
use std::io::{self, Write as _};

use anyhow::Result;
use isobar::serve::document::API_VERSION;
use serde_json::json;

use super::exit::Code;
use super::output::{Plain, pretty};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// In which form.
    #[arg(short, long, value_enum, default_value_t = Plain::Table)]
    output: Plain,
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) fn run(args: &Args) -> Result<Code> {
    let mut out = io::stdout().lock();
    match args.output {
        Plain::Table => writeln!(out, "isobar {VERSION} ({ARCH}, api {API_VERSION})")?,
        Plain::Json => {
            let version = json!({
                "apiVersion": API_VERSION, "kind": "Version",
                "version": VERSION, "architecture": ARCH,
            });
            pretty(&mut out, &version)?;
        }
    }
    Ok(Code::Ok)
}
