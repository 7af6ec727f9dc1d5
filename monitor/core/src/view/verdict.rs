//! One verdict in words for each of CPU, memory and IO. For people; no rule depends on it.

use serde::{Deserialize, Serialize};

use crate::model::cgroup::{CgroupId, Limit, MemoryFiles};
use crate::model::decision::Assessment;
use crate::model::named;
use crate::model::psi::{Line, Pressure};
use crate::model::snapshot::{Scope, Snapshot, Union};
use crate::model::stall::MemoryCause;
use crate::model::units::{Micros, MilliCpu, Nanos, Percent};
use crate::view::left::{left_by_the_kernel, short_before_waits, short_of_memory};
use crate::view::waiting::{Level, below_request, short_name};

/// Lower bound of `waits`. Below it, a busy node is a healthy node.
const WAITS: Percent = Percent(5_00);
/// Lower bound of `pressed`.
const PRESSED: Percent = Percent(40_00);
/// How a word of a verdict and a status of a condition differ, for a reader who sees both.
pub const PRESSED_AND_TRUE: &str = "Pressed: at least one task waited in 40 % or more of the last 10 s. True: a \
    node condition, by KEP-4205's rule: it begins once its averages of 60 s and 10 s are at its \
    threshold, and ends once that of 60 s is below it.";
/// Less of the CPU time that a hypervisor gave to others is no news.
const STOLEN: Percent = Percent(10_00);
/// What `avg10` looks at.
const WINDOW: Nanos = Nanos(10 * Nanos::SECOND.0);
/// A smaller difference between two measures has no cause of its own.
const AGREES: Percent = Percent(2_00);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    pub resource: Resource,
    pub mood: Mood,
    /// A threshold of what is left of it, or of how long it lasts, is met.
    #[serde(default)]
    pub is_short: bool,
    /// One sentence, with the numbers.
    pub text: String,
}

