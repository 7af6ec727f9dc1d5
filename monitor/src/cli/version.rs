//! `isobar version`: this binary, what is in it, and the kernel that it runs on.

use std::env::consts::ARCH;
use std::io::{self, Write};

use anyhow::Result;
use isobar::serve::metrics::COMMIT;
use isobar::source::kernel::{OBJECT_LICENSE, object};
use isobar_core::view::API_VERSION;
use rustix::system::uname;
use serde::Serialize;

use super::exit::Code;
use super::output::Format;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Output format; table is one line.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// What this binary was built with.
const FEATURES: &[&str] = &["kubernetes"];

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Document {
    api_version: &'static str,
    kind: &'static str,
    version: &'static str,
    /// `None` if it is not known.
    commit: Option<&'static str>,
    architecture: &'static str,
    features: &'static [&'static str],
    /// `None` if the build embedded none.
    ebpf_object: Option<Object>,
    /// The release of the running kernel.
    kernel: String,
}

/// The eBPF programs that are in the binary.
#[derive(Debug, Serialize)]
struct Object {
    /// Bytes.
    size: usize,
    sha256: &'static str,
    license: &'static str,
}

pub(crate) fn run(args: &Args) -> Result<Code> {
    let document = document();
    args.output.print(&document, |out| Ok(write(out, &document, args.output)?))?;
    Ok(Code::Ok)
}

pub(super) fn document() -> Document {
    Document {
        api_version: API_VERSION,
        kind: "Version",
        version: VERSION,
        commit: COMMIT,
        architecture: ARCH,
        features: FEATURES,
        ebpf_object: object().map(|(size, sha256)| Object {
            size,
            sha256,
            license: OBJECT_LICENSE,
        }),
        kernel: uname().release().to_string_lossy().into_owned(),
    }
}

fn write(out: &mut dyn Write, document: &Document, output: Format) -> io::Result<()> {
    let commit = document.commit.map(|commit| format!("commit {commit}, ")).unwrap_or_default();
    writeln!(out, "isobar {VERSION} ({commit}{ARCH}, api {API_VERSION})")?;
    if !output.is_wide() {
        return Ok(());
    }
    match &document.ebpf_object {
        Some(Object { size, sha256, license }) => {
            writeln!(out, "eBPF object  {size} bytes, {license}, sha256 {sha256}")?;
        }
        None => writeln!(out, "eBPF object  not built")?,
    }
    writeln!(out, "features     {}", FEATURES.join(", "))?;
    writeln!(out, "kernel       {}", document.kernel)
}
