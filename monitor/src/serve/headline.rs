//! One sentence for somebody who was woken by an alert: who waits, why, and because of whom.

use super::verdict::{Mood, Resource, Verdict, cause_words};
use super::waiting::{Level, short_name, waiting_most};
use crate::model::cgroup::CgroupId;
use crate::model::snapshot::{Blame, Scope, Snapshot};
use crate::model::units::Nanos;

/// The sentence. It is about the resource whose verdict is worst; CPU before memory before IO.
#[must_use]
pub fn headline(snapshot: &Snapshot, verdicts: &[Verdict]) -> String {
    let worst = [Mood::Pressed, Mood::Waits]
        .into_iter()
        .find_map(|mood| verdicts.iter().find(|verdict| verdict.mood == mood));
    match worst {
        Some(Verdict { resource, mood, .. }) => {
            let strength = if *mood == Mood::Pressed { "a lot" } else { "some" };
            format!("{} {strength} of the time. {}", waits(*resource), longest(snapshot, *resource))
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

fn longest(snapshot: &Snapshot, resource: Resource) -> String {
    let units = waiting_most(snapshot, Level::Units, usize::MAX);
    let time = |scope: &Scope| match resource {
        Resource::Cpu => scope.cpu.as_ref().and_then(|cpu| cpu.contention).map(|others| others.now),
        Resource::Memory => scope.memory.as_ref().map(|memory| memory.any.now),
        Resource::Io => scope.io_wait.map(|io| io.now),
    };
    let measured = units.iter().filter_map(|(id, scope)| Some((*id, *scope, time(scope)?)));
    // The first of equals is the one that also waited longer before.
    let longest = measured.rev().max_by_key(|(_, _, time)| *time);
    let Some((id, scope, time)) = longest.filter(|(_, _, time)| *time > Nanos(0)) else {
        return "Who waits is not measured.".into();
    };
    let who = format!(
        "Longest: {}, {} ms in the last second",
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

/// Who ran most while a unit, or anything in it, waited.
fn aggressor(snapshot: &Snapshot, unit: CgroupId, scope: &Scope) -> Option<String> {
    let below = format!("{}/", scope.path);
    let path_of = |id, path: &Option<_>| match snapshot.scopes.get(&id) {
        Some(scope) => Some(scope.path.clone()),
        None => path.clone(),
    };
    let is_inside = |blame: &&Blame| {
        blame.victim == unit
            || path_of(blame.victim, &blame.victim_path).is_some_and(|p| p.0.starts_with(&below))
    };
    // Id 0 is the idle task: nobody's fault.
    let mut blames = snapshot.aggressions.iter().filter(is_inside).filter(|b| b.aggressor.0 != 0);
    let longest = blames.next()?;
    let known = snapshot.scopes.get(&longest.aggressor).map(short_name);
    known.or_else(|| longest.aggressor_path.as_ref().map(ToString::to_string))
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
    use crate::model::cgroup::CgroupPath;
    use crate::model::snapshot::{CpuWait, Waited};

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
            (Mood::Pressed, 700, &[(3, 2), (2, 3)], "Work waits for a CPU a lot of the time. Longest: a.service, 700 ms in the last second, mostly while b.service ran."),
            (Mood::Waits,   700, &[(2, 3)],         "Work waits for a CPU some of the time. Longest: a.service, 700 ms in the last second, mostly while b.service ran."),
            (Mood::Pressed, 700, &[(4, 3)],         "Work waits for a CPU a lot of the time. Longest: a.service, 700 ms in the last second, mostly while b.service ran."),
            (Mood::Pressed, 700, &[(2, 99)],        "Work waits for a CPU a lot of the time. Longest: a.service, 700 ms in the last second, mostly while /gone.service ran."),
            (Mood::Pressed, 700, &[(2, 0)],         "Work waits for a CPU a lot of the time. Longest: a.service, 700 ms in the last second."),
            (Mood::Pressed, 2,   &[],               "Work waits for a CPU a lot of the time. Longest: b.service, 10 ms in the last second."),
            (Mood::Calm,    700, &[(2, 3)],         "Nobody is kept waiting for long."),
            (Mood::Unknown, 700, &[(2, 3)],         "Nothing can be judged: no pressure could be read."),
        ];
        for (mood, ms, blames, want) in table {
            let got = headline(&node(ms, blames), &[verdict(Resource::Cpu, mood)]);
            assert_eq!(got, want, "{mood:?} {ms} {blames:?}");
        }
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
