//! The fields that the kubelet does not have.

use super::{API_VERSION, KIND, Key, Kind};

const STEPS: &[&str] =
    &["reclaim", "squeeze", "evict", "stopContainers", "killContainers", "releaseMemory"];

#[rustfmt::skip]
pub(in crate::config) const OURS: &[Key] = &[
    Key { name: "apiVersion",    kind: Kind::Word(&[API_VERSION]), default: Some(API_VERSION), about: "Version of this format" },
    Key { name: "kind",          kind: Kind::Word(&[KIND]), default: Some(KIND), about: "What this file is" },
    Key { name: "kubeletConfig", kind: Kind::File,   default: None, about: "The kubelet's own configuration: its fields are taken where this file does not have them" },
    Key { name: "pods",          kind: Kind::File,   default: None, about: "Pods of this node from a file, where there is no API server" },
    Key { name: "kubeletRoot",   kind: Kind::Text,   default: Some("/var/lib/kubelet"), about: "Where the kubelet keeps its files" },
    Key { name: "minSharedCPUs", kind: Kind::Number(0, 65_535), default: Some("0"), about: "CPUs that exclusive ones must leave to all other pods" },
    Key { name: "writeLimits",   kind: Kind::Words(&["allocatable", "reservedCpus"]), default: Some("[]"), about: "Limits that `isobar run --mode enforce` writes and keeps written: those that enforceNodeAllocatable names, and cpuset.cpus of pods without the reserved CPUs" },
    Key { name: "conditions",    kind: Kind::Map(CONDITIONS), default: None, about: "When the node is called contended" },
    Key { name: "evictionPressure", kind: Kind::List(PRESSURE), default: Some(USUAL_PRESSURE), about: "Pressure that starts relief, beside the kubelet's signals" },
    Key { name: "ranking",       kind: Kind::Map(RANKING), default: None, about: "Who goes first" },
    Key { name: "relief",        kind: Kind::Map(RELIEF), default: None, about: "How the node is relieved" },
    Key { name: "workloads",     kind: Kind::List(WORKLOAD), default: Some("[]"), about: "Cgroups that are no pods and may be chosen all the same, such as services; the first rule that fits counts" },
];

#[rustfmt::skip]
const CONDITIONS: &[Key] = &[
    Key { name: "prefix",      kind: Kind::Text, default: Some("\"\""), about: "Put before the type of each condition, such as example.com/" },
    Key { name: "taintEffect", kind: Kind::Word(&["NoSchedule", "PreferNoSchedule"]), default: Some("NoSchedule"), about: "How pods are kept away from a contended node" },
    Key { name: "raiseAfter",  kind: Kind::Duration, default: Some("0s"), about: "How long its reason must last before a condition is set" },
    Key { name: "clearAfter",  kind: Kind::Duration, default: Some("0s"), about: "How long its end must last before it is cleared" },
    Key { name: "staleAfter",  kind: Kind::Duration, default: Some("30s"), about: "How long it outlives its last measurement before it is Unknown" },
    Key { name: "system",      kind: Kind::Map(SCOPE), default: None, about: "The whole node" },
    Key { name: "kubepods",    kind: Kind::Map(SCOPE), default: None, about: "Its pods" },
];

#[rustfmt::skip]
const SCOPE: &[Key] = &[
    Key { name: "cpu",    kind: Kind::Map(CPU), default: None, about: "Waits for a CPU" },
    Key { name: "memory", kind: Kind::Map(MEMORY), default: None, about: "Waits for memory" },
    Key { name: "disk",   kind: Kind::Map(DISK), default: None, about: "Waits for a disk" },
];

const MEASURES: &[&str] = &["contention", "shortage", "raw"];
const LINES: &[&str] = &["some", "full"];

const ENABLED: Key = Key {
    name: "enabled",
    kind: Kind::Flag,
    default: Some("true"),
    about: "Whether it is judged at all",
};
const THRESHOLD: &str = "Share of time at or above which it is high";
const LINE: &str = "Line of the pressure file, for measure raw: some, or full";

#[rustfmt::skip]
const CPU: &[Key] = &[
    ENABLED,
    Key { name: "measure",   kind: Kind::Word(MEASURES), default: Some("contention"), about: "contention (waits that no quota explains), or raw (the pressure file)" },
    Key { name: "line",      kind: Kind::Word(LINES), default: None, about: LINE },
    Key { name: "threshold", kind: Kind::Percent, default: Some("50%"), about: THRESHOLD },
];

#[rustfmt::skip]
const MEMORY: &[Key] = &[
    ENABLED,
    Key { name: "measure",   kind: Kind::Word(MEASURES), default: Some("shortage"), about: "shortage (stalls that no limit of a pod explains), or raw (the pressure file)" },
    Key { name: "line",      kind: Kind::Word(LINES), default: None, about: LINE },
    Key { name: "threshold", kind: Kind::Percent, default: Some("10%"), about: THRESHOLD },
];

#[rustfmt::skip]
const DISK: &[Key] = &[
    ENABLED,
    Key { name: "measure",   kind: Kind::Word(MEASURES), default: Some("raw"), about: "raw (the pressure file)" },
    Key { name: "line",      kind: Kind::Word(LINES), default: None, about: "Line of the pressure file: some, or full, which it is if not given" },
    Key { name: "threshold", kind: Kind::Percent, default: Some("60%"), about: THRESHOLD },
];

