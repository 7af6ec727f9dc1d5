//! Reads back what lies in the directory of a release, and runs the binary in an empty root.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use isobar_lab::shell::quietly;
use serde_json::Value;

use super::digest::sha256;
use super::installed;
use super::readback::{entries, image, member, unpacked};
use super::release::{Release, UNKNOWN};
use super::target::Target;
use super::{SUMS, binary_name, deb, image_name};

/// A larger binary is an accident: it is pulled onto each node.
const LARGEST: usize = 15_000_000;

/// Checks all that is in `out`, and says what was seen.
pub(super) fn run(out: &Path, release: &Release) -> Result<()> {
    let n_files = sums(out)?;
    println!("{SUMS}: {n_files} files have their checksums");
    let mut binaries = Vec::new();
    for target in Target::ALL {
        let name = binary_name(target, release);
        if let Some(binary) = read(&out.join(&name))? {
            is_static(&binary).with_context(|| name.clone())?;
            ensure!(
                binary.len() <= LARGEST,
                "{name} has {} bytes, more than {LARGEST}",
                binary.len()
            );
            println!("{name}: static, {:.1} MB", binary.len() as f64 / 1e6);
            package(out, target, &binary, release)?;
            binaries.push((target.debian().to_owned(), binary));
        }
    }
    ensure!(!binaries.is_empty(), "{} holds no binary of {}", out.display(), release.version);
    let layout = out.join(image_name(release));
    let images = image(|path| read(&layout.join(path)))?;
    ensure!(images == binaries, "the image does not hold the binaries beside it");
    let tar = format!("{}.tar", image_name(release));
    let packed = entries(&fs::read(out.join(&tar))?)?;
    let images = image(|path| Ok(packed.get(path).cloned()))?;
    ensure!(images == binaries, "{tar} does not hold the binaries beside it");
    let names: Vec<&str> = images.iter().map(|(arch, _)| arch.as_str()).collect();
    println!("{tar}: every digest holds, for {}", names.join(" and "));
    in_empty_root(out, release)?;
    as_package(out, release)
}

/// Compares every file that the checksums name, and returns how many there are.
fn sums(out: &Path) -> Result<usize> {
    let sums = out.join(SUMS);
    let text =
        fs::read_to_string(&sums).with_context(|| format!("cannot read {}", sums.display()))?;
    for line in text.lines() {
        let (sum, name) = line.split_once("  ").with_context(|| format!("{SUMS}: {line:?}"))?;
        let content = read(&out.join(name))?.with_context(|| format!("{name} is missing"))?;
        ensure!(sha256(&content) == sum, "{name} does not have its checksum");
    }
    Ok(text.lines().count())
}

fn package(out: &Path, target: Target, binary: &[u8], release: &Release) -> Result<()> {
    let name = deb::file_name(target, release);
    let package = read(&out.join(&name))?.with_context(|| format!("{name} is missing"))?;
    let files = unpacked(member(&package, "data.tar.gz")?)?;
    let has_binary = files.get("./usr/bin/isobar").is_some_and(|packed| packed == binary);
    ensure!(has_binary, "{name} does not hold the binary beside it");
    println!("{name}: {} files", files.len());
    Ok(())
}

