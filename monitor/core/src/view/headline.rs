//! One sentence for an operator who was woken by an alert: who waits, why, and because of whom.
//! Computed at every tick, so its cost is linear in cgroups plus aggressions.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::OomRecord;
use super::cpu_loss::{CpuLoss, losses};
use super::foresight::OomLimit;
use super::verdict::{Mood, Resource, Verdict, cause_words};
use super::waiting::{Level, root_name, short_name, weight};
use crate::model::cgroup::{CgroupId, CgroupPath, Limit};
use crate::model::decision::Decision;
use crate::model::snapshot::{Blame, Scope, Snapshot};
use crate::model::units::{Bytes, Nanos};
use crate::policy::explain;

/// Who waits for less than such a part of the time is not worth a name: the average is of the past.
const FEW: u64 = 100;
/// For so long an OOM kill is told.
const RECENT: Nanos = Nanos(60 * Nanos::SECOND.0);

/// An OOM kill of the last minute, and then the resource with the worst verdict; CPU before memory
/// before IO. Memory that is running out is told before any pressure: it is short before any work
/// waits for it. `kills` are newest first.
pub fn headline(
    snapshot: &Snapshot,
    verdicts: &[Verdict],
    decision: &Decision,
    kills: &[OomRecord],
) -> String {
    let state = state(snapshot, verdicts, decision);
    let is_recent = |kill: &&OomRecord| snapshot.at.wall.since(kill.wall) <= RECENT;
    let n_recent = kills.iter().take_while(is_recent).count();
    match kills.first().filter(|_| n_recent > 0) {
        Some(last) => format!("{} {state}", killed(last, n_recent - 1, snapshot)),
        None => state,
    }
}

fn killed(last: &OomRecord, n_before: usize, snapshot: &Snapshot) -> String {
    let path = || Some(last.victim_path.as_ref()?.segments().next_back()?.to_owned());
    let known = snapshot.scopes.get(&last.kill.victim).map(short_name);
    let victim = last.victim.clone().or(known).or_else(path);
    let limit = last.kill.limit.and_then(|id| snapshot.scopes.get(&id)?.files.as_ref()?.memory.max);
    let why = match (OomLimit::of(&last.kill, snapshot), limit) {
        (OomLimit::Node, _) => "the node was out of memory".into(),
        (OomLimit::Kubepods, _) => "the limit of all pods was reached".into(),
        (OomLimit::Own, Some(Limit::At(limit))) => {
            format!("its own limit of {} was reached, not the node's", Bytes(limit))
        }
        (OomLimit::Own, _) => "a limit of its own was reached, not the node's".to_owned(),
        (OomLimit::Unknown, _) => "at which limit is not known".into(),
    };
    let ago = snapshot.at.wall.since(last.wall).0 / Nanos::SECOND.0;
    let more = match n_before {
        0 => String::new(),
        n => format!(", after {n} more within a minute"),
    };
    format!(
        "OOM kill {ago}s ago{more}: process {} of {}; {why}.",
        last.kill.victim_pid,
        victim.as_deref().unwrap_or("a cgroup that is gone"),
    )
}

fn state(snapshot: &Snapshot, verdicts: &[Verdict], decision: &Decision) -> String {
    if let Some(ranking) = &decision.ranking
        && let Some(loss) = ranking.loss.as_ref().filter(|loss| loss.lost > Bytes(0))
    {
        return format!("Short of memory ({}): {}.", ranking.signal, explain::lost(loss));
    }
    let worst = [Mood::Pressed, Mood::Waits]
        .into_iter()
        .find_map(|mood| verdicts.iter().find(|verdict| verdict.mood == mood));
    match worst {
        Some(Verdict { resource, mood, .. }) => {
            let what = match resource {
                Resource::Cpu => "CPU",
                Resource::Memory => "memory",
                Resource::Io => "IO",
            };
            let strength = if *mood == Mood::Pressed { "High" } else { "Some" };
            format!("{strength} {what} pressure. {}", sufferer(snapshot, *resource))
        }
        None if verdicts.iter().all(|verdict| verdict.mood == Mood::Unknown) => {
            "Pressure is unknown: no pressure file could be read.".into()
        }
        None => "No significant pressure.".into(),
    }
}

