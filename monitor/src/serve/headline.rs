//! One sentence for somebody who was woken by an alert: who waits, why, and because of whom.

use super::verdict::{Mood, Resource, Verdict, cause_words};
use super::waiting::{Level, short_name, waiting_most};
use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::snapshot::{Blame, Scope, Snapshot};
use isobar_core::model::units::{MilliCpu, Nanos};

/// The sentence. It is about the resource whose verdict is worst; CPU before memory before IO.
#[must_use]
pub fn headline(snapshot: &Snapshot, verdicts: &[Verdict]) -> String {
    let worst = [Mood::Pressed, Mood::Waits]
        .into_iter()
        .find_map(|mood| verdicts.iter().find(|verdict| verdict.mood == mood));
    match worst {
        Some(Verdict { resource, mood, .. }) => {
            let strength = if *mood == Mood::Pressed { "a lot" } else { "some" };
            format!(
                "{} {strength} of the time. {}",
                waits(*resource),
                most_of_all(snapshot, *resource)
            )
        }
        None if verdicts.iter().all(|verdict| verdict.mood == Mood::Unknown) => {
            "Nothing can be judged: no pressure could be read.".into()
        }
        None => "Nobody is kept waiting for long.".into(),
    }
}

fn waits(resource: Resource) -> &'static str {
    match resource {
        Resource::Cpu => "Work waits for a CPU",
        Resource::Memory => "Work waits for memory",
        Resource::Io => "Work waits for IO",
    }
}

fn most_of_all(snapshot: &Snapshot, resource: Resource) -> String {
    let units = waiting_most(snapshot, Level::Units, usize::MAX);
    let time = |id, scope: &Scope| match resource {
        Resource::Cpu => by_others(snapshot, id, scope),
        Resource::Memory => scope.memory.as_ref().map(|memory| memory.any.now),
        Resource::Io => scope.io_wait.map(|io| io.now),
    };
    let measured = units.iter().filter_map(|(id, scope)| Some((*id, *scope, time(*id, scope)?)));
    // The first of equals is the one that also waited longer before.
    let most = measured.rev().max_by_key(|(_, scope, time)| match resource {
        Resource::Cpu => held_up(*time, scope, snapshot),
        Resource::Memory | Resource::Io => *time,
    });
    let Some((id, scope, time)) = most.filter(|(_, _, time)| *time > Nanos(0)) else {
        return "Who waits is not measured.".into();
    };
    let who = format!(
        "Most of all {}, {} ms in the last second",
        short_name(scope),
        per_second(time, snapshot)
    );
    let why = match resource {
        Resource::Cpu => {
            aggressor(snapshot, id, scope).map(|name| format!("mostly while {name} ran"))
        }
        Resource::Memory => cause(scope).map(|cause| format!("mostly by {cause}")),
        Resource::Io => None,
    };
    why.map_or_else(|| format!("{who}."), |why| format!("{who}, {why}."))
}

/// How long a unit waited while it did not run itself: ten threads that wait for each other are in
/// nobody's way but their own.
fn by_others(snapshot: &Snapshot, unit: CgroupId, scope: &Scope) -> Option<Nanos> {
    let contention = scope.cpu.as_ref()?.contention?.now;
    let inside = Inside { snapshot, unit, below: format!("{}/", scope.path) };
    let own = snapshot.aggressions.iter().filter(|b| inside.victim(b) && inside.aggressor(b));
    Some(own.fold(contention, |rest, blame| rest.since(blame.time.now)))
}

/// The time, weighed by what share it is of the time in which the unit wanted to run. Three threads
/// that wait in turn for a fourth lose as much time as that one does waiting for the three; it is
/// the fourth that gets a quarter of what it wants.
fn held_up(time: Nanos, scope: &Scope, snapshot: &Snapshot) -> Nanos {
    let MilliCpu(used) = scope.cpu_usage.unwrap_or_default();
    let ran = u128::from(used) * u128::from(snapshot.interval.0) / 1_000;
    let waited = u128::from(time.0);
    let weighed = (waited * waited).checked_div(waited + ran).unwrap_or(0);
    Nanos(u64::try_from(weighed).expect("a share of what was a u64"))
}

/// Tells what lies in a unit.
struct Inside<'a> {
    snapshot: &'a Snapshot,
    unit: CgroupId,
    below: String,
}

impl Inside<'_> {
    fn victim(&self, blame: &Blame) -> bool {
        self.holds(blame.victim, blame.victim_path.as_ref())
    }

    fn aggressor(&self, blame: &Blame) -> bool {
        self.holds(blame.aggressor, blame.aggressor_path.as_ref())
    }

    fn holds(&self, id: CgroupId, path: Option<&CgroupPath>) -> bool {
        let path = self.snapshot.scopes.get(&id).map(|scope| &scope.path).or(path);
        id == self.unit || path.is_some_and(|path| path.0.starts_with(&self.below))
    }
}

/// Who else ran most while a unit, or anything in it, waited.
fn aggressor(snapshot: &Snapshot, unit: CgroupId, scope: &Scope) -> Option<String> {
    let inside = Inside { snapshot, unit, below: format!("{}/", scope.path) };
    // Id 0 is the idle task: nobody's fault.
    let mut blames = snapshot.aggressions.iter().filter(|blame| blame.aggressor.0 != 0);
    let longest = blames.find(|blame| inside.victim(blame) && !inside.aggressor(blame))?;
    let known = snapshot.scopes.get(&longest.aggressor).map(short_name);
    known.or_else(|| longest.aggressor_path.as_ref().map(gone_or_root))
}

