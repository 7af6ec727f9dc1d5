//! What the kernel means by refusing a limit, and what to do about it.

use std::io;

use rustix::io::Errno;

use isobar_core::model::cgroup::CgroupPath;

/// Why `file` of `cgroup` cannot be read or written.
pub(super) fn words(what: &str, cgroup: &CgroupPath, file: &str, why: &io::Error) -> String {
    let told = told(cgroup, file, Errno::from_io_error(why));
    format!("cannot {what} {file} of {cgroup}: {}", told.unwrap_or_else(|| why.to_string()))
}

fn told(cgroup: &CgroupPath, file: &str, errno: Option<Errno>) -> Option<String> {
    let controller = file.split('.').next().unwrap_or(file);
    let is_cpuset = controller == "cpuset";
    let words = match errno? {
        Errno::NOENT => format!(
            "the controller {controller} is off there; to have it, write +{controller} to \
             cgroup.subtree_control of {} and of all above it",
            above(cgroup)
        ),
        Errno::NODEV => "the cgroup has just gone".into(),
        Errno::BUSY if is_cpuset => {
            "another cgroup has some of these CPUs for itself (cpuset.cpus.partition)".into()
        }
        Errno::BUSY => "more than that is in use (EBUSY)".into(),
        Errno::NOSPC if is_cpuset => "a cpuset in which something runs needs a CPU".into(),
        Errno::INVAL => "the kernel takes no such value (EINVAL)".into(),
        Errno::PERM | Errno::ACCESS => {
            "not permitted: run as root of the host, with a cgroup tree that is its own".into()
        }
        Errno::ROFS => {
            "the cgroup tree is mounted read-only here: a container must be privileged, or have \
             it mounted writable"
                .into()
        }
        _ => return None,
    };
    Some(words)
}

/// The path of the cgroup above.
fn above(cgroup: &CgroupPath) -> CgroupPath {
    let mut names: Vec<_> = cgroup.segments().collect();
    names.pop();
    names.iter().fold(CgroupPath::root(), |path, name| path.child(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_names_the_way_out() {
        let pods = CgroupPath("/a/kubepods".into());
        #[rustfmt::skip]
        let table = [
            // file, refused with, part of what is said
            ("memory.max",      Errno::NOENT,  "the controller memory is off there; to have it, write +memory to cgroup.subtree_control of /a"),
            ("hugetlb.2MB.max", Errno::BUSY,   "more than that is in use"),
            ("cpuset.cpus",     Errno::BUSY,   "cpuset.cpus.partition"),
            ("cpuset.cpus",     Errno::NOSPC,  "needs a CPU"),
            ("cpuset.cpus",     Errno::INVAL,  "takes no such value"),
            ("pids.max",        Errno::PERM,   "not permitted: run as root"),
            ("pids.max",        Errno::ACCESS, "not permitted: run as root"),
            ("memory.max",      Errno::ROFS,   "mounted read-only"),
            ("memory.max",      Errno::NODEV,  "has just gone"),
            ("memory.max",      Errno::IO,     "os error 5"),
        ];
        for (file, errno, want) in table {
            let got = words("write", &pods, file, &errno.into());
            assert!(got.starts_with(&format!("cannot write {file} of /a/kubepods: ")), "{got}");
            assert!(got.contains(want), "{file} {errno:?}: {got}");
        }
        assert_eq!(above(&CgroupPath("/kubepods".into())), CgroupPath::root());
    }
}
