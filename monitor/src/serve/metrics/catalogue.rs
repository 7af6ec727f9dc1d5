//! Every metric: its name, type, labels and meaning. docs/metrics.md is this table with what makes
//! each absent, and tests/pure/metrics.rs holds that both are the same.

/// A family of time series.
#[derive(Debug)]
pub struct Metric {
    /// As it is written; a counter's ends in `_total`.
    pub name: &'static str,
    pub kind: Kind,
    pub labels: &'static [&'static str],
    /// What it tells, in a sentence.
    pub help: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    Bytes,
    /// From 0 to 1.
    Ratio,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

impl Unit {
    const ALL: [Self; 3] = [Self::Seconds, Self::Bytes, Self::Ratio];

    pub fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Bytes => "bytes",
            Self::Ratio => "ratio",
        }
    }
}

impl Metric {
    const fn counter(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind: Kind::Counter, labels, help }
    }

    const fn gauge(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind: Kind::Gauge, labels, help }
    }

    const fn histogram(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Histogram, labels: &[], help }
    }

    /// The unit that its name ends in; `None` for counts and states.
    pub fn unit(&self) -> Option<Unit> {
        let name = self.family();
        Unit::ALL.into_iter().find(|unit| name.ends_with(&format!("_{}", unit.name())))
    }

    /// Its name without the suffix of a counter, as OpenMetrics calls the family.
    pub fn family(&self) -> &'static str {
        self.name.strip_suffix("_total").unwrap_or(self.name)
    }

    /// Its family without the unit.
    pub(super) fn stem(&self) -> &'static str {
        let family = self.family();
        let unit = self.unit().map_or(0, |unit| unit.name().len() + 1);
        &family[..family.len() - unit]
    }
}

macro_rules! catalogue {
    ($($id:ident = $metric:expr;)*) => {
        $(pub(super) const $id: Metric = $metric;)*

        /// In the order in which they are written.
        pub const ALL: &[Metric] = &[$($id),*];
    };
}

