//! The fields that the kubelet's configuration does not have.

use super::Kind::{Duration, File, Flag, List, Map, Number, Pattern, Patterns, Percent, Quantity};
use super::Kind::{Scalar, Text, Word, Words};
use super::{API_VERSION, KIND, Key, key};
use isobar_core::model::decision::StepKind;

#[rustfmt::skip]
pub(in crate::config) const ISOBAR: &[Key] = &[
    key("apiVersion", Word(&[API_VERSION]), Some(API_VERSION), "Version of this format"),
    key("kind", Word(&[KIND]), Some(KIND), "Kind of this document"),
    key("kubeletConfig", File, None, "The kubelet's configuration file: its fields apply where this file does not set them, until the kubelet has answered to /configz"),
    key("pods", File, None, "A file with the pods of this node, for nodes without an API server"),
    key("kubeletRoot", Text, Some("/var/lib/kubelet"), "The kubelet's root directory"),
    key("minSharedCPUs", Number(0, 65_535), Some("0"), "CPUs that must stay in the shared pool, however many are assigned exclusively"),
    key("writeLimits", Words(&["allocatable", "reservedCpus"]), Some("[]"), "Limits that `isobar run` writes and restores, unless --mode is observe: allocatable (those that enforceNodeAllocatable names) and reservedCpus (cpuset.cpus of pods, without the reserved CPUs)"),
    key("kubernetes", Map(KUBERNETES), None, "What the agent tells the API server, where there is one"),
    key("conditions", Map(CONDITIONS), None, "Node conditions for contention"),
    key("evictionPressure", List(PRESSURE), Some(USUAL_PRESSURE), "Pressure thresholds that start relief, in addition to the kubelet's eviction signals"),
    key("ranking", Map(RANKING), None, "How candidates for eviction are ordered"),
    key("relief", Map(RELIEF), None, "Steps that relieve the node"),
    key("workloads", List(WORKLOAD), Some("[]"), "Cgroups other than pods that may be evicted, such as services; the first rule that matches applies"),
];

#[rustfmt::skip]
const KUBERNETES: &[Key] = &[
    key("conditions", Flag, Some("true"), "Whether node conditions are published in the node's status"),
    key("taints", Flag, Some("false"), "Whether a node with a condition that is True is tainted"),
    key("events", Flag, Some("true"), "Whether events are written about the node and its pods"),
    key("atExit", Word(&["unknown", "keep", "remove"]), Some("unknown"), "What becomes of published conditions when the agent exits; taints are removed in any case"),
];

#[rustfmt::skip]
const CONDITIONS: &[Key] = &[
    key("prefix", Text, Some("\"\""), "Prefix of each condition's type, such as example.com/"),
    key("taintEffect", Word(&["NoSchedule", "PreferNoSchedule"]), Some("NoSchedule"), "Effect of the taint on a contended node"),
    key("raiseAfter", Duration, Some("0s"), "How long the measure must be at or above its threshold before the condition becomes True"),
    key("clearAfter", Duration, Some("0s"), "How long the measure must be below its threshold before the condition becomes False"),
    key("staleAfter", Duration, Some("30s"), "How long after its last measurement the condition becomes Unknown"),
    key("system", Map(SCOPE), None, "The whole node"),
    key("kubepods", Map(SCOPE), None, "All pods"),
];

#[rustfmt::skip]
const SCOPE: &[Key] = &[
    key("cpu", Map(CPU), None, "CPU contention"),
    key("memory", Map(MEMORY), None, "Memory shortage"),
    key("disk", Map(DISK), None, "IO pressure"),
];

const MEASURES: &[&str] = &["contention", "shortage", "raw"];
const LINES: &[&str] = &["some", "full"];

const ENABLED: Key = key("enabled", Flag, Some("true"), "Whether this condition is evaluated");
const THRESHOLD: &str = "Share of time at or above which the measure counts as high";
const LINE: &str = "Line of the pressure file, for measure raw: some or full";

#[rustfmt::skip]
const CPU: &[Key] = &[
    ENABLED,
    key("measure", Word(MEASURES), Some("contention"), "contention (run-queue wait that no CPU quota explains) or raw (the pressure file)"),
    key("line", Word(LINES), None, LINE),
    key("threshold", Percent, Some("50%"), THRESHOLD),
];

#[rustfmt::skip]
const MEMORY: &[Key] = &[
    ENABLED,
    key("measure", Word(MEASURES), Some("shortage"), "shortage (memory stall that no pod's own limit explains) or raw (the pressure file)"),
    key("line", Word(LINES), None, LINE),
    key("threshold", Percent, Some("10%"), THRESHOLD),
];

#[rustfmt::skip]
const DISK: &[Key] = &[
    ENABLED,
    key("measure", Word(MEASURES), Some("raw"), "raw (the pressure file)"),
    key("line", Word(LINES), None, "Line of the pressure file: some or full; full by default"),
    key("threshold", Percent, Some("60%"), THRESHOLD),
];