impl Verdict {
    /// What a reader sees first: `short` comes before waits that are few.
    pub fn word(&self) -> &'static str {
        match self.mood {
            Mood::Pressed => "pressed",
            _ if self.is_short => "short",
            Mood::Waits => "waits",
            Mood::Calm => "calm",
            Mood::Unknown => "unknown",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Resource {
    Cpu,
    Memory,
    Io,
}

named!(Resource {
    Cpu => "cpu",
    Memory => "memory",
    Io => "io",
});

/// One word for the last ten seconds. Node conditions have other words, because they look at a
/// minute and at a configured threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Mood {
    /// Below 5 %.
    Calm,
    /// From 5 %.
    Waits,
    /// From 40 %.
    Pressed,
    /// Neither the measure nor raw PSI is known, or they leave it open.
    Unknown,
}

impl Mood {
    /// The word for a share of the last ten seconds.
    pub fn of(share: Percent) -> Self {
        match share {
            _ if share >= PRESSED => Self::Pressed,
            _ if share >= WAITS => Self::Waits,
            _ => Self::Calm,
        }
    }
}

/// CPU, memory, IO.
pub fn judge(snapshot: &Snapshot, assessment: &Assessment) -> Vec<Verdict> {
    let whole = &snapshot.whole;
    let mut cpu = cpu(snapshot);
    cpu.text.extend(below_requests(snapshot));
    cpu.text.extend(stolen(whole));
    let mut memory = memory(snapshot);
    let short = short_of_memory(assessment);
    memory.is_short = short.is_some();
    memory.text.extend(short.and_then(|met| short_before_waits(snapshot, memory.mood, met)));
    memory.text.extend(left_by_the_kernel(snapshot, &assessment.observations));
    vec![cpu, memory, io(whole)]
}

/// Tasks wait on a CPU that is stopped as they wait for another task: no pod is to blame for that.
fn stolen(whole: &Scope) -> Option<String> {
    let share = whole.stolen.filter(|share| *share >= STOLEN)?;
    Some(format!(
        "; the hypervisor kept {share} % of the CPU time that this node wanted lately (steal): no pod is \
         to blame for that part"
    ))
}

/// How many pods wait although they use less than they request, and which of them most.
fn below_requests(snapshot: &Snapshot) -> Option<String> {
    let pods = below_request(snapshot);
    let most = pods.first()?;
    let (used, request) = most.cpu_usage.zip(most.cpu_request)?;
    let (name, share) = (short_name(most), most.below_request?.avg10);
    let figures = format!("{} of {} CPUs, {share} % of the time", cpus(used), cpus(request));
    Some(match pods.len() {
        1 => format!("; {name} waits with less CPU time than it requests ({figures})"),
        n => format!(
            "; {n} pods wait with less CPU time than they request, most of all {name} ({figures})"
        ),
    })
}

fn cpu(snapshot: &Snapshot) -> Verdict {
    let whole = &snapshot.whole;
    let raw = some(whole.pressure.cpu);
    let contention = Share::of(whole.contention, snapshot.interval);
    let text = compare("contention", contention, raw, || {
        let throttled = whole.cpu.as_ref().is_some_and(|cpu| {
            [cpu.throttled_own, cpu.throttled_ancestor].iter().flatten().any(|t| t.now.0 > 0)
        });
        match (throttled, throttled_most(snapshot)) {
            (true, Some(who)) => format!("throttling, mostly {who}"),
            (true, None) => "throttling".into(),
            (false, _) => "unknown: no cgroup was throttled".into(),
        }
    });
    Verdict { resource: Resource::Cpu, mood: mood(contention, raw), is_short: false, text }
}

/// Who waits longest for a quota of its own, and the quota. What waits for quotas within a cgroup counts
/// as its own too, so one without a quota is not meant; of a pod and its container it is the pod.
fn throttled_most(snapshot: &Snapshot) -> Option<String> {
    let throttled = snapshot.scopes.values().filter_map(|scope| {
        let own = scope.cpu.as_ref()?.throttled_own?.now;
        let cpu = scope.files.as_ref()?.cpu;
        let Limit::At(quota) = cpu.quota? else { return None };
        let quota = MilliCpu::rate(Micros(quota).into(), cpu.period?.into());
        (own > Nanos(0)).then(|| (own, Level::Units.shows(scope), scope, quota))
    });
    let most = throttled.max_by_key(|(own, is_unit, ..)| (*own, *is_unit));
    let (.., scope, quota) = most?;
    Some(format!("of {} by its own quota of {} CPUs", short_name(scope), cpus(quota)))
}

fn cpus(MilliCpu(milli): MilliCpu) -> String {
    format!("{:.2}", milli as f64 / 1e3)
}

pub(super) fn memory(snapshot: &Snapshot) -> Verdict {
    let Snapshot { whole, covers, interval, .. } = snapshot;
    let raw = some(whole.pressure.memory);
    let shortage = Share::of(whole.shortage, *interval);
    // Without causes, shortage is a lower bound: as with conditions, raw PSI is the upper one.
    let is_bound = whole.shortage.is_some() && !covers.memory_causes;
    let measure = if is_bound { "shortage of at least" } else { "shortage" };
    let own = mood(shortage, raw);
    let is_certain = !is_bound || own == Mood::Pressed || own == mood(None, raw);
    let reader = reads_back(snapshot);
    let text = compare(measure, shortage, raw, || {
        let causes = whole.memory.iter().flat_map(|memory| &memory.causes);
        let limited = causes.filter(|(cause, _)| !cause.is_shortage());
        let longest = limited.max_by_key(|(_, wait)| wait.union.now);
        match longest {
            Some((cause, wait)) if wait.union.now.0 > 0 => {
                format!("mostly {}", cause_words(*cause))
            }
            _ => "of no known cause".into(),
        }
    });
    let own = if is_certain { own } else { Mood::Unknown };
    let Some((scope, share)) = reader else {
        return Verdict { resource: Resource::Memory, mood: own, is_short: false, text };
    };
    let reader = format!(
        "; {} waited {share} % of the last 10 s (its raw PSI) and reads back page cache that was dropped, at \
         no limit of its own",
        short_name(scope)
    );
    // No mood is above it, also where that of the node is not known.
    let read = Mood::of(share);
    let mood = if read == Mood::Pressed { read } else { own.max(read) };
    Verdict { resource: Resource::Memory, mood, is_short: false, text: text + &reader }
}

/// Who waits most to read back page cache that no limit of its own had dropped, and how much of the last
/// ten seconds by its own PSI: the node is short of memory for it, although the kernel finds free pages
/// without a stall.
fn reads_back(snapshot: &Snapshot) -> Option<(&Scope, Percent)> {
    // What reclaims is the node, or a limit of all pods.
    if !stalled(&snapshot.whole, |cause| cause.is_shortage() || cause == MemoryCause::KernelThread)
    {
        return None;
    }
    let units = snapshot.scopes.iter().filter(|(_, scope)| Level::Units.shows(scope));
    let reading = units.filter_map(|(id, scope)| {
        let refaults = scope.memory.as_ref()?.causes.get(&MemoryCause::Refault)?.union.now;
        let is_reading = Percent::share(refaults.0, snapshot.interval.0) >= WAITS;
        let pressure = some(scope.pressure.memory)?;
        (is_reading && !is_limited(*id, scope, snapshot)).then_some((scope, pressure))
    });
    reading.max_by_key(|(_, share)| *share)
}

/// Whether it stalled at a limit of its own, or it or a cgroup in it is close to one: what is dropped there may
/// be read back in another interval.
fn is_limited(id: CgroupId, scope: &Scope, snapshot: &Snapshot) -> bool {
    let mut below = snapshot.scopes.values().filter(|one| one.parent == Some(id));
    let at_limit = |cause: MemoryCause| cause.is_own_limit() || cause == MemoryCause::SomeLimit;
    stalled(scope, at_limit) || is_full(scope) || below.any(is_full)
}

/// Whether tasks of it stalled for such a cause.
fn stalled(scope: &Scope, is_such: impl Fn(MemoryCause) -> bool) -> bool {
    let mut causes = scope.memory.iter().flat_map(|memory| &memory.causes);
    causes.any(|(cause, wait)| is_such(*cause) && wait.union.now > Nanos(0))
}

/// Whether it uses nearly all that its own limits allow.
fn is_full(scope: &Scope) -> bool {
    let Some(MemoryFiles { current: Some(used), max, high, .. }) =
        scope.files.as_ref().map(|files| files.memory)
    else {
        return false;
    };
    let is_near =
        |limit: Option<Limit>| limit.and_then(Limit::at).is_some_and(|at| used.0 >= at / 16 * 15);
    is_near(max) || is_near(high)
}

fn io(whole: &Scope) -> Verdict {
    let raw = some(whole.pressure.io);
    let full = whole.pressure.io.and_then(|p| p.full).map(|line| line.avg10);
    let text = match (raw, full) {
        (Some(some), Some(full)) => {
            format!("raw PSI some {some} %, full {full} % (avg10)")
        }
        (Some(some), None) => format!("raw PSI some {some} % (avg10)"),
        (None, _) => "raw PSI could not be read".into(),
    };
    Verdict { resource: Resource::Io, mood: mood(None, raw), is_short: false, text }
}

/// A union's share of the last ten seconds.
#[derive(Debug, Clone, Copy)]
struct Share {
    union: Union,
    /// What the last interval alone has of ten seconds. The average may not know of it: it is updated
    /// once in two seconds ([`PERIOD`](crate::model::average::PERIOD)), and an aggressor is to be named
    /// within three.
    of_interval: Percent,
}

impl Share {
    fn of(union: Option<Union>, interval: Nanos) -> Option<Self> {
        let union = union?;
        let part = u64::from(union.now.0) * interval.0.min(WINDOW.0) / WINDOW.0;
        let of_interval = Percent(u16::try_from(part).expect("at most what a Percent holds"));
        Some(Self { union, of_interval })
    }

