//! Attaches one empty program to context switches, says so, and holds it until standard input ends:
//! what any attached program costs on a machine. `cargo xtask bench switch` compares isobar with it.

use std::io::{Read as _, Write as _, stdin, stdout};

use anyhow::{Context as _, Result, ensure};
use isobar::source::kernel::{Kernel, Options, Probes};
use isobar::source::{Roots, Sampler};
use isobar_core::model::capability::CapabilityState;
use isobar_core::model::units::Percent;

fn main() -> Result<()> {
    let host = Sampler::open(&Roots::default())?.host();
    let options = Options { probes: Probes::Empty, max_cgroups: 1, budget: Percent::FULL };
    let kernel = Kernel::attach(options, host)?;
    let report = kernel.capabilities();
    let is_there = |name: &str| {
        let mut programs = report.iter().filter(|one| one.name.starts_with(name));
        programs.any(|one| one.state == CapabilityState::Attached)
    };
    ensure!(is_there("sched_switch"), "not attached to context switches: {report:?}");
    println!("attached");
    stdout().flush()?;
    stdin().read_to_end(&mut Vec::new()).context("cannot wait for the end of standard input")?;
    Ok(())
}
