//! Which CPUs handle which device's interrupts: once, for an operator who asks.
//! Source: `Documentation/core-api/irq/irq-affinity.rst`; `effective_affinity_list` since Linux 4.15.

use std::fs;
use std::path::Path;

use serde::Serialize;

use super::gap::{self, Gaps, ReadError};
use super::machine::cpu_set;
use isobar_core::model::cpuset::CpuSet;
use isobar_core::model::sample::Gap;

/// The interrupt of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Interrupt {
    /// Its number in `/proc/interrupts`.
    pub irq: u32,
    /// Who handles it, as the drivers call themselves.
    pub name: String,
    /// Where it is handled; where the kernel does not say so, where it may be.
    pub cpus: CpuSet,
}

/// Interrupts that have a handler, by number, and what could not be read.
///
/// # Errors
/// If there is no list of interrupts.
pub fn read(proc: &Path) -> Result<(Vec<Interrupt>, Vec<Gap>), ReadError> {
    let dir = proc.join("irq");
    let mut numbers: Vec<u32> =
        directories(&dir)?.iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    let mut gaps = Gaps::default();
    let mut found = Vec::new();
    for irq in numbers {
        let dir = dir.join(irq.to_string());
        // The kernel makes a directory for each handler, named by it.
        let names = gaps.ok(directories(&dir)).filter(|names| !names.is_empty());
        let Some(names) = names else { continue };
        let cpus = gaps.ok(cpus(&dir)).unwrap_or_default();
        found.push(Interrupt { irq, name: names.join(", "), cpus });
    }
    Ok((found, gaps.finish()))
}

/// An interrupt that is switched off is handled nowhere.
fn cpus(dir: &Path) -> Result<CpuSet, ReadError> {
    let effective = dir.join("effective_affinity_list");
    let file = if effective.exists() { effective } else { dir.join("smp_affinity_list") };
    gap::read(&file, cpu_set)
}

/// Their names, in order.
fn directories(dir: &Path) -> Result<Vec<String>, ReadError> {
    let failed = |error| ReadError::io(dir, error);
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_by_number_where_they_are_handled() {
        let dir = tempfile::tempdir().unwrap();
        let file = |path: &str, text: &str| {
            let path = dir.path().join("irq").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let handler = |path: &str| fs::create_dir_all(dir.path().join("irq").join(path)).unwrap();
        assert!(read(dir.path()).is_err(), "no list");
        file("default_smp_affinity", "ff\n");
        file("10/smp_affinity_list", "0-7\n");
        file("10/effective_affinity_list", "3\n");
        handler("10/eth0-rx");
        handler("10/eth0-tx");
        file("9/smp_affinity_list", "0-1\n"); // as before Linux 4.15
        handler("9/acpi");
        file("8/effective_affinity_list", "\n"); // switched off
        handler("8/rtc0");
        file("7/effective_affinity_list", "0\n"); // it has no handler
        let (found, gaps) = read(dir.path()).unwrap();
        let found: Vec<_> =
            found.iter().map(|one| (one.irq, one.name.as_str(), one.cpus.to_string())).collect();
        let want = [
            (8, "rtc0", "".into()),
            (9, "acpi", "0-1".into()),
            (10, "eth0-rx, eth0-tx", "3".into()),
        ];
        assert_eq!((found.as_slice(), gaps.len()), (&want[..], 0));
        file("9/smp_affinity_list", "x\n");
        assert_eq!(read(dir.path()).unwrap().1.len(), 1);
    }
}
