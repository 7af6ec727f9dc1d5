//! Resolves the kernel members that the programs read.
//! In: the kernel's BTF. Out: the globals of `monitor-ebpf/src/layout.rs`, by name, and the members
//! that this kernel lacks, so that a program that needs one is not loaded.

use std::collections::BTreeMap;

use super::btf::{Btf, BtfError};

/// A member, and the members that other kernels have in its place.
type Ways = &'static [(&'static str, &'static str)];

/// Globals that hold a member's offset. Offsets differ between kernels, and some names do.
const MEMBERS: &[(&str, Ways)] = &[
    ("TASK_PID", &[("task_struct", "pid")]),
    ("TASK_COMM", &[("task_struct", "comm")]),
    ("TASK_FLAGS", &[("task_struct", "flags")]),
    ("TASK_CGROUPS", &[("task_struct", "cgroups")]),
    ("TASK_LAST_QUEUED", &[("task_struct", "sched_info.last_queued")]),
    ("TASK_CFS_RQ", &[("task_struct", "se.cfs_rq")]),
    ("TASK_SE_PARENT", &[("task_struct", "se.parent")]),
    ("TASK_SE_DEPTH", &[("task_struct", "se.depth")]),
    ("TASK_ON_RQ", &[("task_struct", "on_rq")]),
    ("TASK_IN_IOWAIT", &[("task_struct", "in_iowait")]),
    ("TASK_IN_MEMSTALL", &[("task_struct", "in_memstall")]),
    ("CSS_SET_DFL_CGRP", &[("css_set", "dfl_cgrp")]),
    ("CSS_SET_MEMORY", &[("css_set", "subsys")]),
    ("CGROUP_KN", &[("cgroup", "kn")]),
    ("CGROUP_ROOT", &[("cgroup", "root")]),
    ("CGROUP_ROOT_HIERARCHY", &[("cgroup_root", "hierarchy_id")]),
    ("CGROUP_PARENT", &[("cgroup", "self.parent")]),
    ("KERNFS_ID", &[("kernfs_node", "id")]),
    ("CSS_CGROUP", &[("cgroup_subsys_state", "cgroup")]),
    ("MEMCG_CSS_CGROUP", &[("mem_cgroup", "css.cgroup")]),
    ("MEMCG_USAGE", &[("mem_cgroup", "memory.usage")]),
    ("MEMCG_HIGH", &[("mem_cgroup", "memory.high")]),
    ("OOM_MEMCG", &[("oom_control", "memcg")]),
    ("SE_PARENT", &[("sched_entity", "parent")]),
    ("SE_CFS_RQ", &[("sched_entity", "cfs_rq")]),
    ("CFS_RQ_RQ", &[("cfs_rq", "rq")]),
    ("CFS_RQ_TG", &[("cfs_rq", "tg")]),
    ("CFS_RQ_CURR", &[("cfs_rq", "curr")]),
    ("CFS_RQ_THROTTLED", &[("cfs_rq", "throttled")]),
    ("CFS_RQ_THROTTLE_COUNT", &[("cfs_rq", "throttle_count")]),
    ("CFS_RQ_THROTTLE_CLOCK", &[("cfs_rq", "throttled_clock_self_time")]),
    (
        "CFS_RQ_WAITERS",
        &[("cfs_rq", "h_nr_runnable"), ("cfs_rq", "h_nr_queued"), ("cfs_rq", "h_nr_running")],
    ),
    ("CFS_RQ_DELAYED", &[("cfs_rq", "h_nr_delayed")]),
    ("TG_CGROUP", &[("task_group", "css.cgroup")]),
    ("TG_QUOTA", &[("task_group", "cfs_bandwidth.quota")]),
    ("RQ_CLOCK", &[("rq", "clock")]),
    ("RQ_CPU", &[("rq", "cpu")]),
    ("RQ_NR_RUNNING", &[("rq", "nr_running")]),
    ("RQ_NR_IOWAIT", &[("rq", "nr_iowait")]),
    ("RQ_CFS_QUEUED", &[("rq", "cfs.h_nr_queued"), ("rq", "cfs.h_nr_running")]),
    ("RQ_CFS_RUNNABLE", &[("rq", "cfs.h_nr_runnable")]),
];