/// Who waits most, and because of whom.
fn sufferer(snapshot: &Snapshot, resource: Resource) -> String {
    let (own, lost) = match resource {
        Resource::Cpu => (own_waits(snapshot), lost(snapshot)),
        Resource::Memory | Resource::Io => Default::default(),
    };
    let time = |id: &CgroupId, scope: &Scope| match resource {
        // Ten threads that wait for each other are not held up by another unit.
        Resource::Cpu => {
            let contention = scope.cpu.as_ref()?.contention?.now;
            Some(contention.since(own.get(id).copied().unwrap_or_default()))
        }
        Resource::Memory => scope.memory.as_ref().map(|memory| memory.any.now),
        Resource::Io => scope.io_wait.map(|io| io.now),
    };
    let units = snapshot.scopes.iter().filter(|(_, scope)| Level::Units.shows(scope));
    let waiting = units.filter_map(|(id, scope)| Some((*id, scope, time(id, scope)?)));
    let most = waiting.filter(|(_, _, time)| *time > Nanos(0)).max_by_key(|(id, scope, time)| {
        (lost.get(id).copied().unwrap_or_default(), *time, weight(scope), Reverse(*id))
    });
    let Some((id, scope, time)) = most else {
        return "Which pod or service waits was not measured.".into();
    };
    if time < Nanos(snapshot.interval.0 / FEW) {
        let now = millis(time, snapshot).max(1);
        return format!(
            "It is easing: now no pod or service waits for more than {now} ms per second."
        );
    }
    let who = format!("{} waits most: {} ms per second", short_name(scope), millis(time, snapshot));
    let why = match resource {
        Resource::Cpu => {
            aggressor(snapshot, id, scope).map(|name| format!("mostly while {name} ran"))
        }
        Resource::Memory => cause(scope).map(|cause| format!("mostly because of {cause}")),
        Resource::Io => None,
    };
    why.map_or_else(|| format!("{who}."), |why| format!("{who}, {why}."))
}

/// For each unit, how long its tasks waited for other tasks of the same unit.
fn own_waits(snapshot: &Snapshot) -> BTreeMap<CgroupId, Nanos> {
    let pairs = snapshot.aggressions.iter().map(|pair| (pair, pair.time));
    by_unit(snapshot, pairs, |unit, aggressor| is_below(aggressor, unit))
}

/// For each unit, what it lost because others ran.
fn lost(snapshot: &Snapshot) -> BTreeMap<CgroupId, Nanos> {
    let losses = losses(snapshot);
    let pairs = losses.iter().map(|CpuLoss { blame, loss }| (*blame, *loss));
    by_unit(snapshot, pairs, |unit, aggressor| !is_below(aggressor, unit))
}

/// Sums over the pairs whose sufferer is in a unit, and whose aggressor `counts` for it.
fn by_unit<'a>(
    snapshot: &Snapshot,
    pairs: impl Iterator<Item = (&'a Blame, Nanos)>,
    counts: impl Fn(&str, &CgroupPath) -> bool,
) -> BTreeMap<CgroupId, Nanos> {
    let units = snapshot.scopes.iter().filter(|(_, scope)| Level::Units.shows(scope));
    let by_path: BTreeMap<&str, CgroupId> =
        units.map(|(id, scope)| (&*scope.path.0, *id)).collect();
    let mut sums = BTreeMap::<CgroupId, Nanos>::new();
    for (pair, time) in pairs {
        let (Some(victim), Some(aggressor)) =
            (victim(snapshot, pair), aggressor_path(snapshot, pair))
        else {
            continue;
        };
        let ends = victim.0.match_indices('/').map(|(end, _)| end).chain([victim.0.len()]);
        let above = ends.filter_map(|end| by_path.get_key_value(&victim.0[..end]));
        for (_, id) in above.filter(|(unit, _)| counts(unit, aggressor)) {
            let sum = sums.entry(*id).or_default();
            *sum = sum.plus(time);
        }
    }
    sums
}

fn victim<'a>(snapshot: &'a Snapshot, blame: &'a Blame) -> Option<&'a CgroupPath> {
    let scope = snapshot.scopes.get(&blame.victim);
    scope.map(|scope| &scope.path).or(blame.victim_path.as_ref())
}

fn aggressor_path<'a>(snapshot: &'a Snapshot, blame: &'a Blame) -> Option<&'a CgroupPath> {
    let scope = snapshot.scopes.get(&blame.aggressor);
    scope.map(|scope| &scope.path).or(blame.aggressor_path.as_ref())
}

