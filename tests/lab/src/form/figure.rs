//! The figures that a scenario can hold isobar to, each read from the library's own types: a field
//! that is renamed there does not compile here.

use serde::{Deserialize, Deserializer, de};

use isobar_core::model::condition::Status;
use isobar_core::model::decision::StepKind;
use isobar_core::model::limit::LimitResult;
use isobar_core::model::stall::MemoryCause;

use super::expect::Condition;
use crate::amount::{Memory, Unit};

/// The node, or a cgroup by its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Of {
    Node,
    Cgroup(String),
}

impl<'de> Deserialize<'de> for Of {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match String::deserialize(from)?.as_str() {
            "node" => Ok(Self::Node),
            path if path.starts_with('/') => Ok(Self::Cgroup(path.into())),
            other => Err(de::Error::custom(format!("{other:?}: expected \"node\" or \"/PATH\""))),
        }
    }
}

/// What is read when a scenario has run. Times and counts are those of the measured time, averages
/// those at its end.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Figure {
    /// The measured time.
    Wall,
    /// Task time on a run queue, whatever for.
    CpuWait(Of),
    /// Of that: kept waiting by other work.
    CpuContention(Of),
    /// Of that: throttled by its own quota.
    ThrottledOwn(Of),
    /// Of that: throttled by an ancestor's.
    ThrottledAncestor(Of),
    /// `throttled_own` as a share of `cpu_wait`.
    ThrottledShare(Of),
    /// The same worked out from `cpu.stat`, for so many threads that never rest.
    ThrottledShareByFiles {
        of: Of,
        threads: u32,
    },
    /// Wall time in which at least one task contended for a CPU.
    Contention(Of),
    ContentionAvg10(Of),
    ContentionAvg60(Of),
    /// Share of the last interval in which work of the node contended for this CPU.
    ContentionOnCpu(usize),
    /// How long `to` waited because `by` ran.
    Harm {
        by: String,
        to: String,
    },
    /// `throttled_usec` of `cpu.stat`.
    ThrottledByFile(Of),
    /// `usage_usec` of `cpu.stat`.
    CpuUsage(Of),
    /// `some` of the kernel's pressure file, and its average over a minute.
    PsiCpu(Of),
    PsiCpuAvg60(Of),
    PsiMemory(Of),
    /// Wall time in which at least one task stalled for memory, whatever the cause.
    MemoryStall(Of),
    /// The same for one cause; 0 if that never occurred.
    MemoryStallBy {
        of: Of,
        cause: MemoryCause,
    },
    /// Task time stalled for one cause.
    MemoryTimeBy {
        of: Of,
        cause: MemoryCause,
    },
    /// Wall time in which at least one task stalled because the node or its allocatable is short.
    Shortage(Of),
    ShortageAvg60(Of),
    /// `oom_kill` of `memory.events`: in the measured time, and since the cgroup was made.
    OomKillEvents(Of),
    OomKillEventsEver(Of),
    /// The kernel's kills, as isobar reports them.
    OomKills(Kills),
    /// Ticks in which a condition had this status.
    Condition {
        name: Condition,
        status: Status,
    },
    /// Different actions; any step, any target where they are not given.
    Actions {
        #[serde(default)]
        step: Option<StepKind>,
        #[serde(default)]
        target: Option<String>,
    },
    /// Different limits that came to this result in any tick.
    Limits(LimitResult),
    /// What the kernel side could not count.
    LostCgroups,
    LostStalls,
    LostEvents,
    /// Memory of the kernel side's maps at the end, bytes.
    MapMemory,
    /// Counters that ran backwards.
    BackwardsCounters,
    /// All memory of the node less so much.
    NodeMemoryLess(Memory),
    /// What a file of a cgroup says in the end; `max` is more than any number.
    File {
        cgroup: String,
        name: String,
    },
    /// Processes in and below a cgroup that may run on a CPU in the end.
    CpusAllowed {
        cgroup: String,
        cpu: u32,
    },
    Sum(Vec<Figure>),
}

/// Which of the kernel's kills are counted.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kills {
    /// The cgroup that lost a process.
    pub(crate) of: String,
    /// Whose limit was reached; any if not given.
    pub(crate) limit: Option<Of>,
    /// The cgroup that asked for the memory; any if not given.
    pub(crate) trigger: Option<String>,
}

impl Figure {
    /// What it measures.
    pub(crate) fn unit(&self) -> Unit {
        match self {
            Self::ThrottledShare(_)
            | Self::ThrottledShareByFiles { .. }
            | Self::ContentionAvg10(_)
            | Self::ContentionAvg60(_)
            | Self::ContentionOnCpu(_)
            | Self::PsiCpuAvg60(_)
            | Self::ShortageAvg60(_) => Unit::Share,
            Self::OomKillEvents(_)
            | Self::OomKillEventsEver(_)
            | Self::OomKills(_)
            | Self::Condition { .. }
            | Self::Actions { .. }
            | Self::Limits(_)
            | Self::LostCgroups
            | Self::LostStalls
            | Self::LostEvents
            | Self::MapMemory
            | Self::BackwardsCounters
            | Self::NodeMemoryLess(_)
            | Self::File { .. }
            | Self::CpusAllowed { .. } => Unit::Number,
            Self::Sum(figures) => figures.first().map_or(Unit::Number, Self::unit),
            _ => Unit::Time,
        }
    }
}
