//! The agent's own cgroup keeps its memory: `memory.min`, as long as the agent runs.
//! Source: Documentation/admin-guide/cgroup-v2.rst; `mem_cgroup_calculate_protection`,
//! mm/memcontrol.c: a cgroup is protected as far as each one above it is.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{absent, had};
use isobar_core::model::capability::Capability;
use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::sample::Sample;
use isobar_core::model::units::Bytes;

/// Beside what is used: a larger tick, an answer to a reader.
const MARGIN: u64 = 16 << 20;
const NAME: &str = "memory protected";

/// What was written, to be undone.
#[derive(Debug)]
pub(in crate::agent) struct Protected {
    file: PathBuf,
    before: String,
    wrote: String,
}

impl Protected {
    /// Protects the cgroup that `sample` shows as the agent's own, if nothing else runs in it.
    pub(in crate::agent) fn begin(root: &Path, sample: &Sample) -> (Option<Self>, Capability) {
        let remedy = "run isobar in a cgroup of its own, as deploy/systemd/isobar.service does";
        let begun = own(sample).and_then(|(id, path, used)| {
            let shared = sample.cgroups.values().any(|group| group.parent == Some(id));
            match (path.is_root(), shared) {
                (true, _) => Err("it runs in the root cgroup".to_owned()),
                (false, true) => Err(format!("{path} has cgroups below it")),
                (false, false) => Self::write(root, &path, used),
            }
        });
        match begun {
            Ok((this, told)) => (Some(this), had(NAME, &told)),
            Err(why) => (None, absent(NAME, &why, remedy)),
        }
    }

    fn write(root: &Path, path: &CgroupPath, used: Bytes) -> Result<(Self, String), String> {
        let dir = root.join(path.0.trim_start_matches('/'));
        let failed = |file: &Path, why: io::Error| format!("{}: {why}", file.display());
        let procs = dir.join("cgroup.procs");
        let text = fs::read_to_string(&procs).map_err(|why| failed(&procs, why))?;
        if text.lines().any(|pid| pid != std::process::id().to_string()) {
            return Err(format!("{path} has other processes"));
        }
        let file = dir.join("memory.min");
        let before = fs::read_to_string(&file).map_err(|why| failed(&file, why))?;
        let before = before.trim_end().to_owned();
        // Whole pages, as the kernel says it back.
        let wanted = (used.0.saturating_add(MARGIN)).next_multiple_of(1 << 16);
        let is_enough = before == "max" || before.parse::<u64>().is_ok_and(|have| have >= wanted);
        let wrote = if is_enough { before.clone() } else { wanted.to_string() };
        if !is_enough {
            fs::write(&file, &wrote).map_err(|why| failed(&file, why))?;
        }
        let told = match unprotected(root, path) {
            Some(above) => format!("{wrote} bytes, to no effect: {above} protects nothing"),
            None => format!("{wrote} bytes"),
        };
        Ok((Self { file, before, wrote }, told))
    }
}

/// Puts it back as it was, unless another writer has changed it since.
impl Drop for Protected {
    fn drop(&mut self) {
        let Self { file, before, wrote } = self;
        let is_ours = fs::read_to_string(&*file).is_ok_and(|live| live.trim_end() == wrote);
        if is_ours
            && before != wrote
            && let Err(why) = fs::write(&*file, before)
        {
            tracing::warn!("{} stays as it is: {why}", file.display());
        }
    }
}

fn own(sample: &Sample) -> Result<(CgroupId, CgroupPath, Bytes), String> {
    let id = sample.own.ok_or("the cgroup tree does not show its own")?;
    let group = sample.cgroups.get(&id).ok_or("its own cgroup was not read")?;
    let used =
        group.memory.current.ok_or_else(|| format!("{} has no memory.current", group.path))?;
    Ok((id, group.path.clone(), used))
}