    fn recent(self) -> Percent {
        self.union.avg10.max(self.of_interval)
    }

    /// `9.87 % (avg10)`, with the last interval where the average does not know of it yet.
    fn told(self) -> String {
        let Union { avg10, now, .. } = self.union;
        match self.of_interval > avg10 {
            true => format!("{avg10} % (avg10; {now} % in the last tick)"),
            false => format!("{avg10} % (avg10)"),
        }
    }
}

/// The measure beside raw PSI, and what explains their difference.
fn compare(
    measure: &str,
    share: Option<Share>,
    raw: Option<Percent>,
    difference: impl FnOnce() -> String,
) -> String {
    let union = share.map(|share| share.union);
    if let Some((union, seen)) = union.and_then(|u| Some((u, u.seen.filter(|s| *s < WINDOW)?))) {
        let seen = seen.0.div_ceil(Nanos::SECOND.0).max(1);
        let raw = match raw {
            Some(raw) => format!("raw PSI some {raw} % (avg10)"),
            None => "raw PSI could not be read".into(),
        };
        // Over different times their difference means nothing.
        return format!("{measure} {} % (measured for {seen} s), {raw}", union.avg10);
    }
    match (share, raw) {
        (Some(share), Some(raw)) if raw.0 >= share.recent().0.saturating_add(AGREES.0) => format!(
            "{measure} {}, raw PSI some {raw} %: the difference is {}",
            share.told(),
            difference()
        ),
        (Some(share), Some(raw)) => {
            format!("{measure} {}, and raw PSI agrees ({raw} %)", share.told())
        }
        (Some(share), None) => {
            format!("{measure} {}, raw PSI could not be read", share.told())
        }
        (None, Some(raw)) => {
            format!("raw PSI some {raw} % (avg10); {measure} unknown: no eBPF measurement")
        }
        (None, None) => format!("{measure} unknown, raw PSI could not be read"),
    }
}

fn mood(share: Option<Share>, raw: Option<Percent>) -> Mood {
    share.map(Share::recent).or(raw).map_or(Mood::Unknown, Mood::of)
}

pub(super) fn some(pressure: Option<Pressure>) -> Option<Percent> {
    pressure.and_then(|p| p.some).map(|line: Line| line.avg10)
}

/// A cause of memory stall in words.
pub fn cause_words(cause: MemoryCause) -> &'static str {
    match cause {
        MemoryCause::OwnLimit => "own limits",
        MemoryCause::OwnHigh => "own memory.high",
        MemoryCause::AncestorLimit => "the limits of their pods or slices",
        MemoryCause::AllocatableLimit => "the allocatable limit",
        MemoryCause::SomeLimit => "some limit",
        MemoryCause::Global => "node shortage",
        MemoryCause::Compaction => "compaction",
        MemoryCause::Refault => "refaults",
        MemoryCause::SwapIn => "swap-in",
        MemoryCause::KernelThread => "kernel threads",
        MemoryCause::Other => "unknown callers",
    }
}

#[cfg(test)]
mod tests;
