//! Puts the kernel side into the agent: the object that `ISOBAR_EBPF_OBJECT` names, or an empty
//! one, with which the agent says "kernel probes not built". Packs it, and the texts that the server
//! serves.
//! Names the commit that the agent is built from, and the object by its hash. Passes the linker's
//! script on that a release is linked with (cold.ld).

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

const WITHOUT: [&str; 3] = [
    "THIS ISOBAR HAS NO KERNEL SIDE (ISOBAR_EBPF_OBJECT is not set).",
    "It sees pressure and files only: not who makes whom wait, nor contention apart from limits.",
    "Build it with `cargo xtask dist` or `cargo xtask run` instead: docs/install.md.",
];

/// What the server serves as it is.
const TEXTS: [&str; 6] = [
    "../dashboards/web/dist/index.html",
    "../dashboards/web/dist/page.js",
    "../dashboards/web/dist/page.css",
    "../dashboards/web/dist/icon.svg",
    "../dashboards/web/dist/LICENSES.txt",
    "src/serve/openapi.json",
];

fn main() {
    embed();
    println!("cargo::rerun-if-env-changed=ISOBAR_LINKER_SCRIPT");
    if let Some(script) = env::var_os("ISOBAR_LINKER_SCRIPT") {
        let script = script.display();
        println!("cargo::rerun-if-changed={script}");
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{script}");
    }
    TEXTS.into_iter().map(Path::new).for_each(pack);
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
    const PACKED: &str = "probes.o";
    let Some(object) = env::var_os("ISOBAR_EBPF_OBJECT") else {
        write(PACKED.as_ref(), b"");
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
    let bytes = fs::read(&object)
        .unwrap_or_else(|error| panic!("ISOBAR_EBPF_OBJECT={}: {error}", object.display()));
    write(PACKED.as_ref(), &packed(&bytes));
    let sum: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    println!("cargo::rustc-env=ISOBAR_EBPF_SHA256={sum}");
    println!("cargo::rustc-env=ISOBAR_EBPF_BYTES={}", bytes.len());
}

fn pack(text: &Path) {
    println!("cargo::rerun-if-changed={}", text.display());
    let plain = fs::read(text).unwrap_or_else(|error| panic!("{}: {error}", text.display()));
    write(text.file_name().expect("it is a file"), &packed(&plain));
}

fn packed(plain: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    let packed = packed.write_all(plain).and_then(|()| packed.finish());
    packed.expect("writing to memory cannot fail")
}

fn write(name: &OsStr, bytes: &[u8]) {
    let out = env::var_os("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&out).join(name), bytes).expect("OUT_DIR is writable");
}
