//! The programs by name: what each hooks, what it gives, what it needs of the kernel.

use isobar_ebpf::{Cause, Pattern, SYMBOL};

/// How a program hooks in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hook {
    /// A tracepoint, by type.
    Tracepoint,
    /// A kernel function's entry. Some kernels refuse these.
    Entry,
    /// A kernel function's return.
    Exit,
}

/// What a program belongs to: sets are attached or left out as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Set {
    /// Always.
    Core,
    /// Every context switch: dear on a node that does little else.
    Waits,
    /// Quotas, on kernels that keep no throttle clock of their own.
    Throttle,
    /// Memory stalls as PSI has them.
    Stall,
    /// Memory stalls by tracepoint: where [`Set::Stall`] is refused.
    StallByTracepoint,
    /// Nothing but the price of an attached program.
    Empty,
}

impl Set {
    /// Whether it is about waits for a CPU, of which half tells nothing.
    pub(super) fn is_waits(self) -> bool {
        matches!(self, Self::Waits | Self::Throttle)
    }
}

/// One program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    /// Its name in the object.
    pub program: &'static str,
    /// The tracepoint or function.
    pub target: &'static str,
    /// How.
    pub hook: Hook,
    /// What it belongs to.
    pub set: Set,
    /// What is unknown without it.
    pub gives: &'static str,
    /// The globals without which it would read the wrong member.
    pub needs: &'static [&'static str],
}

impl Plan {
    /// What it is called among the capabilities.
    pub(super) fn capability(&self) -> String {
        match self.hook {
            Hook::Exit => format!("{} (exit)", self.target),
            Hook::Tracepoint | Hook::Entry => self.target.to_owned(),
        }
    }
}

const fn plan(
    program: &'static str,
    target: &'static str,
    hook: Hook,
    set: Set,
    gives: &'static str,
    needs: &'static [&'static str],
) -> Plan {
    Plan { program, target, hook, set, gives, needs }
}

const QUEUES: &[&str] = &[
    "TASK_PID",
    "TASK_CGROUPS",
    "TASK_LAST_QUEUED",
    "TASK_CFS_RQ",
    "TASK_SE_PARENT",
    "TASK_SE_DEPTH",
    "TASK_ON_RQ",
    "TASK_IN_IOWAIT",
    "CSS_SET_DFL_CGRP",
    "CGROUP_KN",
    "CGROUP_PARENT",
    "CSS_CGROUP",
    "KERNFS_ID",
    "SE_PARENT",
    "SE_CFS_RQ",
    "CFS_RQ_RQ",
    "CFS_RQ_TG",
    "CFS_RQ_CURR",
    "CFS_RQ_THROTTLED",
    "CFS_RQ_THROTTLE_COUNT",
    "CFS_RQ_WAITERS",
    "TG_CGROUP",
    "TG_QUOTA",
    "RQ_CLOCK",
    "RQ_CPU",
    "RQ_NR_RUNNING",
    "RQ_NR_IOWAIT",
];
const THROTTLE: &[&str] = &["TG_CGROUP", "CGROUP_KN", "KERNFS_ID", "RQ_CLOCK", "RQ_CPU"];
const STALL: &[&str] =
    &["TASK_IN_MEMSTALL", "TASK_CGROUPS", "CSS_SET_MEMORY", "MEMCG_USAGE", "MEMCG_HIGH"];
const TARGET: &[&str] =
    &["TASK_CGROUPS", "CSS_SET_MEMORY", "CSS_CGROUP", "MEMCG_CSS_CGROUP", "CGROUP_KN", "KERNFS_ID"];
const CGROUP: &[&str] = &["CGROUP_KN", "KERNFS_ID", "CGROUP_ROOT", "CGROUP_ROOT_HIERARCHY"];
const OOM: &[&str] = &["TASK_PID", "TASK_CGROUPS", "CSS_SET_DFL_CGRP", "CGROUP_KN", "KERNFS_ID"];
const OOM_LIMIT: &[&str] = &["OOM_MEMCG", "MEMCG_CSS_CGROUP", "CGROUP_KN", "KERNFS_ID"];