/// The cgroup above that takes the protection away.
fn unprotected(root: &Path, path: &CgroupPath) -> Option<String> {
    let mut above = Path::new(&*path.0).parent();
    while let Some(dir) = above.filter(|dir| *dir != Path::new("/")) {
        let file = root.join(dir.strip_prefix("/").unwrap_or(dir)).join("memory.min");
        let protects = fs::read_to_string(file).is_ok_and(|text| text.trim_end() != "0");
        if !protects {
            return Some(dir.display().to_string());
        }
        above = dir.parent();
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use isobar_core::model::cgroup::{Cgroup, MemoryFiles};

    const USED: u64 = 20 << 20;
    const WANTED: u64 = 36 << 20;

    /// A directory with the files of `/a/b`, and a sample that shows the agent in it.
    fn tree(min_above: &str, min: &str, procs: &str) -> (tempfile::TempDir, Sample) {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("a/b");
        fs::create_dir_all(&below).unwrap();
        fs::write(dir.path().join("a/memory.min"), min_above).unwrap();
        fs::write(below.join("memory.min"), min).unwrap();
        fs::write(below.join("cgroup.procs"), procs).unwrap();
        let mut sample = Sample { own: Some(CgroupId(3)), ..Sample::default() };
        for (id, path) in [(1, "/"), (2, "/a"), (3, "/a/b")] {
            let memory = MemoryFiles { current: Some(Bytes(USED)), ..MemoryFiles::default() };
            let parent = (id > 1).then(|| CgroupId(id - 1));
            let path = CgroupPath(path.into());
            let group = Cgroup { path, parent, memory, ..Cgroup::default() };
            sample.cgroups.insert(CgroupId(id), group.into());
        }
        (dir, sample)
    }

    #[test]
    fn protected_keeps_use_and_a_margin_until_drop() {
        let me = format!("{}\n", std::process::id());
        let wanted = WANTED.to_string();
        #[rustfmt::skip]
        let table = [
            // above, before, processes, told, written
            ("max\n", "0\n",          me.clone(),          "37748736 bytes", wanted.as_str()),
            ("0\n",   "0\n",          me.clone(),          "to no effect: /a protects nothing", &wanted),
            ("max\n", "max\n",        me.clone(),          "max bytes", "max\n"),
            ("max\n", "999999999\n",  me.clone(),          "999999999 bytes", "999999999\n"),
            ("max\n", "0\n",          format!("1\n{me}"),  "has other processes", "0\n"),
        ];
        for (above, before, procs, told, written) in table {
            let (dir, sample) = tree(above, before, &procs);
            let file = dir.path().join("a/b/memory.min");
            let (protected, capability) = Protected::begin(dir.path(), &sample);
            assert!(capability.detail.contains(told), "{told}: {capability:?}");
            assert_eq!(fs::read_to_string(&file).unwrap(), written, "{told}");
            drop(protected);
            let after = fs::read_to_string(&file).unwrap();
            assert_eq!(after.trim_end(), before.trim_end(), "{told}");
        }
    }

    #[test]
    fn protected_leaves_shared_cgroups_alone() {
        type Change = dyn Fn(&mut Sample);
        let me = format!("{}\n", std::process::id());
        let (dir, sample) = tree("max", "0", &me);
        let of = |change: &Change| {
            let mut sample = sample.clone();
            change(&mut sample);
            Protected::begin(dir.path(), &sample).1.detail
        };
        #[rustfmt::skip]
        let table: [(&Change, &str); 5] = [
            // what is different, told
            (&|s| s.own = None,              "does not show its own"),
            (&|s| s.own = Some(CgroupId(9)), "was not read"),
            (&|s| s.own = Some(CgroupId(1)), "in the root cgroup"),
            (&|s| s.own = Some(CgroupId(2)), "has cgroups below it"),
            (&|s| Arc::make_mut(s.cgroups.get_mut(&CgroupId(3)).unwrap()).memory.current = None, "has no memory.current"),
        ];
        for (change, want) in table {
            let told = of(change);
            assert!(told.contains(want), "{want}: {told}");
        }
        assert_eq!(fs::read_to_string(dir.path().join("a/b/memory.min")).unwrap(), "0");
    }

    #[test]
    fn protected_leaves_another_writers_value() {
        let me = format!("{}\n", std::process::id());
        let (dir, sample) = tree("max", "0", &me);
        let (protected, _) = Protected::begin(dir.path(), &sample);
        let file = dir.path().join("a/b/memory.min");
        fs::write(&file, "7\n").unwrap();
        drop(protected);
        assert_eq!(fs::read_to_string(&file).unwrap(), "7\n");
    }
}