/// What the agent knows of the host before it loads a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Host {
    /// The cpu controller is on cgroup v2, so a run queue belongs to a v2 cgroup.
    pub cpu_on_v2: bool,
    /// The memory controller is on cgroup v1: whose limit a task reaches is then told by ids that no
    /// cgroup of v2 has, or another one.
    pub memory_on_v1: bool,
    /// PSI is on: the kernel sets `task_struct.in_memstall`.
    pub psi: bool,
    /// The agent's own cgroup, if known: the self-test looks for its waits.
    pub own_cgroup: Option<u64>,
}

/// The values of the globals, and the missing members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::source) struct Layout {
    pub globals: Vec<(&'static str, u32)>,
    /// By global, the member that this kernel lacks.
    pub missing: BTreeMap<&'static str, String>,
    /// The kernel keeps a throttle clock for each run queue: no program is needed.
    pub has_throttle_clock: bool,
}

/// Shorter waits, ns, are charged to no aggressor: keeps the matrix off the hot path.
const BLAME_FROM: u32 = 100_000;

/// Finds every member in `btf`, the bytes of `/sys/kernel/btf/vmlinux`.
///
/// # Errors
/// If no offset in it can be trusted: see [`Btf::parse`].
pub(in crate::source) fn read(btf: &[u8], host: Host) -> Result<Layout, BtfError> {
    Ok(resolve(&Btf::parse(btf)?, host))
}

fn resolve(btf: &Btf<'_>, host: Host) -> Layout {
    let mut globals = vec![("BLAME_FROM", BLAME_FROM)];
    let mut missing = BTreeMap::new();
    for &(global, ways) in MEMBERS {
        let Some(member) = ways.iter().find_map(|(of, path)| btf.member(of, path)) else {
            let names: Vec<String> = ways.iter().map(|(of, path)| format!("{of}.{path}")).collect();
            missing.insert(global, names.join(" or "));
            continue;
        };
        let mask = match global {
            "TASK_IN_IOWAIT" => Some(("TASK_IN_IOWAIT_MASK", member.mask)),
            "TASK_IN_MEMSTALL" => Some(("TASK_IN_MEMSTALL_MASK", member.mask)),
            // An int on some kernels: then its lowest byte is read.
            "CFS_RQ_THROTTLED" if member.mask == 0 => Some(("CFS_RQ_THROTTLED_MASK", 0xff)),
            "CFS_RQ_THROTTLED" => Some(("CFS_RQ_THROTTLED_MASK", member.mask)),
            _ => None,
        };
        globals.extend(mask);
        globals.push((global, member.offset));
    }
    // The index of a controller in `css_set.subsys` differs between kernel configurations.
    let memory = btf.enumerator("cgroup_subsys_id", "memory_cgrp_id");
    match (memory, globals.iter_mut().find(|(global, _)| *global == "CSS_SET_MEMORY")) {
        (Some(index), Some((_, offset))) => *offset += 8 * index,
        _ => {
            missing.insert("CSS_SET_MEMORY", "cgroup_subsys_id.memory_cgrp_id".into());
        }
    }
    let has = |of, path| btf.member(of, path).is_some();
    let has_throttle_clock = has("cfs_rq", "throttled_clock_self_time");
    let has_runnable = has("cfs_rq", "h_nr_runnable");
    let has_delayed = has("cfs_rq", "h_nr_delayed");
    let flags = [
        ("HAS_GROUPS", host.cpu_on_v2),
        ("HAS_DELAYED", !has_runnable && has_delayed),
        // Without `h_nr_runnable` the CPU's own count cannot be corrected (early 6.12).
        ("HAS_DELAYED_DEQUEUE", has_runnable),
        ("HAS_THROTTLE_CLOCK", has_throttle_clock),
        ("HAS_THROTTLE_PROGRAMS", !has_throttle_clock && host.cpu_on_v2),
        ("HAS_PSI", host.psi),
        ("VICTIM_IS_TASK", btf.tracepoint_takes_pointer("mark_victim", 0) == Some(true)),
    ];
    globals.extend(flags.map(|(flag, set)| (flag, u32::from(set))));
    Layout { globals, missing, has_throttle_clock }
}
