use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::geteuid;

use super::*;

/// A node in ordinary directories: `/proc` and a cgroup tree.
struct Node {
    dir: tempfile::TempDir,
}

impl Node {
    fn new() -> Self {
        let node = Self { dir: tempfile::tempdir().unwrap() };
        node.cgroup("/", "");
        fs::create_dir(node.dir.path().join("proc")).unwrap();
        node
    }

    fn cgroup(&self, path: &str, procs: &str) -> PathBuf {
        let dir = self.dir.path().join("cgroup").join(path.trim_start_matches('/'));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("cgroup.procs"), procs).unwrap();
        dir
    }

    fn process(&self, pid: u32, status: &str, oom_score_adj: &str) {
        let dir = self.dir.path().join("proc").join(pid.to_string());
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("status"), status).unwrap();
        fs::write(dir.join("oom_score_adj"), oom_score_adj).unwrap();
    }

    fn read(&self, wanted: impl Fn(&CgroupPath) -> bool) -> (Vec<Members>, Vec<Gap>) {
        let root = Root::open(&self.dir.path().join("cgroup")).unwrap();
        Processes { proc: self.dir.path().join("proc"), root }.read(wanted)
    }
}

const STATUS: &str = "Name:\tsleep\nUmask:\t0022\nPPid:\t1\nVmRSS:\t    5120 kB\nCpus_allowed:\tf\nCpus_allowed_list:\t0-3\nMems_allowed_list:\t0\n";

fn names(found: &[Members]) -> Vec<(&str, Vec<u32>)> {
    let pids = |members: &Members| members.processes.iter().map(|p| p.pid).collect();
    found.iter().map(|members| (&*members.path.0, pids(members))).collect()
}

#[test]
fn processes_read_lists_each_cgroup() {
    let node = Node::new();
    node.cgroup("/b", "7\n5\n");
    node.cgroup("/a", "");
    node.cgroup("/a/deep", "9\n9\n");
    node.process(5, STATUS, "1000\n");
    node.process(7, STATUS, "-997\n");
    node.process(9, STATUS, "0\n");
    let (found, gaps) = node.read(|_| true);
    assert_eq!(names(&found), [("/a/deep", vec![9]), ("/b", vec![5, 7])]);
    assert_eq!(gaps, []);
    let want = Process {
        pid: 7,
        name: "sleep".into(),
        oom_score_adj: -997,
        cpus_allowed: "0-3".parse().unwrap(),
        memory: Some(Bytes(5 << 20)),
        is_kernel_thread: false,
    };
    assert_eq!(found[1].processes[1], want);
    let (found, _) = node.read(|path| path.0.starts_with("/a"));
    assert_eq!(names(&found), [("/a/deep", vec![9])], "only what is wanted is read");
}

#[test]
fn processes_read_skips_exited_processes() {
    let node = Node::new();
    node.cgroup("/a", "5\n6\n");
    node.process(6, STATUS, "0\n");
    assert_eq!(names(&node.read(|_| true).0), [("/a", vec![6])]);
    assert_eq!(node.read(|_| true).1, []);
}

#[test]
fn processes_read_names_the_malformed_file() {
    #[rustfmt::skip]
    let table = [
        // status, oom_score_adj, cgroup.procs, detail
        (STATUS,                                "high\n",  "5\n",  "oom_score_adj line 1: expected a number"),
        (STATUS,                                "7",       "5\n",  "oom_score_adj line 1: expected a line feed"),
        ("Name:\tx\n",                          "0\n",     "5\n",  "status line 1: expected a line with Cpus_allowed_list"),
        ("Cpus_allowed_list:\t0\n",             "0\n",     "5\n",  "status line 1: expected a line with Name"),
        ("Name:\tx\nCpus_allowed_list:\t0-\n",  "0\n",     "5\n",  "status line 2: expected a list of CPUs"),
        ("",                                    "0\n",     "5\n",  "status line 1: expected a line with Name"),
        (STATUS,                                "0\n",     "five\n", "cgroup.procs line 1: expected a pid"),
        (STATUS,                                "0\n",     "0\n",  "has processes of another PID namespace"),
    ];
    for (status, oom_score_adj, procs, want) in table {
        let node = Node::new();
        node.cgroup("/a", procs);
        node.process(5, status, oom_score_adj);
        let (found, gaps) = node.read(|_| true);
        assert_eq!((found.len(), gaps.len()), (0, 1), "{want}: {gaps:?}");
        let gap = format!("{} {}", gaps[0].object, gaps[0].detail);
        assert!(gap.contains(want), "{want}: {gap}");
    }
}

