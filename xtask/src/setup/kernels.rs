//! The kernels that isobar is tested on: Debian's, found by pattern, so that each run of a fresh
//! machine takes the newest of its series.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::archive::Archive;
use super::modules;
use crate::cache::Cache;
use crate::shell::step;

/// A line of kernels, of which the newest is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Series {
    /// The oldest that isobar supports; Debian 12's own.
    #[value(name = "6.1")]
    V6_1,
    /// Debian 13's own.
    #[value(name = "6.12")]
    V6_12,
    /// The newest long-term one.
    #[value(name = "6.18")]
    V6_18,
    /// The newest there is.
    #[value(name = "7.x")]
    V7,
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V6_1 => "6.1",
            Self::V6_12 => "6.12",
            Self::V6_18 => "6.18",
            Self::V7 => "7.x",
        })
    }
}

impl Series {
    /// All of them, oldest first.
    pub(crate) const ALL: [Self; 4] = [Self::V6_1, Self::V6_12, Self::V6_18, Self::V7];

    /// How its releases (`uname -r`) are spelled, as an extended regular expression: the plain
    /// flavour, without `-cloud`, `-rt`, `-dbg` and `-unsigned`.
    fn pattern(self) -> &'static str {
        match self {
            Self::V6_1 => r"6\.1\.0-[0-9]+-amd64",
            Self::V6_12 => r"6\.12\.[0-9.]+\+deb12-amd64",
            Self::V6_18 => r"6\.18\.[0-9.]+\+deb13-amd64",
            Self::V7 => r"7\.[0-9.]+\+deb13-amd64",
        }
    }

    /// True if `release` is of this series.
    fn has(self, release: &str) -> bool {
        let start = match self {
            Self::V6_1 => "6.1.",
            Self::V6_12 => "6.12.",
            Self::V6_18 => "6.18.",
            Self::V7 => "7.",
        };
        release.starts_with(start)
    }
}

/// A kernel to boot.
#[derive(Debug, Clone)]
pub(crate) struct Kernel {
    /// Its series.
    pub(crate) series: Series,
    /// `uname -r`.
    pub(crate) release: String,
    /// The image.
    pub(crate) vmlinuz: PathBuf,
    /// The modules that the guest may load, unpacked, with `modules.dep`.
    pub(crate) modules: PathBuf,
}

/// The newest kept kernel of `series`; if none is kept, the newest that Debian has.
pub(super) fn ready(cache: &Cache, series: Series) -> Result<Kernel> {
    let kept = cache.names("kernels").into_iter().filter(|release| series.has(release));
    let (release, dir) = match kept.max_by_key(|release| numbers(release)) {
        Some(release) => (release.clone(), cache.root().join("kernels").join(release)),
        None => fetch(cache, series)?,
    };
    let (vmlinuz, modules) = (dir.join("vmlinuz"), dir.join("modules"));
    Ok(Kernel { series, release, vmlinuz, modules })
}

fn fetch(cache: &Cache, series: Series) -> Result<(String, PathBuf)> {
    let archive = Archive::open(cache)?;
    // Newer kernels come as an image, and modules, and a package that wants both.
    let pattern = format!("^linux-(image|binary|modules)-{}$", series.pattern());
    let mut names = archive.names(&pattern)?;
    if names.is_empty() {
        archive.update()?;
        names = archive.names(&pattern)?;
    }
    let release = names
        .iter()
        .filter_map(|name| name.splitn(3, '-').nth(2))
        .max_by_key(|release| numbers(release))
        .with_context(|| format!("no Debian package is called {pattern}"))?
        .to_owned();
    let packages: Vec<String> =
        names.iter().filter(|name| name.splitn(3, '-').nth(2) == Some(&release)).cloned().collect();
    let dir = step(&format!("kernel {release}"), || {
        cache.keep(&format!("kernels/{release}"), |dir| fill(&archive, &packages, &release, dir))
    })?;
    Ok((release, dir))
}

/// Leaves `vmlinuz` and the few modules that the guest needs; the rest is half a gigabyte.
fn fill(archive: &Archive, packages: &[String], release: &str, dir: &Path) -> Result<()> {
    let all = dir.join("all");
    archive.unpack(packages, &all)?;
    let images = [format!("boot/vmlinuz-{release}"), format!("usr/lib/modules/{release}/vmlinuz")];
    let image = images.iter().map(|path| all.join(path)).find(|path| path.is_file());
    let image = image.with_context(|| format!("{} hold no image", packages.join(", ")))?;
    fs::copy(image, dir.join("vmlinuz"))?;
    let trees = [format!("lib/modules/{release}"), format!("usr/lib/modules/{release}")];
    let tree = trees.iter().map(|path| all.join(path)).find(|path| path.join("kernel").is_dir());
    let tree = tree.with_context(|| format!("{} hold no modules", packages.join(", ")))?;
    modules::pick(&tree, &dir.join("modules"))?;
    fs::remove_dir_all(all)?;
    Ok(())
}

/// The numbers in `release`, which order releases: 6.1.0-9 comes before 6.1.0-56.
fn numbers(release: &str) -> Vec<u64> {
    let digits = release.split(|c: char| !c.is_ascii_digit());
    digits.filter_map(|n| n.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_ordered_by_number_and_belong_to_one_series() {
        let releases = ["6.1.0-9-amd64", "6.1.0-56-amd64", "6.12.117+deb12-amd64", "7.3.4+deb13"];
        assert!(releases.is_sorted_by_key(|release| numbers(release)));
        let of = |release| Series::ALL.into_iter().filter(|s| s.has(release)).collect::<Vec<_>>();
        assert_eq!(
            releases.map(of),
            [vec![Series::V6_1], vec![Series::V6_1], vec![Series::V6_12], vec![Series::V7]]
        );
    }
}
