//! Every program: its hook, what it provides, which kernel members it needs.

use isobar_ebpf::{Cause, Pattern, SYMBOL};

use super::layout::Host;

/// How a program is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hook {
    /// A BTF tracepoint (`tp_btf`).
    Tracepoint,
    /// The entry of a kernel function (fentry). Some kernels refuse these.
    Entry,
    /// The return of a kernel function (fexit).
    Exit,
}

/// A group of programs that are attached or omitted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Set {
    /// Always attached.
    Core,
    /// Run at every context switch: costly on a node that switches often.
    Waits,
    /// Quotas, on kernels without a throttle clock.
    Throttle,
    /// Memory stalls as PSI counts them.
    Stall,
    /// Memory stalls by tracepoint, where the kernel refuses [`Set::Stall`].
    StallByTracepoint,
    /// Only shows what an attached program costs.
    Empty,
}

impl Set {
    /// Whether it follows waits for a CPU, and is paused if that costs too much. Throttling is not: to
    /// detach its programs takes seconds while tasks are throttled, and the tick would wait for that.
    pub(super) fn is_waits(self) -> bool {
        self == Self::Waits
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    /// Its name in the object.
    pub program: &'static str,
    /// The tracepoint or kernel function.
    pub target: &'static str,
    pub hook: Hook,
    pub set: Set,
    /// What is unknown without it.
    pub provides: &'static str,
    /// Globals of `monitor-ebpf/src/layout.rs` that must be known.
    pub needs: &'static [&'static str],
}

impl Plan {
    /// The name of its capability.
    pub(super) fn capability(&self) -> String {
        match self.hook {
            Hook::Exit => format!("{} (exit)", self.target),
            Hook::Tracepoint | Hook::Entry => self.target.to_owned(),
        }
    }

    /// Why what it tells would be wrong on this host, if it would.
    pub(super) fn useless_on(&self, host: Host) -> Option<&'static str> {
        let tells_memory_cgroup = matches!(self.program, "reclaim_target" | "out_of_memory");
        (host.memory_on_v1 && tells_memory_cgroup)
            .then_some("the memory controller is on cgroup v1, so no limit is a cgroup's of v2")
    }
}

const fn plan(
    program: &'static str,
    target: &'static str,
    hook: Hook,
    set: Set,
    provides: &'static str,
    needs: &'static [&'static str],
) -> Plan {
    Plan { program, target, hook, set, provides, needs }
}

#[rustfmt::skip]
const QUEUES: &[&str] = &[
    "TASK_PID", "TASK_CGROUPS", "TASK_LAST_QUEUED", "TASK_CFS_RQ", "TASK_SE_PARENT",
    "TASK_SE_DEPTH", "TASK_ON_RQ", "TASK_IN_IOWAIT", "CSS_SET_DFL_CGRP", "CGROUP_KN",
    "CGROUP_PARENT", "CSS_CGROUP", "KERNFS_ID", "SE_PARENT", "SE_CFS_RQ", "CFS_RQ_RQ", "CFS_RQ_TG",
    "CFS_RQ_CURR", "CFS_RQ_THROTTLED", "CFS_RQ_THROTTLE_COUNT", "CFS_RQ_WAITERS", "TG_CGROUP",
    "TG_QUOTA", "RQ_CLOCK", "RQ_CPU", "RQ_NR_RUNNING", "RQ_NR_IOWAIT",
];
const THROTTLE: &[&str] = &["TG_CGROUP", "CGROUP_KN", "KERNFS_ID", "RQ_CLOCK", "RQ_CPU"];
const STALL: &[&str] =
    &["TASK_IN_MEMSTALL", "TASK_CGROUPS", "CSS_SET_MEMORY", "MEMCG_USAGE", "MEMCG_HIGH"];
const TARGET: &[&str] =
    &["TASK_CGROUPS", "CSS_SET_MEMORY", "CSS_CGROUP", "MEMCG_CSS_CGROUP", "CGROUP_KN", "KERNFS_ID"];
const CGROUP: &[&str] = &["CGROUP_KN", "KERNFS_ID", "CGROUP_ROOT", "CGROUP_ROOT_HIERARCHY"];
const OOM: &[&str] =
    &["TASK_PID", "TASK_COMM", "TASK_CGROUPS", "CSS_SET_DFL_CGRP", "CGROUP_KN", "KERNFS_ID"];
const OOM_LIMIT: &[&str] = &["OOM_MEMCG", "MEMCG_CSS_CGROUP", "CGROUP_KN", "KERNFS_ID"];

