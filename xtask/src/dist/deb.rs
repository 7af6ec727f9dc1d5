//! A Debian package: the binary, the unit, manual pages, completions, a configuration to edit, and
//! documentation. Written here because it is an `ar` archive of two tar archives, and no tool for
//! packages has to be built for it. Rules: deb(5), Debian Policy 12 (documentation).

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use isobar_lab::shell::{quietly, root};

use super::release::{DESCRIPTION, Release};
use super::target::Target;
use super::tree::{Tree, ar, gzip};

/// The repository's Markdown that is shipped as it is, beside docs/.
const DOCS: [&str; 3] = ["README.md", "SECURITY.md", "CHANGELOG.md"];
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];
/// Shell, and where Debian's packages keep its completions.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/isobar"),
    ("zsh", "usr/share/zsh/vendor-completions/_isobar"),
    ("fish", "usr/share/fish/vendor_completions.d/isobar.fish"),
];
const DOC: &str = "usr/share/doc/isobar";
const MAINTAINER: &str = "The isobar contributors <isobar@localhost>";

/// What is the same on every architecture: all that is installed but for the binary.
pub(super) struct Shared {
    /// Path, mode and content.
    files: Vec<(String, u32, Vec<u8>)>,
}

impl Shared {
    /// Collects it. `isobar` runs on this machine, and prints what comes from its definitions.
    pub(super) fn collect(isobar: &Path, release: &Release) -> Result<Self> {
        let mut shared = Self { files: Vec::new() };
        shared.add("usr/lib/systemd/system/isobar.service", unit()?);
        for (shell, path) in COMPLETIONS {
            shared.add(path, quietly(Command::new(isobar).args(["completion", shell]))?);
        }
        for (name, page) in pages(isobar)? {
            shared.add(&format!("usr/share/man/man1/{name}.gz"), gzip(&page)?);
        }
        let defaults = quietly(Command::new(isobar).args(["config", "defaults"]))?;
        shared.add("etc/isobar/config.yaml", commented(&defaults));
        shared.add("etc/isobar/environment", read("deploy/debian/environment")?);
        for name in DOCS {
            shared.add(&format!("{DOC}/{name}.gz"), gzip(&read(name)?)?);
        }
        for entry in fs::read_dir(root().join("docs"))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.ends_with(".md") {
                shared
                    .add(&format!("{DOC}/docs/{name}.gz"), gzip(&read(&format!("docs/{name}"))?)?);
            }
        }
        shared.add(&format!("{DOC}/copyright"), copyright()?);
        shared.add(&format!("{DOC}/changelog.gz"), gzip(changelog(release)?.as_bytes())?);
        shared.add("usr/share/lintian/overrides/isobar", read("deploy/debian/lintian-overrides")?);
        Ok(shared)
    }

    fn add(&mut self, path: &str, content: impl Into<Vec<u8>>) {
        self.files.push((path.to_owned(), 0o644, content.into()));
    }
}

/// The package for `target`.
pub(super) fn package(
    target: Target,
    binary: &[u8],
    shared: &Shared,
    release: &Release,
) -> Result<Vec<u8>> {
    let mut data = Tree::default();
    data.file("usr/bin/isobar", 0o755, binary);
    for (path, mode, content) in &shared.files {
        data.file(path, *mode, content.as_slice());
    }
    let conffiles = data.files().filter(|path| path.starts_with("etc/"));
    let conffiles: String = conffiles.map(|path| format!("/{path}\n")).collect();
    let mut control = Tree::default();
    control.file("control", 0o644, fields(target, data.kib(), release));
    control.file("conffiles", 0o644, conffiles);
    for script in SCRIPTS {
        control.file(script, 0o755, read(&format!("deploy/debian/{script}"))?);
    }
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", gzip(&control.tar("./", release.epoch)?)?),
        ("data.tar.gz", gzip(&data.tar("./", release.epoch)?)?),
    ];
    ar(&members, release.epoch)
}

