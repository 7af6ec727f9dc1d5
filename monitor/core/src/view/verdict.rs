//! One verdict in words for each of CPU, memory and IO. For people; no rule depends on it.

use serde::{Deserialize, Serialize};

use crate::model::cgroup::Limit;
use crate::model::decision::Assessment;
use crate::model::psi::{Line, Pressure};
use crate::model::snapshot::{Scope, Snapshot, Union};
use crate::model::stall::{Coverage, MemoryCause};
use crate::model::units::{Micros, MilliCpu, Nanos, Percent};
use crate::view::left::{left_by_the_kernel, short_before_waits};
use crate::view::waiting::{Level, below_request, short_name};

/// Lower bound of `waits`. Below it, a busy node is a healthy node.
const WAITS: Percent = Percent(5_00);
/// Lower bound of `pressed`.
const PRESSED: Percent = Percent(40_00);
/// How a word of a verdict and a status of a condition differ, for a reader who sees both.
pub const PRESSED_AND_TRUE: &str = "Pressed: at least one task waited in 40 % or more of the last 10 s. True: a \
    node condition, by KEP-4205's rule: it begins once its averages of 60 s and 10 s are at its \
    threshold, and ends once that of 60 s is below it.";
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
    /// One sentence, with the numbers.
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Resource {
    Cpu,
    Memory,
    Io,
}

/// One word for the last ten seconds. Node conditions have other words, because they look at a
/// minute and at a configured threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
    #[must_use]
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
    let mut memory = memory(whole, snapshot.covers);
    memory.text.extend(short_before_waits(memory.mood, assessment));
    memory.text.extend(left_by_the_kernel(snapshot, &assessment.observations));
    vec![cpu, memory, io(whole)]
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
    let text = compare("contention", whole.contention, raw, || {
        let throttled = whole.cpu.as_ref().is_some_and(|cpu| {
            [cpu.throttled_own, cpu.throttled_ancestor].iter().flatten().any(|t| t.now.0 > 0)
        });
        match (throttled, throttled_most(snapshot)) {
            (true, Some(who)) => format!("throttling, mostly {who}"),
            (true, None) => "throttling".into(),
            (false, _) => "unknown: no cgroup was throttled".into(),
        }
    });
    Verdict { resource: Resource::Cpu, mood: mood(whole.contention, raw), text }
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

