//! `cargo xtask dist`: what a release consists of. A static binary and a Debian package for each
//! architecture, one container image of both, what is in them, and the checksums of it all.

mod check;
mod deb;
mod digest;
mod installed;
mod oci;
mod readback;
mod release;
mod sbom;
pub(crate) mod target;
mod tree;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use isobar_lab::shell::root;

use crate::{build, setup};
use digest::sha256;
use release::Release;
use target::Target;

/// The checksums, as `sha256sum --check` reads them.
const SUMS: &str = "SHA256SUMS";

/// Build the artefacts of a release, and read them back.
#[derive(clap::Args)]
pub(crate) struct Dist {
    /// For which architecture; `all` leaves one out that cannot be built on this machine.
    #[arg(long, value_enum, default_value_t = Which::All)]
    target: Which,
    /// The directory, which is made anew.
    #[arg(long, default_value = "target/dist")]
    out: PathBuf,
    /// Build nothing, and read back what is in the directory.
    #[arg(long)]
    check: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Which {
    #[value(name = "x86_64")]
    X86,
    #[value(name = "aarch64")]
    Arm,
    All,
}

/// The binary of one architecture, and the file of the eBPF object in it.
struct Built {
    target: Target,
    binary: Vec<u8>,
    object: PathBuf,
}

impl Dist {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let out = root().join(&self.out);
        let release = Release::of_source()?;
        if !self.check {
            write(&out, self.target, &release)?;
        }
        check::run(&out, &release)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn write(out: &Path, which: Which, release: &Release) -> Result<()> {
    let here = Target::here().context("isobar is released for x86_64 and aarch64 alone")?;
    // Manual pages and completions come from the binary that runs here, whatever is asked for.
    let (own, path) = built(here)?;
    let shared = deb::Shared::collect(&path, release)?;
    let all = match which {
        Which::X86 => of_one(Target::X86, own)?,
        Which::Arm => of_one(Target::Arm, own)?,
        Which::All => of_all(own),
    };
    let mut files = Vec::new();
    for Built { target, binary, object } in &all {
        let bom = sbom::of(*target, binary, object, release)?;
        files.push((
            format!("{}.cdx.json", binary_name(*target, release)),
            serde_json::to_vec_pretty(&bom)?,
        ));
        files.push((
            deb::file_name(*target, release),
            deb::package(*target, binary, &shared, release)?,
        ));
    }
    let binaries: Vec<_> = all.into_iter().map(|built| (built.target, built.binary)).collect();
    let image = oci::Layout::of(&binaries, release)?;
    files.push((format!("{}.tar", image_name(release)), image.tar(release)?));
    files.extend(
        binaries.into_iter().map(|(target, binary)| (binary_name(target, release), binary)),
    );
    files.sort();
    let sums = files.iter().map(|(name, content)| format!("{}  {name}\n", sha256(content)));
    let sums: String = sums.collect();
    files.push((SUMS.into(), sums.into_bytes()));

    if out.exists() {
        fs::remove_dir_all(out).with_context(|| format!("cannot remove {}", out.display()))?;
    }
    let image_dir = out.join(image_name(release));
    for (path, content) in image.files() {
        save(&image_dir.join(path), content)?;
    }
    for (name, content) in &files {
        save(&out.join(name), content)?;
    }
    for target in Target::ALL {
        let binary = out.join(binary_name(target, release));
        if binary.exists() {
            fs::set_permissions(&binary, fs::Permissions::from_mode(0o755))?;
        }
    }
    Ok(())
}

/// The binary for `target`, and where it lies.
fn built(target: Target) -> Result<(Built, PathBuf)> {
    let musl = setup::musl(target)?;
    let object = build::object_for(&setup::toolchain()?, target.name())?;
    let path = build::released(&object, &musl)?;
    let binary = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok((Built { target, binary, object }, path))
}

fn of_one(target: Target, own: Built) -> Result<Vec<Built>> {
    if own.target == target { Ok(vec![own]) } else { Ok(vec![built(target)?.0]) }
}

/// Those of all architectures that can be built here.
fn of_all(own: Built) -> Vec<Built> {
    let others = Target::ALL.into_iter().filter(|target| *target != own.target);
    let others: Vec<Target> = others.collect();
    let mut all = vec![own];
    for target in others {
        match built(target) {
            Ok((other, _)) => all.push(other),
            Err(why) => eprintln!("left out: {target}, which cannot be built here: {why:#}"),
        }
    }
    all
}

fn save(path: &Path, content: &[u8]) -> Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

fn binary_name(target: Target, release: &Release) -> String {
    format!("isobar-{}-{target}-linux", release.version)
}

/// Of the image's layout; `.tar` follows where it is one file.
fn image_name(release: &Release) -> String {
    format!("isobar-{}.oci", release.version)
}
