//! Puts the kernel side into the agent: the object that `ISOBAR_EBPF_OBJECT` names, or an empty
//! one, with which the agent says "kernel probes not built".

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-env-changed=ISOBAR_EBPF_OBJECT");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("probes.o");
    let Some(object) = env::var_os("ISOBAR_EBPF_OBJECT") else {
        fs::write(&out, b"").expect("OUT_DIR is writable");
        return;
    };
    println!("cargo::rerun-if-changed={}", object.display());
    if let Err(error) = fs::copy(&object, &out) {
        panic!("ISOBAR_EBPF_OBJECT={}: {error}", object.display());
    }
}
