//! The agent as the component `restricted` has it run: with the capabilities that the manifest lists
//! and no other, no way to new ones, read-only mounts, and without the system calls that the runtimes'
//! seccomp profile takes away. The table of docs/kubernetes.md#profiles, row by row.

mod rights;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;

use rustix::process::geteuid;
use rustix::thread::CapabilitySet;
use serde_json::Value;

use crate::host::{Agent, Group, gaps, skip};
use crate::program::isobar;
pub(crate) use rights::Rights;

/// The user whom a pod's processes and cgroups belong to.
pub(crate) const NOBODY: u32 = 65_534;

/// What an agent with `rights` lacks: its capabilities that are neither there nor off, and its gaps
/// that are about `group`.
fn lacks(rights: &Rights, probes: &str, group: &Group) -> BTreeSet<String> {
    let dir = tempfile::tempdir().unwrap();
    let mut command = isobar(&["run"]);
    let confine = rights.confine(dir.path());
    // SAFETY: plain system calls on memory that was made before the fork.
    unsafe { command.pre_exec(confine) };
    let state = dir.path().join("state");
    let mut agent = Agent::spawn(command, &["--probes", probes], dir);
    let snapshot = agent.wait_for("a second tick", |snapshot| snapshot["tick"].as_u64() >= Some(2));
    let listed = snapshot["capabilities"].as_array().unwrap().iter();
    let absent = listed.filter(|one| one["state"] == "absent" || one["state"] == "blind");
    let absent = absent.map(|one| one["name"].as_str().unwrap().to_owned());
    let gap = gaps(&snapshot, group.path()).map(|_| "cgroups of other users".to_owned());
    let lacking = absent.chain(gap).chain(unmetered(&snapshot)).collect();
    let left = agent.stop();
    assert_eq!(left.code(), Some(0), "{}", agent.stderr());
    assert!(fs::read_dir(&state).unwrap().next().is_some(), "nothing is kept in {state:?}");
    lacking
}

/// The cost of the agent's own programs, where they are there and it is unknown.
fn unmetered(snapshot: &Value) -> Option<String> {
    let is_metered =
        snapshot["cost"]["kernel"]["programs"].as_array().is_some_and(|all| !all.is_empty());
    (snapshot["covers"]["waits"] == true && !is_metered).then(|| "cost of programs".into())
}

#[test]
fn restricted_agent_lacks_only_what_is_documented() {
    if !geteuid().is_root() {
        skip("only root has capabilities to give up");
        return;
    }
    let Some(group) = Group::make("restricted") else { return };
    fs::set_permissions(group.dir(), fs::Permissions::from_mode(0o700)).unwrap();
    chown(group.dir(), Some(NOBODY), Some(NOBODY)).unwrap();
    assert_eq!(fs::metadata(group.dir()).unwrap().uid(), NOBODY);

    let restricted = Rights::of_manifest(&["restricted"]);
    // What this machine's kernel refuses to any process.
    let whole = lacks(&Rights::all(), "all", &group);
    let usual = lacks(&restricted, "all", &group);
    let more: Vec<&String> = usual.difference(&whole).collect();
    let is_metered = !whole.contains("cost of programs") && !whole.contains("kernel side");
    let documented = if is_metered { &["cost of programs"][..] } else { &[] };
    assert_eq!(more, documented, "with all that the manifest lists");

    #[rustfmt::skip]
    let table = [
        // taken away,                   probes, is then lacking
        (CapabilitySet::BPF,             "all",  &["kernel side"][..]),
        (CapabilitySet::PERFMON,         "all",  &["sched_switch", "mark_victim"]),
        (CapabilitySet::SYS_RESOURCE,    "none", &["OOM score", "pressure triggers"]),
        (CapabilitySet::DAC_READ_SEARCH, "none", &["cgroups of other users"]),
        (CapabilitySet::IPC_LOCK,        "none", &["memory locked"]),
        (CapabilitySet::SYS_NICE,        "none", &["scheduling"]),
    ];
    let tried = table.iter().fold(CapabilitySet::empty(), |all, row| all | row.0);
    assert_eq!(tried, restricted.listed(), "a row for each capability of the manifest");
    for (taken, probes, want) in table {
        if !Rights::all().has(taken) {
            println!("skipped: this machine lets nobody have {taken:?}");
            continue;
        }
        let lacking = lacks(&restricted.without(taken), probes, &group);
        let new: BTreeSet<&str> = lacking.difference(&usual).map(String::as_str).collect();
        let want: BTreeSet<&str> =
            want.iter().copied().filter(|name| !whole.contains(*name)).collect();
        let is_right = if probes == "all" { want.is_subset(&new) } else { want == new };
        assert!(is_right, "without {taken:?}: expected {want:?}, found {new:?}");
    }
}
