//! The kernels that isobar is tested on: Debian's, found by pattern, so that each run of a fresh
//! machine takes the newest of its series.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use isobar_lab::machine::{Kernel, Series};

use super::archive::Archive;
use super::modules;
use crate::cache::Cache;
use isobar_lab::shell::step;

/// How the releases (`uname -r`) of a series are spelled, as an extended regular expression: the
/// plain flavour, without `-cloud`, `-rt`, `-dbg` and `-unsigned`.
fn pattern(series: Series) -> &'static str {
    match series {
        Series::V6_1 => r"6\.1\.0-[0-9]+-amd64",
        Series::V6_12 => r"6\.12\.[0-9.]+\+deb12-amd64",
        Series::V6_18 => r"6\.18\.[0-9.]+\+deb13-amd64",
        Series::V7 => r"7\.[0-9.]+\+deb13-amd64",
    }
}

/// True if `release` is of this series.
fn is_of(series: Series, release: &str) -> bool {
    let start = match series {
        Series::V6_1 => "6.1.",
        Series::V6_12 => "6.12.",
        Series::V6_18 => "6.18.",
        Series::V7 => "7.",
    };
    release.starts_with(start)
}

/// The newest kept kernel of `series`; if none is kept, the newest that Debian has.
pub(crate) fn ready(series: Series) -> Result<Kernel> {
    let cache = Cache::open()?;
    let kept = cache.names("kernels").into_iter().filter(|release| is_of(series, release));
    let (release, dir) = match kept.max_by_key(|release| numbers(release)) {
        Some(release) => (release.clone(), cache.root().join("kernels").join(release)),
        None => fetch(&cache, series)?,
    };
    let (vmlinuz, modules) = (dir.join("vmlinuz"), dir.join("modules"));
    Ok(Kernel { series, release, vmlinuz, modules })
}

fn fetch(cache: &Cache, series: Series) -> Result<(String, PathBuf)> {
    let archive = Archive::open(cache)?;
    // Newer kernels come as an image, and modules, and a package that wants both.
    let pattern = format!("^linux-(image|binary|modules)-{}$", pattern(series));
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
        let of =
            |release| Series::ALL.into_iter().filter(|s| is_of(*s, release)).collect::<Vec<_>>();
        assert_eq!(
            releases.map(of),
            [vec![Series::V6_1], vec![Series::V6_1], vec![Series::V6_12], vec![Series::V7]]
        );
    }
}
