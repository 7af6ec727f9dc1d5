//! `isobar version`.

use std::env::consts::ARCH;

use anyhow::Result;
use isobar_core::view::API_VERSION;
use serde_json::json;

use super::exit::Code;
use super::output::Plain;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Plain::Table)]
    output: Plain,
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) fn run(args: &Args) -> Result<Code> {
    let version = json!({
        "apiVersion": API_VERSION, "kind": "Version", "version": VERSION, "architecture": ARCH,
    });
    args.output.print(&version, |out| {
        Ok(writeln!(out, "isobar {VERSION} ({ARCH}, api {API_VERSION})")?)
    })?;
    Ok(Code::Ok)
}