#[test]
fn processes_read_reports_a_denied_directory() {
    if geteuid().is_root() {
        println!("skipped: root may list every directory");
        return;
    }
    let node = Node::new();
    let dir = node.cgroup("/a", "");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o000)).unwrap();
    let (_, gaps) = node.read(|_| true);
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
    assert!(gaps.iter().all(|gap| gap.why == GapReason::Denied) && !gaps.is_empty(), "{gaps:?}");
}

#[test]
fn processes_read_reports_a_name_that_is_not_utf8() {
    let node = Node::new();
    let odd = std::ffi::OsStr::from_bytes(b"\xff");
    fs::create_dir(node.dir.path().join("cgroup").join(odd)).unwrap();
    let (_, gaps) = node.read(|_| true);
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert!(gaps[0].detail.contains("its name is not UTF-8"), "{gaps:?}");
}

#[test]
fn status_parses_this_process() {
    let dir = Path::new("/proc/self");
    let Status { name, cpus_allowed, .. } = gap::read(&dir.join("status"), status).unwrap();
    assert!(!name.is_empty() && !cpus_allowed.0.is_empty(), "{name} {cpus_allowed}");
    let score = gap::read(&dir.join("oom_score_adj"), oom_score_adj).unwrap();
    assert!((-1_000..=1_000).contains(&score), "{score}");
}

#[test]
fn processes_read_recognises_kernel_threads() {
    let status = |parent: u32| format!("Name:\tx\nPPid:\t{parent}\nCpus_allowed_list:\t0\n");
    let node = Node::new();
    node.cgroup("/", "1\n2\n3\n4\n");
    node.process(1, STATUS, "0\n");
    node.process(2, &status(0), "0\n");
    node.process(3, &status(2), "0\n");
    node.process(4, &status(1), "0\n");
    let (found, gaps) = node.read(|_| true);
    let told: Vec<_> =
        found[0].processes.iter().map(|p| (p.is_kernel_thread, p.memory.is_some())).collect();
    assert_eq!(told, [(false, true), (true, false), (true, false), (false, false)]);
    assert_eq!(gaps, []);
}

#[test]
fn processes_cgroups_tell_what_users_own() {
    if !geteuid().is_root() {
        println!("skipped: only root can give a directory away");
        return;
    }
    let node = Node::new();
    #[rustfmt::skip]
    let table = [
        // path, who owns it, delegated
        ("/kubepods",          0,    false),
        ("/user",              1000, true),
        ("/user/kubepods",     1000, true),
        ("/user/root",         0,    true), // a user owns the one above
        ("/user/root/deep",    0,    true),
    ];
    for (path, owner, _) in table {
        std::os::unix::fs::chown(node.cgroup(path, ""), Some(owner), None).unwrap();
    }
    let root = Root::open(&node.dir.path().join("cgroup")).unwrap();
    let found = Processes { proc: node.dir.path().join("proc"), root }.cgroups();
    let mut found: Vec<_> = found.values().map(|c| (&*c.path.0, c.is_delegated)).collect();
    found.sort_unstable();
    let want = table.map(|(path, _, is_delegated)| (path, is_delegated));
    assert_eq!(found, [&[("/", false)], &want[..]].concat());
}