/// The package's file name.
pub(super) fn file_name(target: Target, release: &Release) -> String {
    format!("isobar_{}_{}.deb", version(release), target.debian())
}

/// A version before 1.2.3 sorts before it with a tilde, and after it with a hyphen.
fn version(release: &Release) -> String {
    release.version.replacen('-', "~", 1)
}

/// The file `control`.
fn fields(target: Target, kib: usize, release: &Release) -> String {
    let (version, arch) = (version(release), target.debian());
    format!(
        "Package: isobar\n\
         Version: {version}\n\
         Architecture: {arch}\n\
         Maintainer: {MAINTAINER}\n\
         Installed-Size: {kib}\n\
         Section: admin\n\
         Priority: optional\n\
         Description: {DESCRIPTION}\n \
         Shows how long work is kept waiting on a node for CPUs, memory and disks,\n \
         why, and because of which other pod or service. It observes only, unless it\n \
         is configured to evict. Everything is measured on Linux 6.1 or newer with BTF.\n"
    )
}

/// The service's unit, with paths as packages have them.
fn unit() -> Result<String> {
    let unit = String::from_utf8(read("deploy/systemd/isobar.service")?)?;
    // Its head is about installing by hand.
    let (_, unit) = unit.split_once("[Unit]").context("isobar.service has no [Unit]")?;
    let unit = unit.replace("/usr/local/share/doc/isobar/", &format!("/{DOC}/docs/"));
    Ok(format!(
        "[Unit]{}",
        unit.replace("policy.md", "policy.md.gz").replace("/usr/local/", "/usr/")
    ))
}

/// The manual pages by file name, one for isobar and one for each verb.
fn pages(isobar: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let dir = root().join("target/man");
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::create_dir_all(&dir)?;
    quietly(Command::new(isobar).args(["man", "--dir"]).arg(&dir))?;
    let mut pages = Vec::new();
    for entry in fs::read_dir(&dir)? {
        let entry = entry?;
        pages.push((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?));
    }
    Ok(pages)
}

/// The defaults as a configuration in which nothing is set but what it is.
fn commented(defaults: &str) -> String {
    let set = ["apiVersion:", "kind:"];
    let line = |line: &str| match line {
        "" => "\n".to_owned(),
        said if said.starts_with("# ") => format!("{said}\n"),
        head if set.iter().any(|key| head.starts_with(key)) => format!("{head}\n"),
        default => format!("#{default}\n"),
    };
    defaults.lines().map(line).collect()
}

/// Debian's own form of a changelog, without which its tools have no date.
fn changelog(release: &Release) -> Result<String> {
    let (version, date) = (version(release), release.date("+%a, %d %b %Y %H:%M:%S +0000")?);
    Ok(format!(
        "isobar ({version}) unstable; urgency=medium\n\n  * CHANGELOG.md.gz tells what is new.\n\n \
         -- {MAINTAINER}  {date}\n"
    ))
}

fn copyright() -> Result<Vec<u8>> {
    let head = "The agent and everything else in user space: MIT or Apache-2.0, as you like.\n\
                The eBPF programs in it: GPL-2.0-only or MIT. The GPL and the Apache licence are in\n\
                /usr/share/common-licenses on Debian.\n\n";
    Ok([head.as_bytes(), &read("LICENSE-MIT")?].concat())
}

