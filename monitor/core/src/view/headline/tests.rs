mod memory;

use std::sync::Arc;

use super::*;
use crate::model::cgroup::{Cgroup, CgroupId, CgroupPath, MemoryFiles, MemoryStat};
use crate::model::condition::{self, Condition, ConditionName, ScopeName, Status};
use crate::model::decision::{Hold, Loss, Met, Order, Ranking, Taker, Trigger};
use crate::model::pod::{Place, QosClass};
use crate::model::sample::{Moment, Resident, Runner};
use crate::model::snapshot::{CpuWait, Waited};
use crate::model::stall::{Coverage, OomKill};
use crate::model::threshold::{PressureSignal, PressureThreshold};
use crate::model::units::{MilliCpu, Percent};

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
    Verdict { resource, mood, is_short: false, text: String::new() }
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
        let got =
            headline(&node(ms, blames), &[verdict(Resource::Cpu, mood)], &Decision::default(), &[]);
        let Told { text, figures } = got;
        format!("{mood:?}, a waits {ms} ms, {blames:?}:\n  {text}\n  {figures:?}\n")
    });
    insta::assert_snapshot!(told.concat());
}

#[test]
fn headline_names_the_busiest_process_where_waits_are_not_measured() {
    let runner = |is_of_machine| Runner {
        pid: 7,
        name: "spin".into(),
        used: MilliCpu(900),
        is_of_machine,
        ..Runner::default()
    };
    let unknown = "Which pod or service waits was not measured";
    let busiest = format!("{unknown}; busiest: spin, pid 7 (by usage, not by harm).");
    #[rustfmt::skip]
    let table = [
        // what was found, short of what, what is said
        (vec![runner(true)],  Resource::Cpu, busiest),
        (vec![runner(true)],  Resource::Io,  format!("{unknown}.")),
        (vec![runner(false)], Resource::Cpu, format!("{unknown}.")),
        (vec![],              Resource::Cpu, format!("{unknown}.")),
    ];
    for (runners, resource, want) in table {
        let snapshot = Snapshot { runners, ..Snapshot::default() };
        assert_eq!(sufferer(&snapshot, resource), Told::plain(want));
        assert_eq!(root_name(&snapshot).contains("spin"), snapshot.runners == [runner(false)]);
    }
    let covers = Coverage { waits: true, ..Coverage::default() };
    let snapshot = Snapshot { covers, ..Snapshot::default() };
    let told = [Resource::Cpu, Resource::Memory].map(|of| sufferer(&snapshot, of).text);
    assert_eq!(told[0], "No wait of a pod or service was seen in the last tick.");
    assert_eq!(told[1], format!("{unknown}."));
}

#[test]
fn headline_says_that_pressure_eases() {
    let mut snapshot = node(10, &[(2, 3)]);
    let is = |snapshot: &Snapshot| sufferer(snapshot, Resource::Cpu).text;
    assert!(is(&snapshot).starts_with("a.service waits most"), "{}", is(&snapshot));
    snapshot.interval = Nanos(2 * Nanos::SECOND.0);
    assert!(is(&snapshot).ends_with("waits for more than 5 ms per second."), "{}", is(&snapshot));
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
    let others = sufferer(&snapshot, Resource::Cpu).text;

    snapshot.scopes.remove(&CgroupId(2));
    let root = Some(CgroupPath::root());
    let by_root = Blame { aggressor_path: root, ..blame(3, 99, 750) };
    snapshot.aggressions = vec![blame(3, 3, 1_500), by_root];
    let root = sufferer(&snapshot, Resource::Cpu).text;
    insta::assert_snapshot!(format!("{others}\n{root}"));
}

#[test]
fn headline_names_to_whom_it_lost_most() {
    // `b` ran for 60 ms while eight threads of `a` waited: that is not what `a` lost.
    let mut snapshot = node(900, &[]);
    for (id, used) in [(2, 200), (3, 60), (4, 300)] {
        snapshot.scopes.get_mut(&CgroupId(id)).unwrap().cpu_usage = Some(MilliCpu(used));
    }
    snapshot.scopes.get_mut(&CgroupId(4)).unwrap().path = CgroupPath("/c.service".into());
    let blame = |aggressor, ms: u64| Blame {
        victim: CgroupId(2),
        aggressor: CgroupId(aggressor),
        time: Nanos(ms * 1_000_000),
        ..Blame::default()
    };
    snapshot.aggressions = vec![blame(3, 480), blame(4, 420)];
    let told = sufferer(&snapshot, Resource::Cpu).text;
    assert!(told.ends_with("mostly while c.service ran."), "{told}");
}

