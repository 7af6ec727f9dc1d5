//! `cargo xtask test`: everything, from nothing. What CI runs is this and no more.

mod machines;
mod manifests;
mod tally;

use std::num::NonZero;
use std::process::{Command, ExitCode};
use std::thread::available_parallelism;

use anyhow::Result;

use crate::{build, setup};
use tally::Tally;

/// The environment variable by which tests find promtool.
const PROMTOOL: &str = "ISOBAR_PROMTOOL";

/// Set up, then run all tests: format, lints, tests here, scenarios in virtual machines.
#[derive(clap::Args)]
pub(crate) struct Test {
    /// Play everything, for nights and releases: all figures on all kernels, all overloads on 6.12.
    #[arg(long)]
    all: bool,
}

impl Test {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let mut tally = Tally::default();
        let object = build::object(&setup::toolchain()?)?;
        setup::browser()?;
        for args in [
            &["fmt", "--all", "--check"][..],
            &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"],
        ] {
            tally.command(build::cargo_with(&object).args(args));
        }
        match setup::page() {
            Ok(web) => tally.command(Command::new("npm").current_dir(web).args(["run", "check"])),
            Err(why) => tally.missing("npm run check", &format!("{why:#}")),
        }
        let promtool = setup::promtool();
        if let Err(why) = &promtool {
            tally.missing("promtool", &format!("{why:#}"));
        }
        let n_cpus = available_parallelism().map_or(1, NonZero::get);
        for (targets, threads) in [
            // Many of these wait for a timer: of the API client, of a page, of the kernel's averages.
            (&["--lib", "--bins", "--test", "pure"][..], 4 * n_cpus),
            // Those that need the CPUs wait for each other.
            (&["--test", "browser", "--test", "live"], 2 * n_cpus),
            (&["--doc"], n_cpus),
        ] {
            let mut cargo = build::cargo_with(&object);
            cargo.envs(promtool.iter().map(|path| (PROMTOOL, path)));
            tally.cargo_test(cargo, targets, threads)?;
        }
        match setup::schemas() {
            Ok(python) => manifests::check(&python, &mut tally),
            Err(why) => tally.missing("manifests against the API's schemas", &format!("{why:#}")),
        }
        let which = if self.all { machines::Which::All } else { machines::Which::Ordinary };
        machines::play(&object, which, &mut tally)?;
        println!("{tally}");
        Ok(if tally.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
