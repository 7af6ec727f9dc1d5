//! `cargo xtask setup`: fetches and builds whatever the other verbs need, which they also do by
//! themselves. What is already there costs nothing and is not mentioned.

mod apt;
mod archive;
pub(crate) mod ebpf;
mod emulator;
mod fuzzer;
pub(crate) mod kernels;
mod machine;
mod modules;
mod musl;
mod page;
mod peers;
mod promtool;
mod schemas;

use std::process::ExitCode;

use anyhow::Result;

use isobar_lab::machine::{Machine, Series};

pub(crate) use ebpf::{Toolchain, ready as toolchain};
pub(crate) use emulator::ready as emulator;
pub(crate) use fuzzer::{Fuzzer, ready as fuzzer};
pub(crate) use kernels::ready as kernel;
pub(crate) use musl::{Musl, ready as musl};
pub(crate) use page::ready as page;
pub(crate) use peers::ready as peers;
pub(crate) use promtool::ready as promtool;
pub(crate) use schemas::ready as schemas;

/// Fetch and build what the other verbs need.
#[derive(clap::Args)]
pub(crate) struct Setup {}

impl Setup {
    pub(crate) fn run(self) -> Result<ExitCode> {
        println!("eBPF toolchain: {}", toolchain()?);
        let machine = machine::ready()?;
        println!("virtual machine: {}", machine.qemu.display());
        for series in Series::ALL {
            let kernel = kernel(series)?;
            println!("kernel {series}: {}", kernel.release);
        }
        println!("kept in {}", machine.cache.display());
        Ok(ExitCode::SUCCESS)
    }
}

/// A browser and its driver.
pub(crate) fn browser() -> Result<()> {
    apt::install(&["chromium", "chromium-driver"], "the page is tested in a real browser")
}

/// The tools that a context switch's price is compared with, installed.
pub(crate) fn observers() -> Result<()> {
    apt::install(&["libbpf-tools", "bpftrace"], "runqlat is what isobar's price is measured by")
}

/// What a virtual machine is made of but for its kernel, made ready.
pub(crate) fn machine() -> Result<Machine> {
    let no = |why| eprintln!("left out: alert rules over what machines serve: {why:#}");
    let promtool = promtool().map_err(no).ok();
    Ok(Machine { promtool, ..machine::ready()? })
}
