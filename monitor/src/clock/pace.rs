//! How much of a CPU the threads that read the agent's own recording take: they come after all other
//! work, and where the agent has a quota they leave the tick most of it.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use rustix::process::setpriority_process;

use super::used_by_this_thread;
use isobar_core::model::units::Nanos;

/// A tenth of the weight of ordinary work, and far below the tick's: on a node that is short of CPUs a
/// reader who looks for the cause still gets an answer.
pub(crate) const NICE: i32 = 10;
/// Well below what the smallest usual quota, 20 ms of each 100, has in one period.
const STRETCH: Nanos = Nanos(4_000_000);
/// A rest is so many times as long as the thread ran before it. While it only waited for a CPU it took
/// nothing, and where CPUs are short an answer is needed most.
const REST: u32 = 1;
const REST_IN_QUOTA: u32 = 10;
const TREE: &str = "/sys/fs/cgroup";

#[derive(Debug)]
pub(crate) struct Pace {
    /// 0 for none.
    rest: u32,
    /// CPU time that the thread had used by then.
    began: Nanos,
}

impl Pace {
    /// Of a program that does nothing else.
    pub(crate) fn full() -> Self {
        Self { rest: 0, began: Nanos(0) }
    }

    /// Of a thread beside an agent, which calls it.
    pub(crate) fn behind_the_tick() -> Self {
        // Without it the thread is no less right.
        let _ = setpriority_process(None, NICE);
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let rest = if has_quota(Path::new(TREE), &own) { REST_IN_QUOTA } else { REST };
        Self { rest, began: used_by_this_thread() }
    }

    /// Called before work that follows a wait.
    pub(crate) fn begin(&mut self) {
        self.began = used_by_this_thread();
    }

    /// Called between two pieces of work; rests if it is time.
    pub(crate) fn between(&mut self) {
        if self.rest == 0 {
            return;
        }
        let took = used_by_this_thread().since(self.began);
        if took >= STRETCH {
            sleep(Duration::from_nanos(took.min(Nanos::SECOND).0) * self.rest);
            self.began = used_by_this_thread();
        }
    }
}

/// The cgroup that `/proc/self/cgroup` names, or one above it, has a limit of CPU time; true also where
/// that cannot be known. The controller is in the first version of cgroups or in the second.
fn has_quota(tree: &Path, own: &str) -> bool {
    let of_first = |line: &str| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(":/")?;
        let has_cpu = controllers.split(',').any(|one| one == "cpu");
        has_cpu.then(|| (tree.join("cpu"), path.to_owned(), "cpu.cfs_quota_us", "-1"))
    };
    let of_second = |line: &str| {
        Some((tree.to_owned(), line.strip_prefix("0::/")?.to_owned(), "cpu.max", "max"))
    };
    let found = own.lines().find_map(of_first).or_else(|| own.lines().find_map(of_second));
    let Some((tree, path, file, none)) = found else { return true };
    if path.contains("..") || !tree.join("cgroup.procs").exists() || !tree.join(&path).exists() {
        return true;
    }
    let above = Path::new(&path).ancestors().map(|path| tree.join(path).join(file));
    // The root of the second version has no such file.
    let mut limits = above.filter_map(|file| fs::read_to_string(file).ok());
    limits.any(|limit| !limit.starts_with(none))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_quota_looks_upwards() {
        let tree = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            fs::create_dir_all(tree.path().join(path).parent().unwrap()).unwrap();
            fs::write(tree.path().join(path), text).unwrap();
        };
        write("cgroup.procs", "1\n");
        write("cpu/cgroup.procs", "1\n");
        write("cpu/cpu.cfs_quota_us", "-1\n");
        write("cpu/own/cpu.cfs_quota_us", "20000\n");
        write("free/own/cpu.max", "max 100000\n");
        write("free/cpu.max", "max 100000\n");
        write("pods/cpu.max", "20000 100000\n");
        write("pods/own/cpu.max", "max 100000\n");
        #[rustfmt::skip]
        let table = [
            // /proc/self/cgroup, has a quota
            ("0::/\n",                   false),
            ("0::/free/own\n",           false),
            ("4:cpu,cpuacct:/\n0::/x\n",  false),
            ("4:cpu:/own\n0::/free\n",    true),
            ("4:memory:/x\n0::/free/own\n", false),
            ("0::/pods/own\n",           true),
            ("0::/../own\n",             true), // outside of what can be seen
            ("0::/gone\n",               true),
            ("4:memory:/x\n",            true),
            ("",                         true),
        ];
        for (own, want) in table {
            assert_eq!(has_quota(tree.path(), own), want, "{own:?}");
        }
        assert!(has_quota(Path::new("/nowhere"), "0::/\n"));
    }
}