/// Every program in the order of attaching. The program that closes an interval comes before the
/// one that opens it, so that no interval stays open.
#[rustfmt::skip]
pub(super) const PLANS: &[Plan] = &[
    plan("exit", "sched_process_exit", Hook::Tracepoint, Set::Core, "clean-up after threads that exit", &[]),
    plan("throttle_up", "tg_unthrottle_up", Hook::Entry, Set::Throttle, "end of throttling", THROTTLE),
    plan("throttle_down", "tg_throttle_down", Hook::Entry, Set::Throttle, "start of throttling", THROTTLE),
    plan("migrate", "sched_migrate_task", Hook::Tracepoint, Set::Waits, "end of a wait by migration", QUEUES),
    plan("switch", "sched_switch", Hook::Tracepoint, Set::Waits, "run-queue wait, contention, aggressors, IO wait", QUEUES),
    plan("memstall_left", "psi_memstall_leave", Hook::Exit, Set::Stall, "end of memory stalls that the entry hook missed", STALL),
    plan("memstall_leave", "psi_memstall_leave", Hook::Entry, Set::Stall, "end of memory stalls", STALL),
    plan("reclaim_target", "try_to_free_mem_cgroup_pages", Hook::Entry, Set::Stall, "which cgroup's limit causes a memory stall", TARGET),
    plan("memstall_enter", "psi_memstall_enter", Hook::Entry, Set::Stall, "memory stalls by cause", STALL),
    plan("memcg_reclaimed", "mm_vmscan_memcg_reclaim_end", Hook::Tracepoint, Set::StallByTracepoint, "end of reclaim at a limit", &[]),
    plan("memcg_reclaim", "mm_vmscan_memcg_reclaim_begin", Hook::Tracepoint, Set::StallByTracepoint, "reclaim at a limit (not which cgroup's)", &["TASK_FLAGS"]),
    plan("direct_reclaimed", "mm_vmscan_direct_reclaim_end", Hook::Tracepoint, Set::StallByTracepoint, "end of direct reclaim", &[]),
    plan("direct_reclaim", "mm_vmscan_direct_reclaim_begin", Hook::Tracepoint, Set::StallByTracepoint, "direct reclaim", &["TASK_FLAGS"]),
    plan("compacted", "mm_compaction_end", Hook::Tracepoint, Set::StallByTracepoint, "end of direct compaction", &[]),
    plan("compaction", "mm_compaction_begin", Hook::Tracepoint, Set::StallByTracepoint, "direct compaction", &["TASK_FLAGS"]),
    plan("oom_kill", "mark_victim", Hook::Tracepoint, Set::Core, "OOM kills with process and cause", OOM),
    plan("out_of_memory", "out_of_memory", Hook::Entry, Set::Core, "which cgroup's limit causes an OOM kill", OOM_LIMIT),
    plan("cgroup_born", "cgroup_mkdir", Hook::Tracepoint, Set::Core, "names of cgroups that live less than a second", CGROUP),
    plan("cgroup_died", "cgroup_rmdir", Hook::Tracepoint, Set::Core, "removal of cgroups", CGROUP),
    plan("empty", "sched_switch", Hook::Tracepoint, Set::Empty, "cost of an attached program", &[]),
];

/// Callers of `psi_memstall_enter` by the beginning of their symbol, and the cause that each means;
/// the first match counts. Compilers add suffixes (`.constprop.0`), and kernels rename functions
/// and add leading underscores, so a cause has several.
pub(super) const CALLERS: &[(&str, Cause)] = {
    use Cause::{Compaction, Global, KernelThread, OwnHigh, Refault, SomeLimit, SwapIn};
    &[
        ("reclaim_high", OwnHigh),
        ("mem_cgroup_handle_over_high", OwnHigh),
        ("__mem_cgroup_handle_over_high", OwnHigh),
        ("try_charge_memcg", SomeLimit),
        ("charge_memcg", SomeLimit),
        ("obj_cgroup_charge", SomeLimit),
        ("try_to_free_mem_cgroup", SomeLimit),
        ("__alloc_pages_direct_compact", Compaction),
        ("__alloc_pages_direct_reclaim", Global),
        ("__alloc_pages_slowpath", Global),
        ("__alloc_frozen_pages", Global),
        ("__perform_reclaim", Global),
        ("balance_pgdat", KernelThread),
        ("kcompactd", KernelThread),
        ("kswapd", KernelThread),
        ("folio_wait_bit", Refault),
        ("read_pages", Refault),
        ("filemap_", Refault),
        ("page_cache_", Refault),
        ("swap_readpage", SwapIn),
        ("swap_read_folio", SwapIn),
        ("do_swap_page", SwapIn),
    ]
};

/// A caller in the form that the kernel side compares.
pub(super) fn pattern(symbol: &str, cause: Cause) -> Pattern {
    let mut pattern = Pattern { cause: cause as u32 + 1, ..Pattern::default() };
    for (at, byte) in symbol.bytes().take(SYMBOL).enumerate() {
        let shift = 8 * (at % 8);
        pattern.bytes[at / 8] |= u64::from(byte) << shift;
        pattern.mask[at / 8] |= 0xff << shift;
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn useless_on_cgroup_v1_is_what_tells_whose_limit_it_is() {
        for (memory_on_v1, want) in
            [(true, vec!["reclaim_target", "out_of_memory"]), (false, vec![])]
        {
            let host = Host { cpu_on_v2: false, memory_on_v1, psi: true, own_cgroup: None };
            let off = PLANS.iter().filter(|plan| plan.useless_on(host).is_some());
            let off: Vec<_> = off.map(|plan| plan.program).collect();
            assert_eq!(off, want, "{memory_on_v1}");
        }
    }
}
