//! Cgroups of our own below the cgroup v2 mount: made, entered, and removed with all in them.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::clock::Since;

/// Where cgroup v2 is mounted, also where v1 lies beside it.
pub fn mount() -> Result<PathBuf> {
    let text = fs::read_to_string("/proc/self/mountinfo").context("cannot list mounts")?;
    mounted(&text).context("cgroup v2 is not mounted here")
}

/// The mount point of the first cgroup2 in `mountinfo`: the fifth field, where the type follows
/// a lone dash.
fn mounted(mountinfo: &str) -> Option<PathBuf> {
    let line = mountinfo
        .lines()
        .find(|line| line.split_once(" - ").is_some_and(|(_, fs)| fs.starts_with("cgroup2 ")))?;
    line.split(' ').nth(4).map(PathBuf::from)
}

/// A cgroup that is removed, its processes killed, when this value goes.
pub struct Group {
    dir: PathBuf,
}

impl Group {
    /// Makes the directory `dir`, which must not exist.
    pub fn make(dir: PathBuf) -> Result<Self> {
        fs::create_dir(&dir).with_context(|| format!("cannot make cgroup {}", dir.display()))?;
        Ok(Self { dir })
    }

    /// Takes over the directory `dir`, which is there.
    pub fn there(dir: PathBuf) -> Self {
        Self { dir }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes one of its files.
    pub fn write(&self, file: &str, value: &str) -> Result<()> {
        let file = self.dir.join(file);
        fs::write(&file, value)
            .with_context(|| format!("cannot write {value:?} to {}", file.display()))
    }

    /// Enables for its children every controller that it has itself.
    pub fn pass_on_controllers(&self) -> Result<()> {
        let have = fs::read_to_string(self.dir.join("cgroup.controllers"))?;
        let all: Vec<String> = have.split_whitespace().map(|c| format!("+{c}")).collect();
        self.write("cgroup.subtree_control", &all.join(" "))
    }

    /// Kills what runs in it and removes it. An agent that has left may still detach programs there,
    /// for as long as throttled threads make an emulated kernel wait.
    pub fn remove(&self) -> Result<()> {
        self.remove_within(Duration::from_secs(120))
    }

    /// The same, for those who may be slow to die.
    pub fn remove_within(&self, limit: Duration) -> Result<()> {
        if !self.dir.exists() {
            return Ok(());
        }
        self.write("cgroup.kill", "1")?;
        let since = Since::now();
        // A killed process leaves its cgroup only when it has ended.
        while let Err(why) = fs::remove_dir(&self.dir) {
            if !since.within(limit) {
                bail!("cannot remove cgroup {}: {why}", self.dir.display());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Err(why) = self.remove() {
            eprintln!("{why:#}");
        }
    }
}

/// Moves the calling process into the cgroup `dir`.
pub fn enter(dir: &Path) -> Result<()> {
    let procs = dir.join("cgroup.procs");
    fs::write(&procs, std::process::id().to_string())
        .with_context(|| format!("cannot enter through {}", procs.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroup_v2_is_found_alone_and_beside_v1() {
        let v1 = "31 24 0:27 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu\n";
        let hybrid = "32 24 0:28 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 rw\n";
        let alone = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
        let table = [
            (v1.to_owned(), None),
            (format!("{v1}{hybrid}"), Some("/sys/fs/cgroup/unified")),
            (alone.to_owned(), Some("/sys/fs/cgroup")),
        ];
        for (text, want) in table {
            assert_eq!(mounted(&text), want.map(PathBuf::from), "{text}");
        }
    }
}
