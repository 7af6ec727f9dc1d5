//! Puts the kernel side into the agent: the object that `ISOBAR_EBPF_OBJECT` names, or an empty
//! one, with which the agent says "kernel probes not built".

use std::path::PathBuf;
use std::{env, fs};

const WITHOUT: [&str; 3] = [
    "THIS ISOBAR HAS NO KERNEL SIDE (ISOBAR_EBPF_OBJECT is not set).",
    "It sees pressure and files only: not who makes whom wait, nor contention apart from limits.",
    "Build it with `cargo xtask dist` or `cargo xtask run` instead: docs/install.md.",
];

fn main() {
    println!("cargo::rerun-if-env-changed=ISOBAR_EBPF_OBJECT");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("probes.o");
    let Some(object) = env::var_os("ISOBAR_EBPF_OBJECT") else {
        fs::write(&out, b"").expect("OUT_DIR is writable");
        // Only where a binary is made to be used, as by `cargo install`: cargo repeats warnings in
        // each run, and checks and tests need no kernel side.
        if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
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
