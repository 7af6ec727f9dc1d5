//! One limit file of one cgroup: read, written, and compared as the kernel would print it.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::refusal;
use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::cpuset::CpuSet;

/// A cgroup's directory.
pub(super) struct Cgroup {
    path: CgroupPath,
    dir: PathBuf,
}

impl Cgroup {
    pub(super) fn new(root: &Path, path: &CgroupPath) -> Self {
        // Segment by segment, because a path that begins with a slash would replace the root's.
        let dir = path.segments().fold(root.to_path_buf(), |dir, name| dir.join(name));
        Self { path: path.clone(), dir }
    }

    /// Which cgroup it is; in words, that it is not there.
    pub(super) fn id(&self) -> Result<CgroupId, String> {
        let path = &self.path;
        if path.segments().any(|name| name == "..") {
            return Err(format!("{path} leads out of the tree"));
        }
        match fs::metadata(&self.dir) {
            Ok(found) if found.is_dir() => Ok(CgroupId(found.ino())),
            Ok(_) => Err(format!("{path} is no cgroup")),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Err(format!(
                "{path} is not there: its owner has not started, as the kubelet for \
                 kubepods"
            )),
            Err(why) => Err(format!("cannot look at {path}: {why}")),
        }
    }

    /// What a file says, without its line end.
    pub(super) fn read(&self, file: &str) -> Result<String, String> {
        let text = fs::read_to_string(self.dir.join(file));
        text.map(|text| text.trim_end().into()).map_err(|why| self.cannot("read", file, &why))
    }

    /// Writes a file, and reads it back.
    pub(super) fn write(&self, file: &str, value: &str) -> Result<String, String> {
        // Never created: a file that the kernel does not have is no limit.
        let written = File::options().write(true).truncate(true).open(self.dir.join(file));
        // With a line end, because nothing at all would be no write.
        let written = written.and_then(|mut open| open.write_all(format!("{value}\n").as_bytes()));
        written.map_err(|why| self.cannot("write", file, &why))?;
        self.read(file)
    }

    /// Gives a set of CPUs all those of the cgroup above, which is what an empty set means. The
    /// kernel takes no empty one where something runs (`validate_change`, kernel/cgroup/cpuset.c).
    pub(super) fn write_all_cpus(&self, file: &str) -> Result<String, String> {
        let above = self.dir.join("../cpuset.cpus.effective");
        let all = fs::read_to_string(&above);
        let all = all.map_err(|why| format!("cannot read {}: {why}", above.display()))?;
        self.write(file, all.trim_end())
    }

    fn cannot(&self, what: &str, file: &str, why: &io::Error) -> String {
        refusal::words(what, &self.path, file, why)
    }

    /// Why `value` may not be written although the kernel would take it: to keep to less memory
    /// than is in use, it kills.
    pub(super) fn cannot_bear(&self, file: &str, value: &str) -> Option<String> {
        if file != "memory.max" {
            return None;
        }
        let limit: u64 = value.parse().ok()?;
        let current: u64 = self.read("memory.current").ok()?.parse().ok()?;
        let stat = self.read("memory.stat").unwrap_or_default();
        let inactive = stat.lines().find_map(|line| line.strip_prefix("inactive_file "));
        // Page cache that was not used lately is no loss.
        let cache: u64 = inactive.and_then(|n| n.trim().parse().ok()).unwrap_or(0);
        let used = current.saturating_sub(cache);
        let over = used.checked_sub(limit).filter(|over| *over > 0)?;
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        Some(format!(
            "{} uses {} MiB beside idle page cache: a limit of {} MiB would have to take {} MiB \
             from what runs there, so that much must be evicted first",
            self.path,
            mib(used),
            mib(limit),
            mib(over)
        ))
    }
}

/// `text` as the kernel prints it once it was written to `file`.
pub(super) fn normal(file: &str, text: &str) -> String {
    let text = text.trim();
    if file == "cpuset.cpus" {
        return text.parse::<CpuSet>().map_or_else(|_| text.into(), |cpus| cpus.to_string());
    }
    let (Ok(n), Some(unit)) = (text.parse::<u64>(), unit(file)) else { return text.into() };
    // `PAGE_COUNTER_MAX`, include/linux/page_counter.h: from there on it is no limit.
    match n / unit {
        units if unit > 1 && units >= (1 << 63) / unit - 1 => "max".into(),
        units => (units * unit).to_string(),
    }
}

/// To whole ones of what the kernel cuts a limit: pages, or huge pages; `None` for no number.
fn unit(file: &str) -> Option<u64> {
    if file == "memory.max" {
        return Some(procfs::page_size());
    }
    let Some(size) = file.strip_prefix("hugetlb.").and_then(|name| name.strip_suffix(".max"))
    else {
        return Some(1);
    };
    let (number, shift) = [("KB", 10), ("MB", 20), ("GB", 30)]
        .into_iter()
        .find_map(|(suffix, shift)| Some((size.strip_suffix(suffix)?, shift)))?;
    number.parse::<u64>().ok()?.checked_shl(shift).filter(|unit| *unit > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_compares_values_as_the_kernel_prints_them() {
        #[rustfmt::skip]
        let table = [
            // file, written, printed
            ("memory.max",       "4294967396",           "4294967296"), // whole pages
            ("memory.max",       "max",                  "max"),
            ("memory.max",       "18446744073709551615", "max"),
            ("hugetlb.2MB.max",  "3145728",              "2097152"),    // whole huge pages
            ("hugetlb.1GB.max",  "0",                    "0"),
            ("hugetlb.odd.max",  "7",                    "7"),
            ("cpu.weight",       "39",                   "39"),
            ("pids.max",         "9000",                 "9000"),
            ("cpuset.cpus",      "1,2,3,7",              "1-3,7"),
            ("cpuset.cpus",      "",                     ""),
            ("cpuset.cpus",      "x",                    "x"),
        ];
        for (file, written, printed) in table {
            assert_eq!(normal(file, written), printed, "{file} {written}");
            assert_eq!(normal(file, &format!("{printed}\n")), printed, "{file} {printed} again");
        }
    }
}
