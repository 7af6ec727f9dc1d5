//! What one play came to, as the guest tells the host: facts alone, nothing judged.
//! Times are nanoseconds of the guest's CLOCK_MONOTONIC.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::alerts::Scrapes;

/// The pod by which users judge the node.
pub(crate) const BYSTANDER: &str = "bystander";

/// One scenario, with one agent, once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Play {
    /// By its name.
    pub scenario: String,
    /// By its name.
    pub agent: String,
    /// From 1.
    pub run: u32,
}

/// One line of the guest's.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "camelCase")]
pub(crate) enum Line {
    /// The guest is up.
    Up {
        /// `uname -r`.
        kernel: String,
    },
    /// A play begins.
    Begin { play: Play },
    /// What the agent recorded in the play that begins or runs, or an incident of it: what it is called
    /// after the scenario, and the file, in base64.
    Recording { name: String, base64: String },
    /// It is over.
    Ran { play: Play, facts: Box<Facts> },
    /// It could not be played.
    Broke { play: Play, why: String },
    /// What it left behind cannot be removed: the rest needs another machine.
    Spent,
    /// All have been.
    Done,
}

/// What was seen.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Facts {
    pub(crate) kernel: String,
    /// When the idle time began.
    pub(crate) idle_ns: u64,
    /// When the first load that is part of the onset said that it begins.
    pub(crate) onset_ns: u64,
    /// When watching ended.
    pub(crate) end_ns: u64,
    /// When the machine itself was frozen.
    pub(crate) frozen: Vec<Frozen>,
    pub(crate) deaths: Vec<Death>,
    /// What the loads said of themselves: when they began, what they had done by their end.
    pub(crate) loads: Vec<serde_json::Value>,
    /// By pod and service.
    pub(crate) groups: Vec<Group>,
    /// `oom_kill` of /proc/vmstat.
    pub(crate) kernel_oom_kills: u64,
    /// Once a second.
    pub(crate) moments: Vec<Moment>,
    pub(crate) vmstat: Vmstat,
    pub(crate) agent: Option<Agent>,
    /// Limits that were not what they had been once the agent had left.
    pub(crate) limits_left: Vec<Limit>,
    /// Of each claim of the scenario, where the agent offers figures.
    pub(crate) readings: Vec<Reading>,
    /// What went wrong with the test bed, and not with the agent.
    pub(crate) troubles: Vec<String>,
}

/// The numbers of one claim.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Reading {
    /// `None` if the agent leaves it out, or if it could not be read.
    pub(crate) figure: Option<f64>,
    /// That of `of`.
    pub(crate) of: Option<f64>,
    /// What could not be read.
    pub(crate) error: Option<String>,
}

/// A time in which the emulator had no CPU, or the host none for the emulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Frozen {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
}

/// A process that ended although neither its load's time was over nor the runner had ended it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Death {
    pub(crate) at_ns: u64,
    pub(crate) pid: u32,
    /// Pod or service; empty if it is none that the runner started itself.
    pub(crate) name: String,
    /// By this signal; 15 also where the process ended tidily because of it.
    pub(crate) signal: Option<i32>,
    /// With this code.
    pub(crate) code: Option<i32>,
    /// It was the pod's sandbox.
    pub(crate) sandbox: bool,
}

/// A pod or service at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Group {
    pub(crate) name: String,
    /// Without the number of several alike.
    pub(crate) kind: String,
    /// When the last process of the container had ended; `None` while there is one.
    pub(crate) empty_ns: Option<u64>,
}

/// The node at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Moment {
    pub(crate) at_ns: u64,
    /// `full` of /proc/pressure/memory, in microseconds.
    pub(crate) full_us: u64,
}

/// Counters of /proc/vmstat, over the measured time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Vmstat {
    pub(crate) swapped_in: u64,
    pub(crate) swapped_out: u64,
    pub(crate) major_faults: u64,
    pub(crate) refaults_anon: u64,
    pub(crate) refaults_file: u64,
}

