//! What watching costs the node: the agent meters itself.

use serde::{Deserialize, Serialize};

use super::units::{Bytes, MilliCpu, Nanos};

/// The agent's own cost over the last interval.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// The agent's process; `None` before two readings.
    pub cpu: Option<MilliCpu>,
    /// Resident memory of the agent's process (`/proc/self/statm`, second field).
    pub resident: Option<Bytes>,
    /// From the start of the last sample until it was published.
    pub tick: Nanos,
    /// From the start of the last sample until the engine decided.
    #[serde(default)]
    pub decision: Nanos,
    /// From the last decision to take a step until whoever acts began with it; `None` until there
    /// was one.
    #[serde(default)]
    pub handover: Option<Nanos>,
    /// The longest time from the start of one tick to the start of the next, since the agent
    /// started: how long it was blind at worst.
    #[serde(default)]
    pub longest_gap: Nanos,
    /// Pages of the agent's own that had to be read from a disk, since it started
    /// (`/proc/self/stat`, `majflt`); `None` if that is not known.
    #[serde(default)]
    pub major_faults: Option<u64>,
    /// The eBPF programs and maps.
    pub kernel: KernelCost,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KernelCost {
    /// Each program; empty where BPF statistics are off (`kernel.bpf_stats_enabled`).
    pub programs: Vec<ProgramCost>,
    /// All maps; `None` where the kernel does not report it.
    pub map_bytes: Option<Bytes>,
}

/// One program's cost. Source: `run_time_ns` and `run_cnt` of `bpf_prog_info`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgramCost {
    pub name: String,
    /// In the last interval.
    pub runs: u64,
    /// Mean of the last interval.
    pub per_run: Nanos,
    /// Summed over CPUs, per second of wall time.
    pub per_second: Nanos,
}