pub(super) fn memory(whole: &Scope, covers: Coverage) -> Verdict {
    let raw = some(whole.pressure.memory);
    // Without causes, shortage is a lower bound: as with conditions, raw PSI is the upper one.
    let is_bound = whole.shortage.is_some() && !covers.memory_causes;
    let measure = if is_bound { "shortage of at least" } else { "shortage" };
    let own = mood(whole.shortage, raw);
    let is_certain = !is_bound || own == Mood::Pressed || own == mood(None, raw);
    let text = compare(measure, whole.shortage, raw, || {
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
    let mood = if is_certain { own } else { Mood::Unknown };
    Verdict { resource: Resource::Memory, mood, text }
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
    Verdict { resource: Resource::Io, mood: mood(None, raw), text }
}

/// The measure beside raw PSI, and what explains their difference.
fn compare(
    measure: &str,
    union: Option<Union>,
    raw: Option<Percent>,
    difference: impl FnOnce() -> String,
) -> String {
    if let Some((union, seen)) = union.and_then(|u| Some((u, u.seen.filter(|s| *s < WINDOW)?))) {
        let seen = seen.0.div_ceil(Nanos::SECOND.0).max(1);
        let raw = match raw {
            Some(raw) => format!("raw PSI some {raw} % (avg10)"),
            None => "raw PSI could not be read".into(),
        };
        // Over different times their difference means nothing.
        return format!("{measure} {} % (measured for {seen} s), {raw}", union.avg10);
    }
    match (union.map(|u| u.avg10), raw) {
        (Some(measured), Some(raw)) if raw.0 >= measured.0.saturating_add(AGREES.0) => format!(
            "{measure} {measured} % (avg10), raw PSI some {raw} %: the difference is {}",
            difference()
        ),
        (Some(measured), Some(raw)) => {
            format!("{measure} {measured} % (avg10), and raw PSI agrees ({raw} %)")
        }
        (Some(measured), None) => {
            format!("{measure} {measured} % (avg10), raw PSI could not be read")
        }
        (None, Some(raw)) => {
            format!("raw PSI some {raw} % (avg10); {measure} unknown: no eBPF measurement")
        }
        (None, None) => format!("{measure} unknown, raw PSI could not be read"),
    }
}

fn mood(union: Option<Union>, raw: Option<Percent>) -> Mood {
    union.map(|u| u.avg10).or(raw).map_or(Mood::Unknown, Mood::of)
}

fn some(pressure: Option<Pressure>) -> Option<Percent> {
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
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::cgroup::{Cgroup, CgroupId, CgroupPath};
    use crate::model::pod::{Place, QosClass};
    use crate::model::psi::Pressures;
    use crate::model::snapshot::{CpuWait, MemoryCauseWait, MemoryWait, Waited};
    use crate::model::units::Nanos;

    fn scope(measured: Option<u16>, raw: Option<u16>) -> Scope {
        let union = measured.map(|m| Union { avg10: Percent(m), ..Union::default() });
        let line = |r| Line { avg10: Percent(r), ..Line::default() };
        let pressure = raw.map(|r| Pressure { some: Some(line(r)), full: None });
        let pressure = Pressures { cpu: pressure, memory: pressure, io: pressure, irq: None };
        Scope { pressure, contention: union, shortage: union, ..Scope::default() }
    }

    fn of(whole: Scope) -> Snapshot {
        Snapshot { whole, ..Snapshot::default() }
    }

    #[test]
    fn cpu_names_who_is_throttled_most_and_by_what() {
        let throttled = |now: u64, quota: Option<u64>| {
            let own = Waited { now: Nanos(now), total: Nanos(now) };
            let mut files = Cgroup::default();
            files.cpu.quota = quota.map(Limit::At);
            files.cpu.period = Some(Micros(100_000));
            Scope {
                path: CgroupPath(format!("/a/{now}").into()),
                cpu: Some(CpuWait { throttled_own: Some(own), ..CpuWait::default() }),
                files: Some(Arc::new(files)),
                ..scope(None, None)
            }
        };
        let whole = Scope { cpu: throttled(9, None).cpu, ..scope(Some(1_00), Some(63_00)) };
        let named = |path: &str, scope| Scope { path: CgroupPath(path.into()), ..scope };
        let (a, b) = (throttled(300, Some(25_000)), throttled(200, Some(10_000)));
        #[rustfmt::skip]
        let table = [
            // cgroups, who is named
            (vec![throttled(2, Some(1)), throttled(7, Some(25_000)), throttled(0, Some(1))], "mostly of 7 by its own quota of 0.25 CPUs"),
            (vec![throttled(7, None)], "throttling"), // its quota is not known
            (vec![named("/s/a", a.clone()), named("/s/b", b), named("/s", throttled(500, None))], "mostly of a by its own quota of 0.25 CPUs"),
            (vec![named("/a.service", a.clone()), named("/a.service/x.slice", a)], "mostly of a.service by its own quota of 0.25 CPUs"),
        ];
        for (all, want) in table {
            let scopes = (1..).map(CgroupId).zip(all).collect();
            let snapshot = Snapshot { whole: whole.clone(), scopes, ..Snapshot::default() };
            let told = cpu(&snapshot).text;
            assert!(told.ends_with(want), "{told}");
        }
    }

    fn covers(memory_causes: bool) -> Coverage {
        Coverage { memory: true, memory_causes, ..Coverage::default() }
    }

    #[test]
    fn memory_without_causes_is_a_lower_bound() {
        #[rustfmt::skip]
        let table = [
            // shortage, raw PSI, causes are known, mood, text
            (1_00,  20_00, true,  Mood::Calm,    "shortage 1.00 % (avg10), raw PSI some 20.00 %"),
            (1_00,  20_00, false, Mood::Unknown, "shortage of at least 1.00 % (avg10), raw PSI some 20.00 %"),
            (1_00,  4_00,  false, Mood::Calm,    "shortage of at least 1.00 % (avg10), raw PSI some 4.00 %"),
            (41_00, 60_00, false, Mood::Pressed, "shortage of at least 41.00 % (avg10), raw PSI some 60.00 %"),
            (6_00,  60_00, false, Mood::Unknown, "shortage of at least 6.00 % (avg10), raw PSI some 60.00 %"),
        ];
        for (shortage, raw, is_known, mood, text) in table {
            let got = memory(&scope(Some(shortage), Some(raw)), covers(is_known));
            assert_eq!(got.mood, mood, "{text}");
            assert!(got.text.starts_with(text), "{}", got.text);
        }
    }

    #[test]
    fn cpu_explains_difference_to_raw_psi() {
        #[rustfmt::skip]
        let table = [
            // contention, raw PSI, throttled ns, mood
            (Some(41_00), Some(63_00), 5, Mood::Pressed),
            (Some(41_00), Some(63_00), 0, Mood::Pressed),
            (Some(1_00),  Some(63_00), 5, Mood::Calm),
            (Some(5_00),  Some(6_99),  5, Mood::Waits),
            (Some(9_00),  Some(3_00),  0, Mood::Waits),
            (Some(40_00), None,        0, Mood::Pressed),
            (None,        Some(39_99), 0, Mood::Waits),
            (None,        None,        0, Mood::Unknown),
        ];
        let told = table.map(|(measured, raw, throttled, mood)| {
            let throttled_own = Waited { now: Nanos(throttled), total: Nanos(throttled) };
            let cpu_wait =
                Some(CpuWait { throttled_own: Some(throttled_own), ..CpuWait::default() });
            let got = cpu(&of(Scope { cpu: cpu_wait, ..scope(measured, raw) }));
            assert_eq!(got.mood, mood, "{measured:?} {raw:?}");
            got.text
        });
        insta::assert_snapshot!(told.join("\n"));
    }

    #[test]
    fn judge_names_pods_below_their_requests() {
        let pod = |uid: &str, share, used| {
            let place = Place::Pod { uid: uid.into(), class: QosClass::Burstable };
            let below = Union { avg10: Percent(share), ..Union::default() };
            Scope {
                place,
                below_request: Some(below),
                cpu_usage: Some(MilliCpu(used)),
                cpu_request: Some(MilliCpu(500)),
                ..scope(None, None)
            }
        };
        let [a, b, calm] = [("a", 10_00, 120), ("b", 38_25, 7), ("c", 9_99, 0)]
            .map(|(uid, share, used)| pod(uid, share, used));
        let told = [vec![&calm], vec![&calm, &a], vec![&a, &b, &calm]].map(|pods| {
            let scopes = pods.into_iter().cloned().zip(1..).map(|(pod, id)| (CgroupId(id), pod));
            let whole = scope(Some(60_00), Some(60_00));
            let snapshot = Snapshot { whole, scopes: scopes.collect(), ..Snapshot::default() };
            judge(&snapshot, &Assessment::default())[0].text.clone()
        });
        insta::assert_snapshot!(told.join("\n"));
    }

    #[test]
    fn cpu_compares_with_raw_psi_once_ten_seconds_were_measured() {
        #[rustfmt::skip]
        let table = [
            // seconds seen, raw PSI
            (Some(1),  Some(97_00)),
            (Some(9),  None),
            (Some(10), Some(97_00)),
            (None,     Some(97_00)),
        ];
        let told = table.map(|(seen, raw)| {
            let mut scope = scope(Some(93_00), raw);
            let union = scope.contention.as_mut().unwrap();
            union.seen = seen.map(|seconds| Nanos(seconds * Nanos::SECOND.0));
            let got = cpu(&of(scope));
            assert_eq!(got.mood, Mood::Pressed, "{seen:?}");
            got.text
        });
        insta::assert_snapshot!(told.join("\n"));
    }

    #[test]
    fn memory_names_longest_cause_that_is_no_shortage() {
        #[rustfmt::skip]
        let table = [
            // cause, ns, what the sentence ends in
            (MemoryCause::OwnLimit, 7, "mostly own limits"),
            (MemoryCause::Refault,  7, "mostly refaults"),
            (MemoryCause::Global,   7, "of no known cause"), // shortage cannot explain what is no shortage
            (MemoryCause::OwnLimit, 0, "of no known cause"),
        ];
        for (cause, ns, want) in table {
            let union = Waited { now: Nanos(ns), total: Nanos(ns) };
            let wait = MemoryCauseWait { union, ..MemoryCauseWait::default() };
            let waits = MemoryWait { causes: [(cause, wait)].into(), ..MemoryWait::default() };
            let whole = Scope { memory: Some(waits), ..scope(Some(1_00), Some(20_00)) };
            let got = memory(&whole, covers(true));
            assert!(got.text.ends_with(want), "{cause:?} {ns}: {}", got.text);
        }
    }
}
