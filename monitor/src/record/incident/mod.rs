//! An incident: a span of the recording in which something went wrong, kept for itself, and what
//! it came to.
//!
//! `watch` finds where one begins and ends, `account` adds up what the recording says of it, `words`
//! makes a paragraph of that, `freeze` takes the span out of the recording, as far as `room` has a
//! place for its ticks, `shelf` keeps it.

pub mod account;
mod boots;
pub mod freeze;
mod limits;
pub mod redact;
pub mod retention;
mod room;
mod score;
pub mod shelf;
mod taken;
pub mod watch;
mod within;
pub mod words;

use std::collections::BTreeMap;
use std::ops::Not;

use serde::{Deserialize, Serialize};

pub use self::score::{MoreKills, Score};
use isobar_core::model::capability::Capability;
use isobar_core::model::decision::NodePressure;
use isobar_core::model::sample::Moment;
use isobar_core::model::units::{Bytes, MilliCpu, Nanos, Percent};

/// The wall clock may be set by so much, in nanoseconds, without that the boot is another one.
const SET: u64 = 5 * Nanos::SECOND.0;
/// The longest name of an incident.
const NAME: usize = 120;
/// The part of a name that says who it is about.
const WHO: usize = 64;

/// Why an incident is kept, gravest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "IncidentKind"))]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// The kernel's OOM killer killed.
    OomKill,
    /// isobar decided to end work.
    Kill,
    /// A condition became True.
    Condition,
    /// isobar decided on a gentler step.
    Action,
    /// Memory was foretold to run out.
    Exhaustion,
    /// Another process changed a limit that isobar wrote.
    Drift,
}

impl Kind {
    pub const ALL: [Self; 6] =
        [Self::OomKill, Self::Kill, Self::Condition, Self::Action, Self::Exhaustion, Self::Drift];

    /// Its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::OomKill => "oomKill",
            Self::Kill => "kill",
            Self::Condition => "condition",
            Self::Action => "action",
            Self::Exhaustion => "exhaustion",
            Self::Drift => "drift",
        }
    }

    /// Work was ended, or was to be.
    pub fn is_kill(self) -> bool {
        matches!(self, Self::OomKill | Self::Kill)
    }
}

/// One thing that makes a span an incident.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "IncidentTrigger"))]
#[serde(rename_all = "camelCase")]
pub struct Trigger {
    pub at: Moment,
    pub kind: Kind,
    /// The condition, the victim, the target, the scope, or the file.
    pub who: String,
    /// What happened, as a sentence.
    pub text: String,
    /// An OOM kill at a limit of the victim's own: neither the node nor all pods were out of memory.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub at_own_limit: bool,
}

/// Whether the span is still growing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "IncidentState"))]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// It is not over, or was not when its agent ended: only the recording has its ticks.
    #[default]
    Open,
    /// Its ticks are in a file of its own.
    Frozen,
}

/// Of one agent, since it started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Incidents, by what began them.
    pub incidents: BTreeMap<Kind, u64>,
    /// Ticks that the recording lacks.
    pub lost: u64,
}

/// What is known of one incident.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "KeptIncident"))]
#[serde(default, rename_all = "camelCase")]
pub struct Incident {
    pub name: String,
    pub state: State,
    /// The node's name.
    pub node: String,
    /// The boot of the node; empty if not known, and of a redacted copy.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub boot_id: String,
    /// Without repetition, gravest first.
    pub kinds: Vec<Kind>,
    /// Of the first trigger.
    pub who: String,
    /// When the first trigger was seen.
    pub begin: Moment,
    /// When it was calm again, or the span was full; `None` while it is open.
    pub end: Option<Moment>,
    /// It was not calm at its end: no span is longer.
    #[serde(skip_serializing_if = "Not::not")]
    pub is_cut: bool,
    /// The first and the last tick of the span.
    pub from: Moment,
    pub to: Moment,
    /// Ticks of the span that its file has.
    pub ticks: u64,
    /// Those that it does not have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// The first tick after each reload of the configuration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reloads: Vec<Moment>,
    /// Bytes of its recording.
    pub size: u64,
    /// When it was imported, on the wall clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imported: Option<Nanos>,
    /// One paragraph.
    pub summary: String,
    pub triggers: Vec<Trigger>,
    /// Triggers that `triggers` has no room for.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_triggers: u64,
    pub conditions: Vec<Held>,
    /// Who made whom wait for a CPU, the greatest loss first.
    pub waits: Vec<Wait>,
    /// Since when `waits` and `stalls` are counted, where an earlier incident was over after `from`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_from: Option<Moment>,
    /// How much of the time since then no tick tells of; known while its ticks are read.
    #[serde(skip)]
    pub paused: Nanos,
    /// It was about CPUs: a condition of them was True, or a threshold on them was met.
    pub is_about_cpu: bool,
    /// Who stalled for memory, and not at limits of their own, the longest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stalls: Vec<Stall>,
    /// It was about memory: a condition of it was True, or a threshold on it was met.
    pub is_about_memory: bool,
    /// Who took memory, in words, where most of it was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken: Option<String>,
    /// Who did the IO when most was done, in words, where disks were short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved: Option<String>,
    /// What isobar did, and what came of it.
    pub deeds: Vec<Deed>,
    pub kills: Vec<Score>,
    /// OOM kills that `kills` has no room for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_kills: Option<MoreKills>,
    /// The limits of those who waited and of those who made them wait, where they have any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limits>,
    /// What the agent could measure and do when it began.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<Capability>,
    /// What of that changed before its end, at most 32 of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
}