/// `settings::usual_pressure_thresholds`, as a file has it; a test holds the two together.
const USUAL_PRESSURE: &str = "
- {scope: system, signal: memory, threshold: 60%, gracePeriod: 20s}
- {scope: system, signal: exhaustion, threshold: 10s, gracePeriod: 2s}
- {scope: kubepods, signal: memory, threshold: 60%, gracePeriod: 20s}
- {scope: kubepods, signal: exhaustion, threshold: 10s, gracePeriod: 2s}";

#[rustfmt::skip]
const PRESSURE: &[Key] = &[
    Key { name: "scope",       kind: Kind::Word(&["system", "kubepods"]), default: None, about: "The whole node, or its pods" },
    Key { name: "signal",      kind: Kind::Word(&["cpu", "memory", "disk", "exhaustion", "refaults"]), default: None, about: "What is measured: contention, shortage, io full, time until memory is used up, pages read back a second" },
    Key { name: "threshold",   kind: Kind::Scalar, default: None, about: "cpu, memory, disk: a percentage, at or above it; exhaustion: a length of time, at or below it; refaults: a number, at or above it" },
    Key { name: "gracePeriod", kind: Kind::Duration, default: Some("0s"), about: "How long it must be met" },
];

#[rustfmt::skip]
const RANKING: &[Key] = &[
    Key { name: "order",       kind: Kind::Word(&["qos", "kubelet"]), default: Some("qos"), about: "By which keys: class of service first, or as the kubelet" },
    Key { name: "optOutLabel", kind: Kind::Text, default: Some("isobar/never-evict"), about: "Pods with this label set to true are never evicted" },
    Key { name: "groupBelow",  kind: Kind::Quantity, default: Some("64Mi"), about: "Pods of one owner that each use less are one candidate together; 0 for never" },
];

#[rustfmt::skip]
const RELIEF: &[Key] = &[
    Key { name: "enforce",      kind: Kind::Words(STEPS), default: Some("[]"), about: "Steps that are really taken; all others are only recorded" },
    Key { name: "steps",        kind: Kind::Words(STEPS), default: Some("[reclaim, squeeze, evict, stopContainers, killContainers, releaseMemory]"), about: "Steps that may be chosen, gentlest first" },
    Key { name: "deadlines",    kind: Kind::Map(DEADLINES), default: None, about: "How long each step has to show an effect" },
    Key { name: "budget",       kind: Kind::Number(1, 1_000_000), default: Some("5"), about: "Evictions and kills within budgetWindow, at most" },
    Key { name: "budgetWindow", kind: Kind::Duration, default: Some("10m"), about: "See budget" },
    Key { name: "coolDown",     kind: Kind::Duration, default: Some("10s"), about: "How long nothing is done after a victim's memory is back" },
    Key { name: "harmBudget",   kind: Kind::Duration, default: Some("50ms"), about: "Waiting caused to others, each second, below which nobody is evicted for pressure alone" },
    Key { name: "neverTouch",   kind: Kind::Patterns, default: Some("[]"), about: "Cgroups, by path, that nothing is ever done to, nor to anything below or above them; what is built in stays" },
];

#[rustfmt::skip]
const WORKLOAD: &[Key] = &[
    Key { name: "path",     kind: Kind::Pattern, default: None, about: "Which cgroups: * and ? stay within a name, ** stands for any number of names" },
    Key { name: "qosClass", kind: Kind::Word(&["Guaranteed", "Burstable", "BestEffort"]), default: Some("Burstable"), about: "As which class of service they count" },
    Key { name: "priority", kind: Kind::Number(-2_147_483_648, 1_000_000_000), default: Some("0"), about: "As which priority they count; the lower goes first" },
    Key { name: "requests", kind: Kind::Map(REQUESTS), default: Some("{}"), about: "What each of them asks for" },
];

#[rustfmt::skip]
const REQUESTS: &[Key] = &[
    Key { name: "cpu",    kind: Kind::Quantity, default: None, about: "CPUs; without it, what its cpu.weight comes to" },
    Key { name: "memory", kind: Kind::Quantity, default: None, about: "Memory; without it, its memory.low" },
];

#[rustfmt::skip]
const DEADLINES: &[Key] = &[
    Key { name: "reclaim",        kind: Kind::Duration, default: Some("2s"),  about: "memory.reclaim: take back what nobody needs" },
    Key { name: "squeeze",        kind: Kind::Duration, default: Some("5s"),  about: "memory.high, cpu.weight: hold the aggressor back" },
    Key { name: "evict",          kind: Kind::Duration, default: Some("30s"), about: "The API's eviction, which respects disruption budgets" },
    Key { name: "stopContainers", kind: Kind::Duration, default: Some("10s"), about: "The runtime stops its containers" },
    Key { name: "killContainers", kind: Kind::Duration, default: Some("5s"),  about: "cgroup.kill of its containers" },
    Key { name: "releaseMemory",  kind: Kind::Duration, default: Some("2s"),  about: "process_mrelease: the dead give back their memory now" },
];