fn read(path: &str) -> Result<Vec<u8>> {
    fs::read(root().join(path)).with_context(|| format!("cannot read {path}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::installed;
    use super::super::readback::{member, unpacked};
    use super::*;

    #[test]
    fn package_has_its_fields_conffiles_and_files() {
        let files = ["etc/isobar/config.yaml", "usr/share/doc/isobar/copyright"];
        let files = files.map(|path| (path.to_owned(), 0o644, b"text".to_vec())).to_vec();
        let deb = package(Target::Arm, b"binary", &Shared { files }, &Release::made_up()).unwrap();
        assert_eq!(member(&deb, "debian-binary").unwrap(), b"2.0\n");
        let control = unpacked(member(&deb, "control.tar.gz").unwrap()).unwrap();
        let text = |name: &str| String::from_utf8(control[name].clone()).unwrap();
        for field in ["Version: 1.2.3~rc.1", "Architecture: arm64", "Installed-Size: 10"] {
            assert!(text("./control").lines().any(|line| line == field), "{field}");
        }
        assert_eq!(text("./conffiles"), "/etc/isobar/config.yaml\n");
        let data = unpacked(member(&deb, "data.tar.gz").unwrap()).unwrap();
        assert_eq!(data["./usr/bin/isobar"], b"binary");
        assert_eq!(data.len(), 3);
    }

    #[test]
    fn commented_sets_only_version_and_kind() {
        let defaults =
            "# Version\napiVersion: v\n\nkind: K\nconditions:\n  # Prefix\n  prefix: \"\"\n";
        let want =
            "# Version\napiVersion: v\n\nkind: K\n#conditions:\n#  # Prefix\n#  prefix: \"\"\n";
        assert_eq!(commented(defaults), want);
    }

    #[test]
    fn unit_names_the_packages_paths() {
        let unit = unit().unwrap();
        assert!(unit.contains("\nExecStart=/usr/bin/isobar run\n"), "{unit}");
        assert!(!unit.contains("/usr/local"), "{unit}");
    }

    /// A program that prints what packages take from isobar.
    const ISOBAR: &str = "#!/bin/sh\ncase $1 in\ncompletion) echo \"# $2\" ;;\n\
        config) printf 'apiVersion: v\\nkind: K\\nlisten: x\\n' ;;\n\
        man) echo '.TH isobar 1' >\"$3/isobar.1\" ;;\nesac\n";

    #[test]
    fn package_installs_upgrades_and_purges() {
        let dir = std::env::temp_dir().join(format!("isobar-deb-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let isobar = dir.join("isobar");
        fs::write(&isobar, ISOBAR).unwrap();
        fs::set_permissions(&isobar, fs::Permissions::from_mode(0o755)).unwrap();
        let release = Release::made_up();
        let older = Release { version: "1.2.2", ..Release::made_up() };
        let target = Target::here().unwrap();
        let write = |name: &str, shared: &Shared, release: &Release| {
            let path = dir.join(name);
            let binary = ISOBAR.as_bytes();
            fs::write(&path, package(target, binary, shared, release).unwrap()).unwrap();
            path
        };
        let unit = "usr/lib/systemd/system/isobar.service";
        let is_verified = isobar_lab::shell::found("systemd-analyze").is_some();
        #[rustfmt::skip]
        let table = [
            // file, another content of it, what is then wrong
            (unit, None,                                   None),
            ("usr/share/man/man1/isobar.1.gz", Some(""),   Some("isobar.1.gz is not there")),
            (unit, Some("[Service]\nExecStart=nothing\n"), is_verified.then_some("isobar.service")),
        ];
        for (file, content, want) in table {
            let mut shared = Shared::collect(&isobar, &release).unwrap();
            let old = write("old.deb", &shared, &older);
            for (path, _, is) in &mut shared.files {
                if let Some(content) = content.filter(|_| path == file) {
                    *is = content.into();
                }
            }
            let new = write("new.deb", &shared, &release);
            let pair = if content.is_some() { [&new, &new] } else { [&old, &new] };
            match (installed::tried(pair[0], pair[1], &dir.join("machine")), want) {
                (Ok(_), None) | (Ok(None), _) => {}
                (Err(why), Some(want)) => assert!(format!("{why:#}").contains(want), "{why:#}"),
                (got, want) => panic!("{file}: expected {want:?}, got {got:?}"),
            }
        }
        fs::remove_dir_all(&dir).unwrap();
    }
}