impl Incident {
    /// Whether an agent that begins `now`, in the boot `boot_id`, can go on with it: the one before left it
    /// open in this boot, it was not over, and the span is not full.
    pub fn goes_on(&self, boot_id: &str, now: Moment) -> bool {
        let passed =
            Moment { boot: now.boot.since(self.begin.boot), wall: now.wall.since(self.begin.wall) };
        let is_same = match self.boot_id.as_str() {
            // In another boot the two clocks are another time apart.
            "" => passed.boot.0.abs_diff(passed.wall.0) < SET,
            own => own == boot_id,
        };
        self.state == State::Open
            && self.end.is_none()
            && now.boot >= self.begin.boot
            && passed.boot < watch::LONGEST
            && is_same
    }
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Whether a tick at `at` is of an incident that begins at `begin`, and does not lead to it. So are all
/// after it: the wall clock may be set back within an incident.
pub fn is_within(begin: Moment, at: Moment) -> bool {
    at.boot >= begin.boot && at.wall >= begin.wall
}

/// Ticks that the file of an incident does not have: for their size, or because the recording did not
/// have them either.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "IncidentGap"))]
#[serde(default, rename_all = "camelCase")]
pub struct LeftOut {
    /// The last tick before them.
    pub from: Moment,
    /// The last of them.
    pub to: Moment,
}

/// A condition that was True within the span.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "IncidentCondition"))]
#[serde(default, rename_all = "camelCase")]
pub struct Held {
    /// The condition's type.
    pub name: String,
    /// What was measured, in words.
    pub figure: String,
    pub from: Moment,
    /// `None` if it was still True at the end of the span.
    pub to: Option<Moment>,
    /// The highest average over a minute.
    pub peak: Option<Percent>,
}

impl Held {
    /// It was True before the span, whose first tick is at `first`: the kubelet's conditions have no
    /// beginning but the tick that found them.
    pub fn is_older(&self, first: Moment) -> bool {
        self.from == first && NodePressure::ALL.iter().any(|one| one.name() == self.name)
    }
}

/// The tightest limits within the span of a pod, of one of its containers, or of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "IncidentLimits"))]
#[serde(default, rename_all = "camelCase")]
pub struct Limits {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_max: Option<Bytes>,
    /// Also one that isobar set to squeeze it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_high: Option<Bytes>,
    /// `cpu.max`, in thousandths of a CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_max: Option<MilliCpu>,
}

/// A capability that went or came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "IncidentChange"))]
#[serde(rename_all = "camelCase")]
pub struct Change {
    pub at: Moment,
    /// As it is from then on.
    pub capability: Capability,
}

/// How long tasks of a pod or service stalled for memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "IncidentStall"))]
#[serde(default, rename_all = "camelCase")]
pub struct Stall {
    pub sufferer: String,
    pub time: Nanos,
}

/// How long one cgroup waited while another ran.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "IncidentWait"))]
#[serde(default, rename_all = "camelCase")]
pub struct Wait {
    pub sufferer: String,
    pub aggressor: String,
    /// The aggressor's process that used most: its name and pid, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    pub time: Nanos,
    /// The time, weighed by what waiting was of the time in which the sufferer wanted to run.
    pub loss: Nanos,
}

/// One thing that isobar decided, did or found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct Deed {
    pub at: Moment,
    /// It was really done; else it was only recorded.
    pub is_enforced: bool,
    /// The step that it is, or is about; 0 if it is about none.
    pub action: u64,
    /// It is the step itself.
    pub is_step: bool,
    pub text: String,
}

/// The name of an incident: when it began (UTC), its kind, and who it is about, in characters that
/// are safe in a file name, on a terminal and in a URL. Names of pods come from other people.
pub fn name_of(first: &Trigger) -> String {
    let who: String = first.who.chars().take(WHO).map(harmless).collect();
    let who = who.trim_matches('_');
    let when = words::compact(first.at.wall);
    format!("{when}-{}-{}", first.kind.name(), if who.is_empty() { "unknown" } else { who })
}

fn harmless(c: char) -> char {
    if c.is_ascii_alphanumeric() || "-.".contains(c) { c } else { '_' }
}

/// True for what [`name_of`] may have made: no other name is ever joined to a path.
pub fn is_name(text: &str) -> bool {
    let is_plain = text.chars().all(|c| c == '_' || harmless(c) == c);
    (1..=NAME).contains(&text.len()) && is_plain && text.starts_with(|c: char| c.is_ascii_digit())
}