catalogue! {
    // The node and its pods together.
    PRESSURE_WAITING = Metric::counter("isobar_pressure_waiting_seconds_total", &["scope", "resource"],
        "Wall time in which at least one task was stalled, by the kernel's PSI (some).");
    PRESSURE_STALLED = Metric::counter("isobar_pressure_stalled_seconds_total", &["scope", "resource"],
        "Wall time in which all non-idle tasks were stalled, by the kernel's PSI (full).");
    CPU_CONTENTION = Metric::counter("isobar_cpu_contention_seconds_total", &["scope"],
        "Wall time in which at least one task waited for a CPU that another task used, and no quota kept it from running.");
    CPU_WAIT = Metric::counter("isobar_cpu_wait_seconds_total", &["scope"],
        "Time that tasks waited on run queues, throttled time included, summed over tasks.");
    CPU_THROTTLED = Metric::counter("isobar_cpu_throttled_seconds_total", &["scope"],
        "Part of the time on run queues in which a quota kept the task from running, summed over tasks.");
    RUN_QUEUE_LATENCY = Metric::histogram("isobar_run_queue_latency_seconds",
        "Waits for a CPU on the whole node by length, without throttling; the sum is of task time.");
    MEMORY_SHORTAGE = Metric::counter("isobar_memory_shortage_seconds_total", &["scope"],
        "Wall time in which at least one task was stalled because the node, or the limit of all pods, was short of memory; at least so much while isobar_covered is 0 for memoryCauses.");
    MEMORY_STALL = Metric::counter("isobar_memory_stall_seconds_total", &["scope", "cause"],
        "Wall time in which at least one task was stalled on memory, by cause.");
    IO_WAIT = Metric::counter("isobar_io_wait_seconds_total", &["scope"],
        "Time that tasks waited for IO, summed over tasks.");
    AGGRESSION = Metric::counter("isobar_aggression_seconds_total", &["aggressor", "victim"],
        "Time that tasks of the victim waited while a task of the aggressor ran on their CPU; at most 16 pairs, those that cost most lately.");
    AGGRESSION_LOSS = Metric::counter("isobar_aggression_loss_seconds_total", &["aggressor", "victim"],
        "What the victim lost of that time: no more than the aggressor ran, weighed by what it is of the time in which the victim wanted to run; of the same pairs.");
    AGGRESSION_OTHER = Metric::counter("isobar_aggression_other_seconds_total", &[],
        "Time that tasks waited while another cgroup's task ran on their CPU, of all pairs without a series and of aggressors that are not known.");

    // What the headline says.
    HEADLINE_WAIT = Metric::gauge("isobar_headline_wait_seconds_per_second", &["resource", "kind", "aggressor", "victim"],
        "The headline's figure of the victim that waits most: seconds per second that it lost to others (kind lost) or waited (waited), to the millisecond that the headline has.");
    HEADLINE_MEMORY = Metric::gauge("isobar_headline_memory_bytes", &["kind", "aggressor"],
        "The headline's figure of the memory that the aggressor took of what was lost (kind took), or holds (holds).");
    HEADLINE_IO = Metric::gauge("isobar_headline_io_bytes_per_second", &["aggressor"],
        "The headline's figure of what the aggressor reads from devices and writes to them.");

    // What is left, and what was judged.
    MEMORY_LEFT = Metric::gauge("isobar_memory_left_bytes", &["scope"],
        "Memory that can still be had.");
    MEMORY_GROWTH = Metric::gauge("isobar_memory_growth_bytes_per_second", &["scope"],
        "Net growth of memory in use, over about ten seconds; 0 if it shrinks.");
    MEMORY_EXHAUSTION = Metric::gauge("isobar_memory_exhaustion_seconds", &["scope"],
        "Time until no memory is left at its present growth.");
    RECLAIM_EFFICIENCY = Metric::gauge("isobar_reclaim_efficiency_ratio", &["scope"],
        "Pages that reclaim freed, of those that it looked at.");
    SIGNAL_AVAILABLE_BYTES = Metric::gauge("isobar_signal_available_bytes", &["signal"],
        "What is available of an eviction signal, as the kubelet computes it.");
    SIGNAL_CAPACITY_BYTES = Metric::gauge("isobar_signal_capacity_bytes", &["signal"],
        "The capacity that an eviction signal is a part of.");
    SIGNAL_AVAILABLE = Metric::gauge("isobar_signal_available", &["signal"],
        "What is available of an eviction signal that counts inodes or pids.");
    SIGNAL_CAPACITY = Metric::gauge("isobar_signal_capacity", &["signal"],
        "The capacity that an eviction signal of inodes or pids is a part of.");
    CONDITION = Metric::gauge("isobar_condition", &["type", "status"],
        "1 for the status that a condition has, 0 for the others.");
    CONDITION_AVERAGE = Metric::gauge("isobar_condition_average_ratio", &["type", "window"],
        "The average that a condition is judged by: contention, shortage or raw PSI, as configured.");
    CONDITION_THRESHOLD = Metric::gauge("isobar_condition_threshold_ratio", &["type"],
        "The average from which on a condition counts as pressed.");
    NODE_PRESSURE = Metric::gauge("isobar_node_pressure", &["type"],
        "1 if a condition of the kubelet holds, by its rules.");
    THRESHOLD_MET = Metric::gauge("isobar_threshold_met", &["threshold", "kind"],
        "1 if a configured threshold is met; kind is hard, soft or pressure.");
    THRESHOLD_DUE = Metric::gauge("isobar_threshold_due", &["threshold", "kind"],
        "1 if a configured threshold has been met for its grace period.");

    // What was decided and done.
    DECISIONS = Metric::counter("isobar_decisions_total", &["result", "reason"],
        "Ticks by what was decided: acted (reason: the threshold), held (reason: why nothing is done) or none.");
    STEPS = Metric::counter("isobar_steps_total", &["step", "result"],
        "Steps of relief by how they went; observed is one that would have been taken.");
    STEPS_IN_FORCE = Metric::gauge("isobar_steps_in_force", &["step"],
        "Steps that are in force or under way, observed ones included.");
    KILLED_PROCESSES = Metric::counter("isobar_killed_processes_total", &[],
        "Processes that ended because of a step of isobar.");
    FREED = Metric::counter("isobar_freed_bytes_total", &[],
        "Memory that came back by steps of isobar.");
    OOM_KILLS = Metric::counter("isobar_oom_kills_total", &["limit"],
        "Processes that the kernel's OOM killer killed, by whose limit was reached: node (none), kubepods, own or unknown.");
    OOM_KILLS_FORESEEN = Metric::counter("isobar_oom_kills_foreseen_total", &[],
        "OOM kills by the kernel with limit node or kubepods, after isobar saw that memory is short or running out.");
    FORECASTS = Metric::counter("isobar_forecasts_total", &["result"],
        "Forecasts that memory runs out, by what became of them: cameTrue, averted (a step of isobar was done) or unfounded.");
    LIMIT_CONFIGURED_BYTES = Metric::gauge("isobar_limit_configured_bytes", &["cgroup", "file"],
        "The value that a limit of the node should have, by the configuration.");
    LIMIT_LIVE_BYTES = Metric::gauge("isobar_limit_live_bytes", &["cgroup", "file"],
        "The value that a limit of the node has.");
    LIMIT_CONFIGURED = Metric::gauge("isobar_limit_configured", &["cgroup", "file"],
        "The value that a CPU weight or a number of pids should have, by the configuration.");
    LIMIT_LIVE = Metric::gauge("isobar_limit_live", &["cgroup", "file"],
        "The value that a CPU weight or a number of pids has.");
    LIMIT_DIFFERS = Metric::gauge("isobar_limit_differs", &["cgroup", "file"],
        "1 if the last look found a limit with another value than the configured one.");
    LIMIT_DRIFTS = Metric::counter("isobar_limit_drifts_total", &[],
        "Limits that another process was found to have changed after they stood as configured.");

    NODE_CAPACITY = Metric::gauge("isobar_node_capacity", &["resource"],
        "What the node has: CPUs, bytes, pods, processes.");
    NODE_ALLOCATABLE = Metric::gauge("isobar_node_allocatable", &["resource"],
        "What of it the kubelet would give to pods by the configuration: without reservations and hard eviction thresholds.");
    NODE_REQUESTED = Metric::gauge("isobar_node_requested", &["resource"],
        "What pods that have not ended request together; above the allocatable the node is over-committed.");
    CPU_SHARED_POOL = Metric::gauge("isobar_cpu_manager_shared_pool_millicores", &[],
        "CPUs that containers without exclusive ones share, in thousandths, as the kubelet counts them: without reserved ones.");
    CPU_EXCLUSIVE = Metric::gauge("isobar_cpu_manager_exclusive_cpus", &[],
        "CPUs that containers have for themselves, by the CPU manager's state file.");

    // Each pod.
    PODS = Metric::gauge("isobar_pods", &[],
        "Pods with a cgroup.");
    PODS_DROPPED = Metric::gauge("isobar_pods_dropped", &[],
        "Pods without series in this scrape: beyond 500 the newest have none.");
    PODS_BELOW_REQUEST = Metric::gauge("isobar_pods_below_request", &[],
        "Pods that waited for a CPU in a tenth of the last ten seconds or more, in seconds in which they used less CPU time than they request.");
    POD_WAITING = Metric::counter("isobar_pod_pressure_waiting_seconds_total", &["namespace", "pod", "uid", "resource"],
        "Wall time in which at least one task of a pod was stalled, by the kernel's PSI (some).");
    POD_STALLED = Metric::counter("isobar_pod_pressure_stalled_seconds_total", &["namespace", "pod", "uid", "resource"],
        "Wall time in which all non-idle tasks of a pod were stalled on memory or io, by the kernel's PSI (full).");
    POD_CONTENTION = Metric::counter("isobar_pod_cpu_contention_seconds_total", &["namespace", "pod", "uid"],
        "Wall time in which at least one task of a pod waited for a CPU that another task used, and no quota kept it from running.");
    POD_THROTTLED = Metric::counter("isobar_pod_cpu_throttled_seconds_total", &["namespace", "pod", "uid"],
        "Time on run queues in which a quota kept tasks of a pod from running, summed over tasks.");

    // The agent.
    BUILD_INFO = Metric::gauge("isobar_build_info", &["version", "commit"],
        "Always 1: the version of the agent, and the commit that it was built from; empty if unknown.");
    NODE_INFO = Metric::gauge("isobar_node_info", &["node", "kernel"],
        "Always 1: the name of the node and the release of its kernel.");
    MODE = Metric::gauge("isobar_mode", &["mode"],
        "1 for the mode of the agent: enforce if it takes any step, else observe.");
    STEP_ENFORCED = Metric::gauge("isobar_step_enforced", &["step"],
        "1 if a step is taken when it is decided, 0 if it is only recorded.");
    CONFIG_GENERATION = Metric::gauge("isobar_config_generation", &[],
        "Reloads of the configuration since the agent started.");
    START_TIME = Metric::gauge("isobar_start_time_seconds", &[],
        "When the agent started, since 1970.");
    LAST_SAMPLE_TIME = Metric::gauge("isobar_last_sample_time_seconds", &[],
        "When the newest sample began, since 1970.");
    TICKS = Metric::counter("isobar_ticks_total", &["cause"],
        "Ticks, by what caused them.");
    TICK_DURATION = Metric::histogram("isobar_tick_duration_seconds",
        "From the start of a tick's sample to its end, but for publishing, of which the tick before counts.");
    TICK_LONGEST_GAP = Metric::gauge("isobar_tick_longest_gap_seconds", &[],
        "Longest time between the starts of two ticks, since the agent started.");
    UNWATCHED = Metric::counter("isobar_unwatched_seconds_total", &[],
        "Time without samples: the node was suspended, or the agent got no CPU for more than five seconds.");
    COVERED = Metric::gauge("isobar_covered", &["what"],
        "1 if the attached eBPF programs measure waits, throttling, memory stalls and memoryCauses, and tell of oomKills; 0 if that is unknown, and kills are those that memory.events counts.");
    INCIDENTS = Metric::counter("isobar_incidents_total", &["kind"],
        "Incidents that began, by what began them.");
    UNRECORDED = Metric::counter("isobar_unrecorded_ticks_total", &[],
        "Ticks that the recording lacks, because the disk was slow.");
    CAPABILITY = Metric::gauge("isobar_capability", &["name", "state"],
        "Always 1: what the agent needs to see and to act, with its state (attached, blind, absent, off).");
    GAPS = Metric::counter("isobar_gaps_total", &["reason"],
        "Readings that failed, by reason; gone and unsupported are routine.");
    LOST = Metric::counter("isobar_lost_total", &["what"],
        "What the eBPF programs could not count, mostly because a map was full.");
    LOST_PAIR_TIME = Metric::counter("isobar_lost_pair_seconds_total", &[],
        "Waiting time without an aggressor, because the map of pairs was full.");
    DOUBTS = Metric::counter("isobar_doubts_total", &["what"],
        "Impossible readings that were clamped: counters that went backwards or too fast, and clock jumps.");
    PROCESS_CPU = Metric::counter("isobar_process_cpu_seconds_total", &[],
        "CPU time of the agent's process.");
    PROCESS_RESIDENT = Metric::gauge("isobar_process_resident_memory_bytes", &[],
        "Resident memory of the agent's process.");
    PROCESS_MAJOR_FAULTS = Metric::counter("isobar_process_major_faults_total", &[],
        "Times that the agent's process waited for a page from a disk.");
    EBPF_CPU = Metric::gauge("isobar_ebpf_cpu_ratio", &["program"],
        "Share of one CPU that an eBPF program took when it was last measured.");
    EBPF_RUN = Metric::gauge("isobar_ebpf_run_seconds", &["program"],
        "Mean duration of a run of an eBPF program when it was last measured.");
    EBPF_MAPS = Metric::gauge("isobar_ebpf_map_bytes", &[],
        "Memory of all eBPF maps.");
}