/// True for the cgroup `unit` and every cgroup below it.
fn is_below(path: &CgroupPath, unit: &str) -> bool {
    path.0.strip_prefix(unit).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The other cgroup that ran most while a unit, or any cgroup in it, waited.
fn aggressor(snapshot: &Snapshot, unit: CgroupId, scope: &Scope) -> Option<String> {
    let holds = |id: CgroupId, path: Option<&CgroupPath>| {
        id == unit || path.is_some_and(|path| is_below(path, &scope.path.0))
    };
    // Id 0 is the idle task: no cgroup caused that wait.
    let mut blames = snapshot.aggressions.iter().filter(|blame| blame.aggressor.0 != 0);
    let longest = blames.find(|blame| {
        holds(blame.victim, victim(snapshot, blame))
            && !holds(blame.aggressor, aggressor_path(snapshot, blame))
    })?;
    let known = snapshot.scopes.get(&longest.aggressor).map(short_name);
    // Without a scope: a cgroup that is gone, or the root, where kernel threads run.
    known.or_else(|| match longest.aggressor_path.as_ref()? {
        path if path.is_root() => Some(root_name(snapshot)),
        path => Some(path.to_string()),
    })
}

fn cause(scope: &Scope) -> Option<&'static str> {
    let causes = &scope.memory.as_ref()?.causes;
    let (cause, _) = causes.iter().max_by_key(|(_, wait)| wait.time.now)?;
    Some(cause_words(*cause))
}

