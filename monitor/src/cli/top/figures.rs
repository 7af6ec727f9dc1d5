//! Figures of a scope as both forms of `top` print them.

use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::psi::Pressure;
use isobar_core::model::sample::Runner;
use isobar_core::model::snapshot::{Blame, Scope, Union};
use isobar_core::model::units::{Bytes, MilliCpu, Nanos, Percent};
use isobar_core::view::View;
use isobar_core::view::waiting::{ROOT, name, root_name, with_busiest};

use super::super::table::Table;

/// Unknown values print as a dash: a 0 would be a measurement.
pub(super) fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".into())
}

pub(super) fn some(pressure: Option<Pressure>) -> Option<Percent> {
    pressure.and_then(|p| p.some).map(|line| line.avg10)
}

pub(super) fn union(union: Option<Union>) -> Option<Percent> {
    union.map(|u| u.avg10)
}

pub(super) fn percent(share: Option<Percent>) -> String {
    or_dash(share.map(|share| share.to_string()))
}

pub(super) fn throttled(scope: &Scope) -> Option<Nanos> {
    let cpu = scope.cpu.as_ref()?;
    Some(cpu.throttled_own?.now.plus(cpu.throttled_ancestor?.now))
}

pub(super) fn cores(usage: Option<MilliCpu>) -> String {
    or_dash(usage.map(|MilliCpu(milli)| format!("{}.{:02}", milli / 1_000, milli % 1_000 / 10)))
}

pub(super) fn time(nanos: Option<Nanos>) -> String {
    or_dash(nanos.map(|Nanos(ns)| match ns {
        0 => "0".into(),
        1..1_000_000 => format!("{} us", ns / 1_000),
        1_000_000..10_000_000_000 => format!("{} ms", ns / 1_000_000),
        _ => format!("{}.{} s", ns / 1_000_000_000, ns % 1_000_000_000 / 100_000_000),
    }))
}

pub(super) fn amount(bytes: Option<Bytes>) -> String {
    or_dash(bytes.map(|bytes| bytes.to_string()))
}

/// Processes that no cgroup stands for, in the root cgroup or where none could be read, and what they
/// use of what is short; `None` where none are known.
pub(super) fn nameless(view: &View) -> Option<Table> {
    let mut table = Table::new("PROCESS~ PID> CPUS> MEMORY> GROWTH/s> DISK/s>");
    let all = view.snapshot.runners.iter().filter(|one| one.cgroup.is_none());
    let mut n = 0;
    for Runner { name, pid, used, memory, io, .. } in all {
        table.row([
            name.clone(),
            pid.to_string(),
            cores(Some(*used)),
            amount(memory.map(|memory| memory.held)),
            amount(memory.map(|memory| memory.growth)),
            amount(*io),
        ]);
        n += 1;
    }
    (n > 0).then_some(table)
}

/// A length of time in its largest unit, or its two largest: `47 s`, `3 min`, `2 h 5 min`.
pub(crate) fn length(Nanos(ns): Nanos) -> String {
    let seconds = ns / Nanos::SECOND.0;
    let (minutes, hours) = (seconds / 60, seconds / 3_600);
    match (hours, minutes) {
        (0, 0) => format!("{seconds} s"),
        (0, _) => format!("{minutes} min"),
        (1..24, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{} d {} h", hours / 24, hours % 24),
    }
}

/// Sufferer and aggressor.
pub(super) fn names(view: &View, blame: &Blame) -> (String, String) {
    let scopes = &view.snapshot.scopes;
    let of = |id, path: &Option<CgroupPath>| match (scopes.get(id), path) {
        (Some(scope), _) => name(scope),
        (None, Some(path)) if path.is_root() => ROOT.into(),
        (None, Some(path)) => format!("{path}"),
        (None, None) => format!("removed cgroup {}", id.0),
    };
    let aggressor = match blame.aggressor {
        CgroupId(0) => "none (wake-up latency of an idle CPU)".into(),
        CgroupId::UNKNOWN => "unknown (too long ago)".into(),
        _ => match &blame.aggressor_path {
            Some(path) if path.is_root() => root_name(&view.snapshot),
            path => {
                let name = of(&blame.aggressor, path);
                with_busiest(name, Some(blame.aggressor), &view.snapshot)
            }
        },
    };
    (of(&blame.victim, &blame.victim_path), aggressor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_in_words() {
        #[rustfmt::skip]
        let table = [
            // seconds, text
            (0,       "0 s"),
            (59,      "59 s"),
            (60,      "1 min"),
            (3_599,   "59 min"),
            (7_500,   "2 h 5 min"),
            (93_600,  "1 d 2 h"),
        ];
        for (seconds, want) in table {
            assert_eq!(length(Nanos(seconds * Nanos::SECOND.0)), want);
        }
    }
}
