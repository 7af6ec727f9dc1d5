//! What the agent itself costs the node.

use serde::{Deserialize, Serialize};

use super::units::{Bytes, MilliCpu, Nanos};

/// The agent's own cost over the last interval.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// The agent's process; `None` before two readings.
    pub cpu: Option<MilliCpu>,
    /// CPU time that the agent's process has used since it began.
    #[serde(default)]
    pub used: Option<Nanos>,
    /// Resident memory of the agent's process (`/proc/self/statm`, second field).
    pub resident: Option<Bytes>,
    /// From the start of the last sample until it was to be published.
    pub tick: Nanos,
    /// How long it took to publish the sample before, to the end of its tick.
    #[serde(default)]
    pub publishing: Nanos,
    /// From the start of the last sample until all was read.
    #[serde(default)]
    pub reading: Nanos,
    /// From the start of the last sample until the engine decided.
    #[serde(default)]
    pub decision: Nanos,
    /// From the last decision with a step until the actuator began the step; `None` before the
    /// first.
    #[serde(default)]
    pub handover: Option<Nanos>,
    /// Longest time between the starts of two ticks, since the agent started.
    #[serde(default)]
    pub longest_gap: Nanos,
    /// Major page faults of the agent since it started (`/proc/self/stat`, `majflt`).
    #[serde(default)]
    pub major_faults: Option<u64>,
    /// The eBPF programs and maps.
    pub kernel: KernelCost,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct KernelCost {
    /// Each program; empty where BPF statistics are off (`kernel.bpf_stats_enabled`).
    pub programs: Vec<ProgramCost>,
    /// All maps; `None` where the kernel does not report it.
    pub map_bytes: Option<Bytes>,
}

/// One program's cost. Source: `run_time_ns` and `run_cnt` of `bpf_prog_info`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