#[test]
fn headline_names_no_aggressor_of_two_that_hurt_each_other() {
    #[rustfmt::skip]
    let table = [
        // ms that a and b ran and waited for each other, what is said
        (500, 500, "a.service and b.service make each other wait: per second, a.service loses 250 ms \
                    and the other 250 ms."),
        (450, 550, "a.service and b.service make each other wait: per second, a.service loses 302 ms \
                    and the other 202 ms."),
        (250, 750, "a.service loses most by waiting: 562 ms per second, mostly while b.service ran."),
    ];
    for (a, b, want) in table {
        let mut snapshot = node(b, &[]);
        for (id, ran, waited_for) in [(2, a, b), (3, b, a)] {
            let scope = snapshot.scopes.get_mut(&CgroupId(id)).unwrap();
            let (wait, contention) = (waited(waited_for), Some(waited(waited_for)));
            scope.cpu = Some(CpuWait { wait, contention, ..CpuWait::default() });
            scope.cpu_usage = Some(MilliCpu(ran));
        }
        let pair = |victim, aggressor, ms: u64| Blame {
            victim: CgroupId(victim),
            aggressor: CgroupId(aggressor),
            time: Nanos(ms * 1_000_000),
            ..Blame::default()
        };
        snapshot.aggressions = vec![pair(2, 3, b), pair(3, 2, a)];
        assert_eq!(sufferer(&snapshot, Resource::Cpu).text, want, "{a} {b}");
    }
}