/// For the node and for its pods. Work that has waited for memory for most of twenty seconds will not
/// recover by itself, and memory that runs out within ten seconds leaves no time for gentler steps.
/// CPU, disk and refaults have no default: only the operator knows what is a fault there.
const USUAL_PRESSURE: &str = "
- {scope: system, signal: memory, threshold: 60%, gracePeriod: 20s}
- {scope: system, signal: exhaustion, threshold: 10s, gracePeriod: 2s}
- {scope: kubepods, signal: memory, threshold: 60%, gracePeriod: 20s}
- {scope: kubepods, signal: exhaustion, threshold: 10s, gracePeriod: 2s}";

#[rustfmt::skip]
const PRESSURE: &[Key] = &[
    key("scope", Word(&["system", "kubepods"]), None, "system (the whole node) or kubepods (all pods)"),
    key("signal", Word(&["cpu", "memory", "disk", "exhaustion", "refaults"]), None, "cpu (contention), memory (shortage), disk (IO pressure, full), exhaustion (time until memory runs out) or refaults (pages read back per second)"),
    key("threshold", Scalar, None, "cpu, memory, disk: a percentage, met at or above it; exhaustion: a length of time, met at or below it; refaults: a number, met at or above it"),
    key("gracePeriod", Duration, Some("0s"), "How long the threshold must be met"),
];

#[rustfmt::skip]
const RANKING: &[Key] = &[
    key("order", Word(&["cause", "qos", "kubelet"]), Some("cause"), "cause (for memory, who took it; else as qos), qos (QoS class first) or kubelet (the kubelet's order)"),
    key("optOutLabel", Text, Some("isobar/never-evict"), "Pods with this label set to true are never evicted"),
    key("groupBelow", Quantity, Some("64Mi"), "Pods of one owner that each use less than this are one candidate together; 0 disables groups"),
];

#[rustfmt::skip]
const RELIEF: &[Key] = &[
    key("enforce", Words(&StepKind::NAMES), None, "Steps that the agent takes; all other steps are only recorded"),
    key("steps", Words(&StepKind::NAMES), Some("[mark, reclaim, squeeze, evict, stopContainers, killContainers, releaseMemory]"), "Steps that may be chosen, gentlest first"),
    key("deadlines", Map(DEADLINES), None, "How long each step has to show an effect"),
    key("budget", Number(1, 1_000_000), Some("5"), "Maximum number of evictions and kills within budgetWindow"),
    key("budgetWindow", Duration, Some("10m"), "Window of the budget"),
    key("coolDown", Duration, Some("10s"), "How long the agent takes no further step after a victim's memory was freed"),
    key("harmBudget", Duration, Some("50ms"), "Wait caused to others, per second, below which no candidate is evicted for pressure alone"),
    key("deletePods", Word(&["never", "noEviction", "overBudgets"]), Some("never"), "When the step evict deletes the pod instead: never, noEviction (the API server knows no eviction, or does not allow it) or overBudgets (also where a disruption budget forbids the eviction)"),
    key("neverTouch", Patterns, Some("[]"), "Paths of cgroups that the agent never acts on, nor on cgroups below or above them; added to the built-in list"),
];

#[rustfmt::skip]
const WORKLOAD: &[Key] = &[
    key("path", Pattern, None, "Cgroup paths; * and ? match within one name, ** matches any number of names"),
    key("qosClass", Word(&["Guaranteed", "Burstable", "BestEffort"]), Some("Burstable"), "QoS class to rank them by"),
    key("priority", Number(-2_147_483_648, 1_000_000_000), Some("0"), "Priority to rank them by; lower is evicted first"),
    key("requests", Map(REQUESTS), Some("{}"), "Resource requests of each of them"),
];

#[rustfmt::skip]
const REQUESTS: &[Key] = &[
    key("cpu", Quantity, None, "CPU request; by default derived from cpu.weight"),
    key("memory", Quantity, None, "Memory request; by default memory.low"),
];

#[rustfmt::skip]
const DEADLINES: &[Key] = &[
    key("mark", Duration, Some("5s"), "The highest oom_score_adj; nothing is waited for"),
    key("reclaim", Duration, Some("2s"), "memory.reclaim of page cache"),
    key("squeeze", Duration, Some("5s"), "Temporary memory.high or cpu.weight of the aggressor"),
    key("evict", Duration, Some("30s"), "Eviction through the API, which respects disruption budgets"),
    key("stopContainers", Duration, Some("10s"), "SIGTERM to its containers, and SIGKILL after the grace period"),
    key("killContainers", Duration, Some("5s"), "cgroup.kill of its containers"),
    key("releaseMemory", Duration, Some("2s"), "process_mrelease of its killed processes"),
];
