//! The two halves of isobar: the kernel side as one eBPF object, and the agent that carries it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use isobar_lab::machine::Programs;

use crate::setup::Toolchain;
use isobar_lab::shell::{loudly, root};

/// The target of programs that must run without shared libraries, as the guest has none.
const HOST: &str = "x86_64-unknown-linux-gnu";

/// The environment variable by which the agent's build finds the kernel side.
const OBJECT: &str = "ISOBAR_EBPF_OBJECT";

/// Builds the kernel side and returns the object file.
pub(crate) fn object(toolchain: &Toolchain) -> Result<PathBuf> {
    let target = root().join("target/ebpf");
    let arch = std::env::consts::ARCH;
    let flags = [
        format!("--cfg=bpf_target_arch=\"{arch}\""),
        "-Cdebuginfo=2".into(),
        "-Clink-arg=--btf".into(),
        // Atomics that return the old value; kernels have them since 5.12.
        "-Ctarget-cpu=v3".into(),
    ];
    let mut cargo = toolchain.cargo()?;
    cargo.current_dir(root()).env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    cargo.args(["build", "--release", "--package", "isobar-ebpf", "--bin", "isobar-probes"]);
    cargo.args(["--features", "programs", "--target", "bpfel-unknown-none"]);
    cargo.args(["-Z", "build-std=core", "--target-dir"]).arg(&target);
    loudly(&mut cargo).context("the kernel side does not build")?;
    Ok(target.join("bpfel-unknown-none/release/isobar-probes"))
}

/// Cargo as the developer has it, on the workspace, with the kernel side for the agent to carry.
pub(crate) fn cargo(object: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root()).env(OBJECT, object);
    cargo
}

/// Builds the agent for this machine.
pub(crate) fn agent(object: &Path) -> Result<PathBuf> {
    let target = root().join("target");
    let mut cargo = cargo(object);
    cargo.args(["build", "--release", "--package", "isobar", "--target-dir"]).arg(&target);
    loudly(&mut cargo).context("the agent does not build")?;
    Ok(target.join("release/isobar"))
}

/// Builds what runs in a guest. With glibc, because musl's target cannot be had everywhere.
pub(crate) fn for_guests(object: &Path) -> Result<Programs> {
    let target = root().join("target/static");
    let mut cargo = cargo(object);
    cargo.env("RUSTFLAGS", "-Ctarget-feature=+crt-static").env_remove("CARGO_ENCODED_RUSTFLAGS");
    // Debug information would be most of what the guest unpacks into its memory.
    cargo.env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo").env("CARGO_PROFILE_RELEASE_LTO", "off");
    cargo.args(["build", "--release", "--package", "isobar", "--package", "isobar-lab"]);
    cargo.args(["--bins", "--target", HOST, "--target-dir"]).arg(&target);
    loudly(&mut cargo).context("the guest's programs do not build")?;
    let dir = target.join(HOST).join("release");
    Ok(Programs { isobar: dir.join("isobar"), lab: dir.join("lab") })
}
