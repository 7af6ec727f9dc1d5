//! Puts the kernel side into the agent: the object that `ISOBAR_EBPF_OBJECT` names, or an empty
//! one, with which the agent says "kernel probes not built". Names the commit that it is built from.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const WITHOUT: [&str; 3] = [
    "THIS ISOBAR HAS NO KERNEL SIDE (ISOBAR_EBPF_OBJECT is not set).",
    "It sees pressure and files only: not who makes whom wait, nor contention apart from limits.",
    "Build it with `cargo xtask dist` or `cargo xtask run` instead: docs/install.md.",
];

fn main() {
    embed();
    // Other builds would be made again after each commit.
    if is_optimised()
        && let Some(commit) = commit()
    {
        println!("cargo::rustc-env=ISOBAR_COMMIT={commit}");
    }
}

fn is_optimised() -> bool {
    env::var("PROFILE").is_ok_and(|profile| profile == "release")
}

/// `None` without git, and where this crate is a part of another repository.
fn commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("rev-parse").args(arguments).output().ok()?;
        let printed = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| printed.trim().to_owned())
    };
    if git(&["--show-prefix"])? != "monitor/" {
        return None;
    }
    for file in ["HEAD", "logs/HEAD"] {
        let path = git(&["--git-path", file])?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["--short=12", "HEAD"])
}

fn embed() {
    println!("cargo::rerun-if-env-changed=ISOBAR_EBPF_OBJECT");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("probes.o");
    let Some(object) = env::var_os("ISOBAR_EBPF_OBJECT") else {
        fs::write(&out, b"").expect("OUT_DIR is writable");
        // Only where a binary is made to be used, as by `cargo install`: cargo repeats warnings in
        // each run, and checks and tests need no kernel side.
        if is_optimised() {
            for line in WITHOUT {
                println!("cargo::warning={line}");
            }
        }
        return;
    };
    println!("cargo::rerun-if-changed={}", object.display());
    if let Err(error) = fs::copy(&object, &out) {
        panic!("ISOBAR_EBPF_OBJECT={}: {error}", object.display());
    }
}
