//! Reads back what lies in the directory of a release, and runs each binary in an empty root.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use isobar_lab::shell::quietly;
use serde_json::Value;

use super::digest::sha256;
use super::installed;
use super::readback::{entries, image, member, unpacked};
use super::release::{Release, UNKNOWN};
use super::target::Target;
use super::{SUMS, binary_name, deb, image_name};
use crate::setup;

/// A larger binary is an accident: it is pulled onto each node.
const LARGEST: usize = 16_000_000;
/// Code that an enforcing agent keeps in memory, at most. With more, `monitor/cold.ld` no longer finds
/// what it is to keep apart.
const MOST_KEPT: usize = 8_000_000;

/// Checks all that is in `out`, and says what was seen.
pub(super) fn run(out: &Path, release: &Release) -> Result<()> {
    let n_files = sums(out)?;
    println!("{SUMS}: {n_files} files have their checksums");
    let mut binaries = Vec::new();
    for target in Target::ALL {
        let name = binary_name(target, release);
        if let Some(binary) = read(&out.join(&name))? {
            let segments = segments(&binary).with_context(|| name.clone())?;
            ensure!(!segments.iter().any(Segment::is_loader), "{name} needs shared libraries");
            let (size, kept) = (binary.len(), kept(&segments));
            ensure!(size <= LARGEST, "{name} has {size} bytes, more than {LARGEST}");
            ensure!(kept <= MOST_KEPT, "{name} keeps {kept} bytes of code, more than {MOST_KEPT}");
            let [size, kept] = [size, kept].map(|bytes| bytes as f64 / 1e6);
            println!("{name}: static, {size:.1} MB, of which {kept:.1} MB of code are kept");
            package(out, target, &binary, release)?;
            in_empty_root(out, target, release)?;
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

/// What of an ELF file comes into memory, as its program headers say. Rules: elf(5).
struct Segment {
    kind: usize,
    flags: usize,
    /// In the file, bytes.
    size: usize,
}

impl Segment {
    /// Names the program that has to load shared libraries (PT_INTERP).
    fn is_loader(&self) -> bool {
        self.kind == 3
    }

    /// PT_LOAD with PF_X.
    fn is_code(&self) -> bool {
        self.kind == 1 && self.flags & 1 == 1
    }
}

/// The size of the code that an enforcing agent keeps in memory: the first segment of it.
fn kept(segments: &[Segment]) -> usize {
    segments.iter().find(|segment| segment.is_code()).map_or(0, |segment| segment.size)
}

fn segments(elf: &[u8]) -> Result<Vec<Segment>> {
    let number = |at: usize, length: usize| -> Result<usize> {
        let bytes = elf.get(at..at + length).context("cut off")?;
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    };
    ensure!(elf.starts_with(b"\x7fELF\x02\x01"), "no ELF file of 64 bits, little endian");
    let (headers, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    let segment = |n| {
        let at = headers + n * size;
        Ok(Segment { kind: number(at, 4)?, flags: number(at + 4, 4)?, size: number(at + 32, 8)? })
    };
    (0..count).map(segment).collect()
}

/// Runs a binary where there is no other file, but for what plays its processor where that is another
/// one than this machine's. Entering another root needs root.
fn in_empty_root(out: &Path, target: Target, release: &Release) -> Result<()> {
    let name = binary_name(target, release);
    if !rustix::process::geteuid().is_root() {
        println!("skipped: {name} in an empty root needs root");
        return Ok(());
    }
    let is_foreign = Target::here() != Some(target);
    let emulator = match is_foreign.then(|| setup::emulator(target)).transpose() {
        Ok(emulator) => emulator,
        Err(why) => {
            println!("skipped: {name} in an empty root, because nothing runs it here: {why:#}");
            return Ok(());
        }
    };
    let dir = out.join("empty-root");
    fs::create_dir_all(&dir)?;
    fs::copy(out.join(&name), dir.join("isobar"))?;
    if let Some(emulator) = &emulator {
        fs::copy(emulator, dir.join("emulator"))?;
    }
    let say = |more: &[&str]| {
        let mut chroot = Command::new("chroot");
        chroot.arg(&dir).args(emulator.as_ref().map(|_| "/emulator"));
        quietly(chroot.args(["/isobar", "version"]).args(more))
    };
    let (said, json) = (say(&[]), say(&["-o", "json"]));
    fs::remove_dir_all(&dir)?;
    names_its_source(&json?, release)?;
    println!("{name} in an empty root: {}", said?.trim());
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
    fn segments_tell_a_loader_and_the_code_that_is_kept() {
        let elf = |segments: &[(u8, u8, u8)]| {
            let mut elf = vec![0; 64 + 56 * segments.len()];
            elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
            (elf[32], elf[54], elf[56]) = (64, 56, segments.len() as u8);
            for (n, (kind, flags, size)) in segments.iter().enumerate() {
                let at = 64 + 56 * n;
                (elf[at], elf[at + 4], elf[at + 32]) = (*kind, *flags, *size);
            }
            elf
        };
        #[rustfmt::skip]
        let table = [
            // file, has a loader and keeps so much code
            (elf(&[(1, 4, 9), (1, 5, 7), (1, 5, 8), (2, 6, 1)]), Some((false, 7))), // PT_LOAD, .., PT_DYNAMIC
            (elf(&[(1, 4, 9), (3, 4, 1), (1, 5, 8)]),            Some((true, 8))),  // PT_INTERP
            (elf(&[(2, 5, 9)]),                                  Some((false, 0))),
            (elf(&[(1, 5, 9)])[..80].to_vec(),                   None),
            (elf(&[(1, 5, 9), (1, 5, 9)])[..140].to_vec(),       None),
            (b"#!/bin/sh\n".to_vec(),                            None),
        ];
        for (n, (file, want)) in table.into_iter().enumerate() {
            let told = segments(&file).ok();
            let told = told.map(|all| (all.iter().any(Segment::is_loader), kept(&all)));
            assert_eq!(told, want, "row {n}");
        }
    }
}
