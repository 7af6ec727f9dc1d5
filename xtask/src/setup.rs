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

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use isobar_lab::machine::{Kernel, Machine, Series};

use crate::cache::Cache;
use crate::dist::target::Target;

pub(crate) use ebpf::Toolchain;
pub(crate) use fuzzer::Fuzzer;
pub(crate) use musl::Musl;

/// Fetch and build what the other verbs need.
#[derive(clap::Args)]
pub(crate) struct Setup {}

impl Setup {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let cache = Cache::open()?;
        let toolchain = ebpf::ready(&cache)?;
        println!("eBPF toolchain: {toolchain}");
        let machine = machine::ready(&cache)?;
        println!("virtual machine: {}", machine.qemu.display());
        for series in Series::ALL {
            let kernel = kernels::ready(&cache, series)?;
            println!("kernel {series}: {}", kernel.release);
        }
        println!("kept in {}", cache.root().display());
        Ok(ExitCode::SUCCESS)
    }
}

/// The eBPF toolchain, made ready.
pub(crate) fn toolchain() -> Result<Toolchain> {
    ebpf::ready(&Cache::open()?)
}

/// A browser and its driver.
pub(crate) fn browser() -> Result<()> {
    apt::install(&["chromium", "chromium-driver"], "the page is tested in a real browser")
}

/// The directory of the page, with what builds it.
pub(crate) fn page() -> Result<PathBuf> {
    page::ready()
}

/// What tests metrics and alert rules.
pub(crate) fn promtool() -> Result<PathBuf> {
    promtool::ready(&Cache::open()?)
}

/// What checks manifests against the API's schemas: a Python that has it.
pub(crate) fn schemas() -> Result<PathBuf> {
    schemas::ready(&Cache::open()?)
}

/// What builds the fuzz targets.
pub(crate) fn fuzzer() -> Result<Fuzzer> {
    fuzzer::ready(&Cache::open()?)
}

/// The tools that a context switch's price is compared with, installed.
pub(crate) fn observers() -> Result<()> {
    apt::install(&["libbpf-tools", "bpftrace"], "runqlat is what isobar's price is measured by")
}

/// What builds static binaries for `target`.
pub(crate) fn musl(target: Target) -> Result<Musl> {
    musl::ready(&Cache::open()?, target)
}

/// What runs programs of `target`, another architecture than this machine's.
pub(crate) fn emulator(target: Target) -> Result<PathBuf> {
    emulator::ready(&Cache::open()?, target)
}

/// What a virtual machine is made of but for its kernel, made ready.
pub(crate) fn machine() -> Result<Machine> {
    let cache = Cache::open()?;
    let no = |why| eprintln!("left out: alert rules over what machines serve: {why:#}");
    let promtool = promtool::ready(&cache).map_err(no).ok();
    Ok(Machine { promtool, ..machine::ready(&cache)? })
}

/// The disk with the agents that isobar is compared with, made ready.
pub(crate) fn peers() -> Result<PathBuf> {
    peers::ready(&Cache::open()?)
}

/// A kernel to boot, made ready.
pub(crate) fn kernel(series: Series) -> Result<Kernel> {
    kernels::ready(&Cache::open()?, series)
}
