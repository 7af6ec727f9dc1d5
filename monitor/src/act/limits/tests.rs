use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;
use LimitResult::{Drifted, Failed, Kept, Observed, Written};

const MIB: u64 = 1 << 20;

/// A cgroup tree, a `/proc` and a state directory of plain files.
struct Node(TempDir);

impl Node {
    fn new() -> Self {
        let node = Self(tempfile::tempdir().unwrap());
        node.set("proc/sys/kernel/random/boot_id", "one\n");
        let gib = (1024 * MIB).to_string();
        let files = [
            ("memory.max", "max"),
            ("memory.current", gib.as_str()),
            ("memory.stat", "anon 1\ninactive_file 104857600\n"),
            ("cpu.weight", "100"),
            ("cpuset.cpus", ""),
        ];
        for (file, text) in files {
            node.set(&format!("cgroup/kubepods/{file}"), &format!("{text}\n"));
        }
        node
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn set(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn get(&self, file: &str) -> String {
        fs::read_to_string(self.at(&format!("cgroup/kubepods/{file}"))).unwrap().trim().into()
    }

    fn limits(&self) -> Limits {
        Limits::new(Places {
            cgroup_root: self.at("cgroup"),
            proc: self.at("proc"),
            state: self.at("state"),
        })
    }
}

fn write(file: &str, value: impl ToString) -> LimitWrite {
    let what = match file {
        "cpuset.cpus" => WrittenLimit::ReservedCpus,
        _ => WrittenLimit::Allocatable,
    };
    let cgroup = CgroupPath("/kubepods".into());
    LimitWrite { what, cgroup, file: file.into(), value: value.to_string() }
}

fn seconds(n: u64) -> Nanos {
    Nanos(n * Nanos::SECOND.0)
}

#[track_caller]
fn only(states: Vec<LimitState>) -> LimitState {
    let [one] = <[_; 1]>::try_from(states).unwrap();
    one
}

#[test]
fn limits_write_and_roll_back_from_disk_alone() {
    let node = Node::new();
    #[rustfmt::skip]
    let table = [
        // file, before, wanted
        ("memory.max",  "max", (2048 * MIB + 100).to_string()),
        ("cpu.weight",  "100", "39".into()),
        ("cpuset.cpus", "",    "1,2,3".into()),
    ];
    for (file, before, wanted) in &table {
        let writes = [write(file, wanted)];
        let got = only(node.limits().hold(&writes, true, seconds(1)));
        assert_eq!((got.result, got.detail.as_str()), (Written, ""), "{file}");
        assert_eq!((got.before.as_deref(), got.live.as_ref()), (Some(*before), Some(wanted)));
        assert_eq!(node.get(file), *wanted, "{file}");
        let again = only(node.limits().hold(&writes, true, seconds(2)));
        assert_eq!((again.result, again.before.as_deref()), (Kept, Some(*before)), "{file}");
    }
    let cpus = only(node.limits().roll_back(WrittenLimit::ReservedCpus));
    assert_eq!((cpus.result, node.get("cpuset.cpus").as_str()), (Written, ""));
    assert_eq!(node.get("cpu.weight"), "39", "another limit's are left");
    let back = node.limits().roll_back(WrittenLimit::Allocatable);
    let files: Vec<_> = back.iter().map(|s| (s.write.file.as_str(), s.result)).collect();
    assert_eq!(files, [("memory.max", Written), ("cpu.weight", Written)]);
    assert_eq!((node.get("memory.max"), node.get("cpu.weight")), ("max".into(), "100".into()));
    assert_eq!(node.limits().roll_back(WrittenLimit::Allocatable), [], "only once");
}

#[test]
fn limits_observed_write_nothing() {
    let node = Node::new();
    let got = only(node.limits().hold(&[write("cpu.weight", 39)], false, seconds(1)));
    assert_eq!((got.result, got.live.as_deref(), got.before), (Observed, Some("100"), None));
    assert_eq!(got.detail, "would write 39 over \"100\"");
    assert_eq!(node.get("cpu.weight"), "100");
    assert!(!node.at("state").exists());
    let kept = only(node.limits().hold(&[write("cpu.weight", 100)], false, seconds(1)));
    assert_eq!(kept.result, Kept);
}

#[test]
fn limits_that_cannot_be_written_name_the_way_out() {
    type Change = fn(&Node);
    #[rustfmt::skip]
    let table: [(&str, Change, LimitWrite, &str); 7] = [
        // row, what is different, what is to be written, what is said
        ("no cgroup",     |n| fs::remove_dir_all(n.at("cgroup/kubepods")).unwrap(), write("memory.max", 9 * 1024 * MIB), "/kubepods is not there"),
        ("no controller", |_| {}, write("pids.max", 9), "the controller pids is off there; to have it, write +pids to cgroup.subtree_control of /"),
        ("in use",        |_| {}, write("memory.max", 800 * MIB), "uses 924 MiB beside idle page cache: a limit of 800 MiB would have to take 124 MiB from what runs there, so that much must be evicted first"),
        ("refused",       |n| { fs::remove_file(n.at("cgroup/kubepods/cpu.weight")).unwrap(); fs::create_dir(n.at("cgroup/kubepods/cpu.weight")).unwrap(); }, write("cpu.weight", 9), "cannot read cpu.weight of /kubepods"),
        ("no state",      |n| n.set("state", "a file"), write("cpu.weight", 39), "nothing is written that could not be taken back: cannot keep"),
        ("spoilt state",  |n| n.set("state/limits.json", "{"), write("cpu.weight", 39), "limits.json is damaged"),
        ("way out",       |_| {}, LimitWrite { cgroup: CgroupPath("/../proc".into()), ..write("cpu.weight", 39) }, "leads out of the tree"),
    ];
    for (row, change, write, want) in table {
        let node = Node::new();
        change(&node);
        let got = only(node.limits().hold(&[write], true, seconds(1)));
        assert_eq!(got.result, Failed, "{row}: {}", got.detail);
        assert!(got.detail.contains(want), "{row}: {}", got.detail);
        if node.at("cgroup/kubepods/cpu.weight").is_file() {
            assert_eq!(
                (node.get("cpu.weight").as_str(), node.get("memory.max").as_str()),
                ("100", "max"),
                "{row}"
            );
        }
    }
}

#[test]
fn limits_leave_room_for_all_but_idle_cache() {
    let node = Node::new();
    let got = only(node.limits().hold(&[write("memory.max", 924 * MIB)], true, seconds(1)));
    assert_eq!(got.result, Written, "{}", got.detail);
}

#[test]
fn limits_contested_are_left_to_the_other_writer() {
    let node = Node::new();
    node.set("proc/7/comm", "kubelet\n");
    let mut limits = node.limits();
    let writes = [write("cpu.weight", 39)];
    #[rustfmt::skip]
    let table = [
        // second, what somebody writes before it, how it stands then, and what the file holds
        (0,   None,        Written, "39"),
        (10,  None,        Kept,    "39"),
        (20,  Some("77"),  Drifted, "39"),
        (30,  Some("100"), Drifted, "39"),   // the value from before is somebody else's too
        (21_625, Some("77"), Drifted, "39"), // more than six hours after the first one
        (21_640, Some("78"), Drifted, "39"), // and after the second
        (21_650, Some("79"), Failed,  "79"),
        (21_660, None,     Failed,  "79"),
        (90_000, None,     Failed,  "79"),   // no matter how long it has been
        (90_010, Some("39"), Kept,  "39"),   // they gave in
        (90_070, Some("50"), Drifted, "39"), // once a minute
        (90_130, Some("50"), Drifted, "39"),
        (90_190, Some("50"), Failed,  "50"),
        (90_200, Some("39"), Kept,    "39"),
        (90_210, Some("50"), Drifted, "39"), // once in hours
        (99_000, None,       Kept,    "39"),
        (99_010, Some("50"), Drifted, "39"),
        (111_800, Some("50"), Failed, "50"),
        (111_810, Some("39"), Kept,   "39"),
        (111_820, Some("50"), Drifted, "39"),
    ];
    for (second, somebody, result, holds) in table {
        if let Some(text) = somebody {
            node.set("cgroup/kubepods/cpu.weight", text);
        }
        let got = only(limits.hold(&writes, true, seconds(second)));
        assert_eq!((got.result, node.get("cpu.weight").as_str()), (result, holds), "at {second} s");
        match result {
            Drifted => {
                let want = format!(
                    "another writer changed 39 to {:?}; it was written again",
                    somebody.unwrap()
                );
                assert_eq!(got.detail, want, "at {second} s");
            }
            Failed => {
                let told = got.detail.contains("3 times within six hours")
                    && got.detail.contains("the kubelet (7)");
                assert!(told, "at {second} s: {}", got.detail);
            }
            _ => {}
        }
    }
    node.set("cgroup/kubepods/cpu.weight", "60");
    let other = only(limits.hold(&[write("cpu.weight", 40)], true, seconds(111_821)));
    assert_eq!((other.result, node.get("cpu.weight").as_str()), (Drifted, "40"), "told anew");
}

#[test]
fn roll_back_leaves_limits_of_another_writer() {
    type Change = fn(&Node);
    #[rustfmt::skip]
    let table: [(&str, Change, &str, LimitResult, &str); 5] = [
        // row, what happened since, what the file holds then, result, what is said
        ("ours",      |_| {}, "100", Written, ""),
        ("theirs",    |n| n.set("cgroup/kubepods/cpu.weight", "77"), "77", Drifted, "another writer changed 39 to \"77\", and that stays"),
        ("back",      |n| n.set("cgroup/kubepods/cpu.weight", "100"), "100", Kept, "it stands as it stood before"),
        ("new group", |n| { fs::rename(n.at("cgroup/kubepods"), n.at("old")).unwrap(); n.set("cgroup/kubepods/cpu.weight", "39"); }, "39", Kept, "the cgroup has gone, and its limits with it"),
        ("refused",   |n| { fs::remove_file(n.at("cgroup/kubepods/cpu.weight")).unwrap(); }, "", Failed, "the controller cpu is off there"),
    ];
    for (row, change, holds, result, said) in table {
        let node = Node::new();
        node.limits().hold(&[write("cpu.weight", 39)], true, seconds(1));
        change(&node);
        let got = only(node.limits().roll_back(WrittenLimit::Allocatable));
        assert_eq!(got.result, result, "{row}: {}", got.detail);
        assert!(got.detail.contains(said), "{row}: {}", got.detail);
        if result == Failed {
            let again = node.limits().roll_back(WrittenLimit::Allocatable);
            assert_eq!(again.len(), 1, "{row}: it can be tried again");
            continue;
        }
        assert_eq!(node.get("cpu.weight"), holds, "{row}");
        assert_eq!(node.limits().roll_back(WrittenLimit::Allocatable), [], "{row}");
    }
}

#[test]
fn roll_back_gives_back_what_another_writer_wrote_last() {
    #[rustfmt::skip]
    let table = [
        // what another writer wrote over 39, what is held then; the result, and what is there after the roll-back
        (50, 39, Drifted, "50"),
        (50, 40, Drifted, "50"),
        (50, 50, Kept,    "50"),
    ];
    for (other, value, result, want) in table {
        let node = Node::new();
        let mut limits = node.limits();
        limits.hold(&[write("cpu.weight", 39)], true, seconds(1));
        node.set("cgroup/kubepods/cpu.weight", &other.to_string());
        let got = only(limits.hold(&[write("cpu.weight", value)], true, seconds(2)));
        assert_eq!(got.result, result, "{value}");
        node.limits().roll_back(WrittenLimit::Allocatable);
        assert_eq!(node.get("cpu.weight"), want, "{value}");
    }
}

#[test]
fn limits_of_another_boot_or_cgroup_are_ignored() {
    let node = Node::new();
    node.limits().hold(&[write("cpu.weight", 39)], true, seconds(1));
    node.set("proc/sys/kernel/random/boot_id", "two\n");
    node.set("cgroup/kubepods/cpu.weight", "50");
    let got = only(node.limits().hold(&[write("cpu.weight", 39)], true, seconds(2)));
    assert_eq!((got.result, got.before.as_deref()), (Written, Some("50")));
    fs::rename(node.at("cgroup/kubepods"), node.at("old")).unwrap();
    node.set("cgroup/kubepods/cpu.weight", "60");
    let got = only(node.limits().hold(&[write("cpu.weight", 39)], true, seconds(3)));
    assert_eq!((got.result, got.before.as_deref()), (Written, Some("60")));
    let back = only(node.limits().roll_back(WrittenLimit::Allocatable));
    assert_eq!((back.result, node.get("cpu.weight").as_str()), (Written, "60"));
}

/// What is on disk when the process ends between announcing a write and confirming it.
fn announced(node: &Node, live: &str) {
    let state = node.at("state");
    let cgroup = Cgroup::new(&node.at("cgroup"), &CgroupPath("/kubepods".into()));
    let mut remembered = Remembered::open(&state, &node.at("proc"), true).unwrap();
    remembered.announce(&write("cpu.weight", 39), cgroup.id().unwrap(), "100").unwrap();
    node.set("cgroup/kubepods/cpu.weight", live);
}

#[test]
fn limits_survive_a_crash_before_the_write() {
    #[rustfmt::skip]
    let table = [
        // what stands there after the crash, held again, what stood there before that, taken back instead
        ("100", Written, "100", Kept),
        ("39",  Kept,    "100", Written),
        ("50",  Drifted, "50",  Drifted), // another writer's
    ];
    for (live, held, before, back) in table {
        let node = Node::new();
        announced(&node, live);
        let got = only(node.limits().hold(&[write("cpu.weight", 39)], true, seconds(1)));
        assert_eq!((got.result, got.before.as_deref()), (held, Some(before)), "{live}");
        let node = Node::new();
        announced(&node, live);
        let got = only(node.limits().roll_back(WrittenLimit::Allocatable));
        assert_eq!(got.result, back, "{live}");
        assert!(!Path::new(&node.at("state/limits.json.new")).exists());
    }
}

#[test]
fn limits_of_another_value_keep_the_first_before() {
    let node = Node::new();
    let mut limits = node.limits();
    for (value, result) in [(39, Written), (40, Written), (41, Written), (42, Written), (42, Kept)]
    {
        let got = only(limits.hold(&[write("cpu.weight", value)], true, seconds(1)));
        assert_eq!((got.result, got.before.as_deref()), (result, Some("100")), "{value}");
    }
    limits.roll_back(WrittenLimit::Allocatable);
    assert_eq!(node.get("cpu.weight"), "100");
}