/// Every program, in the order in which they are attached: who closes before who opens, so that
/// nothing is opened that nobody will close.
#[rustfmt::skip]
pub(super) const PLANS: &[Plan] = &[
    plan("exit", "sched_process_exit", Hook::Tracepoint, Set::Core, "tidying up after threads that exit", &[]),
    plan("throttle_up", "tg_unthrottle_up", Hook::Entry, Set::Throttle, "the end of throttling", THROTTLE),
    plan("throttle_down", "tg_throttle_down", Hook::Entry, Set::Throttle, "the beginning of throttling", THROTTLE),
    plan("migrate", "sched_migrate_task", Hook::Tracepoint, Set::Waits, "the end of a wait by migration", QUEUES),
    plan("switch", "sched_switch", Hook::Tracepoint, Set::Waits, "run-queue wait, contention, aggressors, IO wait", QUEUES),
    plan("memstall_left", "psi_memstall_leave", Hook::Exit, Set::Stall, "the end of memory stalls, second chance", STALL),
    plan("memstall_leave", "psi_memstall_leave", Hook::Entry, Set::Stall, "the end of memory stalls", STALL),
    plan("reclaim_target", "try_to_free_mem_cgroup_pages", Hook::Entry, Set::Stall, "whose limit a memory stall is about", TARGET),
    plan("memstall_enter", "psi_memstall_enter", Hook::Entry, Set::Stall, "memory stalls by cause", STALL),
    plan("memcg_reclaimed", "mm_vmscan_memcg_reclaim_end", Hook::Tracepoint, Set::StallByTracepoint, "the end of reclaim at a limit", &[]),
    plan("memcg_reclaim", "mm_vmscan_memcg_reclaim_begin", Hook::Tracepoint, Set::StallByTracepoint, "reclaim at a limit, whose is not known", &["TASK_FLAGS"]),
    plan("direct_reclaimed", "mm_vmscan_direct_reclaim_end", Hook::Tracepoint, Set::StallByTracepoint, "the end of direct reclaim", &[]),
    plan("direct_reclaim", "mm_vmscan_direct_reclaim_begin", Hook::Tracepoint, Set::StallByTracepoint, "direct reclaim", &["TASK_FLAGS"]),
    plan("compacted", "mm_compaction_end", Hook::Tracepoint, Set::StallByTracepoint, "the end of direct compaction", &[]),
    plan("compaction", "mm_compaction_begin", Hook::Tracepoint, Set::StallByTracepoint, "direct compaction", &["TASK_FLAGS"]),
    plan("oom_kill", "mark_victim", Hook::Tracepoint, Set::Core, "OOM kills", OOM),
    plan("out_of_memory", "out_of_memory", Hook::Entry, Set::Core, "whose limit an OOM kill is about", OOM_LIMIT),
    plan("cgroup_born", "cgroup_mkdir", Hook::Tracepoint, Set::Core, "names of cgroups that live less than a second", CGROUP),
    plan("cgroup_died", "cgroup_rmdir", Hook::Tracepoint, Set::Core, "ends of cgroups", CGROUP),
    plan("empty", "sched_switch", Hook::Tracepoint, Set::Empty, "the price of an attached program", &[]),
];

/// How a caller of `psi_memstall_enter` tells the cause, as `monitor-ebpf`'s `Cause`: the first
/// beginning that fits. Compilers add suffixes (`.constprop.0`), and kernels add leading
/// underscores and rename, so several stand for one.
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

/// A caller as the kernel side compares it.
pub(super) fn pattern(symbol: &str, cause: Cause) -> Pattern {
    let (mut bytes, mut mask) = ([0u8; SYMBOL], [0u8; SYMBOL]);
    for (at, byte) in symbol.bytes().take(SYMBOL).enumerate() {
        bytes[at] = byte;
        mask[at] = 0xff;
    }
    let words = |bytes: [u8; SYMBOL]| {
        let mut words = [0; SYMBOL / 8];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(chunk.try_into().expect("chunks of eight"));
        }
        words
    };
    Pattern { bytes: words(bytes), mask: words(mask), cause: cause as u32 + 1, pad: 0 }
}
