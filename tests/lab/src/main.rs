//! What runs inside a virtual machine beside the agent: the player of scenarios, and their loads.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use isobar_lab::guest::Guest;
use isobar_lab::load::Load;

/// Plays scenarios in a virtual machine.
#[derive(Parser)]
#[command(name = "lab")]
enum Verb {
    Guest(Guest),
    Load(Load),
}

fn main() -> ExitCode {
    let done: Result<ExitCode> = match Verb::parse() {
        Verb::Guest(guest) => guest.run().map(|()| ExitCode::SUCCESS),
        Verb::Load(load) => load.run(),
    };
    done.unwrap_or_else(|why| {
        eprintln!("error: {why:#}");
        ExitCode::FAILURE
    })
}