fn millis(time: Nanos, snapshot: &Snapshot) -> u64 {
    let interval = snapshot.interval.0.max(1);
    let nanos = u128::from(time.0) * u128::from(Nanos::SECOND.0) / u128::from(interval);
    u64::try_from(nanos / 1_000_000).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::pod::Place;
    use crate::model::sample::Moment;
    use crate::model::snapshot::{CpuWait, Waited};
    use crate::model::stall::OomKill;
    use crate::model::units::MilliCpu;

    fn waited(ms: u64) -> Waited {
        Waited { now: Nanos(ms * 1_000_000), total: Nanos(ms * 1_000_000) }
    }

    /// Two services and a slice above them; `a` waits for `a_waits` milliseconds.
    fn node(a_waits: u64, blames: &[(u64, u64)]) -> Snapshot {
        let scope = |path: &str, ms| {
            let cpu = Some(CpuWait { contention: Some(waited(ms)), ..CpuWait::default() });
            Scope { path: CgroupPath(path.into()), cpu, ..Scope::default() }
        };
        let blame = |(victim, aggressor): &(u64, u64)| Blame {
            victim: CgroupId(*victim),
            aggressor: CgroupId(*aggressor),
            aggressor_path: Some(CgroupPath("/gone.service".into())),
            ..Blame::default()
        };
        Snapshot {
            interval: Nanos::SECOND,
            scopes: [
                (CgroupId(1), scope("/s.slice", a_waits + 10)),
                (CgroupId(2), scope("/s.slice/a.service", a_waits)),
                (CgroupId(3), scope("/s.slice/b.service", 10)),
                (CgroupId(4), scope("/s.slice/a.service/inner", 1)),
            ]
            .into(),
            aggressions: blames.iter().map(blame).collect(),
            ..Snapshot::default()
        }
    }

    fn verdict(resource: Resource, mood: Mood) -> Verdict {
        Verdict { resource, mood, text: String::new() }
    }

    #[test]
    fn headline_names_sufferer_and_aggressor() {
        type Row = (Mood, u64, &'static [(u64, u64)]);
        #[rustfmt::skip]
        let table: [Row; 8] = [
            // CPU is, a waits ms, (victim, aggressor) longest first
            (Mood::Pressed, 700, &[(3, 2), (2, 3)]),
            (Mood::Waits,   700, &[(2, 3)]),
            (Mood::Pressed, 700, &[(4, 3)]),  // a cgroup inside a
            (Mood::Pressed, 700, &[(2, 99)]), // gone
            (Mood::Pressed, 700, &[(2, 0)]),  // the idle task
            (Mood::Pressed, 2,   &[]),
            (Mood::Calm,    700, &[(2, 3)]),
            (Mood::Unknown, 700, &[(2, 3)]),
        ];
        let told = table.map(|(mood, ms, blames)| {
            let got = headline(
                &node(ms, blames),
                &[verdict(Resource::Cpu, mood)],
                &Decision::default(),
                &[],
            );
            format!("{mood:?}, a waits {ms} ms, {blames:?}:\n  {got}\n")
        });
        insta::assert_snapshot!(told.concat());
    }

    #[test]
    fn headline_says_that_pressure_eases() {
        let mut snapshot = node(10, &[(2, 3)]);
        let is = |snapshot: &Snapshot| sufferer(snapshot, Resource::Cpu);
        assert!(is(&snapshot).starts_with("a.service waits most"), "{}", is(&snapshot));
        snapshot.interval = Nanos(2 * Nanos::SECOND.0);
        assert!(
            is(&snapshot).ends_with("waits for more than 5 ms per second."),
            "{}",
            is(&snapshot)
        );
    }

    #[test]
    fn headline_ignores_waits_for_own_threads() {
        // Three threads of `b` and one of `a` share a CPU, a quarter of a second for each.
        let mut snapshot = node(750, &[]);
        let cpu = Some(CpuWait { contention: Some(waited(2_250)), ..CpuWait::default() });
        let b = snapshot.scopes.get_mut(&CgroupId(3)).unwrap();
        (b.cpu, b.cpu_usage) = (cpu, Some(MilliCpu(750)));
        snapshot.scopes.get_mut(&CgroupId(2)).unwrap().cpu_usage = Some(MilliCpu(250));
        let blame = |victim, aggressor, ms: u64| Blame {
            victim: CgroupId(victim),
            aggressor: CgroupId(aggressor),
            time: Nanos(ms * 1_000_000),
            ..Blame::default()
        };
        snapshot.aggressions = vec![blame(3, 3, 1_500), blame(2, 3, 750), blame(3, 2, 750)];
        let others = sufferer(&snapshot, Resource::Cpu);

        snapshot.scopes.remove(&CgroupId(2));
        let root = Some(CgroupPath::root());
        let by_root = Blame { aggressor_path: root, ..blame(3, 99, 750) };
        snapshot.aggressions = vec![blame(3, 3, 1_500), by_root];
        let root = sufferer(&snapshot, Resource::Cpu);
        insta::assert_snapshot!(format!("{others}\n{root}"));
    }

    #[test]
    fn headline_is_about_the_worst_resource() {
        use {Mood::*, Resource::*};
        #[rustfmt::skip]
        let table = [
            // CPU, memory, IO, what the sentence is about
            (Waits, Pressed, Pressed, "High memory pressure"),
            (Waits, Waits,   Calm,    "Some CPU pressure"),
            (Calm,  Unknown, Waits,   "Some IO pressure"),
            (Calm,  Unknown, Calm,    "No significant"),
        ];
        for (cpu, memory, io, want) in table {
            let verdicts = [verdict(Cpu, cpu), verdict(Memory, memory), verdict(Io, io)];
            let got = headline(&Snapshot::default(), &verdicts, &Decision::default(), &[]);
            assert!(got.starts_with(want), "{cpu:?} {memory:?} {io:?}: {got}");
        }
    }

    #[test]
    fn headline_tells_an_oom_kill_for_a_minute() {
        let at = Nanos(1_000 * Nanos::SECOND.0);
        let mut snapshot = node(0, &[]);
        snapshot.at.wall = at;
        let pods = Scope { place: Place::Kubepods, ..Scope::default() };
        snapshot.scopes.insert(CgroupId(9), pods);
        let kill = |seconds_ago: u64, limit: Option<u64>, limit_known| {
            let at = Moment { wall: at.since(Nanos(seconds_ago * Nanos::SECOND.0)), ..snapshot.at };
            let kill = OomKill {
                at: at.boot,
                victim: CgroupId(2),
                victim_pid: 7,
                limit: limit.map(CgroupId),
                limit_known,
                trigger: CgroupId(2),
            };
            OomRecord::of(&kill, at, None, |_| None)
        };
        let mut gone = kill(3, None, true);
        gone.kill.victim = CgroupId(77);
        #[rustfmt::skip]
        let table = [
            vec![kill(3, Some(2), true)],
            vec![kill(3, Some(9), true)],
            vec![OomRecord { victim: Some("shop/web".into()), ..kill(3, None, true) }],
            vec![kill(3, None, false)],
            vec![gone],
            vec![kill(0, Some(2), true), kill(59, Some(2), true), kill(61, Some(2), true)],
            vec![kill(61, Some(2), true)],
        ];
        let told = table.map(|kills| headline(&snapshot, &[], &Decision::default(), &kills) + "\n");
        insta::assert_snapshot!(told.concat());
    }
}