/// The agent, from outside and, where it offers that, from inside.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Agent {
    pub(crate) ready_after_ms: u64,
    /// CPU time that it took until then.
    pub(crate) ready_cpu_ms: u64,
    /// From SIGTERM to its end, the longest.
    pub(crate) left_after_ms: u64,
    /// It lives at the end, or was not to.
    pub(crate) alive: bool,
    /// How it ended before its time.
    pub(crate) ended: Vec<String>,
    pub(crate) rss_max_kib: u64,
    /// At the end.
    pub(crate) rss_kib: u64,
    /// Over the measured time.
    pub(crate) cpu_ms: u64,
    /// Of it, and of what it wrote, each thread's part.
    pub(crate) threads: Threads,
    pub(crate) major_faults: u64,
    /// What it wrote to the API server, a line for each request.
    pub(crate) requests: Vec<String>,
    /// What it told of incidents once it was started again, a line for each, oldest first.
    pub(crate) incidents: Vec<String>,
    /// Their files, which go to the host each in a line of its own.
    #[serde(skip)]
    pub(crate) incident_files: Vec<Vec<u8>>,
    /// What was scraped of it, where the scenario expects alerts.
    pub(crate) scrapes: Option<Scrapes>,
    /// What it wrote to its log, the first lines if there are many.
    pub(crate) log: Vec<String>,
    pub(crate) served: Option<Served>,
}

/// By name, those of one name together.
pub(crate) type Threads = BTreeMap<String, Thread>;

/// What threads used and wrote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Thread {
    pub(crate) cpu_ms: u64,
    /// Calls that write, to files, sockets and other threads.
    pub(crate) writes: u64,
    pub(crate) written_bytes: u64,
}

impl Thread {
    pub(crate) fn add(&mut self, other: Self) {
        self.cpu_ms += other.cpu_ms;
        self.writes += other.writes;
        self.written_bytes += other.written_bytes;
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            cpu_ms: self.cpu_ms.saturating_sub(before.cpu_ms),
            writes: self.writes.saturating_sub(before.writes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
        }
    }
}

/// The highest average over ten seconds, by scope and measure, in percent. What was never measured
/// is not in it.
pub(crate) type Peaks = BTreeMap<String, f64>;

/// What an agent says of itself.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Served {
    /// Conditions that were true, and in how many of its ticks.
    pub(crate) conditions: Vec<(String, u64)>,
    pub(crate) trace: Vec<Tick>,
    /// How high each measure came, once the loads had begun.
    pub(crate) peaks: Peaks,
    pub(crate) ticks: u64,
    /// Between two of its ticks.
    pub(crate) longest_tick_ms: u64,
    pub(crate) actions: Vec<Action>,
    /// Events in its own words.
    pub(crate) events: Vec<Said>,
    /// All sentences of its explanations, each once.
    pub(crate) explanation: Vec<Said>,
    /// The first mistake in what it served.
    pub(crate) unreadable: Option<String>,
}

/// One of its ticks: what reactions are timed by.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Tick {
    /// When its sample was begun.
    pub(crate) at_ns: u64,
    /// All memory stall of the node until then, where it measures that.
    pub(crate) stall_ns: Option<u64>,
    /// How long reading took it.
    pub(crate) reading_ns: u64,
    /// From its sample to its decision.
    pub(crate) decision_ns: u64,
    /// From its last decision to take a step to that step.
    pub(crate) handover_ns: Option<u64>,
    /// The victim that it really ends with this tick.
    pub(crate) ends: Option<String>,
}

/// Something it did, or would have done.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Action {
    pub(crate) at_ns: u64,
    pub(crate) step: String,
    pub(crate) target: String,
    pub(crate) enforced: bool,
    pub(crate) message: String,
}

/// Something it said.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Said {
    pub(crate) at_ns: u64,
    pub(crate) text: String,
}

/// A limit that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Limit {
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) before: String,
    pub(crate) after: String,
}