/// Whether an ELF file names no program that would have to load it (PT_INTERP). Rules: elf(5).
fn is_static(elf: &[u8]) -> Result<()> {
    const PT_INTERP: [u8; 4] = [3, 0, 0, 0];
    let number = |at: usize, length: usize| -> Result<usize> {
        let bytes = elf.get(at..at + length).context("cut off")?;
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    };
    ensure!(elf.starts_with(b"\x7fELF\x02\x01"), "no ELF file of 64 bits, little endian");
    let (headers, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    for n in 0..count {
        let at = headers + n * size;
        let kind = elf.get(at..at + 4).context("cut off")?;
        if kind == PT_INTERP {
            bail!("it needs shared libraries");
        }
    }
    Ok(())
}

/// Runs this machine's binary where there is no other file. Entering another root needs root.
fn in_empty_root(out: &Path, release: &Release) -> Result<()> {
    let name = Target::here().map(|target| binary_name(target, release)).unwrap_or_default();
    let binary = out.join(&name);
    if !binary.exists() || !rustix::process::geteuid().is_root() {
        println!("skipped: {name} in an empty root needs root and this machine's binary");
        return Ok(());
    }
    let dir = out.join("empty-root");
    fs::create_dir_all(&dir)?;
    fs::copy(&binary, dir.join("isobar"))?;
    let say = |more: &[&str]| {
        quietly(Command::new("chroot").arg(&dir).args(["/isobar", "version"]).args(more))
    };
    let (said, json) = (say(&[]), say(&["-o", "json"]));
    fs::remove_dir_all(&dir)?;
    names_its_source(&json?, release)?;
    println!("in an empty root: {}", said?.trim());
    Ok(())
}

/// Installs this machine's package, again as an upgrade, and removes it.
fn as_package(out: &Path, release: &Release) -> Result<()> {
    let name = Target::here().map(|target| deb::file_name(target, release)).unwrap_or_default();
    let package = out.join(&name);
    if !package.exists() {
        println!("skipped: there is no package for this machine to install");
        return Ok(());
    }
    let package = package.canonicalize()?;
    if installed::tried(&package, &package, &out.join("machine"))?.is_some() {
        println!("{name}: installed, upgraded, removed and purged");
    }
    Ok(())
}

/// Whether a binary says which commit it was built from, and which eBPF object it carries.
fn names_its_source(version: &str, release: &Release) -> Result<()> {
    let version: Value = serde_json::from_str(version).context("`version -o json` is no JSON")?;
    let commit = version["commit"].as_str().filter(|commit| !commit.is_empty());
    // Outside a clone neither knows.
    let is_it = match commit {
        Some(commit) => release.commit.starts_with(commit),
        None => release.commit == UNKNOWN,
    };
    ensure!(is_it, "the binary says that its commit is {commit:?}, not {}", release.commit);
    let sum = version["ebpfObject"]["sha256"].as_str().unwrap_or_default();
    ensure!(sum.len() == 64, "the binary does not name its eBPF object: {version}");
    Ok(())
}

/// The file at `path`, if there is one.
fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(why).with_context(|| format!("cannot read {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_its_source_by_commit_and_object() {
        let release = Release::made_up();
        let sum = sha256(b"object");
        let said = |commit: &str, sum: &str| {
            format!("{{\"commit\": {commit}, \"ebpfObject\": {{\"sha256\": \"{sum}\"}}}}")
        };
        #[rustfmt::skip]
        let table = [
            // what it says, whether that will do
            (said("\"c0ff\"", &sum), true),
            (said("\"beef\"", &sum), false),
            (said("\"\"", &sum),     false),
            (said("null", &sum),     false),
            (said("\"c0ff\"", ""),   false),
            ("{\"ebpfObject\": null}".into(), false),
            ("isobar 1.2.3".into(),  false),
        ];
        for (said, want) in table {
            assert_eq!(names_its_source(&said, &release).is_ok(), want, "{said}");
        }
        let no_clone = Release { commit: UNKNOWN.into(), ..release };
        assert!(names_its_source(&said("null", &sum), &no_clone).is_ok());
    }

    #[test]
    fn is_static_without_interpreter() {
        let elf = |kinds: &[u8]| {
            let mut elf = vec![0; 64 + 56 * kinds.len()];
            elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
            (elf[32], elf[54], elf[56]) = (64, 56, kinds.len() as u8);
            kinds.iter().enumerate().for_each(|(n, kind)| elf[64 + 56 * n] = *kind);
            elf
        };
        #[rustfmt::skip]
        let table = [
            // file, static
            (elf(&[1, 1, 2]), true),  // PT_LOAD, PT_LOAD, PT_DYNAMIC: position-independent
            (elf(&[1, 3, 1]), false), // PT_INTERP
            (elf(&[1])[..80].to_vec(), true),
            (elf(&[1, 1])[..100].to_vec(), false),
            (b"#!/bin/sh\n".to_vec(), false),
        ];
        for (n, (file, want)) in table.into_iter().enumerate() {
            assert_eq!(is_static(&file).is_ok(), want, "row {n}");
        }
    }
}