#[test]
fn headline_is_about_the_worst_resources() {
    use {Mood::*, Resource::*};
    #[rustfmt::skip]
    let table = [
        // CPU, memory, IO, a condition that is True, what the sentence is about
        (Waits,   Pressed, Pressed, None,         "High memory and IO pressure. "),
        (Pressed, Pressed, Calm,    None,         "High memory and CPU pressure. "),
        (Pressed, Pressed, Pressed, None,         "High memory, CPU and IO pressure. "),
        (Pressed, Waits,   Calm,    None,         "High CPU pressure"),
        (Pressed, Waits,   Calm,    Some(Memory), "High memory and CPU pressure. "),
        (Pressed, Calm,    Calm,    Some(Memory), "High CPU pressure"), // it holds for a while
        (Waits,   Waits,   Calm,    None,         "Some memory pressure"),
        (Waits,   Waits,   Calm,    Some(Cpu),    "High CPU pressure"),
        (Calm,    Unknown, Waits,   None,         "Some IO pressure"),
        (Calm,    Unknown, Calm,    None,         "No significant"),
    ];
    for (cpu, memory, io, holds, want) in table {
        let verdicts = [verdict(Cpu, cpu), verdict(Memory, memory), verdict(Io, io)];
        let mut decision = Decision::default();
        decision.assessment.conditions.extend(holds.map(|resource| {
            let resource = match resource {
                Cpu => condition::Resource::Cpu,
                Memory => condition::Resource::Memory,
                Io => condition::Resource::Disk,
            };
            let name = ConditionName { scope: ScopeName::System, resource };
            Condition::unmeasured(name, Status::True)
        }));
        let got = headline(&Snapshot::default(), &verdicts, &decision, &[]).text;
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
    let class = Place::Qos { class: QosClass::BestEffort };
    snapshot.scopes.insert(CgroupId(8), Scope { place: class, ..Scope::default() });
    let kill = |seconds_ago: u64, limit: Option<u64>, limit_known| {
        let at = Moment { wall: at.since(Nanos(seconds_ago * Nanos::SECOND.0)), ..snapshot.at };
        let kill = OomKill {
            at: at.boot,
            victim: CgroupId(2),
            victim_pid: Some(7),
            victim_comm: Some("java".into()),
            limit: limit.map(CgroupId),
            limit_known,
            trigger: CgroupId(2),
            ..OomKill::default()
        };
        OomRecord::of(&kill, at, None, |_| None)
    };
    let mut gone = kill(3, None, true);
    (gone.kill.victim, gone.kill.victim_comm) = (CgroupId(77), None);
    #[rustfmt::skip]
    let table = [
        vec![kill(3, Some(2), true)],
        vec![kill(3, Some(9), true)],
        vec![kill(3, Some(8), true)],
        vec![OomRecord { victim: Some("shop/web".into()), ..kill(3, None, true) }],
        vec![kill(3, None, false)],
        vec![gone],
        vec![kill(0, Some(2), true), kill(59, Some(2), true), kill(61, Some(2), true)],
        vec![kill(61, Some(2), true)],
    ];
    let told =
        table.map(|kills| headline(&snapshot, &[], &Decision::default(), &kills).text + "\n");
    insta::assert_snapshot!(told.concat());
}

#[test]
fn headline_blames_nobody_for_memory_that_comes_back() {
    let settling = || Hold::Settling { action: 1, until: Nanos(2 * Nanos::SECOND.0) };
    #[rustfmt::skip]
    let table = [
        // what relief waits for, MiB of the 100 that belong to no cgroup, what is said
        (None,             90, "90Mi belong to no cgroup of the 100Mi that were lost in 10s."),
        (Some(settling()), 90, "action 1 has 2s left to show an effect."),
        (Some(settling()), 40, "a took 60Mi of the 100Mi that were lost in 10s."),
    ];
    for (held, unattributed, want) in table {
        let taken = Bytes((100 - unattributed) << 20);
        let taker = Taker { name: "a".into(), taken, ..Taker::default() };
        let unattributed = Bytes(unattributed << 20);
        let loss = Loss {
            lost: Bytes(100 << 20),
            over: Nanos(10 * Nanos::SECOND.0),
            takers: if unattributed > taken { Vec::new() } else { vec![taker] },
            unattributed,
        };
        let mut decision = Decision::default();
        decision.relief.held = held;
        decision.ranking = Some(ranking(loss));
        let [got, both] = [Mood::Calm, Mood::Pressed].map(|cpu| {
            headline(&Snapshot::default(), &[verdict(Resource::Cpu, cpu)], &decision, &[]).text
        });
        assert!(got.starts_with("Short of memory") && got.ends_with(want), "{got}");
        assert_eq!(both, format!("{got} CPU pressure is high, too."));
    }
}

#[test]
fn headline_names_the_process_that_took_memory() {
    let memory = Some(Resident { held: Bytes(1_229 << 20), growth: Bytes(60 << 20) });
    let (pid, name) = (4_711, String::from("python"));
    let runner = Runner { pid, name, memory, ..Runner::default() };
    let of = |id| Runner { cgroup: Some(CgroupId(id)), ..runner.clone() };
    let of_machine = Runner { is_of_machine: true, ..runner.clone() };
    let process = " Most of all python, pid 4711: 1.2Gi, growing by 60Mi/s.";
    #[rustfmt::skip]
    let table = [
        // who took it, the process that is known, what is said at the end
        (Some("/s.slice/a.service"), of(2),      process),
        (Some("/s.slice/a.service"), of(3),      "lost in 10s."), // of another cgroup
        (Some("/s.slice/b.service"), of(3),      "lost in 10s."), // one of many that hold 6 GiB
        (Some("/s.slice/a.service"), of_machine.clone(), "lost in 10s."),
        (Some("/gone.service"),      of(2),      "lost in 10s."),
        (None,                       of_machine, process),
        (None,                       runner.clone(), process), // of the root cgroup
    ];
    for (path, runner, want) in table {
        let mut snapshot = Snapshot { runners: vec![runner.clone()], ..node(0, &[]) };
        let stat = Some(MemoryStat { anon: Bytes(6 << 30), ..MemoryStat::default() });
        let memory = MemoryFiles { stat, ..MemoryFiles::default() };
        let files = Cgroup { memory, ..Cgroup::default() };
        snapshot.scopes.entry(CgroupId(3)).and_modify(|of| of.files = Some(Arc::new(files)));
        let taken = Bytes(90 << 20);
        let taker = |path: &str| Taker {
            name: "a".into(),
            path: CgroupPath(path.into()),
            taken,
            ..Taker::default()
        };
        let loss = Loss {
            lost: Bytes(100 << 20),
            over: Nanos(10 * Nanos::SECOND.0),
            takers: path.map(taker).into_iter().collect(),
            unattributed: Bytes(0),
        };
        // It has stopped to grow, and has more than belongs to no cgroup, or less.
        for (mib, want) in [(90, " Most of all python, pid 4711: 100Mi."), (110, "in 10s.")] {
            let memory = Some(Resident { held: Bytes(100 << 20), growth: Bytes(0) });
            let runners =
                vec![Runner { cgroup: None, is_of_machine: false, memory, ..runner.clone() }];
            let snapshot = Snapshot { runners, ..node(0, &[]) };
            let loss = Loss { unattributed: Bytes(mib << 20), takers: Vec::new(), ..loss.clone() };
            let decision = Decision { ranking: Some(ranking(loss)), ..Decision::default() };
            let got = headline(&snapshot, &[], &decision, &[]).text;
            assert!(got.ends_with(want), "{mib}: {got}");
        }
        let decision = Decision { ranking: Some(ranking(loss)), ..Decision::default() };
        let Told { text: got, figures } = headline(&snapshot, &[], &decision, &[]);
        let took = Figure::Took { aggressor: "a".into(), bytes: taken };
        assert_eq!(figures, path.map(|_| took).into_iter().collect::<Vec<_>>(), "{path:?}");
        assert!(got.starts_with("Short of memory") && got.ends_with(want), "{path:?}: {got}");
    }
}

/// For memory, by who took it, and without candidates.
pub(in crate::view) fn ranking(loss: Loss) -> Ranking {
    Ranking {
        signal: "memory.available".into(),
        order: Order::Cause,
        loss: Some(loss),
        ..Ranking::default()
    }
}

#[test]
fn headline_tells_a_threshold_that_is_met_before_anybody_is_ranked() {
    use {Mood::*, PressureSignal::*};
    let second = Nanos::SECOND;
    let at = Moment { boot: Nanos(9 * second.0), wall: Nanos(9 * second.0) };
    let [exhaustion, disk] =
        [(Exhaustion(Nanos(10 * second.0)), 8_900_000_000), (Disk(Percent(60_00)), 71_00)];
    let short = "Memory runs short: system.memory.exhaustion: memory lasts another 8.9s at the present \
                 rate, at or below the threshold of 10s, for 1s (its grace period is 2s).";
    let other = "system.disk.pressure is 71.00 % (avg10), at or above the threshold of 60.00 %, for 1s \
                 (its grace period is 2s)";
    #[rustfmt::skip]
    let table = [
        // met, CPU and memory are, how it begins
        (exhaustion, Calm,    Calm,    short.to_owned()),
        (exhaustion, Pressed, Calm,    format!("{short} CPU pressure is high, too.")),
        (exhaustion, Waits,   Calm,    short.to_owned()),
        (exhaustion, Pressed, Pressed, "High memory and CPU pressure.".into()),
        (disk,       Calm,    Calm,    format!("No significant pressure, but {other}.")),
        (disk,       Pressed, Calm,    "High CPU pressure.".into()),
    ];
    for ((on, measured), cpu, memory, want) in table {
        let threshold =
            PressureThreshold { scope: ScopeName::System, on, grace: Nanos(2 * second.0) };
        let threshold = Trigger::Pressure(threshold);
        let since = Nanos(8 * second.0);
        let mut decision = Decision { at, ..Decision::default() };
        decision.assessment.met =
            vec![Met { threshold, since, is_due: false, measured, missing: None }];
        let verdicts = [verdict(Resource::Cpu, cpu), verdict(Resource::Memory, memory)];
        let got = headline(&node(10, &[]), &verdicts, &decision, &[]).text;
        assert!(got.starts_with(&want), "{cpu:?} {memory:?}: {got}");
    }
}
