//! The two halves of isobar: the kernel side as one eBPF object, and the agent that carries it.

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use isobar_lab::machine::Programs;

use crate::setup::{Musl, Toolchain};
use isobar_lab::shell::{loudly, quietly, root};

/// The target of programs that must run without shared libraries, as the guest has none.
const HOST: &str = "x86_64-unknown-linux-gnu";

/// The environment variable by which the agent's build finds the kernel side.
const OBJECT: &str = "ISOBAR_EBPF_OBJECT";
/// And by which it finds what keeps code apart that an agent hardly runs; for rustc's own linker.
const SCRIPT: &str = "ISOBAR_LINKER_SCRIPT";

/// Builds the kernel side for this machine and returns the object file.
pub(crate) fn object(toolchain: &Toolchain) -> Result<PathBuf> {
    object_for(toolchain, ARCH)
}

/// Builds the kernel side for machines of the architecture `arch`.
pub(crate) fn object_for(toolchain: &Toolchain, arch: &str) -> Result<PathBuf> {
    let dir = if arch == ARCH { "target/ebpf".into() } else { format!("target/ebpf-{arch}") };
    let target = root().join(dir);
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

/// Cargo as the developer has it, on the workspace.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    cargo
}

/// The same, with the kernel side for the agent to carry.
pub(crate) fn cargo_with(object: &Path) -> Command {
    let mut cargo = cargo();
    cargo.env(OBJECT, object);
    cargo
}

/// Builds the agent for this machine.
pub(crate) fn agent(object: &Path) -> Result<PathBuf> {
    let target = root().join("target");
    let mut cargo = cargo_with(object);
    cargo.args(["build", "--release", "--package", "isobar", "--target-dir"]).arg(&target);
    loudly(&mut cargo).context("the agent does not build")?;
    Ok(target.join("release/isobar"))
}

/// Builds the stand-in API server for this machine.
pub(crate) fn api_server() -> Result<PathBuf> {
    let target = root().join("target");
    let mut cargo = cargo();
    cargo.args(["build", "--release", "--package", "isobar-apistub"]);
    loudly(cargo.arg("--target-dir").arg(&target)).context("the API server does not build")?;
    Ok(target.join("release/isobar-apistub"))
}

/// Builds the agent as it is released: one static binary, with what `object` holds for the kernel.
pub(crate) fn released(object: &Path, musl: &Musl) -> Result<PathBuf> {
    let triple = musl.target.triple();
    let mut cargo = release(object, musl, &["build"])?;
    loudly(&mut cargo).with_context(|| format!("the agent does not build for {triple}"))?;
    Ok(root().join("target/musl").join(triple).join("dist/isobar"))
}

/// Cargo, told to build as for a release and, with another command than `build`, to run.
pub(crate) fn release(object: &Path, musl: &Musl, command: &[&str]) -> Result<Command> {
    let (target, triple) = (root().join("target/musl"), musl.target.triple());
    let sysroot = quietly(Command::new("rustc").args(["--print", "sysroot"]))?;
    let tools = tools(Path::new(sysroot.trim()))?;
    let slim = target.join(format!("{}-probes.o", musl.target));
    strip(object, &slim, &tools, Path::new(sysroot.trim()))?;
    let mut cargo = cargo_with(&slim);
    cargo.envs(musl.env.iter().map(|(name, value)| (name, value)));
    // Panics name the file they come from: not by where this machine keeps its sources.
    let cargo_home = std::env::var("CARGO_HOME").or_else(|_| {
        std::env::var("HOME").map(|home| format!("{home}/.cargo")).context("HOME is not set")
    })?;
    let mut flags = [(root().display().to_string(), "isobar"), (cargo_home, "cargo")]
        .map(|(from, to)| format!("--remap-path-prefix={from}={to}"))
        .to_vec();
    // rustc's own linker folds functions of the same code and packs relocations: a tenth of the file.
    let linker = tools.join("gcc-ld");
    if linker.join("ld.lld").is_file() {
        flags.extend([
            format!("-Clink-arg=-B{}", linker.display()),
            "-Clink-arg=-fuse-ld=lld".into(),
            "-Clink-arg=-Wl,--icf=all,--pack-dyn-relocs=relr".into(),
        ]);
        cargo.env(SCRIPT, root().join("monitor/cold.ld"));
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    cargo.args(command).args(["--locked", "--profile", "dist", "--package", "isobar"]);
    cargo.args(["--target", triple, "--target-dir"]).arg(&target);
    Ok(cargo)
}

/// Where rustc keeps the LLVM tools that it comes with.
fn tools(sysroot: &Path) -> Result<PathBuf> {
    let about = quietly(Command::new("rustc").arg("-vV"))?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc does not say what it builds for")?;
    Ok(sysroot.join("lib/rustlib").join(host).join("bin"))
}

/// Copies the eBPF object without what only a debugger reads, nine tenths of it. BTF stays. An
/// object that is the same is left alone, for cargo would build the agent anew.
fn strip(object: &Path, slim: &Path, tools: &Path, sysroot: &Path) -> Result<()> {
    fs::create_dir_all(slim.parent().unwrap_or(root()))?;
    let (objcopy, new) = (tools.join("rust-objcopy"), slim.with_extension("new"));
    if objcopy.is_file() {
        let mut objcopy = Command::new(objcopy);
        objcopy.env("LD_LIBRARY_PATH", sysroot.join("lib"));
        quietly(objcopy.arg("--strip-debug").args([object, &new]))?;
    } else {
        eprintln!("left out: stripping the eBPF object, for this rustc comes without rust-objcopy");
        fs::copy(object, &new)?;
    }
    if fs::read(slim).ok() != Some(fs::read(&new)?) {
        fs::rename(&new, slim)?;
    }
    Ok(())
}

/// Builds what runs in a guest. With glibc, because musl's target cannot be had everywhere.
pub(crate) fn for_guests(object: &Path) -> Result<Programs> {
    let target = root().join("target/static");
    let mut cargo = cargo_with(object);
    cargo.env("RUSTFLAGS", "-Ctarget-feature=+crt-static").env_remove("CARGO_ENCODED_RUSTFLAGS");
    // Debug information would be most of what the guest unpacks into its memory.
    cargo.env("CARGO_PROFILE_RELEASE_DEBUG", "0").env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
    cargo.env("CARGO_PROFILE_RELEASE_LTO", "off");
    cargo.args(["build", "--release", "--package", "isobar", "--package", "isobar-lab"]);
    cargo.args(["--bins", "--target", HOST, "--target-dir"]).arg(&target);
    loudly(&mut cargo).context("the guest's programs do not build")?;
    let dir = target.join(HOST).join("release");
    Ok(Programs { isobar: dir.join("isobar"), lab: dir.join("lab") })
}