/// What has no scope: a cgroup that is gone, or the root, where kernel threads live.
fn gone_or_root(path: &CgroupPath) -> String {
    if path.is_root() { "the root cgroup".into() } else { path.to_string() }
}

fn cause(scope: &Scope) -> Option<&'static str> {
    let causes = &scope.memory.as_ref()?.causes;
    let (cause, _) = causes.iter().max_by_key(|(_, wait)| wait.time.now)?;
    Some(cause_words(*cause))
}

fn per_second(time: Nanos, snapshot: &Snapshot) -> u64 {
    let interval = snapshot.interval.0.max(1);
    let nanos = u128::from(time.0) * u128::from(Nanos::SECOND.0) / u128::from(interval);
    u64::try_from(nanos / 1_000_000).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use isobar_core::model::snapshot::{CpuWait, Waited};

    fn waited(ms: u64) -> Waited {
        Waited { now: Nanos(ms * 1_000_000), total: Nanos(ms * 1_000_000) }
    }

    /// Two services and a slice above them; `a` waits for as long as it is told.
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
    fn the_sentence_names_who_waits_and_because_of_whom() {
        type Row = (Mood, u64, &'static [(u64, u64)], &'static str);
        #[rustfmt::skip]
        let table: [Row; 8] = [
            // CPU is, a waits ms, (victim, aggressor) longest first, sentence
            (Mood::Pressed, 700, &[(3, 2), (2, 3)], "Work waits for a CPU a lot of the time. Most of all a.service, 700 ms in the last second, mostly while b.service ran."),
            (Mood::Waits,   700, &[(2, 3)],         "Work waits for a CPU some of the time. Most of all a.service, 700 ms in the last second, mostly while b.service ran."),
            (Mood::Pressed, 700, &[(4, 3)],         "Work waits for a CPU a lot of the time. Most of all a.service, 700 ms in the last second, mostly while b.service ran."),
            (Mood::Pressed, 700, &[(2, 99)],        "Work waits for a CPU a lot of the time. Most of all a.service, 700 ms in the last second, mostly while /gone.service ran."),
            (Mood::Pressed, 700, &[(2, 0)],         "Work waits for a CPU a lot of the time. Most of all a.service, 700 ms in the last second."),
            (Mood::Pressed, 2,   &[],               "Work waits for a CPU a lot of the time. Most of all b.service, 10 ms in the last second."),
            (Mood::Calm,    700, &[(2, 3)],         "Nobody is kept waiting for long."),
            (Mood::Unknown, 700, &[(2, 3)],         "Nothing can be judged: no pressure could be read."),
        ];
        for (mood, ms, blames, want) in table {
            let got = headline(&node(ms, blames), &[verdict(Resource::Cpu, mood)]);
            assert_eq!(got, want, "{mood:?} {ms} {blames:?}");
        }
    }

    #[test]
    fn the_victim_is_told_and_not_the_one_that_is_in_its_own_way() {
        // Three threads of `b` and one of `a` share a CPU, a quarter of a second for each.
        let mut snapshot = node(750, &[]);
        let cpu = Some(CpuWait { contention: Some(waited(2_250)), ..CpuWait::default() });
        let b = snapshot.scopes.get_mut(&CgroupId(3)).unwrap();
        (b.cpu, b.cpu_usage) = (cpu, Some(MilliCpu(750)));
        snapshot.scopes.get_mut(&CgroupId(2)).unwrap().cpu_usage = Some(MilliCpu(250));
        let blame = |victim, aggressor, ms| Blame {
            victim: CgroupId(victim),
            aggressor: CgroupId(aggressor),
            time: waited(ms),
            ..Blame::default()
        };
        snapshot.aggressions = vec![blame(3, 3, 1_500), blame(2, 3, 750), blame(3, 2, 750)];
        let want = "Most of all a.service, 750 ms in the last second, mostly while b.service ran.";
        assert_eq!(most_of_all(&snapshot, Resource::Cpu), want);

        snapshot.scopes.remove(&CgroupId(2));
        let root = Some(CgroupPath::root());
        let by_root = Blame { aggressor_path: root, ..blame(3, 99, 750) };
        snapshot.aggressions = vec![blame(3, 3, 1_500), by_root];
        let want =
            "Most of all b.service, 750 ms in the last second, mostly while the root cgroup ran.";
        assert_eq!(most_of_all(&snapshot, Resource::Cpu), want);
    }

    #[test]
    fn the_worst_resource_is_told_first() {
        use {Mood::*, Resource::*};
        #[rustfmt::skip]
        let table = [
            // CPU, memory, IO, what the sentence is about
            (Waits, Pressed, Pressed, "Work waits for memory"),
            (Waits, Waits,   Calm,    "Work waits for a CPU"),
            (Calm,  Unknown, Waits,   "Work waits for IO"),
            (Calm,  Unknown, Calm,    "Nobody"),
        ];
        for (cpu, memory, io, want) in table {
            let verdicts = [verdict(Cpu, cpu), verdict(Memory, memory), verdict(Io, io)];
            let got = headline(&Snapshot::default(), &verdicts);
            assert!(got.starts_with(want), "{cpu:?} {memory:?} {io:?}: {got}");
        }
    }
}
